//! Reductions over any axes, matrix products, and the functions that normalise along an axis.

use gt_ir::Op;
use gt_ir::attr::{Axis, Keep, ReduceOne, Trailing};

use super::arg::resolve_axis;
use super::{Arg, Axes, DynTensor};

macro_rules! reduce {
    ($($(#[$doc:meta])+ $name:ident => $op:ident;)+) => {
        impl DynTensor {$(
            $(#[$doc])+
            ///
            /// `..` reduces all axes, a number one, an array several; negative axes count from the end;
            /// [`keepdim`](super::keepdim) keeps the reduced axes with size one.
            #[must_use]
            #[track_caller]
            pub fn $name(&self, axes: impl Into<Axes>) -> DynTensor {
                let axes = axes.into();
                self.record_with(|ty| Ok(Op::$op(axes.resolve(stringify!($name), ty)?)))
            }
        )+}
    };
}

reduce! {
    /// The sum; integers and `bool` sum to `i64`.
    sum => Sum;
    /// The mean of floats.
    mean => Mean;
    /// The largest element; in the gradient, ties share equally.
    max => Max;
    /// The smallest element; in the gradient, ties share equally.
    min => Min;
}

impl DynTensor {
    /// The index of the largest element along `axis`, the first of equals, as `i64`.
    #[must_use]
    #[track_caller]
    pub fn argmax(&self, axis: i64) -> DynTensor {
        self.record_with(|ty| {
            let axis = resolve_axis("argmax", axis, ty)? as u8;
            Ok(Op::Argmax(ReduceOne { axis, keep: Keep::No }))
        })
    }

    /// The variance over `axes`, divided by `n - 1` as PyTorch's `var` is by default; of a single element it is NaN.
    #[must_use]
    #[track_caller]
    pub fn var(&self, axes: impl Into<Axes>) -> DynTensor {
        let axes = axes.into();
        let squares = self.sub(&self.mean(super::keepdim(axes.clone()))).square();
        let ty = self.ty();
        // Axes that are not there are reported by the mean.
        let n = axes.resolve("var", &ty).map_or(1, |reduced| {
            reduced.axes.iter().map(|axis| ty.shape.sizes()[axis]).product::<usize>()
        });
        squares.sum(axes).div(n as f64 - 1.0)
    }

    /// The square root of [`DynTensor::var`].
    #[must_use]
    #[track_caller]
    pub fn std(&self, axes: impl Into<Axes>) -> DynTensor {
        self.var(axes).sqrt()
    }

    /// The matrix product: vectors, matrices, and batches of matrices that broadcast, as in PyTorch.
    #[must_use]
    #[track_caller]
    pub fn matmul(&self, other: &DynTensor) -> DynTensor {
        DynTensor::record(Op::MatMul, &[Arg::Tensor(self), Arg::Tensor(other)])
    }

    /// `exp(x) / sum(exp(x))` along `axis`.
    #[must_use]
    #[track_caller]
    pub fn softmax(&self, axis: i64) -> DynTensor {
        self.record_with(|ty| Ok(Op::Softmax(Axis(resolve_axis("softmax", axis, ty)? as u8))))
    }

    /// The logarithm of [`DynTensor::softmax`], without its loss of precision.
    #[must_use]
    #[track_caller]
    pub fn log_softmax(&self, axis: i64) -> DynTensor {
        self.record_with(|ty| {
            Ok(Op::LogSoftmax(Axis(resolve_axis("log_softmax", axis, ty)? as u8)))
        })
    }

    /// Subtracts the mean and divides by the standard deviation over the axes of `weight` (the last ones of this
    /// tensor), then `* weight + bias`. PyTorch's default for `eps` is `1e-5`.
    #[must_use]
    #[track_caller]
    pub fn layer_norm(&self, weight: &DynTensor, bias: &DynTensor, eps: f64) -> DynTensor {
        let dims = weight.rank() as u8; // at most MAX_RANK
        let args = [Arg::Tensor(self), Arg::Tensor(weight), Arg::Tensor(bias), Arg::from(eps)];
        DynTensor::record(Op::LayerNorm(Trailing(dims)), &args)
    }
}
