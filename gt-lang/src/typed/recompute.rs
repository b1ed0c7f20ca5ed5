//! Recomputation with shapes: a part of a model that `backward` computes again.

use super::kind::Float;
use super::shape::Shape;
use super::tensor::Tensor;
use crate::autograd;
use crate::core::DynTensor;

impl<S: Shape> Tensor<S, Float> {
    /// `f` of this, computed again by `backward` instead of keeping what its gradient needs; see
    /// [`autograd::checkpoint`]. Layers are handles: a clone of one in `f` has the same parameters.
    #[must_use]
    #[track_caller]
    pub fn checkpoint<R: Shape>(
        &self,
        f: impl Fn(&Tensor<S>) -> Tensor<R> + Send + Sync + 'static,
    ) -> Tensor<R> {
        let part = move |x: &[DynTensor]| match x.first() {
            Some(x) => f(&Tensor::wrap(x.clone())).into_dyn(),
            None => DynTensor::zeros((), gt_ir::DType::F32), // There is one: it is given below.
        };
        Tensor::wrap(autograd::checkpoint(part, &[self.as_dyn()]))
    }
}
