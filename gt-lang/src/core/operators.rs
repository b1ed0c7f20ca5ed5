//! `+ - * /`, their assigning forms, and unary `-`, between tensors (owned or borrowed) and numbers
//! on either side; `& | ^ << >>` and `!` on the bits of integers and on `bool`.
//!
//! A number on the left is an `f64` or `i64` (any literal is); on the right it may be `f32`, `i32`
//! or a size, `usize`, too. Operators on bits take `i64` on the left.
//!
//! An operator records one instruction and never panics: shapes that do not broadcast give a tensor
//! that carries the error, and the next read returns it with the line of the operator.

use std::ops::{
    Add, AddAssign, BitAnd, BitOr, BitXor, Div, DivAssign, Mul, MulAssign, Neg, Not, Shl, Shr, Sub,
    SubAssign,
};
use std::panic::Location;

use gt_ir::{Op, Scalar};

use super::arg::size_literal;
use super::{Arg, DynTensor};
use crate::error::{Error, ErrorKind};
use crate::no_grad::is_grad_enabled;

/// A plain number that stands on the right of an operator.
pub trait Number: Copy {
    /// The literal that is recorded.
    fn scalar(self) -> Scalar;
}
macro_rules! numbers {
    ($($t:ty),+) => { $(
        impl Number for $t {
            fn scalar(self) -> Scalar {
                self.into()
            }
        }
    )+ };
}
numbers!(f32, f64, i32, i64);
impl Number for usize {
    fn scalar(self) -> Scalar {
        size_literal(self)
    }
}

macro_rules! operator {
    ($($trait:ident $method:ident $op:ident by $($number:ty)+;)+) => {$(
        operator!(@tensors $trait $method $op:
            &DynTensor, &DynTensor; &DynTensor, DynTensor;
            DynTensor, &DynTensor; DynTensor, DynTensor);
        operator!(@right $trait $method $op: DynTensor, &DynTensor);
        // One float and one integer type on the left, so that `(2.0 * x).exp()` needs no
        // annotation.
        $(operator!(@left $trait $method $op: $number, DynTensor; $number, &DynTensor);)+
    )+};
    (@tensors $trait:ident $method:ident $op:ident: $($l:ty, $r:ty);+) => {$(
        impl $trait<$r> for $l {
            type Output = DynTensor;
            #[track_caller]
            fn $method(self, rhs: $r) -> DynTensor {
                DynTensor::record(Op::$op, &[self.arg(), rhs.arg()])
            }
        }
    )+};
    (@right $trait:ident $method:ident $op:ident: $($t:ty),+) => {$(
        impl<N: Number> $trait<N> for $t {
            type Output = DynTensor;
            #[track_caller]
            fn $method(self, rhs: N) -> DynTensor {
                DynTensor::record(Op::$op, &[self.arg(), Arg::Scalar(rhs.scalar())])
            }
        }
    )+};
    (@left $trait:ident $method:ident $op:ident: $($n:ty, $t:ty);+) => {$(
        impl $trait<$t> for $n {
            type Output = DynTensor;
            #[track_caller]
            fn $method(self, rhs: $t) -> DynTensor {
                DynTensor::record(Op::$op, &[self.into(), rhs.arg()])
            }
        }
    )+};
}
operator! {
    Add add Add by f64 i64;
    Sub sub Sub by f64 i64;
    Mul mul Mul by f64 i64;
    Div div Div by f64 i64;
    BitAnd bitand BitwiseAnd by i64;
    BitOr bitor BitwiseOr by i64;
    BitXor bitxor BitwiseXor by i64;
    Shl shl LeftShift by i64;
    Shr shr RightShift by i64;
}

macro_rules! assign {
    ($($trait:ident $method:ident $op:ident),+) => {$(
        impl $trait<&DynTensor> for DynTensor {
            #[track_caller]
            fn $method(&mut self, rhs: &DynTensor) {
                self.update(stringify!($method), Op::$op, rhs.arg());
            }
        }
        impl $trait<DynTensor> for DynTensor {
            #[track_caller]
            fn $method(&mut self, rhs: DynTensor) {
                self.update(stringify!($method), Op::$op, rhs.arg());
            }
        }
        impl<N: Number> $trait<N> for DynTensor {
            #[track_caller]
            fn $method(&mut self, rhs: N) {
                self.update(stringify!($method), Op::$op, Arg::Scalar(rhs.scalar()));
            }
        }
    )+};
}
assign!(
    AddAssign add_assign Add, SubAssign sub_assign Sub,
    MulAssign mul_assign Mul, DivAssign div_assign Div
);

impl DynTensor {
    /// `x op= y`: a leaf changes its value, for all its clones and only where nothing is tracked,
    /// as in PyTorch; any other tensor becomes the result.
    #[track_caller]
    fn update(&mut self, name: &str, op: Op, rhs: Arg<'_>) {
        let result = DynTensor::record(op, &[self.arg(), rhs]);
        self.become_result(name, result, Location::caller());
    }

    /// What an assigning operator of this name, which stands at this place, does with its result.
    #[track_caller]
    pub(crate) fn become_result(
        &mut self,
        name: &str,
        result: DynTensor,
        at: &'static Location<'static>,
    ) {
        if !self.is_leaf() {
            *self = result;
            return;
        }
        let outcome =
            if is_grad_enabled() { Err(tracked_change(name, at)) } else { self.replace(&result) };
        if let Err(error) = outcome {
            *self = DynTensor::failed(error, self.ty());
        }
    }
}

macro_rules! prefix {
    ($($trait:ident $method:ident $op:ident: $($t:ty),+;)+) => { $($(
        impl $trait for $t {
            type Output = DynTensor;
            #[track_caller]
            fn $method(self) -> DynTensor {
                DynTensor::record(Op::$op, &[self.arg()])
            }
        }
    )+)+ };
}
prefix! {
    Neg neg Neg: DynTensor, &DynTensor;
    Not not BitwiseNot: DynTensor, &DynTensor;
}

impl DynTensor {
    /// The operand, borrowed or owned.
    fn arg(&self) -> Arg<'_> {
        Arg::Tensor(self)
    }
}

/// The error of changing a leaf's value in the middle of what gradients are taken of.
pub(crate) fn tracked_change(op: &str, at: &'static Location<'static>) -> Error {
    let message = format!(
        "{op}: a leaf that requires a gradient cannot be changed while operations are tracked"
    );
    Error::new(ErrorKind::Gradient, message, at).hint("change it inside `no_grad(|| ..)`")
}
