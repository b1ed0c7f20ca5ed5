//! What layers take: tensors with their shapes in their types, or [`DynTensor`]s.
//!
//! Guarantees: a layer gives back what it was given, borrowed any number of times: a [`Tensor`] of
//! the shape that follows from the types, or a [`DynTensor`]. What the types of a [`Tensor`] say is
//! checked by the compiler, and the rest when the layer is recorded; of a [`DynTensor`] everything
//! is checked then.

use super::any::AnyTensor;
use super::any::sealed::Inner;
use super::dim::{Dim, Dyn, SameDim};
use super::kind::Int;
use super::relation::{Append, Project};
use super::shape::Shape;
use super::tensor::Tensor;
use crate::core::DynTensor;

/// A tensor of floats, with its shape in its type or without.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tensor of floats",
    label = "not a `Tensor` of floats or a `DynTensor`"
)]
pub trait Floats: Inner {
    /// The tensor, where this is a reference to it.
    type Owned: AnyTensor + Floats;
}

#[diagnostic::do_not_recommend]
impl Floats for DynTensor {
    type Owned = DynTensor;
}
#[diagnostic::do_not_recommend]
impl<S: Shape> Floats for Tensor<S> {
    type Owned = Tensor<S>;
}
#[diagnostic::do_not_recommend]
impl<X: Floats> Floats for &X {
    type Owned = X::Owned;
}

/// A tensor whose last dimension is `I`, and what becomes of it when that is `O`.
#[diagnostic::on_unimplemented(
    message = "this layer takes a last dimension of `{I}`, but the input is `{Self}`",
    label = "not floats with a last dimension of `{I}`"
)]
pub trait Features<I, O>: Floats {
    /// The tensor with `O` last.
    type Out: AnyTensor + Floats;
}

#[diagnostic::do_not_recommend]
impl<S: Shape + Project<I, O>, I: Dim, O: Dim> Features<I, O> for Tensor<S> {
    type Out = Tensor<S::Out>;
}

/// Indices, and what becomes of them when each is replaced by a row of width `D`.
#[diagnostic::on_unimplemented(
    message = "this layer takes indices, but the input is `{Self}`",
    label = "not a `Tensor` of kind `Int` or a `DynTensor`"
)]
pub trait Indices<D>: Inner {
    /// The tensor with `D` as one more dimension.
    type Out: AnyTensor + Floats;
}

#[diagnostic::do_not_recommend]
impl<S: Shape + Append<D>, D: Dim> Indices<D> for Tensor<S, Int> {
    type Out = Tensor<S::Out>;
}

/// Sequences `[batch, length, I]`, and what becomes of them when the last dimension is `O`.
#[diagnostic::on_unimplemented(
    message = "this layer takes `[batch, length, {I}]`, but the input is `{Self}`",
    label = "not sequences of width `{I}`"
)]
pub trait Sequences<I, O>: Floats {
    /// The tensor with `O` last.
    type Out: AnyTensor + Floats;
    /// How many there are.
    type Batch: Dim;
}

#[diagnostic::do_not_recommend]
impl<B: Dim, L: Dim, X: Dim + SameDim<I>, I: Dim, O: Dim> Sequences<I, O> for Tensor<(B, L, X)> {
    type Out = Tensor<(B, L, O)>;
    type Batch = B;
}

/// Lines of `I` channels, `[batch, I, length]`, and what becomes of them when there are `O`.
#[diagnostic::on_unimplemented(
    message = "this layer takes `[batch, {I}, length]`, but the input is `{Self}`",
    label = "not lines of `{I}` channels"
)]
pub trait Lines<I, O>: Floats {
    /// The tensor with `O` channels and a run-time length.
    type Out: AnyTensor + Floats;
}

#[diagnostic::do_not_recommend]
impl<B: Dim, X: Dim + SameDim<I>, L: Dim, I: Dim, O: Dim> Lines<I, O> for Tensor<(B, X, L)> {
    type Out = Tensor<(B, O, Dyn)>;
}

