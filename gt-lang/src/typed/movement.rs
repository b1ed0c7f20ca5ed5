//! Operations that move elements: other shapes, swapped axes, parts, joins; and the matrix product.
//! Picking by index is in `indexing`.
//!
//! What needs arithmetic on sizes gives a `Dyn` axis ([`Tensor::slice_axis`], [`cat`]) or takes its
//! result from an annotation, checked when recorded: `let img: T![Batch, 1, 28, 28] =
//! x.reshape();`.

use std::borrow::Borrow;

use super::dim::{DimSpec, Dyn, One, SameDim};
use super::kind::Kind;
use super::relation::{Axis, InsertAxis, MatMul, SetAxis, SwapAxes, SwapLast};
use super::shape::Shape;
use super::tensor::{Tensor, named_shape, spell};
use crate::core::{Arg, DynTensor, Index};
use gt_ir::{OpError, Shape as RecordedShape};

impl<S: Shape, K: Kind> Tensor<S, K> {
    /// The same elements in the same order as the annotated shape. A named dimension keeps the size
    /// it has here; at most one dimension that is new and has no static size is inferred.
    ///
    /// ```no_run
    /// # extern crate gt_lang as gt;
    /// # use gt::prelude::*;
    /// dims! { Batch }
    /// let x: T![Batch, 784] = Tensor::randn_with([32]);
    /// let images: T![Batch, 1, 28, 28] = x.reshape(); // `Batch` keeps its size
    /// ```
    #[doc(alias("view", "contiguous", "flatten"))]
    #[must_use]
    #[track_caller]
    pub fn reshape<R: Shape>(&self) -> Tensor<R, K> {
        const {
            // A second net under the recorded check, for shapes without run-time sizes.
            if let (Some(from), Some(to)) = (S::NUMEL, R::NUMEL) {
                assert!(from == to, "reshape: the two shapes hold different numbers of elements");
            }
        }
        self.reshaped(reshape_target::<S, R>(&self.as_dyn().shape()))
    }

    /// As [`Tensor::reshape`] with the sizes of the named and run-time dimensions given, outermost
    /// first.
    #[must_use]
    #[track_caller]
    pub fn reshape_with<R: Shape>(&self, sizes: impl AsRef<[usize]>) -> Tensor<R, K> {
        self.reshaped(super::create::shape_with("reshape", R::DIMS, sizes.as_ref()))
    }

    #[track_caller]
    fn reshaped<R: Shape>(&self, target: Result<RecordedShape, OpError>) -> Tensor<R, K> {
        match target {
            Ok(shape) => Tensor::wrap(self.as_dyn().reshape(shape)),
            Err(error) => Tensor::wrap(self.refuse_with(error).into_dyn()),
        }
    }

    /// The same tensor with more (or less) said about its shape; checked when recorded.
    #[must_use]
    #[track_caller]
    pub fn assume<R: Shape>(&self) -> Tensor<R, K> {
        Tensor::conform("assume", self.as_dyn().clone())
    }

    /// The last two axes exchanged.
    #[must_use]
    #[track_caller]
    pub fn t(&self) -> Tensor<S::Out, K>
    where
        S: SwapLast,
    {
        Tensor::wrap(self.as_dyn().t())
    }

    /// Axes `A` and `B` exchanged.
    #[must_use]
    #[track_caller]
    pub fn transpose<const A: usize, const B: usize>(&self) -> Tensor<S::Out, K>
    where
        S: SwapAxes<A, B>,
    {
        Tensor::wrap(self.as_dyn().transpose(A as i64, B as i64))
    }

    /// The axes in another order: axis `i` of the annotated result is axis `axes[i]` of this
    /// tensor; checked when recorded.
    #[must_use]
    #[track_caller]
    pub fn permute<R: Shape>(&self, axes: impl AsRef<[i64]>) -> Tensor<R, K> {
        Tensor::conform("permute", self.as_dyn().permute(axes))
    }

    /// A new axis of size one before position `A`.
    #[must_use]
    #[track_caller]
    pub fn unsqueeze<const A: usize>(&self) -> Tensor<S::Out, K>
    where
        S: InsertAxis<A, One>,
    {
        Tensor::wrap(self.as_dyn().unsqueeze(A as i64))
    }

    /// Without axis `A`, whose size is one.
    #[must_use]
    #[track_caller]
    pub fn squeeze<const A: usize>(&self) -> Tensor<S::Without, K>
    where
        S: Axis<A>,
        S::Dim: SameDim<One>,
    {
        Tensor::conform("squeeze", self.as_dyn().squeeze(A as i64))
    }

