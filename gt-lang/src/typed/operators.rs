//! `+ - * /`, their assigning forms and unary `-`, between typed tensors (owned or borrowed) and numbers on either side.
//!
//! Shapes broadcast as the types say; names and run-time sizes are checked when recorded. `x += y` makes a new value and
//! lets `x` stand for it: recorded values never change.

use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use super::kind::{Float, Kind, Promote};
use super::relation::Broadcast;
use super::shape::Shape;
use super::tensor::Tensor;
use crate::core::Arg;

/// One operator for all pairs of owned and borrowed tensors; `$kind` is the kind of the result.
macro_rules! between_tensors {
    ($trait:ident $method:ident: $($l:ty, $r:ty => $kind:ty);+) => { $(
        impl<S: Shape + Broadcast<R>, R: Shape, K: Kind + Promote<K2>, K2: Kind> $trait<$r> for $l {
            type Output = Tensor<<S as Broadcast<R>>::Out, $kind>;
            #[track_caller]
            fn $method(self, rhs: $r) -> Self::Output {
                let (l, r) = (self.as_dyn(), rhs.as_dyn());
                Tensor::joined(stringify!($method), l.$method(r), &[Arg::Tensor(l), Arg::Tensor(r)])
            }
        }
    )+ };
}
macro_rules! with_number {
    ($trait:ident $method:ident $number:ty => $kind:ty: $($t:ty),+) => { $(
        impl<S: Shape, K: Kind> $trait<$number> for $t {
            type Output = Tensor<S, $kind>;
            #[track_caller]
            fn $method(self, rhs: $number) -> Self::Output {
                Tensor::wrap(self.as_dyn().$method(rhs))
            }
        }
        impl<S: Shape, K: Kind> $trait<$t> for $number {
            type Output = Tensor<S, $kind>;
            #[track_caller]
            fn $method(self, rhs: $t) -> Self::Output {
                Tensor::wrap($trait::$method(self, rhs.as_dyn()))
            }
        }
    )+ };
}
macro_rules! operator {
    ($trait:ident $method:ident $assign:ident $assign_method:ident: $kind:ty, $with_int:ty) => {
        between_tensors! { $trait $method:
            &Tensor<S, K>, &Tensor<R, K2> => $kind;
            &Tensor<S, K>, Tensor<R, K2> => $kind;
            Tensor<S, K>, &Tensor<R, K2> => $kind;
            Tensor<S, K>, Tensor<R, K2> => $kind
        }
        with_number! { $trait $method f64 => Float: &Tensor<S, K>, Tensor<S, K> }
        with_number! { $trait $method i64 => $with_int: &Tensor<S, K>, Tensor<S, K> }
        impl<S: Shape, Rhs> $assign<Rhs> for Tensor<S, Float>
        where
            for<'a> &'a Tensor<S, Float>: $trait<Rhs, Output = Tensor<S, Float>>,
        {
            #[track_caller]
            fn $assign_method(&mut self, rhs: Rhs) {
                *self = $trait::$method(&*self, rhs);
            }
        }
    };
}
operator!(Add add AddAssign add_assign: <K as Promote<K2>>::Out, K::WithInt);
operator!(Sub sub SubAssign sub_assign: <K as Promote<K2>>::Out, K::WithInt);
operator!(Mul mul MulAssign mul_assign: <K as Promote<K2>>::Out, K::WithInt);
operator!(Div div DivAssign div_assign: Float, Float);

impl<S: Shape, K: Kind> Neg for &Tensor<S, K> {
    type Output = Tensor<S, K>;
    #[track_caller]
    fn neg(self) -> Tensor<S, K> {
        Tensor::wrap(self.as_dyn().neg())
    }
}
impl<S: Shape, K: Kind> Neg for Tensor<S, K> {
    type Output = Tensor<S, K>;
    #[track_caller]
    fn neg(self) -> Tensor<S, K> {
        Tensor::wrap(self.as_dyn().neg())
    }
}
