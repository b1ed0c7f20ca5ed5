//! Relations between shapes: broadcasting, matrix products, layer projections and axes.
//!
//! Guarantees: each relation only matches or moves dimensions, never computes with sizes, so stable
//! Rust suffices. Every impl carries `do_not_recommend`: a mistake is reported at the shape level,
//! in the words of the trait. It checks what the types say; sizes behind `Dyn` and names are
//! checked when an operation is recorded.

use super::dim::{BcastDim, Dim, One, SameDim};
use super::shape::Shape;

/// NumPy broadcasting of two shapes, aligned from the right.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// let rows: Tensor<(N<4>, One)> = Tensor::ones();
/// let columns: Tensor<(N<3>,)> = Tensor::ones();
/// let table: Tensor<(N<4>, N<3>)> = rows + columns;
/// ```
#[diagnostic::on_unimplemented(
    message = "shapes `{Self}` and `{Rhs}` do not broadcast",
    label = "dimensions must be equal, or one of them `One`, which `N<1>` is not"
)]
pub trait Broadcast<Rhs> {
    /// The shape after broadcasting.
    type Out: Shape;
}

macro_rules! broadcast_equal_rank {
    ($(($($a:ident $b:ident),*))*) => { $(
        #[diagnostic::do_not_recommend]
        impl<$($a: Dim + BcastDim<$b>, $b: Dim),*> Broadcast<($($b,)*)> for ($($a,)*) {
            type Out = ($(<$a as BcastDim<$b>>::Out,)*);
        }
    )* };
}
macro_rules! broadcast_unequal_rank {
    ($([$($l:ident),+] ($($a:ident $b:ident),*))*) => { $(
        #[diagnostic::do_not_recommend]
        impl<$($l: Dim,)+ $($a: Dim + BcastDim<$b>, $b: Dim),*> Broadcast<($($b,)*)>
            for ($($l,)+ $($a,)*)
        {
            type Out = ($($l,)+ $(<$a as BcastDim<$b>>::Out,)*);
        }
        #[diagnostic::do_not_recommend]
        impl<$($l: Dim,)+ $($a: Dim + BcastDim<$b>, $b: Dim),*> Broadcast<($($l,)+ $($b,)*)>
            for ($($a,)*)
        {
            type Out = ($($l,)+ $(<$a as BcastDim<$b>>::Out,)*);
        }
    )* };
}
broadcast_equal_rank! {
    () (A0 B0) (A0 B0, A1 B1) (A0 B0, A1 B1, A2 B2) (A0 B0, A1 B1, A2 B2, A3 B3)
    (A0 B0, A1 B1, A2 B2, A3 B3, A4 B4) (A0 B0, A1 B1, A2 B2, A3 B3, A4 B4, A5 B5)
}
broadcast_unequal_rank! {
    [L0] () [L0, L1] () [L0, L1, L2] ()
    [L0, L1, L2, L3] () [L0, L1, L2, L3, L4] () [L0, L1, L2, L3, L4, L5] ()
    [L0] (A0 B0) [L0, L1] (A0 B0) [L0, L1, L2] (A0 B0)
    [L0, L1, L2, L3] (A0 B0) [L0, L1, L2, L3, L4] (A0 B0)
    [L0] (A0 B0, A1 B1) [L0, L1] (A0 B0, A1 B1)
    [L0, L1, L2] (A0 B0, A1 B1) [L0, L1, L2, L3] (A0 B0, A1 B1)
    [L0] (A0 B0, A1 B1, A2 B2) [L0, L1] (A0 B0, A1 B1, A2 B2) [L0, L1, L2] (A0 B0, A1 B1, A2 B2)
    [L0] (A0 B0, A1 B1, A2 B2, A3 B3) [L0, L1] (A0 B0, A1 B1, A2 B2, A3 B3)
    [L0] (A0 B0, A1 B1, A2 B2, A3 B3, A4 B4)
}

/// The matrix product `[.., M, K] @ [.., K, N]`, batch dimensions broadcast; vectors as in
/// `torch.matmul`.
#[diagnostic::on_unimplemented(
    message = "cannot multiply matrices of shapes `{Self}` and `{Rhs}`",
    label = "expected `[.., M, K] @ [.., K, N]`"
)]
pub trait MatMul<Rhs> {
    /// The product's shape.
    type Out: Shape;
}

