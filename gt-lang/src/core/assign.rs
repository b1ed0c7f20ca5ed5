//! Assignment to parts as a function: `x.slice_assign((0, 2..4), &v)` is a new tensor, and x is as
//! it was.

use gt_ir::Op;
use gt_ir::attr::Slice;

use super::index::{IndexList, Plan};
use super::{Arg, DynTensor};

impl DynTensor {
    /// This tensor with the part that `indices` name (as in [`DynTensor::slice`]: positions,
    /// ranges, steps) replaced by `value`, a number or a tensor that broadcasts to the part and is
    /// cast to this tensor's dtype. Gradients flow into both.
    ///
    /// ```no_run
    /// # extern crate gt_lang as gt;
    /// # use gt::prelude::*;
    /// let x = DynTensor::zeros([3, 4], DType::F32);
    /// let y = x.slice_assign((1, 1..3), 5.0); // y[1, 1:3] = 5, and x is as it was
    /// let z = y.slice_assign((.., 0), &DynTensor::from([1.0f32, 2.0, 3.0]));
    /// ```
    #[doc(alias("setitem", "index_put"))]
    #[must_use]
    #[track_caller]
    pub fn slice_assign<'a>(
        &self,
        indices: impl Into<IndexList>,
        value: impl Into<Arg<'a>>,
    ) -> DynTensor {
        let plan = match Plan::new("slice_assign", &indices.into().0, &self.ty()) {
            Ok(plan) if plan.picks.is_empty() => plan,
            Ok(_) => {
                let e = gt_ir::OpError::new("slice_assign: an index tensor names the part");
                return self.record_with(|_| Err(e.hint("use `index_copy` along its axis")));
            }
            Err(error) => return self.record_with(|_| Err(error)),
        };
        // Each cut's operand is kept: the new part is put back into one after the other.
        let mut parts = vec![self.clone()];
        for cut in &plan.cuts {
            let cut = *cut;
            parts.extend(parts.last().map(|part| part.record_with(|_| Ok(cut))));
        }
        let Some(part) = parts.pop() else { return self.clone() };
        let mut new = part.filled(value.into(), &plan.shape);
        for (cut, part) in plan.cuts.iter().zip(&parts).rev() {
            new = put(part, *cut, &new);
        }
        new
    }

    /// A value in the type of this part, whose shape without the axes that single positions were
    /// picked from is `shape`.
    #[track_caller]
    fn filled(&self, value: Arg<'_>, shape: &gt_ir::Shape) -> DynTensor {
        match value {
            Arg::Scalar(number) => self.full_like(number),
            Arg::Tensor(tensor) => {
                let mut tensor = tensor.to_dtype(self.dtype());
                if !tensor.shape().same_sizes(shape) {
                    tensor = tensor.expand(shape.sizes());
                }
                if tensor.shape().same_sizes(&self.shape()) {
                    return tensor;
                }
                tensor.reshape(self.shape())
            }
        }
    }
}

/// The value in place of the part that a cut takes.
#[track_caller]
fn put(part: &DynTensor, cut: Op, value: &DynTensor) -> DynTensor {
    let slice = match cut {
        Op::Slice(slice) => slice,
        // Plans hold no other op.
        _ => Slice { axis: 0, start: 0, stop: 0, step: 1 },
    };
    DynTensor::record(Op::SliceAssign(slice), &[Arg::Tensor(part), Arg::Tensor(value)])
}

impl DynTensor {
    /// This tensor with `value` where `mask` (a `bool` tensor that broadcasts) is true; unlike
    /// [`DynTensor::masked_fill`] the value may be a tensor that broadcasts. PyTorch's `x[mask] =
    /// value`, for values that do not depend on how many elements the mask names.
    #[doc(alias("masked_scatter", "masked_fill_"))]
    #[must_use]
    #[track_caller]
    pub fn masked_assign<'a>(&'a self, mask: &DynTensor, value: impl Into<Arg<'a>>) -> DynTensor {
        match value.into() {
            Arg::Scalar(number) => self.masked_fill(mask, number),
            Arg::Tensor(tensor) => mask.where_(&tensor.to_dtype(self.dtype()), self),
        }
    }
}
