//! Distributions over all numbers or an interval: `Normal`, `Laplace`, `Uniform`.

use std::f64::consts::PI;

use super::{Distribution, Divergence, Reparameterized, float_limits, spread};
use crate::core::DynTensor;

/// The normal distribution.
#[derive(Clone, Debug)]
pub struct Normal {
    /// The mean.
    pub loc: DynTensor,
    /// The standard deviation.
    pub scale: DynTensor,
}

impl Normal {
    /// A normal distribution for each element of both, which broadcast.
    #[must_use]
    pub fn new(loc: &DynTensor, scale: &DynTensor) -> Normal {
        Normal { loc: loc.clone(), scale: scale.clone() }
    }
}

impl Distribution for Normal {
    fn sample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        self.rsample(sizes).detach()
    }
    fn log_prob(&self, value: &DynTensor) -> DynTensor {
        let apart = (value - &self.loc) / &self.scale;
        apart.square() * -0.5 - self.scale.log() - (2.0 * PI).ln() / 2.0
    }
    fn entropy(&self) -> DynTensor {
        spread(&[], &self.scale, &[&self.loc]).log() + (0.5 + (2.0 * PI).ln() / 2.0)
    }
    fn mean(&self) -> DynTensor {
        spread(&[], &self.loc, &[&self.scale])
    }
    fn variance(&self) -> DynTensor {
        spread(&[], &self.scale, &[&self.loc]).square()
    }
}

impl Reparameterized for Normal {
    fn rsample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        let loc = spread(sizes.as_ref(), &self.loc, &[&self.scale]);
        &loc + loc.randn_like() * &self.scale
    }
}

impl Divergence for Normal {
    fn kl_divergence(&self, other: &Normal) -> DynTensor {
        let ratio = (&self.scale / &other.scale).square();
        let apart = ((&self.loc - &other.loc) / &other.scale).square();
        (&ratio + apart - 1.0 - ratio.log()) * 0.5
    }
}

/// The Laplace distribution: two exponential ones back to back.
#[derive(Clone, Debug)]
pub struct Laplace {
    /// The mean.
    pub loc: DynTensor,
    /// The mean distance from it.
    pub scale: DynTensor,
}

impl Laplace {
    /// A distribution for each element of both, which broadcast.
    #[must_use]
    pub fn new(loc: &DynTensor, scale: &DynTensor) -> Laplace {
        Laplace { loc: loc.clone(), scale: scale.clone() }
    }
}

impl Distribution for Laplace {
    fn sample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        self.rsample(sizes).detach()
    }
    fn log_prob(&self, value: &DynTensor) -> DynTensor {
        (value - &self.loc).abs().neg() / &self.scale - (&self.scale * 2.0).log()
    }
    fn entropy(&self) -> DynTensor {
        (spread(&[], &self.scale, &[&self.loc]) * 2.0).log() + 1.0
    }
    fn mean(&self) -> DynTensor {
        spread(&[], &self.loc, &[&self.scale])
    }
    fn variance(&self) -> DynTensor {
        spread(&[], &self.scale, &[&self.loc]).square() * 2.0
    }
}

impl Reparameterized for Laplace {
    fn rsample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        let loc = spread(sizes.as_ref(), &self.loc, &[&self.scale]);
        // From -1 to 1; the logarithm needs both ends left out, which halves would round to.
        let wide = loc.detach().widened();
        let least = float_limits(wide.dtype()).eps - 1.0;
        let u = (wide.rand_like() * 2.0 - 1.0).clamp(least, -least);
        let noise = (u.sign() * u.abs().neg().log1p()).to_dtype(loc.dtype());
        loc - noise * &self.scale
    }
}

impl Divergence for Laplace {
    fn kl_divergence(&self, other: &Laplace) -> DynTensor {
        let ratio = &self.scale / &other.scale;
        let apart = (&self.loc - &other.loc).abs();
        let inside = &ratio * (apart.neg() / &self.scale).exp();
        ratio.log().neg() + apart / &other.scale + inside - 1.0
    }
}

/// The uniform distribution over `low..high`.
#[derive(Clone, Debug)]
pub struct Uniform {
    /// The lower bound, included.
    pub low: DynTensor,
    /// The upper bound, left out.
    pub high: DynTensor,
}

impl Uniform {
    /// A distribution for each element of both, which broadcast.
    #[must_use]
    pub fn new(low: &DynTensor, high: &DynTensor) -> Uniform {
        Uniform { low: low.clone(), high: high.clone() }
    }
}

impl Distribution for Uniform {
    fn sample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        self.rsample(sizes).detach()
    }
    fn log_prob(&self, value: &DynTensor) -> DynTensor {
        let inside = value.ge(&self.low).logical_and(&value.lt(&self.high));
        inside.where_(&(&self.high - &self.low).log().neg(), f64::NEG_INFINITY)
    }
    fn entropy(&self) -> DynTensor {
        (&self.high - &self.low).log()
    }
    fn mean(&self) -> DynTensor {
        (&self.low + &self.high) * 0.5
    }
    fn variance(&self) -> DynTensor {
        (&self.high - &self.low).square() / 12.0
    }
}

impl Reparameterized for Uniform {
    fn rsample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        let low = spread(sizes.as_ref(), &self.low, &[&self.high]);
        &low + low.detach().rand_like() * (&self.high - &self.low)
    }
}

impl Divergence for Uniform {
    /// Infinite where this one reaches beyond the other.
    fn kl_divergence(&self, other: &Uniform) -> DynTensor {
        let beyond = other.low.gt(&self.low).logical_or(&other.high.lt(&self.high));
        let ratio = (&other.high - &other.low) / (&self.high - &self.low);
        beyond.where_(f64::INFINITY, &ratio.log())
    }
}
