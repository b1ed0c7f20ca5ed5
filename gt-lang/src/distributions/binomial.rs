//! The distribution of counts of successes: `Binomial`. Samples are floats, as in PyTorch.

use gt_ir::OpError;

use super::proposals::{LARGE, Proposals, WAITS, ended, uniform};
use super::{Bernoulli, Distribution, Divergence, spread};
use crate::core::DynTensor;

/// How many trials there are.
#[derive(Clone, Debug)]
pub enum Trials {
    /// As many for all distributions.
    Number(usize),
    /// A number for each distribution, of any dtype; it broadcasts with the parameters and has no
    /// gradient.
    Each(DynTensor),
}

impl From<usize> for Trials {
    fn from(n: usize) -> Trials {
        Trials::Number(n)
    }
}

impl From<&DynTensor> for Trials {
    fn from(each: &DynTensor) -> Trials {
        Trials::Each(each.clone())
    }
}

/// How many of several trials succeed.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// use gt::distributions::{Binomial, Distribution};
/// # use gt::prelude::*;
/// let probs = DynTensor::from([0.2f32, 0.7]);
/// let same = Binomial::from_probs(10, &probs);
/// let each = Binomial::from_probs(&DynTensor::from([5i64, 20]), &probs);
/// assert_eq!(each.mean().to_vec::<f32>()?, [1.0, 14.0]);
/// # let _ = same;
/// # Ok::<(), gt::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Binomial {
    /// How many trials there are.
    pub total_count: Trials,
    /// The distribution of each.
    trial: Bernoulli,
}

impl Binomial {
    /// A distribution for each probability of success, of so many trials.
    #[must_use]
    #[track_caller]
    pub fn from_probs(total_count: impl Into<Trials>, probs: &DynTensor) -> Binomial {
        Binomial { total_count: total_count.into(), trial: Bernoulli::from_probs(probs) }
    }

    /// A distribution for each logarithm of the odds of success, of so many trials.
    #[must_use]
    pub fn from_logits(total_count: impl Into<Trials>, logits: &DynTensor) -> Binomial {
        Binomial { total_count: total_count.into(), trial: Bernoulli::from_logits(logits) }
    }

    /// The probability of success.
    #[must_use]
    #[track_caller]
    pub fn probs(&self) -> DynTensor {
        self.trial.probs()
    }

    /// The numbers of trials, in the dtype of the parameters.
    #[track_caller]
    fn trials(&self) -> DynTensor {
        let like = self.trial.logits.detach().real();
        match &self.total_count {
            Trials::Number(n) => like.full_like(*n as f64),
            Trials::Each(each) => each.detach().to_dtype(like.dtype()),
        }
    }

    /// All counts that there may be, along a first axis in front of the parameters' axes.
    #[track_caller]
    pub(super) fn support(&self) -> DynTensor {
        let logits = self.trial.logits.detach();
        let Trials::Number(n) = self.total_count else {
            return logits.record_with(|_| {
                let error = OpError::new("binomial: the entropies of different numbers of trials");
                Err(error.hint("give one number of trials, as `Binomial::from_probs(10, ..)`"))
            });
        };
        let many = [&[n + 1], &logits.sizes()[..]].concat();
        logits.unsqueeze(0).expand(&many).ones_like().cumsum(0) - 1.0
    }
}

/// Samples of this many trials with probabilities up to a half, whose means are [`LARGE`] or
/// larger.
#[track_caller]
fn many_successes(n: &DynTensor, p: &DynTensor) -> DynTensor {
    let deviation = (n * p * (1.0 - p)).sqrt();
    let b = &deviation * 2.53 + 1.15;
    let a = &b * 0.0248 + p * 0.01 - 0.0873;
    let alpha = (b.reciprocal() * 5.1 + 2.83) * deviation;
    let proposed = Proposals::new(&a, &b, &(n * p + 0.5), &alpha);
    // Relative to the most likely count.
    let most = ((n + 1.0) * p).floor();
    let odds = (p / (1.0 - p)).log();
    let counts = &proposed.counts;
    let ways = (&most + 1.0).lgamma() + (n - &most + 1.0).lgamma()
        - (counts + 1.0).lgamma()
        - (n - counts + 1.0).lgamma();
    let log_prob = ways + (counts - &most) * odds;
    let possible = counts.le(n).where_(&log_prob, f64::NEG_INFINITY);
    proposed.first(&possible)
}

impl Distribution for Binomial {
    fn sample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        let n = &self.trials();
        let probs = spread(sizes.as_ref(), &self.probs().detach(), &[n]);
        let (n, wide) = (&n.widened(), probs.widened());
        let p = wide.minimum(&(1.0 - &wide));
        // Trials up to and with each success.
        let trials = (uniform(WAITS, &p).log() / p.neg().log1p()).ceil().clamp_min(1.0);
        let few = ended(&trials, &(p.zeros_like() + n + 0.5));
        let few = p.gt(0.0).where_(&few, 0.0);
        let likely = p.maximum(&(LARGE / n.clamp_min(1.0)).clamp_max(0.5));
        let counts = (n * &p).lt(LARGE).where_(&few, &many_successes(n, &likely));
        wide.le(0.5).where_(&counts, &(n - &counts)).to_dtype(probs.dtype())
    }
    fn log_prob(&self, value: &DynTensor) -> DynTensor {
        let (n, value, logits) = (&self.trials(), value.real(), &self.trial.logits);
        let ways = (&value + 1.0).lgamma() + (n - &value + 1.0).lgamma();
        let all = (value.detach().zeros_like() + n + 1.0).lgamma();
        value * logits - ways + all - logits.softplus() * n
    }
    fn entropy(&self) -> DynTensor {
        let log_prob = self.log_prob(&self.support());
        (log_prob.exp() * log_prob).sum(0).neg()
    }
    fn mean(&self) -> DynTensor {
        self.trial.mean() * self.trials()
    }
    fn variance(&self) -> DynTensor {
        self.trial.variance() * self.trials()
    }
}

impl Divergence for Binomial {
    /// Infinite where the other one has fewer trials. Where it has more, there is no closed form:
    /// an error if both have one number of trials, else NaN.
    fn kl_divergence(&self, other: &Binomial) -> DynTensor {
        let each = self.trial.kl_divergence(&other.trial) * self.trials();
        match (&self.total_count, &other.total_count) {
            (Trials::Number(n), Trials::Number(of)) if n == of => each,
            (Trials::Number(n), Trials::Number(of)) if n < of => each.record_with(|_| {
                let message = format!("binomial: no divergence of {of} trials from {n} is known");
                Err(OpError::new(message).hint("both have as many trials"))
            }),
            _ => {
                let (n, of) = (self.trials(), other.trials());
                let unknown = n.lt(&of).where_(f64::NAN, &each);
                n.gt(&of).where_(f64::INFINITY, &unknown)
            }
        }
    }
}
