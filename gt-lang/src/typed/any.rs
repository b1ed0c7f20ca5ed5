//! `AnyTensor`: what takes a tensor of either kind and gives back the same kind.

use super::kind::Kind;
use super::shape::Shape;
use super::tensor::Tensor;
use crate::core::DynTensor;

/// A tensor with or without a shape in its type: [`Tensor`] or [`DynTensor`].
pub trait AnyTensor: sealed::Sealed {}

impl AnyTensor for DynTensor {}
impl<S: Shape, K: Kind> AnyTensor for Tensor<S, K> {}

pub(crate) mod sealed {
    use super::{DynTensor, Kind, Shape, Tensor};

    /// What holds a dynamic tensor: a tensor of either kind, or a reference to one.
    pub trait Inner {
        fn inner(&self) -> &DynTensor;
    }

    pub trait Sealed: Inner {
        /// A tensor of this kind, whose shape and dtype are known to be those of the type.
        fn like(inner: DynTensor) -> Self;
        /// A tensor of this kind; whether its shape and dtype are those of the type is checked when
        /// recorded.
        fn conforming(op: &str, inner: DynTensor) -> Self;
    }

    impl<T: Inner> Inner for &T {
        fn inner(&self) -> &DynTensor {
            (**self).inner()
        }
    }

    impl Inner for DynTensor {
        fn inner(&self) -> &DynTensor {
            self
        }
    }

    impl Sealed for DynTensor {
        fn like(inner: DynTensor) -> DynTensor {
            inner
        }
        fn conforming(_: &str, inner: DynTensor) -> DynTensor {
            inner
        }
    }

    impl<S: Shape, K: Kind> Inner for Tensor<S, K> {
        fn inner(&self) -> &DynTensor {
            self.as_dyn()
        }
    }

    impl<S: Shape, K: Kind> Sealed for Tensor<S, K> {
        fn like(inner: DynTensor) -> Tensor<S, K> {
            Tensor::wrap(inner)
        }
        #[track_caller]
        fn conforming(op: &str, inner: DynTensor) -> Tensor<S, K> {
            Tensor::conform(op, inner)
        }
    }
}
