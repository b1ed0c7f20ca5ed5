//! Distributions of counts: `Poisson`, `Binomial`, `Multinomial`. Samples are floats, as in
//! PyTorch.
//!
//! Samples come from waits that are added up where few are expected, and else from proposals of
//! which the first that fits is taken (Hoermann 1993): both are a fixed number of steps.

use gt_ir::{DType, OpError};

use super::{Bernoulli, Categorical, Distribution, Divergence, spread};
use crate::core::DynTensor;

/// Means from which on samples come from proposals.
const LARGE: f64 = 10.0;
/// Waits and proposals that are drawn for a sample: that they do not suffice has a probability
/// below `1e-14`.
const WAITS: usize = 52;
const PROPOSALS: usize = 26;

/// `n` uniform numbers above 0, up to 1, for each element.
#[track_caller]
fn uniform(n: usize, like: &DynTensor) -> DynTensor {
    let many = [&[n], &like.sizes()[..]].concat();
    1.0 - like.unsqueeze(0).expand(&many).rand_like()
}

/// How many waits, one behind the other along the first axis, end before `time`.
#[track_caller]
fn ended(waits: &DynTensor, time: &DynTensor) -> DynTensor {
    waits.cumsum(0).lt(time).to_dtype(time.dtype()).sum(0)
}

/// Counts that are proposed, and what decides whether one is taken.
struct Proposals {
    counts: DynTensor,
    /// The logarithm of the density that they are proposed with, times a uniform number.
    height: DynTensor,
    fits: DynTensor,
}

impl Proposals {
    /// By a hat of these widths around `center`; `alpha` is its height.
    #[track_caller]
    fn new(a: &DynTensor, b: &DynTensor, center: &DynTensor, alpha: &DynTensor) -> Proposals {
        let u = uniform(PROPOSALS, center) - 0.5;
        let v = u.rand_like();
        let edge = 0.5 - u.abs();
        let counts = ((a * 2.0 / &edge + b) * u + center).floor();
        let fits = counts.ge(0.0).logical_and(&edge.ge(0.013).logical_or(&v.le(&edge)));
        let height = (v * alpha / (a / edge.square() + b)).log();
        Proposals { counts, height, fits }
    }

    /// The first that is below the logarithms of the probabilities.
    #[track_caller]
    fn first(self, log_prob: &DynTensor) -> DynTensor {
        let taken = self.fits.logical_and(&self.height.le(log_prob));
        let first = taken.to_dtype(DType::U8).argmax(0).unsqueeze(0);
        self.counts.gather(0, &first).squeeze(0)
    }
}

/// How many events there are in a time in which so many are expected.
#[derive(Clone, Debug)]
pub struct Poisson {
    /// How many are expected.
    pub rate: DynTensor,
}

impl Poisson {
    /// A distribution for each rate.
    #[must_use]
    pub fn new(rate: &DynTensor) -> Poisson {
        Poisson { rate: rate.clone() }
    }
}

/// Samples of Poisson distributions of these rates, which are [`LARGE`] or larger.
#[track_caller]
fn many_events(rate: &DynTensor) -> DynTensor {
    let b = rate.sqrt() * 2.53 + 0.931;
    let a = &b * 0.02483 - 0.059;
    let alpha = (&b - 3.4).reciprocal() * 1.1328 + 1.1239;
    let proposed = Proposals::new(&a, &b, &(rate + 0.43), &alpha);
    let counts = &proposed.counts;
    let log_prob = counts * rate.log() - rate - (counts + 1.0).lgamma();
    proposed.first(&log_prob)
}

impl Distribution for Poisson {
    fn sample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        let rate = spread(sizes.as_ref(), &self.rate.detach(), &[]);
        let wide = rate.widened();
        let few = ended(&uniform(WAITS, &wide).log().neg(), &wide);
        let many = many_events(&wide.clamp_min(LARGE));
        wide.lt(LARGE).where_(&few, &many).to_dtype(rate.dtype())
    }
    fn log_prob(&self, value: &DynTensor) -> DynTensor {
        let value = value.real();
        value.xlogy(&self.rate) - &self.rate - (value + 1.0).lgamma()
    }
    /// An error: it has no closed form, in PyTorch neither.
    fn entropy(&self) -> DynTensor {
        self.rate.record_with(|_| {
            let error = OpError::new("poisson: its entropy has no closed form");
            Err(error.hint("take the mean of `-log_prob` over samples"))
        })
    }
    fn mean(&self) -> DynTensor {
        self.rate.clone()
    }
    fn variance(&self) -> DynTensor {
        self.rate.clone()
    }
}

impl Divergence for Poisson {
    fn kl_divergence(&self, other: &Poisson) -> DynTensor {
        &self.rate * (self.rate.log() - other.rate.log()) - (&self.rate - &other.rate)
    }
}

/// How many of several trials succeed.
#[derive(Clone, Debug)]
pub struct Binomial {
    /// How many trials there are.
    pub total_count: usize,
    /// The distribution of each.
    trial: Bernoulli,
}

impl Binomial {
    /// A distribution for each probability of success, of so many trials.
    #[must_use]
    #[track_caller]
    pub fn from_probs(total_count: usize, probs: &DynTensor) -> Binomial {
        Binomial { total_count, trial: Bernoulli::from_probs(probs) }
    }

    /// A distribution for each logarithm of the odds of success, of so many trials.
    #[must_use]
    pub fn from_logits(total_count: usize, logits: &DynTensor) -> Binomial {
        Binomial { total_count, trial: Bernoulli::from_logits(logits) }
    }

