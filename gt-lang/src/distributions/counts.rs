//! Distributions of counts: `Poisson`, `Multinomial`. Samples are floats, as in PyTorch.

use gt_ir::OpError;

use super::proposals::{LARGE, Proposals, WAITS, ended, uniform};
use super::{Binomial, Categorical, Distribution, Divergence, spread};
use crate::core::DynTensor;

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
