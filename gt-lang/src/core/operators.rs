//! `+ - * /` and unary `-`, between tensors (owned or borrowed) and numbers on either side.

use std::ops::{Add, Div, Mul, Neg, Sub};

use gt_ir::Op;

use super::{Arg, DynTensor};

macro_rules! operator {
    ($($trait:ident $method:ident $op:ident),+) => {$(
        operator!(@tensors $trait $method $op: &DynTensor, &DynTensor; &DynTensor, DynTensor; DynTensor, &DynTensor; DynTensor, DynTensor);
        operator!(@numbers $trait $method $op: f32, f64, i32, i64);
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
    (@numbers $trait:ident $method:ident $op:ident: $($n:ty),+) => {$(
        operator!(@number $trait $method $op $n: DynTensor, &DynTensor);
    )+};
    (@number $trait:ident $method:ident $op:ident $n:ty: $($t:ty),+) => {$(
        impl $trait<$n> for $t {
            type Output = DynTensor;
            #[track_caller]
            fn $method(self, rhs: $n) -> DynTensor {
                DynTensor::record(Op::$op, &[self.arg(), rhs.into()])
            }
        }
        impl $trait<$t> for $n {
            type Output = DynTensor;
            #[track_caller]
            fn $method(self, rhs: $t) -> DynTensor {
                DynTensor::record(Op::$op, &[self.into(), rhs.arg()])
            }
        }
    )+};
}
operator!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div);

impl Neg for &DynTensor {
    type Output = DynTensor;
    #[track_caller]
    fn neg(self) -> DynTensor {
        DynTensor::record(Op::Neg, &[Arg::Tensor(self)])
    }
}

impl Neg for DynTensor {
    type Output = DynTensor;
    #[track_caller]
    fn neg(self) -> DynTensor {
        DynTensor::record(Op::Neg, &[Arg::Tensor(&self)])
    }
}

impl DynTensor {
    fn arg(&self) -> Arg<'_> {
        Arg::Tensor(self)
    }
}
