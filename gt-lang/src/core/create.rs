//! New tensors: constants, ranges, random numbers. All are recorded in the current session and made by the worker.

use gt_ir::{DType, Op, Scalar};

use super::{Arg, DynTensor, Sizes};

impl DynTensor {
    /// All zeros.
    #[must_use]
    #[track_caller]
    pub fn zeros(sizes: impl Into<Sizes>, dtype: DType) -> DynTensor {
        todo!()
    }

    /// All ones.
    #[must_use]
    #[track_caller]
    pub fn ones(sizes: impl Into<Sizes>, dtype: DType) -> DynTensor {
        todo!()
    }

    /// All `value`.
    #[must_use]
    #[track_caller]
    pub fn full(sizes: impl Into<Sizes>, value: impl Into<Scalar>, dtype: DType) -> DynTensor {
        todo!()
    }

    /// Zeros of this tensor's shape and dtype, in its session.
    #[must_use]
    #[track_caller]
    pub fn zeros_like(&self) -> DynTensor {
        todo!()
    }

    /// Ones of this tensor's shape and dtype, in its session.
    #[must_use]
    #[track_caller]
    pub fn ones_like(&self) -> DynTensor {
        todo!()
    }

    /// `start`, `start + step`, ... as long as they lie before `stop`.
    #[must_use]
    #[track_caller]
    pub fn arange(start: impl Into<Scalar>, stop: impl Into<Scalar>, step: impl Into<Scalar>, dtype: DType) -> DynTensor {
        todo!()
    }

    /// Uniform in `[0, 1)`.
    #[must_use]
    #[track_caller]
    pub fn rand(sizes: impl Into<Sizes>, dtype: DType) -> DynTensor {
        todo!()
    }

    /// Normal with mean 0 and standard deviation 1.
    #[must_use]
    #[track_caller]
    pub fn randn(sizes: impl Into<Sizes>, dtype: DType) -> DynTensor {
        todo!()
    }

    /// Uniform integers in `[low, high)`.
    #[must_use]
    #[track_caller]
    pub fn randint(low: i64, high: i64, sizes: impl Into<Sizes>, dtype: DType) -> DynTensor {
        todo!()
    }
}