#[diagnostic::do_not_recommend]
impl<K: Dim + SameDim<K2>, K2: Dim> MatMul<(K2,)> for (K,) {
    type Out = ();
}
#[diagnostic::do_not_recommend]
impl<K: Dim + SameDim<K2>, K2: Dim, C: Dim> MatMul<(K2, C)> for (K,) {
    type Out = (C,);
}
#[diagnostic::do_not_recommend]
impl<M: Dim, K: Dim + SameDim<K2>, K2: Dim> MatMul<(K2,)> for (M, K) {
    type Out = (M,);
}
#[diagnostic::do_not_recommend]
impl<M: Dim, K: Dim + SameDim<K2>, K2: Dim, C: Dim> MatMul<(K2, C)> for (M, K) {
    type Out = (M, C);
}
/// Batches of matrices against one vector or matrix, either side, and against an equal number of
/// batch dimensions.
macro_rules! batched_matmul {
    ($(($($a:ident $b:ident),+))*) => { $(
        #[diagnostic::do_not_recommend]
        impl<$($a: Dim,)+ M: Dim, K: Dim + SameDim<K2>, K2: Dim> MatMul<(K2,)> for ($($a,)+ M, K) {
            type Out = ($($a,)+ M,);
        }
        #[diagnostic::do_not_recommend]
        impl<$($a: Dim,)+ K: Dim + SameDim<K2>, K2: Dim, C: Dim> MatMul<($($a,)+ K2, C)> for (K,) {
            type Out = ($($a,)+ C,);
        }
        #[diagnostic::do_not_recommend]
        impl<$($a: Dim,)+ M: Dim, K: Dim + SameDim<K2>, K2: Dim, C: Dim> MatMul<(K2, C)>
            for ($($a,)+ M, K)
        {
            type Out = ($($a,)+ M, C);
        }
        #[diagnostic::do_not_recommend]
        impl<$($a: Dim,)+ M: Dim, K: Dim + SameDim<K2>, K2: Dim, C: Dim> MatMul<($($a,)+ K2, C)>
            for (M, K)
        {
            type Out = ($($a,)+ M, C);
        }
        #[diagnostic::do_not_recommend]
        impl<$($a: Dim + BcastDim<$b>, $b: Dim,)+ M: Dim, K: Dim + SameDim<K2>, K2: Dim, C: Dim>
            MatMul<($($b,)+ K2, C)> for ($($a,)+ M, K)
        {
            type Out = ($(<$a as BcastDim<$b>>::Out,)+ M, C);
        }
    )* };
}
batched_matmul! { (A0 B0) (A0 B0, A1 B1) (A0 B0, A1 B1, A2 B2) (A0 B0, A1 B1, A2 B2, A3 B3) }

/// A layer's last dimension: `I` goes in, `O` comes out, all dimensions before it are kept.
#[diagnostic::on_unimplemented(
    message = "this layer takes a last dimension of `{I}`, but the input has shape `{Self}`",
    label = "last dimension is not `{I}`"
)]
pub trait Project<I, O> {
    /// The shape with `O` last.
    type Out: Shape;
}

macro_rules! project {
    ($(($($l:ident),*))*) => { $(
        #[diagnostic::do_not_recommend]
        impl<$($l: Dim,)* X: Dim + SameDim<I>, I: Dim, O: Dim> Project<I, O> for ($($l,)* X,) {
            type Out = ($($l,)* O,);
        }
    )* };
}
project! { () (A) (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) }

/// A shape with a last dimension, and what is left without it.
#[diagnostic::on_unimplemented(
    message = "shape `{Self}` has no last dimension",
    label = "a scalar"
)]
pub trait HasLast {
    /// The last dimension.
    type Last: Dim;
    /// The shape without the last dimension.
    type Rest: Shape + Append<Self::Last>;
    /// The shape with `One` in its place.
    type Keep: Shape;
}

/// A shape with room for one more dimension at the end.
#[diagnostic::on_unimplemented(
    message = "shape `{Self}` has no room for another dimension",
    label = "ranks go up to 6"
)]
pub trait Append<D> {
    /// The shape with `D` last.
    type Out: Shape;
}

macro_rules! last {
    ($(($($l:ident),*))*) => { $(
        #[diagnostic::do_not_recommend]
        impl<$($l: Dim,)* X: Dim> HasLast for ($($l,)* X,) {
            type Last = X;
            type Rest = ($($l,)*);
            type Keep = ($($l,)* One,);
        }
        #[diagnostic::do_not_recommend]
        impl<$($l: Dim,)* X: Dim> Append<X> for ($($l,)*) {
            type Out = ($($l,)* X,);
        }
    )* };
}
last! { () (A) (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) }

