//! `AnyTensor`: what takes a tensor of either kind and gives back the same kind.

use super::kind::Kind;
use super::shape::Shape;
use super::tensor::Tensor;
use crate::core::DynTensor;

/// A tensor with or without a shape in its type: [`Tensor`] or [`DynTensor`].
pub trait AnyTensor: sealed::Sealed {}

impl AnyTensor for DynTensor {}
impl<S: Shape, K: Kind> AnyTensor for Tensor<S, K> {}

mod sealed {
    use super::{DynTensor, Kind, Shape, Tensor};

    pub trait Sealed {
        fn inner(&self) -> &DynTensor;
        /// A tensor of this kind, of the same shape and dtype as one there is.
        fn like(inner: DynTensor) -> Self;
    }

    impl Sealed for DynTensor {
        fn inner(&self) -> &DynTensor {
            self
        }
        fn like(inner: DynTensor) -> DynTensor {
            inner
        }
    }

    impl<S: Shape, K: Kind> Sealed for Tensor<S, K> {
        fn inner(&self) -> &DynTensor {
            self.as_dyn()
        }
        fn like(inner: DynTensor) -> Tensor<S, K> {
            Tensor::wrap(inner)
        }
    }
}
