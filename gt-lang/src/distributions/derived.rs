//! Distributions made of others: `LogNormal`, `StudentT`, `OneHotCategorical`, and `Independent`,
//! which makes one distribution of many.

use std::f64::consts::PI;

use super::standard_gamma::log_standard_gamma;
use super::{Categorical, Distribution, Divergence, Normal, Reparameterized, spread};
use crate::core::{Axes, DynTensor};

/// Numbers whose logarithms have a normal distribution.
#[derive(Clone, Debug)]
pub struct LogNormal {
    /// The distribution of the logarithms.
    base: Normal,
}

impl LogNormal {
    /// A distribution for each mean and standard deviation of the logarithms, which broadcast.
    #[must_use]
    pub fn new(loc: &DynTensor, scale: &DynTensor) -> LogNormal {
        LogNormal { base: Normal::new(loc, scale) }
    }
}

impl Distribution for LogNormal {
    fn sample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        self.rsample(sizes).detach()
    }
    fn log_prob(&self, value: &DynTensor) -> DynTensor {
        let log = value.log();
        self.base.log_prob(&log) - log
    }
    fn entropy(&self) -> DynTensor {
        self.base.entropy() + &self.base.loc
    }
    fn mean(&self) -> DynTensor {
        (self.base.mean() + self.base.variance() / 2.0).exp()
    }
    fn variance(&self) -> DynTensor {
        let spread = self.base.variance();
        spread.expm1() * (self.base.mean() * 2.0 + &spread).exp()
    }
}

impl Reparameterized for LogNormal {
    fn rsample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        self.base.rsample(sizes).exp()
    }
}

impl Divergence for LogNormal {
    fn kl_divergence(&self, other: &LogNormal) -> DynTensor {
        self.base.kl_divergence(&other.base)
    }
}

/// Student's t: a normal distribution whose variance is uncertain, with heavy tails.
#[derive(Clone, Debug)]
pub struct StudentT {
    /// The degrees of freedom.
    pub df: DynTensor,
    /// The center.
    pub loc: DynTensor,
    /// The scale, which is not the standard deviation.
    pub scale: DynTensor,
}

impl StudentT {
    /// A distribution for each element of all three, which broadcast.
    #[must_use]
    pub fn new(df: &DynTensor, loc: &DynTensor, scale: &DynTensor) -> StudentT {
        StudentT { df: df.clone(), loc: loc.clone(), scale: scale.clone() }
    }
}

impl Distribution for StudentT {
    fn sample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        self.rsample(sizes).detach()
    }
    fn log_prob(&self, value: &DynTensor) -> DynTensor {
        let (df, y) = (&self.df, (value - &self.loc) / &self.scale);
        let tail = (df + 1.0) * 0.5;
        let whole =
            self.scale.log() + df.log() * 0.5 + PI.ln() * 0.5 + (df * 0.5).lgamma() - tail.lgamma();
        tail.neg() * (y.square() / df).log1p() - whole
    }
    fn entropy(&self) -> DynTensor {
        let (half, tail) = (&self.df * 0.5, (&self.df + 1.0) * 0.5);
        let log_beta = half.lgamma() + PI.ln() / 2.0 - tail.lgamma();
        spread(&[], &self.scale, &[&self.df, &self.loc]).log()
            + &tail * (tail.digamma() - half.digamma())
            + self.df.log() * 0.5
            + log_beta
    }
    /// NaN with one degree of freedom or less.
    fn mean(&self) -> DynTensor {
        let loc = spread(&[], &self.loc, &[&self.df, &self.scale]);
        self.df.le(1.0).where_(f64::NAN, &loc)
    }
    /// NaN with one degree of freedom or less, infinite with two or less.
    fn variance(&self) -> DynTensor {
        let scale = spread(&[], &self.scale, &[&self.df, &self.loc]);
        let finite = scale.square() * &self.df / (&self.df - 2.0);
        let known = self.df.le(2.0).where_(f64::INFINITY, &finite);
        self.df.le(1.0).where_(f64::NAN, &known)
    }
}