/// Logits of this shape can be compared with classes of shape `Rhs`: all but the last dimension
/// agree.
#[diagnostic::on_unimplemented(
    message = "logits of shape `{Self}` do not go with classes of shape `{Rhs}`",
    label = "expected the shape of the logits without its last dimension"
)]
pub trait Classify<Rhs> {
    /// The shape of the loss, a scalar.
    type Loss: Shape;
}
macro_rules! classify {
    ($(($($a:ident $b:ident),*))*) => { $(
        #[diagnostic::do_not_recommend]
        impl<$($a: Dim + SameDim<$b>, $b: Dim,)* C: Dim> Classify<($($b,)*)> for ($($a,)* C,) {
            type Loss = ();
        }
    )* };
}
classify! {
    () (A0 B0) (A0 B0, A1 B1) (A0 B0, A1 B1, A2 B2) (A0 B0, A1 B1, A2 B2, A3 B3)
    (A0 B0, A1 B1, A2 B2, A3 B3, A4 B4)
}

/// A shape of rank two or more with its last two dimensions swapped.
#[diagnostic::on_unimplemented(
    message = "shape `{Self}` has no two dimensions to transpose",
    label = "needs a matrix or a batch of matrices"
)]
pub trait SwapLast {
    /// The transposed shape.
    type Out: Shape;
}
macro_rules! swap_last {
    ($(($($l:ident),*))*) => { $(
        #[diagnostic::do_not_recommend]
        impl<$($l: Dim,)* Y: Dim, X: Dim> SwapLast for ($($l,)* Y, X) { type Out = ($($l,)* X, Y); }
    )* };
}
swap_last! { () (A) (A, B) (A, B, C) (A, B, C, D) }

/// A shape that has axis `A`.
#[diagnostic::on_unimplemented(message = "shape `{Self}` has no axis {A}", label = "no such axis")]
pub trait Axis<const A: usize> {
    /// The dimension there.
    type Dim: Dim;
    /// The shape without it.
    type Without: Shape;
}

/// A shape whose axis `A` may be replaced by the dimension `D`.
#[diagnostic::on_unimplemented(message = "shape `{Self}` has no axis {A}", label = "no such axis")]
pub trait SetAxis<const A: usize, D> {
    /// The shape with `D` at axis `A`.
    type Out: Shape;
}

/// A shape that may get a new dimension `D` before position `A`.
#[diagnostic::on_unimplemented(
    message = "shape `{Self}` cannot get a new dimension at position {A}",
    label = "positions go up to the rank, ranks up to 6"
)]
pub trait InsertAxis<const A: usize, D> {
    /// The shape with `D` inserted.
    type Out: Shape;
}

macro_rules! axes {
    ($($axis:literal ($($before:ident),*) ($($after:ident),*))*) => { $(
        #[diagnostic::do_not_recommend]
        impl<$($before: Dim,)* X: Dim, $($after: Dim),*> Axis<$axis>
            for ($($before,)* X, $($after,)*)
        {
            type Dim = X;
            type Without = ($($before,)* $($after,)*);
        }
        #[diagnostic::do_not_recommend]
        impl<$($before: Dim,)* X: Dim, $($after: Dim,)* New: Dim> SetAxis<$axis, New>
            for ($($before,)* X, $($after,)*)
        {
            type Out = ($($before,)* New, $($after,)*);
        }
        #[diagnostic::do_not_recommend]
        impl<$($before: Dim,)* $($after: Dim,)* New: Dim> InsertAxis<$axis, New>
            for ($($before,)* $($after,)*)
        {
            type Out = ($($before,)* New, $($after,)*);
        }
    )* };
}
axes! {
    0 () ()
    0 () (A)             1 (A) ()
    0 () (A, B)          1 (A) (B)          2 (A, B) ()
    0 () (A, B, C)       1 (A) (B, C)       2 (A, B) (C)       3 (A, B, C) ()
    0 () (A, B, C, D)    1 (A) (B, C, D)    2 (A, B) (C, D)    3 (A, B, C) (D)    4 (A, B, C, D) ()
    0 () (A, B, C, D, E) 1 (A) (B, C, D, E) 2 (A, B) (C, D, E) 3 (A, B, C) (D, E) 4 (A, B, C, D) (E)
    5 (A, B, C, D, E) ()
}

/// A shape whose axes `A` and `B` may be swapped.
pub trait SwapAxes<const A: usize, const B: usize> {
    /// The shape with the two dimensions exchanged.
    type Out: Shape;
}
#[diagnostic::do_not_recommend]
impl<S, const A: usize, const B: usize> SwapAxes<A, B> for S
where
    S: Axis<A> + Axis<B> + SetAxis<A, <S as Axis<B>>::Dim>,
    <S as SetAxis<A, <S as Axis<B>>::Dim>>::Out: SetAxis<B, <S as Axis<A>>::Dim>,
{
    type Out =
        <<S as SetAxis<A, <S as Axis<B>>::Dim>>::Out as SetAxis<B, <S as Axis<A>>::Dim>>::Out;
}
