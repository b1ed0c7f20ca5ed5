//! Probability distributions, PyTorch's `torch.distributions`: samples, logarithms of
//! probabilities, entropies and divergences.
//!
//! Guarantees: parameters are tensors that broadcast, through which gradients flow; each element is
//! a distribution of its own. Samples come from the session's generator, so a seed repeats them.
//! [`Distribution::sample`] has no history; [`Reparameterized::rsample`] has one, by which
//! gradients reach the parameters.
//!
//! ```no_run
//! # extern crate gt_lang as gt;
//! use gt::distributions::{Categorical, Distribution};
//! # use gt::prelude::*;
//! # let logits = DynTensor::randn([8, 4], DType::F32);
//! # let rewards = DynTensor::ones([8], DType::F32);
//! let policy = Categorical::from_logits(&logits);
//! let action = policy.sample([]);
//! let loss = -(policy.log_prob(&action) * rewards).mean(..) - policy.entropy().mean(..) * 0.01;
//! ```

mod binomial;
mod continuous;
mod counts;
mod derived;
mod discrete;
mod joint;
mod positive;
mod proposals;
mod standard_gamma;

use gt_ir::DType;

use crate::core::DynTensor;

pub use binomial::{Binomial, Trials};
pub use continuous::{Laplace, Normal, Uniform};
pub use counts::{Multinomial, Poisson};
pub use derived::{Independent, LogNormal, OneHotCategorical, StudentT};
pub use discrete::{Bernoulli, Categorical};
pub use joint::{Dirichlet, MultivariateNormal};
pub use positive::{Beta, Exponential, Gamma};

/// A distribution, or one for each element of its parameters.
pub trait Distribution {
    /// Samples without a history, of these sizes in front of the parameters': `[]` is one for each
    /// distribution.
    #[must_use]
    #[track_caller]
    fn sample(&self, sizes: impl AsRef<[usize]>) -> DynTensor;

    /// The logarithm of the probability, or of its density, of each value.
    #[must_use]
    #[track_caller]
    fn log_prob(&self, value: &DynTensor) -> DynTensor;

    /// The entropy of each distribution, in nats.
    #[must_use]
    #[track_caller]
    fn entropy(&self) -> DynTensor;

    /// The mean of each distribution.
    #[must_use]
    #[track_caller]
    fn mean(&self) -> DynTensor;

    /// The variance of each distribution.
    #[must_use]
    #[track_caller]
    fn variance(&self) -> DynTensor;
}

/// A distribution whose samples are a smooth function of its parameters.
pub trait Reparameterized: Distribution {
    /// Samples through which gradients flow to the parameters.
    #[must_use]
    #[track_caller]
    fn rsample(&self, sizes: impl AsRef<[usize]>) -> DynTensor;
}

/// A distribution with a known divergence to another of its kind.
pub trait Divergence: Distribution {
    /// The Kullback-Leibler divergence of `other` from this one, in nats: PyTorch's
    /// `kl_divergence(self, other)`.
    #[must_use]
    #[track_caller]
    fn kl_divergence(&self, other: &Self) -> DynTensor;
}

/// The first of some parameters, as floats, spread over samples of these sizes in front of the
/// parameters' common shape.
#[track_caller]
fn spread(sizes: &[usize], first: &DynTensor, rest: &[&DynTensor]) -> DynTensor {
    let mut shape = first.shape();
    for parameter in rest {
        match shape.broadcast(&parameter.shape()) {
            Some(both) => shape = both,
            // Its error says why they do not.
            None => return first + *parameter,
        }
    }
    first.real().expand([sizes, shape.sizes()].concat())
}

/// Numbers of a float that bound samples and probabilities.
struct FloatLimits {
    /// The step behind 1.
    eps: f64,
    /// The smallest number with all its digits.
    tiny: f64,
}

/// The limits of a float, and of `f32` for anything else.
fn float_limits(dtype: DType) -> FloatLimits {
    match dtype {
        DType::F64 => FloatLimits { eps: f64::EPSILON, tiny: f64::MIN_POSITIVE },
        DType::F16 => FloatLimits { eps: 2.0_f64.powi(-10), tiny: 2.0_f64.powi(-14) },
        DType::Bf16 => FloatLimits { eps: 2.0_f64.powi(-7), tiny: f64::from(f32::MIN_POSITIVE) },
        DType::F32 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
            FloatLimits { eps: f64::from(f32::EPSILON), tiny: f64::from(f32::MIN_POSITIVE) }
        }
    }
}
