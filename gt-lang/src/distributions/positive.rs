//! Distributions over positive numbers and shares: `Exponential`, `Gamma`, `Beta`.

use super::standard_gamma::log_standard_gamma;
use super::{Distribution, Divergence, Reparameterized, float_limits, spread};
use crate::core::DynTensor;

/// The time until an event that is as likely at any time.
#[derive(Clone, Debug)]
pub struct Exponential {
    /// How many events there are in a unit of time.
    pub rate: DynTensor,
}

impl Exponential {
    /// A distribution for each rate.
    #[must_use]
    pub fn new(rate: &DynTensor) -> Exponential {
        Exponential { rate: rate.clone() }
    }
}

impl Distribution for Exponential {
    fn sample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        self.rsample(sizes).detach()
    }
    fn log_prob(&self, value: &DynTensor) -> DynTensor {
        let inside = self.rate.log() - &self.rate * value;
        value.lt(0.0).where_(f64::NEG_INFINITY, &inside)
    }
    fn entropy(&self) -> DynTensor {
        1.0 - self.rate.log()
    }
    fn mean(&self) -> DynTensor {
        self.rate.reciprocal()
    }
    fn variance(&self) -> DynTensor {
        self.rate.square().reciprocal()
    }
}

impl Reparameterized for Exponential {
    fn rsample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        let rate = spread(sizes.as_ref(), &self.rate, &[]);
        rate.detach().rand_like().neg().log1p().neg() / rate
    }
}

impl Divergence for Exponential {
    fn kl_divergence(&self, other: &Exponential) -> DynTensor {
        let ratio = &other.rate / &self.rate;
        &ratio - ratio.log() - 1.0
    }
}

/// The gamma distribution.
#[derive(Clone, Debug)]
pub struct Gamma {
    /// The shape.
    pub concentration: DynTensor,
    /// One over the scale.
    pub rate: DynTensor,
}

impl Gamma {
    /// A distribution for each element of both, which broadcast.
    #[must_use]
    pub fn new(concentration: &DynTensor, rate: &DynTensor) -> Gamma {
        Gamma { concentration: concentration.clone(), rate: rate.clone() }
    }
}

impl Distribution for Gamma {
    fn sample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        self.rsample(sizes).detach()
    }
    fn log_prob(&self, value: &DynTensor) -> DynTensor {
        let (shape, rate) = (&self.concentration, &self.rate);
        (shape - 1.0).xlogy(value) - rate * value + shape * rate.log() - shape.lgamma()
    }
    fn entropy(&self) -> DynTensor {
        let shape = &self.concentration;
        shape - self.rate.log() + shape.lgamma() + (1.0 - shape) * shape.digamma()
    }
    fn mean(&self) -> DynTensor {
        &self.concentration / &self.rate
    }
    fn variance(&self) -> DynTensor {
        &self.concentration / self.rate.square()
    }
}

impl Reparameterized for Gamma {
    fn rsample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        let shape = spread(sizes.as_ref(), &self.concentration, &[&self.rate]);
        let drawn = (log_standard_gamma(&shape) - self.rate.widened().log()).exp();
        drawn.to_dtype(shape.dtype()).clamp_min(float_limits(shape.dtype()).tiny)
    }
}

impl Divergence for Gamma {
    fn kl_divergence(&self, other: &Gamma) -> DynTensor {
        let (p, q) = (&self.concentration, &other.concentration);
        let rates = q * (&self.rate / &other.rate).log();
        let scale = (&other.rate - &self.rate) * (p / &self.rate);
        rates + q.lgamma() - p.lgamma() + (p - q) * p.digamma() + scale
    }
}

/// The beta distribution over shares from 0 to 1.
#[derive(Clone, Debug)]
pub struct Beta {
    /// The weight of 1: PyTorch's `concentration1`.
    pub alpha: DynTensor,
    /// The weight of 0: PyTorch's `concentration0`.
    pub beta: DynTensor,
}

impl Beta {
    /// A distribution for each element of both, which broadcast.
    #[must_use]
    pub fn new(alpha: &DynTensor, beta: &DynTensor) -> Beta {
        Beta { alpha: alpha.clone(), beta: beta.clone() }
    }

    #[track_caller]
    fn total(&self) -> DynTensor {
        &self.alpha + &self.beta
    }

    /// The logarithm of the beta function.
    #[track_caller]
    fn log_beta(&self) -> DynTensor {
        self.alpha.lgamma() + self.beta.lgamma() - self.total().lgamma()
    }
}

impl Distribution for Beta {
    fn sample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        self.rsample(sizes).detach()
    }
    fn log_prob(&self, value: &DynTensor) -> DynTensor {
        let ones = (&self.alpha - 1.0).xlogy(value);
        ones + (&self.beta - 1.0).xlogy(&(1.0 - value)) - self.log_beta()
    }
    fn entropy(&self) -> DynTensor {
        let total = self.total();
        self.log_beta()
            - (&self.alpha - 1.0) * self.alpha.digamma()
            - (&self.beta - 1.0) * self.beta.digamma()
            + (&total - 2.0) * total.digamma()
    }
    fn mean(&self) -> DynTensor {
        &self.alpha / self.total()
    }
    fn variance(&self) -> DynTensor {
        let total = self.total();
        &self.alpha * &self.beta / (total.square() * (&total + 1.0))
    }
}

impl Reparameterized for Beta {
    fn rsample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        let alpha = spread(sizes.as_ref(), &self.alpha, &[&self.beta]);
        let beta = spread(sizes.as_ref(), &self.beta, &[&self.alpha]);
        let limits = float_limits(alpha.dtype());
        // One of two that are added up: the odds are their ratio.
        let odds = log_standard_gamma(&alpha) - log_standard_gamma(&beta);
        let share = odds.sigmoid().to_dtype(alpha.dtype());
        share.clamp(limits.tiny, 1.0 - limits.eps / 2.0)
    }
}

impl Divergence for Beta {
    fn kl_divergence(&self, other: &Beta) -> DynTensor {
        let (total, others) = (self.total(), other.total());
        other.log_beta() - self.log_beta()
            + (&self.alpha - &other.alpha) * self.alpha.digamma()
            + (&self.beta - &other.beta) * self.beta.digamma()
            + (others - &total) * total.digamma()
    }
}
