//! What the typed methods take as their other operand: a tensor that broadcasts, owned or borrowed,
//! or a plain number.
//!
//! Numbers are `f64` and `i64` only: with one candidate for each literal, `(x * 2.0).relu()` needs
//! no annotation.

use super::kind::{Float, Kind, Promote};
use super::relation::Broadcast;
use super::shape::Shape;
use super::tensor::Tensor;
use crate::core::Arg;

/// The other operand of an operation on a tensor of shape `S` and kind `K`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not broadcast with a tensor of shape `{S}`",
    label = "incompatible operand",
    note = "operands are tensors whose shapes broadcast, and numbers as `f64` or `i64`"
)]
pub trait Operand<S, K> {
    /// The shape of the result.
    type Out: Shape;
    /// The promoted kind of both.
    type Kind: Kind;
    /// The operand as the dynamic core takes it.
    fn arg(&self) -> Arg<'_>;
}

#[diagnostic::do_not_recommend]
impl<S: Shape + Broadcast<R>, K: Kind + Promote<K2>, R: Shape, K2: Kind> Operand<S, K>
    for &Tensor<R, K2>
{
    type Out = <S as Broadcast<R>>::Out;
    type Kind = <K as Promote<K2>>::Out;
    fn arg(&self) -> Arg<'_> {
        Arg::Tensor(self.as_dyn())
    }
}
#[diagnostic::do_not_recommend]
impl<S: Shape + Broadcast<R>, K: Kind + Promote<K2>, R: Shape, K2: Kind> Operand<S, K>
    for Tensor<R, K2>
{
    type Out = <S as Broadcast<R>>::Out;
    type Kind = <K as Promote<K2>>::Out;
    fn arg(&self) -> Arg<'_> {
        Arg::Tensor(self.as_dyn())
    }
}
#[diagnostic::do_not_recommend]
impl<S: Shape, K: Kind> Operand<S, K> for f64 {
    type Out = S;
    type Kind = Float;
    fn arg(&self) -> Arg<'_> {
        Arg::from(*self)
    }
}
#[diagnostic::do_not_recommend]
impl<S: Shape, K: Kind> Operand<S, K> for i64 {
    type Out = S;
    type Kind = K::WithInt;
    fn arg(&self) -> Arg<'_> {
        Arg::from(*self)
    }
}