    /// The probability of success.
    #[must_use]
    #[track_caller]
    pub fn probs(&self) -> DynTensor {
        self.trial.probs()
    }

    /// All counts that there may be, along a first axis in front of the parameters' axes.
    #[track_caller]
    fn support(&self) -> DynTensor {
        let logits = self.trial.logits.detach();
        let many = [&[self.total_count + 1], &logits.sizes()[..]].concat();
        logits.unsqueeze(0).expand(&many).ones_like().cumsum(0) - 1.0
    }
}

/// Samples of this many trials with probabilities up to a half, whose means are [`LARGE`] or
/// larger.
#[track_caller]
fn many_successes(n: f64, p: &DynTensor) -> DynTensor {
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
        let probs = spread(sizes.as_ref(), &self.probs().detach(), &[]);
        let (n, wide) = (self.total_count as f64, probs.widened());
        let p = wide.minimum(&(1.0 - &wide));
        // Trials up to and with each success.
        let trials = (uniform(WAITS, &p).log() / p.neg().log1p()).ceil().clamp_min(1.0);
        let few = ended(&trials, &(p.zeros_like() + (n + 0.5)));
        let few = p.gt(0.0).where_(&few, 0.0);
        let likely = p.clamp_min((LARGE / n.max(1.0)).min(0.5));
        let counts = (n * &p).lt(LARGE).where_(&few, &many_successes(n, &likely));
        wide.le(0.5).where_(&counts, &(n - &counts)).to_dtype(probs.dtype())
    }
    fn log_prob(&self, value: &DynTensor) -> DynTensor {
        let (n, value, logits) = (self.total_count as f64, value.real(), &self.trial.logits);
        let ways = (&value + 1.0).lgamma() + (n - &value + 1.0).lgamma();
        let all = (value.detach().zeros_like() + (n + 1.0)).lgamma();
        value * logits - ways + all - logits.softplus() * n
    }
    fn entropy(&self) -> DynTensor {
        let log_prob = self.log_prob(&self.support());
        (log_prob.exp() * log_prob).sum(0).neg()
    }
    fn mean(&self) -> DynTensor {
        self.trial.mean() * self.total_count as f64
    }
    fn variance(&self) -> DynTensor {
        self.trial.variance() * self.total_count as f64
    }
}

impl Divergence for Binomial {
    /// Infinite where the other one has fewer trials; an error where it has more, for which there
    /// is no closed form.
    fn kl_divergence(&self, other: &Binomial) -> DynTensor {
        let each = self.trial.kl_divergence(&other.trial) * self.total_count as f64;
        match self.total_count.cmp(&other.total_count) {
            std::cmp::Ordering::Equal => each,
            std::cmp::Ordering::Greater => each.zeros_like() + f64::INFINITY,
            std::cmp::Ordering::Less => each.record_with(|_| {
                let (n, of) = (self.total_count, other.total_count);
                let message = format!("binomial: no divergence of {of} trials from {n} is known");
                Err(OpError::new(message).hint("both have as many trials"))
            }),
        }
    }
}

/// How often each of several classes, which lie along the last axis, is drawn.
#[derive(Clone, Debug)]
pub struct Multinomial {
    /// How many draws there are.
    pub total_count: usize,
    /// The distribution of each.
    draw: Categorical,
}

impl Multinomial {
    /// A distribution by weights along the last axis, which need not add up to 1, of so many draws.
    #[must_use]
    #[track_caller]
    pub fn from_probs(total_count: usize, probs: &DynTensor) -> Multinomial {
        Multinomial { total_count, draw: Categorical::from_probs(probs) }
    }

    /// A distribution by scores along the last axis, whose exponentials are the weights, of so many
    /// draws.
    #[must_use]
    #[track_caller]
    pub fn from_logits(total_count: usize, logits: &DynTensor) -> Multinomial {
        Multinomial { total_count, draw: Categorical::from_logits(logits) }
    }

    /// The probabilities.
    #[must_use]
    #[track_caller]
    pub fn probs(&self) -> DynTensor {
        self.draw.probs()
    }

    /// The logarithm of the number of orders of the draws.
    #[track_caller]
    fn log_orders(&self) -> DynTensor {
        let like = self.draw.logits.detach();
        (like.sum(-1).zeros_like() + (self.total_count as f64 + 1.0)).lgamma()
    }
}

impl Distribution for Multinomial {
    fn sample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        let (n, logits) = (self.total_count, &self.draw.logits);
        let drawn = self.draw.sample([&[n], sizes.as_ref()].concat());
        drawn.one_hot(logits.size(-1)).sum(0).to_dtype(logits.dtype())
    }
    fn log_prob(&self, value: &DynTensor) -> DynTensor {
        // A class that cannot be and was not drawn adds nothing.
        let value = value.real();
        let term = value.eq(0.0).where_(0.0, &(&value * &self.draw.logits));
        self.log_orders() + (term - (value + 1.0).lgamma()).sum(-1)
    }
    fn entropy(&self) -> DynTensor {
        let each = Binomial::from_probs(self.total_count, &self.probs());
        let counts = each.support();
        let orders = (each.log_prob(&counts).exp() * (counts + 1.0).lgamma()).sum([0, -1]);
        self.draw.entropy() * self.total_count as f64 - self.log_orders() + orders
    }
    fn mean(&self) -> DynTensor {
        self.probs() * self.total_count as f64
    }
    fn variance(&self) -> DynTensor {
        self.probs() * (1.0 - self.probs()) * self.total_count as f64
    }
}
