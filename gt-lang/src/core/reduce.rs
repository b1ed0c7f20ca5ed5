//! Reductions over any axes, matrix products, and the functions that normalise along an axis.

use gt_ir::Op;
use gt_ir::attr::{Groups, Keep, ReduceOne, Trailing};

use super::arg::resolve_axis;
use super::{Arg, Axes, DynTensor};

macro_rules! reduce {
    ($($(#[$doc:meta])+ $name:ident => $op:ident;)+) => {
        impl DynTensor {$(
            $(#[$doc])+
            ///
            /// `..` reduces all axes, a number one, an array several; negative axes count from the
            /// end; [`keepdim`](super::keepdim) keeps the reduced axes with size one.
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
    /// The product; integers and `bool` multiply to `i64`.
    prod => Prod;
    /// Whether any element is not zero, as `bool`.
    any => Any;
    /// Whether all elements are not zero, as `bool`.
    all => All;
    /// The logarithm of the sum of `exp(x)` of floats, without overflow.
    logsumexp => LogSumExp;
    /// The Euclidean norm of floats; its gradient at 0 is 0. For other norms see
    /// [`DynTensor::norm_p`].
    norm => Norm;
}

impl DynTensor {
    /// The index of the largest element along `axis`, the first of equals, as `i64`.
    #[must_use]
    #[track_caller]
    pub fn argmax(&self, axis: i64) -> DynTensor {
        if let Some(line) = self.line(axis) {
            return line.argmax(0);
        }
        self.record_with(|ty| {
            let axis = resolve_axis("argmax", axis, ty)? as u8;
            Ok(Op::Argmax(ReduceOne { axis, keep: Keep::No }))
        })
    }

    /// The index of the smallest element along `axis`, the first of equals, as `i64`.
    #[must_use]
    #[track_caller]
    pub fn argmin(&self, axis: i64) -> DynTensor {
        if let Some(line) = self.line(axis) {
            return line.argmin(0);
        }
        self.record_with(|ty| {
            let axis = resolve_axis("argmin", axis, ty)? as u8;
            Ok(Op::Argmin(ReduceOne { axis, keep: Keep::No }))
        })
    }

    /// The variance over `axes`, divided by `n - 1` as PyTorch's `var` is by default; of a single
    /// element it is NaN.
    #[must_use]
    #[track_caller]
    pub fn var(&self, axes: impl Into<Axes>) -> DynTensor {
        self.var_with(axes, 1.0)
    }

    /// The variance over `axes`, divided by `n - correction`.
    #[must_use]
    #[track_caller]
    pub fn var_with(&self, axes: impl Into<Axes>, correction: f64) -> DynTensor {
        let axes = axes.into();
        let args = [Arg::Tensor(self), Arg::from(correction)];
        self.record_with_args(&args, |ty| Ok(Op::Var(axes.resolve("var", ty)?)))
    }

    /// The square root of [`DynTensor::var`].
    #[must_use]
    #[track_caller]
    pub fn std(&self, axes: impl Into<Axes>) -> DynTensor {
        self.var(axes).sqrt()
    }

    /// The square root of [`DynTensor::var_with`].
    #[must_use]
    #[track_caller]
    pub fn std_with(&self, axes: impl Into<Axes>, correction: f64) -> DynTensor {
        self.var_with(axes, correction).sqrt()
    }

    /// The norm of order `p` over `axes`: `sum(|x|^p)^(1/p)`, the largest `|x|` for infinity, the
    /// smallest for its negative, and the number of elements that are not zero for 0.
    #[must_use]
    #[track_caller]
    pub fn norm_p(&self, p: f64, axes: impl Into<Axes>) -> DynTensor {
        let one_step = [2.0, 1.0, 0.0].contains(&p) || p.is_infinite();
        let wide = if one_step { self.clone() } else { self.widened() };
        match p {
            2.0 => self.norm(axes),
            1.0 => self.abs().sum(axes),
            0.0 => self.ne(0).to_dtype(self.dtype()).sum(axes),
            f64::INFINITY => self.abs().max(axes),
            f64::NEG_INFINITY => self.abs().min(axes),
            _ => wide.abs().pow(p).sum(axes).pow(1.0 / p).narrowed([self.dtype(); 2]),
        }
    }

    /// The matrix product: vectors, matrices, and batches of matrices that broadcast, as in
    /// PyTorch.
    #[doc(alias("mm", "bmm", "dot", "mv"))]
    #[must_use]
    #[track_caller]
    pub fn matmul(&self, other: &DynTensor) -> DynTensor {
        DynTensor::record(Op::MatMul, &[Arg::Tensor(self), Arg::Tensor(other)])
    }

    /// `exp(x) / sum(exp(x))` along `axis`.
    #[must_use]
    #[track_caller]
    pub fn softmax(&self, axis: i64) -> DynTensor {
        self.along(axis, Op::Softmax, &[])
    }

    /// The logarithm of [`DynTensor::softmax`], without its loss of precision.
    #[must_use]
    #[track_caller]
    pub fn log_softmax(&self, axis: i64) -> DynTensor {
        self.along(axis, Op::LogSoftmax, &[])
    }

    /// Subtracts the mean and divides by the standard deviation over the axes of `weight` (the last
    /// ones of this tensor), then `* weight + bias`. PyTorch's default for `eps` is `1e-5`.
    #[must_use]
    #[track_caller]
    pub fn layer_norm(&self, weight: &DynTensor, bias: &DynTensor, eps: f64) -> DynTensor {
        let dims = weight.rank() as u8; // at most MAX_RANK
        let args = [Arg::Tensor(self), Arg::Tensor(weight), Arg::Tensor(bias), Arg::from(eps)];
        DynTensor::record(Op::LayerNorm(Trailing(dims)), &args)
    }

    /// Divides by the root mean square over the axes of `weight` (the last ones of this tensor),
    /// then `* weight`.
    #[must_use]
    #[track_caller]
    pub fn rms_norm(&self, weight: &DynTensor, eps: f64) -> DynTensor {
        let dims = weight.rank() as u8; // at most MAX_RANK
        let args = [Arg::Tensor(self), Arg::Tensor(weight), Arg::from(eps)];
        DynTensor::record(Op::RmsNorm(Trailing(dims)), &args)
    }

    /// Cuts the channels (axis 1) into equal groups, subtracts each group's mean and divides by its
    /// standard deviation, then `* weight + bias` (one number a channel). PyTorch's default for
    /// `eps` is `1e-5`.
    #[must_use]
    #[track_caller]
    pub fn group_norm(
        &self,
        groups: usize,
        weight: &DynTensor,
        bias: &DynTensor,
        eps: f64,
    ) -> DynTensor {
        let args = [Arg::Tensor(self), Arg::Tensor(weight), Arg::Tensor(bias), Arg::from(eps)];
        DynTensor::record(Op::GroupNorm(Groups(groups as u64)), &args)
    }
}
