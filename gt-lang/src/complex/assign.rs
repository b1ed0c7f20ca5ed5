//! `+= -= *= /=` on complex tensors: a leaf changes its value, for all its clones and only where
//! nothing is tracked; any other tensor becomes the result.

use std::ops::{AddAssign, DivAssign, MulAssign, SubAssign};
use std::panic::Location;

use super::arithmetic::{difference, product, quotient, sum};
use super::operators::Side;
use super::{Complex, ComplexArg, ComplexTensor};
use crate::core::{DynTensor, Number};

macro_rules! assign {
    ($($trait:ident $method:ident $function:ident;)+) => {$(
        assign!(@given $trait $method $function:
            ComplexTensor, &ComplexTensor, DynTensor, &DynTensor, Complex<f64>);
        impl<N: Number> $trait<N> for ComplexTensor {
            #[track_caller]
            fn $method(&mut self, rhs: N) {
                let result = $function(self.side(), ComplexArg::from(rhs)).pairs;
                self.pairs.become_result(stringify!($method), result, Location::caller());
            }
        }
    )+};
    (@given $trait:ident $method:ident $function:ident: $($r:ty),+) => {$(
        impl $trait<$r> for ComplexTensor {
            #[track_caller]
            fn $method(&mut self, rhs: $r) {
                let result = $function(self.side(), rhs.side()).pairs;
                self.pairs.become_result(stringify!($method), result, Location::caller());
            }
        }
    )+};
}
assign! {
    AddAssign add_assign sum;
    SubAssign sub_assign difference;
    MulAssign mul_assign product;
    DivAssign div_assign quotient;
}
