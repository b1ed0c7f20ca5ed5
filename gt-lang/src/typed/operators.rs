//! `+ - * /`, their assigning forms and unary `-`, between typed tensors (owned or borrowed) and
//! numbers on either side.
//!
//! Shapes broadcast as the types say; names and run-time sizes are checked when recorded. `x += y`
//! lets `x` stand for the result; of a leaf it changes the value, for all its clones, where nothing
//! is tracked, as in PyTorch. Either way the type stays.

use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use super::kind::{Float, Kind, Promote};
use super::relation::Broadcast;
use super::shape::Shape;
use super::tensor::Tensor;
use crate::core::Arg;

/// One operator for all pairs of owned and borrowed tensors; `$kind` is the kind of the result.
macro_rules! between_tensors {
    ($trait:ident $method:ident: $($l:ty, $r:ty => $kind:ty);+) => { $(
        #[diagnostic::do_not_recommend]
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
        #[diagnostic::do_not_recommend]
        impl<S: Shape, K: Kind> $trait<$number> for $t {
            type Output = Tensor<S, $kind>;
            #[track_caller]
            fn $method(self, rhs: $number) -> Self::Output {
                Tensor::wrap(self.as_dyn().$method(rhs))
            }
        }
        #[diagnostic::do_not_recommend]
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
    ($trait:ident $method:ident: $kind:ty, $with_int:ty) => {
        between_tensors! { $trait $method:
            &Tensor<S, K>, &Tensor<R, K2> => $kind;
            &Tensor<S, K>, Tensor<R, K2> => $kind;
            Tensor<S, K>, &Tensor<R, K2> => $kind;
            Tensor<S, K>, Tensor<R, K2> => $kind
        }
        with_number! { $trait $method f64 => Float: &Tensor<S, K>, Tensor<S, K> }
        with_number! { $trait $method i64 => $with_int: &Tensor<S, K>, Tensor<S, K> }
    };
}
/// One assigning operator, for the operands that leave shape and kind as they are.
macro_rules! assigning {
    ($trait:ident $method:ident: $($r:ty),+) => { $(
        impl<S, R: Shape, K: Kind + Promote<K2, Out = K>, K2: Kind> $trait<$r> for Tensor<S, K>
        where
            S: Shape + Broadcast<R, Out = S>,
        {
            #[track_caller]
            fn $method(&mut self, rhs: $r) {
                let mut out = self.as_dyn().clone();
                $trait::$method(&mut out, rhs.as_dyn());
                let args = [Arg::Tensor(self.as_dyn()), Arg::Tensor(rhs.as_dyn())];
                *self = Tensor::joined(stringify!($method), out, &args);
            }
        }
    )+ };
    ($trait:ident $method:ident by $number:ty: [$($g:tt)*] $kind:ty) => {
        impl<S: Shape, $($g)*> $trait<$number> for Tensor<S, $kind> {
            #[track_caller]
            fn $method(&mut self, rhs: $number) {
                let mut out = self.as_dyn().clone();
                $trait::$method(&mut out, rhs);
                *self = Tensor::wrap(out);
            }
        }
    };
}
operator!(Add add: <K as Promote<K2>>::Out, K::WithInt);
operator!(Sub sub: <K as Promote<K2>>::Out, K::WithInt);
operator!(Mul mul: <K as Promote<K2>>::Out, K::WithInt);
operator!(Div div: Float, Float);

assigning!(AddAssign add_assign: &Tensor<R, K2>, Tensor<R, K2>);
assigning!(SubAssign sub_assign: &Tensor<R, K2>, Tensor<R, K2>);
assigning!(MulAssign mul_assign: &Tensor<R, K2>, Tensor<R, K2>);
assigning!(DivAssign div_assign: &Tensor<R, K2>, Tensor<R, K2>);
assigning!(AddAssign add_assign by f64: [] Float);
assigning!(SubAssign sub_assign by f64: [] Float);
assigning!(MulAssign mul_assign by f64: [] Float);
assigning!(DivAssign div_assign by f64: [] Float);
assigning!(AddAssign add_assign by i64: [K: Kind<WithInt = K>] K);
assigning!(SubAssign sub_assign by i64: [K: Kind<WithInt = K>] K);
assigning!(MulAssign mul_assign by i64: [K: Kind<WithInt = K>] K);

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
