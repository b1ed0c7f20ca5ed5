//! Distributions over truth values and classes: `Bernoulli`, `Categorical`. Both hold the
//! logarithms of odds or probabilities, which do not round to 0 and 1.

use super::{Distribution, Divergence, float_limits, spread};
use crate::core::{DynTensor, keepdim};

/// 1 with a probability, else 0.
#[derive(Clone, Debug)]
pub struct Bernoulli {
    /// The logarithm of the odds, `log(p / (1 - p))`.
    pub logits: DynTensor,
    /// The probabilities, where these were given.
    given: Option<DynTensor>,
}

impl Bernoulli {
    /// A distribution for each probability. 0 and 1 have odds too, those of the nearest numbers
    /// that the dtype tells from them: PyTorch's clamping.
    #[must_use]
    #[track_caller]
    pub fn from_probs(probs: &DynTensor) -> Bernoulli {
        let probs = probs.real();
        let eps = float_limits(probs.dtype()).eps;
        let inside = probs.clamp(eps, 1.0 - eps);
        Bernoulli { logits: inside.logit(), given: Some(probs) }
    }

    /// A distribution for each logarithm of odds.
    #[must_use]
    pub fn from_logits(logits: &DynTensor) -> Bernoulli {
        Bernoulli { logits: logits.clone(), given: None }
    }

    /// The probability of 1.
    #[must_use]
    #[track_caller]
    pub fn probs(&self) -> DynTensor {
        self.given.clone().unwrap_or_else(|| self.logits.sigmoid())
    }

    /// The probability of 0.
    #[track_caller]
    fn others(&self) -> DynTensor {
        self.given.as_ref().map_or_else(|| self.logits.neg().sigmoid(), |probs| 1.0 - probs)
    }

    /// Minus the logarithms of the probabilities of 1 and of 0, in these shares.
    #[track_caller]
    fn surprise(&self, ones: &DynTensor, zeros: &DynTensor) -> DynTensor {
        ones * self.logits.neg().softplus() + zeros * self.logits.softplus()
    }
}

impl Distribution for Bernoulli {
    fn sample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        spread(sizes.as_ref(), &self.probs().detach(), &[]).bernoulli()
    }
    fn log_prob(&self, value: &DynTensor) -> DynTensor {
        let value = value.real();
        self.surprise(&value, &(1.0 - &value)).neg()
    }
    fn entropy(&self) -> DynTensor {
        self.surprise(&self.probs(), &self.others())
    }
    fn mean(&self) -> DynTensor {
        self.probs()
    }
    fn variance(&self) -> DynTensor {
        self.probs() * self.others()
    }
}

impl Divergence for Bernoulli {
    /// Infinite where the other one excludes a value that this one has.
    fn kl_divergence(&self, other: &Bernoulli) -> DynTensor {
        let (p, q) = (&self.logits, &other.logits);
        let part = |here: &DynTensor, there: &DynTensor, apart: DynTensor| {
            let apart = there.eq(0.0).where_(f64::INFINITY, &(here * apart));
            here.eq(0.0).where_(0.0, &apart)
        };
        let ones = part(&self.probs(), &other.probs(), q.neg().softplus() - p.neg().softplus());
        ones + part(&self.others(), &other.others(), q.softplus() - p.softplus())
    }
}

/// One of several classes, which lie along the last axis.
#[derive(Clone, Debug)]
pub struct Categorical {
    /// The logarithms of the probabilities.
    pub logits: DynTensor,
}

impl Categorical {
    /// A distribution by weights along the last axis, which need not add up to 1.
    #[must_use]
    #[track_caller]
    pub fn from_probs(probs: &DynTensor) -> Categorical {
        Categorical { logits: (probs / probs.sum(keepdim(-1))).log() }
    }

    /// A distribution by scores along the last axis, whose exponentials are the weights.
    #[must_use]
    #[track_caller]
    pub fn from_logits(logits: &DynTensor) -> Categorical {
        Categorical { logits: logits.log_softmax(-1) }
    }

    /// The probabilities.
    #[must_use]
    #[track_caller]
    pub fn probs(&self) -> DynTensor {
        self.logits.exp()
    }

    /// The numbers of the classes, as floats.
    #[track_caller]
    fn classes(&self) -> DynTensor {
        self.logits.detach().ones_like().cumsum(-1) - 1.0
    }
}

impl Distribution for Categorical {
    /// Classes as `i64`.
    fn sample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        let sizes = sizes.as_ref();
        let n = sizes.iter().product();
        let shape = self.logits.sizes();
        let batch = &shape[..shape.len().saturating_sub(1)];
        let drawn = self.probs().detach().multinomial(n);
        drawn.movedim(-1, 0).reshape([sizes, batch].concat())
    }
    fn log_prob(&self, value: &DynTensor) -> DynTensor {
        // Classes and distributions broadcast.
        let classes = value.unsqueeze(-1);
        let n = self.logits.size(-1);
        let Some(shape) = classes
            .shape()
            .broadcast(&self.logits.slice((crate::core::Index::Ellipsis, 0..1)).shape())
        else {
            return &classes + &self.logits;
        };
        let front = &shape.sizes()[..shape.rank().saturating_sub(1)];
        let logits = self.logits.expand([front, &[n]].concat());
        logits.gather(-1, &classes.expand(shape.sizes())).squeeze(-1)
    }
    fn entropy(&self) -> DynTensor {
        // A class that cannot be adds nothing.
        let p = self.probs();
        let possible = self.logits.isfinite();
        let logits = possible.where_(&self.logits, 0.0);
        (p * logits).sum(-1).neg()
    }
    fn mean(&self) -> DynTensor {
        (self.probs() * self.classes()).sum(-1)
    }
    fn variance(&self) -> DynTensor {
        (self.probs() * self.classes().square()).sum(-1) - self.mean().square()
    }
}

impl Divergence for Categorical {
    fn kl_divergence(&self, other: &Categorical) -> DynTensor {
        let p = self.probs();
        let term = &p * (&self.logits - &other.logits);
        p.eq(0.0).where_(0.0, &term).sum(-1)
    }
}