/// Images of `I` channels, `[batch, I, height, width]`, and what becomes of them when there are
/// `O`.
#[diagnostic::on_unimplemented(
    message = "this layer takes `[batch, {I}, height, width]`, but the input is `{Self}`",
    label = "not images of `{I}` channels"
)]
pub trait Images<I, O>: Floats {
    /// The tensor with `O` channels, and run-time heights and widths.
    type Out: AnyTensor + Floats;
}

#[diagnostic::do_not_recommend]
impl<B: Dim, X: Dim + SameDim<I>, H: Dim, W: Dim, I: Dim, O: Dim> Images<I, O>
    for Tensor<(B, X, H, W)>
{
    type Out = Tensor<(B, O, Dyn, Dyn)>;
}

/// Images `[batch, channels, height, width]`, and what becomes of them when height and width
/// change.
#[diagnostic::on_unimplemented(
    message = "this layer takes `[batch, channels, height, width]`, but the input is `{Self}`",
    label = "not images"
)]
pub trait Resizes: Floats {
    /// The tensor with run-time heights and widths.
    type Out: AnyTensor + Floats;
}

#[diagnostic::do_not_recommend]
impl<B: Dim, C: Dim, H: Dim, W: Dim> Resizes for Tensor<(B, C, H, W)> {
    type Out = Tensor<(B, C, Dyn, Dyn)>;
}

/// Volumes of `I` channels, `[batch, I, depth, height, width]`, and what becomes of them when there
/// are `O`.
#[diagnostic::on_unimplemented(
    message = "this layer takes `[batch, {I}, depth, height, width]`, but the input is `{Self}`",
    label = "not volumes of `{I}` channels"
)]
pub trait Volumes<I, O>: Floats {
    /// The tensor with `O` channels, and run-time depths, heights and widths.
    type Out: AnyTensor + Floats;
}

#[diagnostic::do_not_recommend]
impl<B: Dim, X: Dim + SameDim<I>, Z: Dim, H: Dim, W: Dim, I: Dim, O: Dim> Volumes<I, O>
    for Tensor<(B, X, Z, H, W)>
{
    type Out = Tensor<(B, O, Dyn, Dyn, Dyn)>;
}

/// Volumes `[batch, channels, depth, height, width]`, and what becomes of them when all but batch
/// and channels change.
#[diagnostic::on_unimplemented(
    message = "this layer takes `[batch, channels, depth, height, width]`, but the input is \
               `{Self}`",
    label = "not volumes"
)]
pub trait ResizesVolumes: Floats {
    /// The tensor with run-time depths, heights and widths.
    type Out: AnyTensor + Floats;
}

#[diagnostic::do_not_recommend]
impl<B: Dim, C: Dim, Z: Dim, H: Dim, W: Dim> ResizesVolumes for Tensor<(B, C, Z, H, W)> {
    type Out = Tensor<(B, C, Dyn, Dyn, Dyn)>;
}

/// Bags of indices `[batch, length]`, and what becomes of them when each is a row of width `D`.
#[diagnostic::on_unimplemented(
    message = "this layer takes indices `[batch, length]`, but the input is `{Self}`",
    label = "not bags of indices"
)]
pub trait Bags<D>: Inner {
    /// The tensor with `D` in the place of the length.
    type Out: AnyTensor + Floats;
}

#[diagnostic::do_not_recommend]
impl<B: Dim, L: Dim, D: Dim> Bags<D> for Tensor<(B, L), Int> {
    type Out = Tensor<(B, D)>;
}

/// A tensor without a shape in its type stays one, and a reference is what it refers to.
macro_rules! of_any_shape {
    ($($taken:ident<$($dim:ident),*> $($more:ident)?;)*) => { $(
        #[diagnostic::do_not_recommend]
        impl<$($dim: Dim),*> $taken<$($dim),*> for DynTensor {
            type Out = DynTensor;
            $(type $more = Dyn;)?
        }
        #[diagnostic::do_not_recommend]
        impl<$($dim,)* X: $taken<$($dim),*>> $taken<$($dim),*> for &X {
            type Out = X::Out;
            $(type $more = X::$more;)?
        }
    )* };
}
of_any_shape! {
    Features<I, O>;
    Indices<D>;
    Sequences<I, O> Batch;
    Lines<I, O>;
    Images<I, O>;
    Resizes<>;
    Volumes<I, O>;
    ResizesVolumes<>;
    Bags<D>;
}
