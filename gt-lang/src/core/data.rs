//! Data in and out: vectors become tensors without a copy, reads bring values back and raise what went wrong.

use gt_ir::{Element, HostTensor};

use super::{DynTensor, Sizes};
use crate::error::Result;

impl DynTensor {
    /// A tensor of these elements in row-major order; the vector is not copied.
    #[must_use]
    #[track_caller]
    pub fn from_vec<T: Element>(data: Vec<T>, sizes: impl Into<Sizes>) -> DynTensor {
        todo!()
    }

    /// A tensor of these elements, copied.
    #[must_use]
    #[track_caller]
    pub fn from_slice<T: Element>(data: &[T], sizes: impl Into<Sizes>) -> DynTensor {
        todo!()
    }

    /// A tensor of host data, not copied.
    #[must_use]
    #[track_caller]
    pub fn from_host(data: HostTensor) -> DynTensor {
        todo!()
    }

    /// One number as a tensor without axes.
    #[must_use]
    #[track_caller]
    pub fn scalar<T: Element>(value: T) -> DynTensor {
        DynTensor::from_vec(vec![value], ())
    }

    /// The value, when everything it depends on has run.
    ///
    /// # Errors
    /// The first error of anything this tensor derives from.
    #[track_caller]
    pub fn to_host(&self) -> Result<HostTensor> {
        todo!()
    }

    /// The elements in row-major order.
    ///
    /// # Errors
    /// As [`DynTensor::to_host`]; also when `T` is not the tensor's dtype.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        todo!()
    }

    /// The only element, as `f64`.
    ///
    /// # Errors
    /// As [`DynTensor::to_host`]; also when there is not exactly one element.
    #[track_caller]
    pub fn item(&self) -> Result<f64> {
        todo!()
    }
}
