//! Operations that move complex numbers without computing. The axis of the parts stays the last one
//! and does not count: axis -1 is the last one of complex numbers.

use std::borrow::Borrow;

use gt_ir::OpError;

use super::ComplexTensor;
use super::axes::{axis_of_first, is_axis_of_scalar};
use crate::core::{Axes, DynTensor, Index, IndexList, Size, Sizes};

impl ComplexTensor {
    /// The same numbers in the same order as another shape; one size may be `-1`.
    #[doc(alias("view", "contiguous"))]
    #[must_use]
    #[track_caller]
    pub fn reshape(&self, sizes: impl Into<Sizes>) -> ComplexTensor {
        ComplexTensor::of(self.pairs.reshape(with_pair(sizes.into(), 2)))
    }

    /// All axes from `start` to `end` (both included) as one.
    #[must_use]
    #[track_caller]
    pub fn flatten(&self, start: i64, end: i64) -> ComplexTensor {
        if self.rank() == 0 && is_axis_of_scalar(start) && is_axis_of_scalar(end) {
            return self.unsqueeze(0);
        }
        match self.axis("flatten", start).and_then(|a| Ok((a, self.axis("flatten", end)?))) {
            Ok((start, end)) => ComplexTensor::of(self.pairs.flatten(start, end)),
            Err(error) => self.refused(error),
        }
    }

    /// A new axis of size one before `axis`; negative axes count in the result.
    #[must_use]
    #[track_caller]
    pub fn unsqueeze(&self, axis: i64) -> ComplexTensor {
        match self.axis_among("unsqueeze", axis, self.rank() + 1) {
            Ok(axis) => ComplexTensor::of(self.pairs.unsqueeze(axis)),
            Err(error) => self.refused(error),
        }
    }

    /// Without `axis`, if its size is one; otherwise the same tensor.
    #[must_use]
    #[track_caller]
    pub fn squeeze(&self, axis: i64) -> ComplexTensor {
        if self.rank() == 0 && is_axis_of_scalar(axis) {
            return self.clone();
        }
        match self.axis("squeeze", axis) {
            Ok(axis) => ComplexTensor::of(self.pairs.squeeze(axis)),
            Err(error) => self.refused(error),
        }
    }

    /// The axes in another order: axis `i` of the result is axis `axes[i]` of this tensor.
    #[must_use]
    #[track_caller]
    pub fn permute(&self, axes: impl AsRef<[i64]>) -> ComplexTensor {
        let order = axes.as_ref().iter().map(|&axis| self.axis("permute", axis));
        let order: Result<Vec<i64>, OpError> = order.chain([Ok(self.rank() as i64)]).collect();
        match order {
            Ok(order) if order.len() == self.rank() + 1 => {
                ComplexTensor::of(self.pairs.permute(order))
            }
            Ok(_) => {
                let (axes, told) = (axes.as_ref(), self.told());
                let message = format!("permute: {axes:?} is not an order of the axes of {told}");
                self.refused(OpError::new(message))
            }
            Err(error) => self.refused(error),
        }
    }

    /// Two axes exchanged.
    #[doc(alias("swapaxes", "swapdims"))]
    #[must_use]
    #[track_caller]
    pub fn transpose(&self, a: i64, b: i64) -> ComplexTensor {
        if self.rank() == 0 && is_axis_of_scalar(a) && is_axis_of_scalar(b) {
            return self.clone();
        }
        match self.axis("transpose", a).and_then(|a| Ok((a, self.axis("transpose", b)?))) {
            Ok((a, b)) => ComplexTensor::of(self.pairs.transpose(a, b)),
            Err(error) => self.refused(error),
        }
    }

    /// Repeats axes of size one, and adds axes on the left; `-1` keeps a size.
    #[must_use]
    #[track_caller]
    pub fn expand(&self, sizes: impl Into<Sizes>) -> ComplexTensor {
        ComplexTensor::of(self.pairs.expand(with_pair(sizes.into(), -1)))
    }

