//! `+ - * /` and unary `-` between complex tensors, real tensors and numbers, real or complex, on
//! either side, owned or borrowed.
//!
//! A number on the left is an `f64`, an `i64` or a `Complex<f64>`; on the right it may be any
//! [`Number`], too. A `Complex<f32>` is none, so that literals need no annotation.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::arithmetic::{difference, product, quotient, sum};
use super::{Complex, ComplexArg, ComplexTensor};
use crate::core::{DynTensor, Number};

/// What stands on one side of an operator, owned or borrowed.
pub(super) trait Side {
    /// As an operand.
    fn side(&self) -> ComplexArg<'_>;
}

impl Side for ComplexTensor {
    fn side(&self) -> ComplexArg<'_> {
        ComplexArg::from(self)
    }
}

impl Side for DynTensor {
    fn side(&self) -> ComplexArg<'_> {
        ComplexArg::from(self)
    }
}

macro_rules! copied_sides {
    ($($t:ty),+) => { $(
        impl Side for $t {
            fn side(&self) -> ComplexArg<'_> {
                ComplexArg::from(*self)
            }
        }
    )+ };
}
copied_sides!(f64, i64, Complex<f64>);

macro_rules! operator {
    ($($trait:ident $method:ident $function:ident;)+) => {$(
        operator!(@pairs $trait $method $function:
            &ComplexTensor, &ComplexTensor; &ComplexTensor, ComplexTensor;
            ComplexTensor, &ComplexTensor; ComplexTensor, ComplexTensor;
            &ComplexTensor, &DynTensor; &ComplexTensor, DynTensor;
            ComplexTensor, &DynTensor; ComplexTensor, DynTensor;
            &DynTensor, &ComplexTensor; &DynTensor, ComplexTensor;
            DynTensor, &ComplexTensor; DynTensor, ComplexTensor;
            &ComplexTensor, Complex<f64>; ComplexTensor, Complex<f64>;
            &DynTensor, Complex<f64>; DynTensor, Complex<f64>;
            Complex<f64>, &ComplexTensor; Complex<f64>, ComplexTensor;
            Complex<f64>, &DynTensor; Complex<f64>, DynTensor;
            f64, &ComplexTensor; f64, ComplexTensor;
            i64, &ComplexTensor; i64, ComplexTensor);
        operator!(@numbers $trait $method $function: ComplexTensor, &ComplexTensor);
    )+};
    (@pairs $trait:ident $method:ident $function:ident: $($l:ty, $r:ty);+) => {$(
        impl $trait<$r> for $l {
            type Output = ComplexTensor;
            #[track_caller]
            fn $method(self, rhs: $r) -> ComplexTensor {
                $function(self.side(), rhs.side())
            }
        }
    )+};
    (@numbers $trait:ident $method:ident $function:ident: $($l:ty),+) => {$(
        impl<N: Number> $trait<N> for $l {
            type Output = ComplexTensor;
            #[track_caller]
            fn $method(self, rhs: N) -> ComplexTensor {
                $function(self.side(), ComplexArg::from(rhs))
            }
        }
    )+};
}
operator! {
    Add add sum;
    Sub sub difference;
    Mul mul product;
    Div div quotient;
}

macro_rules! negatives {
    ($($t:ty),+) => { $(
        impl Neg for $t {
            type Output = ComplexTensor;
            #[track_caller]
            fn neg(self) -> ComplexTensor {
                ComplexTensor::neg(&self)
            }
        }
    )+ };
}
negatives!(ComplexTensor, &ComplexTensor);
