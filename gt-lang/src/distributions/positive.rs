//! Distributions over positive numbers and shares: `Exponential`, `Gamma`, `Beta`. Samples of the
//! latter two have no history: they are found by refusing proposals.

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

/// Proposals drawn for each sample of a gamma distribution: that all of them are refused has a
/// probability below `1e-15`.
const PROPOSALS: usize = 12;

/// The logarithms of samples of gamma distributions of rate 1, by Marsaglia and Tsang (2000): of
/// some proposals the first that is taken. Shapes below 1 are raised by 1, and the sample is
/// multiplied by a power, which may be too small for a float; its logarithm is not. At least `f32`.
#[track_caller]
pub(super) fn log_standard_gamma(concentration: &DynTensor) -> DynTensor {
    let concentration = &concentration.widened();
    let small = concentration.lt(1.0);
    let d = small.where_(&(concentration + 1.0), concentration) - 1.0 / 3.0;
    let c = (&d * 9.0).rsqrt();
    let many = [&[PROPOSALS], &d.sizes()[..]].concat();
    let x = d.unsqueeze(0).expand(&many).randn_like();
    let v = (&x * &c + 1.0).pow(3);
    let fits = v.gt(0.0);
    let safe = fits.where_(&v, 1.0);
    let bound = x.square() * 0.5 + &d * (1.0 - &safe + safe.log());
    let taken = fits.logical_and(&x.rand_like().log().lt(&bound));
    let first = taken.to_dtype(gt_ir::DType::U8).argmax(0).unsqueeze(0);
    let sample = safe.gather(0, &first).squeeze(0) * &d;
    // Of numbers above 0, up to 1.
    let power = concentration.rand_like().neg().log1p() / concentration;
    sample.log() + small.where_(&power, 0.0)
}

impl Distribution for Gamma {
    fn sample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        let (shape, rate) = (self.concentration.detach(), self.rate.detach());
        let shape = spread(sizes.as_ref(), &shape, &[&rate]);
        let drawn = (log_standard_gamma(&shape) - rate.widened().log()).exp();
        drawn.to_dtype(shape.dtype()).clamp_min(float_limits(shape.dtype()).tiny)
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
        let (alpha, beta, sizes) = (self.alpha.detach(), self.beta.detach(), sizes.as_ref());
        let alpha = spread(sizes, &alpha, &[&beta]);
        let ones = log_standard_gamma(&alpha);
        let zeros = log_standard_gamma(&spread(sizes, &beta, &[&self.alpha]));
        let limits = float_limits(alpha.dtype());
        // One of two that are added up: the odds are their ratio.
        let share = (ones - zeros).sigmoid().to_dtype(alpha.dtype());
        share.clamp(limits.tiny, 1.0 - limits.eps / 2.0)
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

impl Divergence for Beta {
    fn kl_divergence(&self, other: &Beta) -> DynTensor {
        let (total, others) = (self.total(), other.total());
        other.log_beta() - self.log_beta()
            + (&self.alpha - &other.alpha) * self.alpha.digamma()
            + (&self.beta - &other.beta) * self.beta.digamma()
            + (others - &total) * total.digamma()
    }
}