    /// The tensors one after another along `axis`.
    #[doc(alias("concat", "concatenate"))]
    #[must_use]
    #[track_caller]
    pub fn cat(
        tensors: impl IntoIterator<Item: Borrow<ComplexTensor>>,
        axis: i64,
    ) -> ComplexTensor {
        let all = pairs_of(tensors);
        match axis_of_first("cat", &all, axis, 0) {
            Ok(axis) => ComplexTensor::of(DynTensor::cat(&all, axis)),
            Err((first, error)) => first.refused(error),
        }
    }

    /// The tensors one after another along a new axis.
    #[must_use]
    #[track_caller]
    pub fn stack(
        tensors: impl IntoIterator<Item: Borrow<ComplexTensor>>,
        axis: i64,
    ) -> ComplexTensor {
        let all = pairs_of(tensors);
        match axis_of_first("stack", &all, axis, 1) {
            Ok(axis) => ComplexTensor::of(DynTensor::stack(&all, axis)),
            Err((first, error)) => first.refused(error),
        }
    }

    /// Numbers `start..start + length` of `axis`; a negative start counts from the end.
    #[must_use]
    #[track_caller]
    pub fn narrow(&self, axis: i64, start: i64, length: usize) -> ComplexTensor {
        match self.axis("narrow", axis) {
            Ok(axis) => ComplexTensor::of(self.pairs.narrow(axis, start, length)),
            Err(error) => self.refused(error),
        }
    }

    /// Pieces of `size` along `axis`, the last one maybe smaller.
    #[must_use]
    #[track_caller]
    pub fn split(&self, size: usize, axis: i64) -> Vec<ComplexTensor> {
        match self.axis("split", axis) {
            Err(error) => vec![self.refused(error)],
            Ok(axis) => self.pairs.split(size, axis).into_iter().map(ComplexTensor::of).collect(),
        }
    }

    /// A part of the tensor: one index for each axis, from the first, as [`DynTensor::slice`] takes
    /// them.
    #[doc(alias("index", "getitem"))]
    #[must_use]
    #[track_caller]
    pub fn slice(&self, indices: impl Into<IndexList>) -> ComplexTensor {
        let mut list = indices.into().0;
        let is_axis = |index: &&Index| !matches!(index, Index::NewAxis | Index::Ellipsis);
        let named = list.iter().filter(is_axis).count();
        if named > self.rank() {
            let (told, rank) = (self.told(), self.rank());
            let message = format!("slice: {named} indices for {told}, which has {rank} axes");
            return self.refused(OpError::new(message));
        }
        if list.iter().any(|index| matches!(index, Index::Ellipsis)) {
            list.push(Index::from(..));
        }
        ComplexTensor::of(self.pairs.slice(list))
    }

    /// The slices of `axis` that `index` (of any rank) names; its shape stands in place of `axis`.
    #[must_use]
    #[track_caller]
    pub fn index_select(&self, axis: i64, index: &DynTensor) -> ComplexTensor {
        match self.axis("index_select", axis) {
            Ok(axis) => ComplexTensor::of(self.pairs.index_select(axis, index)),
            Err(error) => self.refused(error),
        }
    }

    /// The numbers of the axes in reverse order; `..` turns all of them, an empty list none.
    #[must_use]
    #[track_caller]
    pub fn flip(&self, axes: impl Into<Axes>) -> ComplexTensor {
        let axes = axes.into();
        let list = match axes.list.as_deref() {
            Some([]) => Ok(Vec::new()),
            _ => self.listed("flip", &axes),
        };
        match list {
            Ok(list) => ComplexTensor::of(self.pairs.flip(list.as_slice())),
            Err(error) => self.refused(error),
        }
    }
}

/// The sizes, followed by one for the pair.
fn with_pair(mut sizes: Sizes, pair: i64) -> Sizes {
    sizes.0.push(Size::Plain(pair));
    sizes
}

/// The pairs of several tensors.
fn pairs_of(tensors: impl IntoIterator<Item: Borrow<ComplexTensor>>) -> Vec<DynTensor> {
    tensors.into_iter().map(|tensor| tensor.borrow().pairs.clone()).collect()
}
