//! Operations that move elements without computing: shapes, axes, joining, picking by index.

use gt_ir::Op;

use super::{Arg, DynTensor, Sizes};

impl DynTensor {
    /// The same elements in the same order as another shape; one size may be `-1`.
    #[must_use]
    #[track_caller]
    pub fn reshape(&self, sizes: impl Into<Sizes>) -> DynTensor {
        todo!()
    }

    /// All axes from `start` to `end` (both included) as one.
    #[must_use]
    #[track_caller]
    pub fn flatten(&self, start: i64, end: i64) -> DynTensor {
        todo!()
    }

    /// A new axis of size one before `axis`.
    #[must_use]
    #[track_caller]
    pub fn unsqueeze(&self, axis: i64) -> DynTensor {
        todo!()
    }

    /// Without `axis`, if its size is one; otherwise unchanged.
    #[must_use]
    #[track_caller]
    pub fn squeeze(&self, axis: i64) -> DynTensor {
        todo!()
    }

    /// The axes in another order: axis `i` of the result is axis `axes[i]` of this tensor.
    #[must_use]
    #[track_caller]
    pub fn permute(&self, axes: impl AsRef<[i64]>) -> DynTensor {
        todo!()
    }

    /// Two axes exchanged.
    #[must_use]
    #[track_caller]
    pub fn transpose(&self, a: i64, b: i64) -> DynTensor {
        todo!()
    }

    /// The last two axes exchanged.
    #[must_use]
    #[track_caller]
    pub fn t(&self) -> DynTensor {
        self.transpose(-2, -1)
    }

    /// Repeats axes of size one, and adds axes on the left; `-1` keeps a size.
    #[must_use]
    #[track_caller]
    pub fn expand(&self, sizes: impl Into<Sizes>) -> DynTensor {
        todo!()
    }

    /// The tensors one after another along `axis`.
    #[must_use]
    #[track_caller]
    pub fn cat<'a>(tensors: impl IntoIterator<Item = &'a DynTensor>, axis: i64) -> DynTensor {
        todo!()
    }

    /// The tensors one after another along a new axis.
    #[must_use]
    #[track_caller]
    pub fn stack<'a>(tensors: impl IntoIterator<Item = &'a DynTensor>, axis: i64) -> DynTensor {
        todo!()
    }

    /// Elements `start..start + length` of `axis`.
    #[must_use]
    #[track_caller]
    pub fn narrow(&self, axis: i64, start: i64, length: i64) -> DynTensor {
        todo!()
    }

    /// Pieces of `size` along `axis`, the last one maybe smaller.
    #[must_use]
    #[track_caller]
    pub fn split(&self, size: i64, axis: i64) -> Vec<DynTensor> {
        todo!()
    }

    /// `n` pieces along `axis`, or fewer, as PyTorch's `chunk`.
    #[must_use]
    #[track_caller]
    pub fn chunk(&self, n: i64, axis: i64) -> Vec<DynTensor> {
        todo!()
    }

    /// `out[i][j] = self[index[i][j]][j]` for `axis` 0, and so on: PyTorch's `gather`.
    #[must_use]
    #[track_caller]
    pub fn gather(&self, axis: i64, index: &DynTensor) -> DynTensor {
        todo!()
    }

    /// The slices of `axis` that `index` (of any rank) names, its shape standing in place of `axis`.
    #[must_use]
    #[track_caller]
    pub fn index_select(&self, axis: i64, index: &DynTensor) -> DynTensor {
        todo!()
    }

    /// The rows of this table that `index` names: `index_select` along axis 0.
    #[must_use]
    #[track_caller]
    pub fn embedding(&self, index: &DynTensor) -> DynTensor {
        self.index_select(0, index)
    }

    /// A new last axis of size `classes` with a one where the index says, as `i64`.
    #[must_use]
    #[track_caller]
    pub fn one_hot(&self, classes: usize) -> DynTensor {
        todo!()
    }
}
