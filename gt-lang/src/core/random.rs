//! Random numbers in the shape of a tensor, from distributions, and as choices; dropout. Seeds come
//! from the session, so that [`manual_seed`](crate::manual_seed) repeats them all.

use std::panic::Location;

use gt_ir::{Op, OpError, Scalar, Type};

use super::record::record_in;
use super::{Arg, DynTensor, Sizes};
use crate::error::Error;

impl DynTensor {
    /// Uniform numbers in `[0, 1)` of this float tensor's type, in its session.
    #[must_use]
    #[track_caller]
    pub fn rand_like(&self) -> DynTensor {
        self.random(Op::Rand, Location::caller())
    }

    /// Standard normal numbers of this float tensor's type, in its session.
    #[must_use]
    #[track_caller]
    pub fn randn_like(&self) -> DynTensor {
        self.random(Op::Randn, Location::caller())
    }

    fn random(&self, op: fn(Type) -> Op, at: &'static Location<'static>) -> DynTensor {
        let value = self.value();
        match value.place() {
            Err(error) => DynTensor::failed(error.clone(), value.ty),
            Ok((session, _)) => {
                let seed = Scalar::I64(session.next_seed());
                record_in(session, &op(value.ty), &[seed], value.ty, at)
            }
        }
    }

    /// 1 with the probability each element says, 0 otherwise, in this tensor's dtype.
    #[must_use]
    #[track_caller]
    pub fn bernoulli(&self) -> DynTensor {
        self.rand_like().lt(self).to_dtype(self.dtype())
    }

    /// Uniform numbers in `[low, high)`.
    #[must_use]
    #[track_caller]
    pub fn uniform(low: f64, high: f64, sizes: impl Into<Sizes>, dtype: gt_ir::DType) -> DynTensor {
        DynTensor::rand(sizes, dtype).mul(high - low).add(low)
    }

    /// Normal numbers with this mean and standard deviation.
    #[must_use]
    #[track_caller]
    pub fn normal(mean: f64, std: f64, sizes: impl Into<Sizes>, dtype: gt_ir::DType) -> DynTensor {
        DynTensor::randn(sizes, dtype).mul(std).add(mean)
    }

    /// Each element zeroed with probability `p`, the others divided by `1 - p`: what dropout does
    /// in training. The gradient is dropped where the element was.
    #[must_use]
    #[track_caller]
    pub fn dropout(&self, p: f64) -> DynTensor {
        let at = Location::caller();
        if !(0.0..=1.0).contains(&p) {
            let error = OpError::new(format!("dropout: {p} is not a probability"));
            let error = error.hint("probabilities lie between 0 and 1");
            return DynTensor::failed(Error::from_op(error, at), self.ty());
        }
        let seed = match self.value().place() {
            Err(error) => return DynTensor::failed(error.clone(), self.ty()),
            Ok((session, _)) => Scalar::I64(session.next_seed()),
        };
        DynTensor::record(Op::Dropout, &[Arg::Tensor(self), Arg::from(p), Arg::Scalar(seed)])
    }

    /// `n` classes drawn from the weights along the last axis, which need not add up to 1, each
    /// draw on its own: PyTorch's `multinomial` with replacement. The draws take the place of the
    /// last axis, as `i64`.
    ///
    /// By Gumbel's maximum: the largest of `log(weight)` plus Gumbel noise is distributed as the
    /// weights (Gumbel 1954).
    #[must_use]
    #[track_caller]
    pub fn multinomial(&self, n: usize) -> DynTensor {
        let mut sizes = self.shape().sizes().to_vec();
        if sizes.is_empty() {
            let error = format!("multinomial: {} has no axis of weights", self.ty());
            return self.record_with(|_| Err(OpError::new(error)));
        }
        sizes.insert(0, n);
        let many = self.unsqueeze(0).expand(&sizes);
        let noise = many.rand_like().log().neg().log().neg();
        many.log().add(&noise).argmax(-1).movedim(0, -1)
    }
}