impl Reparameterized for StudentT {
    fn rsample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        let df = spread(sizes.as_ref(), &self.df, &[&self.loc, &self.scale]);
        // The logarithm of what chi-squared numbers are on average 1 of.
        let spread = log_standard_gamma(&(&df / 2.0)) - (df.widened() / 2.0).log();
        let noise = df.detach().widened().randn_like() * (spread * -0.5).exp();
        &self.loc + noise.to_dtype(df.dtype()) * &self.scale
    }
}

/// One of several classes, which lie along the last axis, as a one among zeros.
#[derive(Clone, Debug)]
pub struct OneHotCategorical {
    /// The distribution of the classes.
    base: Categorical,
}

impl OneHotCategorical {
    /// A distribution by weights along the last axis, which need not add up to 1.
    #[must_use]
    #[track_caller]
    pub fn from_probs(probs: &DynTensor) -> OneHotCategorical {
        OneHotCategorical { base: Categorical::from_probs(probs) }
    }

    /// A distribution by scores along the last axis, whose exponentials are the weights.
    #[must_use]
    #[track_caller]
    pub fn from_logits(logits: &DynTensor) -> OneHotCategorical {
        OneHotCategorical { base: Categorical::from_logits(logits) }
    }

    /// The probabilities.
    #[must_use]
    #[track_caller]
    pub fn probs(&self) -> DynTensor {
        self.base.probs()
    }
}

impl Distribution for OneHotCategorical {
    fn sample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        let logits = &self.base.logits;
        self.base.sample(sizes).one_hot(logits.size(-1)).to_dtype(logits.dtype())
    }
    fn log_prob(&self, value: &DynTensor) -> DynTensor {
        self.base.log_prob(&value.argmax(-1))
    }
    fn entropy(&self) -> DynTensor {
        self.base.entropy()
    }
    fn mean(&self) -> DynTensor {
        self.probs()
    }
    fn variance(&self) -> DynTensor {
        self.probs() * (1.0 - self.probs())
    }
}

impl Divergence for OneHotCategorical {
    fn kl_divergence(&self, other: &OneHotCategorical) -> DynTensor {
        self.base.kl_divergence(&other.base)
    }
}

/// Distributions along the last axes as one: their probabilities are multiplied, and their
/// entropies and divergences add up.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// use gt::distributions::{Distribution, Independent, Normal};
/// # use gt::prelude::*;
/// # let (loc, scale) = (DynTensor::zeros([8, 3], DType::F32), DynTensor::ones([3], DType::F32));
/// let action = Independent::new(Normal::new(&loc, &scale), 1); // 8 distributions over 3 numbers
/// let drawn = action.sample([]);
/// assert_eq!(action.log_prob(&drawn).sizes(), [8]);
/// ```
#[derive(Clone, Debug)]
pub struct Independent<D> {
    /// The distributions.
    pub base: D,
    /// How many of the last axes are one.
    pub n_axes: usize,
}

impl<D> Independent<D> {
    /// The last `n_axes` axes of these distributions as one. PyTorch's
    /// `reinterpreted_batch_ndims`.
    #[must_use]
    pub fn new(base: D, n_axes: usize) -> Independent<D> {
        Independent { base, n_axes }
    }

    #[track_caller]
    fn joined(&self, x: &DynTensor) -> DynTensor {
        let axes: Vec<i64> = (1..=self.n_axes as i64).map(|axis| -axis).collect();
        if axes.is_empty() { x.clone() } else { x.sum(Axes::from(axes.as_slice())) }
    }
}

impl<D: Distribution> Distribution for Independent<D> {
    fn sample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        self.base.sample(sizes)
    }
    fn log_prob(&self, value: &DynTensor) -> DynTensor {
        self.joined(&self.base.log_prob(value))
    }
    fn entropy(&self) -> DynTensor {
        self.joined(&self.base.entropy())
    }
    /// Of each number.
    fn mean(&self) -> DynTensor {
        self.base.mean()
    }
    /// Of each number.
    fn variance(&self) -> DynTensor {
        self.base.variance()
    }
}

impl<D: Reparameterized> Reparameterized for Independent<D> {
    fn rsample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        self.base.rsample(sizes)
    }
}

impl<D: Divergence> Divergence for Independent<D> {
    fn kl_divergence(&self, other: &Independent<D>) -> DynTensor {
        self.joined(&self.base.kl_divergence(&other.base))
    }
}