    /// Repeats axes of size one, and adds axes on the left, until the annotated shape is reached;
    /// its named dimensions keep the sizes they have here.
    #[must_use]
    #[track_caller]
    pub fn expand<R: Shape>(&self) -> Tensor<R, K> {
        let found = self.as_dyn().shape();
        let size = |axis: usize, dim: &DimSpec| match dim {
            DimSpec::Static(size) => i64::try_from(*size).unwrap_or(i64::MAX),
            DimSpec::Named(name) => {
                found.dims().find(|d| d.name.as_str() == *name).map_or(-1, |d| d.size as i64)
            }
            DimSpec::Open => {
                if R::DIMS.len() - axis <= found.rank() {
                    -1
                } else {
                    1
                }
            }
        };
        let sizes: Vec<i64> =
            R::DIMS.iter().enumerate().map(|(axis, dim)| size(axis, dim)).collect();
        Tensor::conform("expand", self.as_dyn().expand(sizes))
    }

    /// A part of axis `A`: a range, or `step(range, n)`; negative positions count from the end. The
    /// axis gets a run-time size.
    #[must_use]
    #[track_caller]
    pub fn slice_axis<const A: usize>(&self, part: impl Into<Index>) -> Tensor<S::Out, K>
    where
        S: SetAxis<A, Dyn>,
    {
        let mut parts = vec![Index::from(..); A];
        match part.into() {
            range @ Index::Range { .. } => parts.push(range),
            Index::At(_) | Index::NewAxis | Index::Ellipsis | Index::Tensor(_) => {
                return Tensor::wrap(
                    self.refuse(
                        "slice_axis",
                        "a part of an axis is a range",
                        "`.select::<A>(i)` picks one position",
                    )
                    .into_dyn(),
                );
            }
        }
        Tensor::conform("slice_axis", self.as_dyn().slice(parts))
    }

    /// One position of axis `A`, which disappears; negative counts from the end.
    #[must_use]
    #[track_caller]
    pub fn select<const A: usize>(&self, position: i64) -> Tensor<S::Without, K>
    where
        S: Axis<A>,
    {
        let mut parts = vec![Index::from(..); A];
        parts.push(Index::At(position));
        Tensor::wrap(self.as_dyn().slice(parts))
    }

    /// The matrix product: vectors, matrices, and batches of matrices that broadcast, as in
    /// PyTorch.
    #[must_use]
    #[track_caller]
    pub fn matmul<R: Shape>(&self, other: &Tensor<R, K>) -> Tensor<S::Out, K>
    where
        S: MatMul<R>,
    {
        let (l, r) = (self.as_dyn(), other.as_dyn());
        Tensor::joined("matmul", l.matmul(r), &[Arg::Tensor(l), Arg::Tensor(r)])
    }
}

/// The tensors one after another along axis `A`, which gets a run-time size.
#[must_use]
#[track_caller]
pub fn cat<const A: usize, S, K: Kind>(
    tensors: impl IntoIterator<Item: Borrow<Tensor<S, K>>>,
) -> Tensor<S::Out, K>
where
    S: Shape + SetAxis<A, Dyn>,
{
    let tensors = tensors.into_iter().map(|t| t.borrow().as_dyn().clone());
    Tensor::conform("cat", DynTensor::cat(tensors, A as i64))
}

/// The tensors one after another along a new axis at position `A`, which gets a run-time size.
#[must_use]
#[track_caller]
pub fn stack<const A: usize, S, K: Kind>(
    tensors: impl IntoIterator<Item: Borrow<Tensor<S, K>>>,
) -> Tensor<S::Out, K>
where
    S: Shape + InsertAxis<A, Dyn>,
{
    let tensors = tensors.into_iter().map(|t| t.borrow().as_dyn().clone());
    Tensor::conform("stack", DynTensor::stack(tensors, A as i64))
}

/// The recorded shape `R` stands for when the elements of `found` are reshaped to it: names keep
/// their sizes, one size is inferred.
fn reshape_target<S: Shape, R: Shape>(found: &RecordedShape) -> Result<RecordedShape, OpError> {
    let size_of = |name: &str| {
        let typed = S::DIMS.iter().position(|d| matches!(d, DimSpec::Named(n) if *n == name));
        typed.and_then(|axis| found.sizes().get(axis).copied())
    };
    let known = |dim: &DimSpec| match dim {
        DimSpec::Static(size) => Some(*size),
        DimSpec::Named(name) => size_of(name),
        DimSpec::Open => None,
    };
    let fail = |why: &str| {
        OpError::new(format!("reshape: shape {found} does not become {}{why}", spell(R::DIMS)))
    };
    let product: usize = R::DIMS.iter().filter_map(known).product();
    let n_open = R::DIMS.iter().filter(|d| known(d).is_none()).count();
    let open = match n_open {
        0 => 0,
        1 if product == 0 => return Err(fail(": beside a size of 0 the missing one can be any")),
        1 => found.numel() / product,
        _ => {
            return Err(fail(&format!(": {n_open} of its sizes are not known"))
                .hint("give them: `.reshape_with([sizes])`"));
        }
    };
    let sizes: Vec<usize> = R::DIMS.iter().map(|d| known(d).unwrap_or(open)).collect();
    if sizes.iter().product::<usize>() != found.numel() {
        return Err(fail(&format!(
            ": {} elements are not {}",
            found.numel(),
            sizes.iter().product::<usize>()
        )));
    }
    named_shape("reshape", R::DIMS, &sizes)
}
