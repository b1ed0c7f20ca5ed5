//! Distributions over vectors: `MultivariateNormal`, `Dirichlet`.

use std::f64::consts::PI;

use super::standard_gamma::log_standard_gamma;
use super::{Distribution, Divergence, Reparameterized, float_limits, spread};
use crate::core::{DynTensor, Index, keepdim};
use crate::linalg::{self, Triangular};

/// What has one axis less: the first along the last axis.
const FIRST: (Index, i64) = (Index::Ellipsis, 0);

/// The normal distribution of vectors, whose elements depend on each other.
#[derive(Clone, Debug)]
pub struct MultivariateNormal {
    /// The means, `[.., n]`.
    pub loc: DynTensor,
    /// The lower triangular matrix that makes independent numbers these, `[.., n, n]`.
    pub scale_tril: DynTensor,
}

impl MultivariateNormal {
    /// Distributions with these means, `[.., n]`, and lower triangular matrices `L`, `[.., n, n]`,
    /// whose diagonals are positive: covariances are `L L^T`.
    #[must_use]
    pub fn from_scale_tril(loc: &DynTensor, scale_tril: &DynTensor) -> MultivariateNormal {
        MultivariateNormal { loc: loc.clone(), scale_tril: scale_tril.clone() }
    }

    /// Distributions with these means and covariances, symmetric and positive definite: `[.., n,
    /// n]`. Others give NaN.
    #[must_use]
    #[track_caller]
    pub fn from_covariance(loc: &DynTensor, covariance: &DynTensor) -> MultivariateNormal {
        MultivariateNormal::from_scale_tril(loc, &linalg::cholesky(covariance))
    }

    /// The covariances, `[.., n, n]`.
    #[must_use]
    #[track_caller]
    pub fn covariance(&self) -> DynTensor {
        self.scale_tril.matmul(&self.scale_tril.transpose(-2, -1))
    }

    /// The logarithms of the square roots of the determinants.
    #[track_caller]
    fn log_volume(&self) -> DynTensor {
        self.scale_tril.diagonal(0).log().sum(-1)
    }
}

/// The solutions of `l x = b`, whose leading axes broadcast.
#[track_caller]
fn solved(l: &DynTensor, b: &DynTensor) -> DynTensor {
    let lead = |x: &DynTensor| x.narrow(-1, 0, 1).narrow(-2, 0, 1).detach();
    let both = lead(l) + lead(b);
    let front = both.sizes();
    let front = &front[..front.len().saturating_sub(2)];
    let whole = |x: &DynTensor| x.expand([front, &[x.size(-2), x.size(-1)]].concat());
    linalg::solve_triangular(&whole(l), &whole(b), Triangular::Lower)
}

impl Distribution for MultivariateNormal {
    fn sample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        self.rsample(sizes).detach()
    }
    fn log_prob(&self, value: &DynTensor) -> DynTensor {
        let apart = solved(&self.scale_tril, &(value - &self.loc).unsqueeze(-1)).squeeze(-1);
        let n = self.loc.size(-1) as f64;
        (apart.square().sum(-1) + n * (2.0 * PI).ln()) * -0.5 - self.log_volume()
    }
    fn entropy(&self) -> DynTensor {
        let n = self.loc.size(-1) as f64;
        let each = spread(&[], &self.log_volume(), &[&self.loc.detach().slice(FIRST)]);
        each + 0.5 * n * (1.0 + (2.0 * PI).ln())
    }
    fn mean(&self) -> DynTensor {
        spread(&[], &self.loc, &[&self.scale_tril.detach().slice(FIRST)])
    }
    /// Of each element.
    fn variance(&self) -> DynTensor {
        spread(&[], &self.scale_tril.square().sum(-1), &[&self.loc])
    }
}

impl Reparameterized for MultivariateNormal {
    fn rsample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        let mean = self.mean();
        let noise = spread(sizes.as_ref(), &mean.detach(), &[]).randn_like();
        mean + self.scale_tril.matmul(&noise.unsqueeze(-1)).squeeze(-1)
    }
}

impl Divergence for MultivariateNormal {
    fn kl_divergence(&self, other: &MultivariateNormal) -> DynTensor {
        let n = self.loc.size(-1) as f64;
        let apart = (&other.loc - &self.loc).unsqueeze(-1);
        let apart = solved(&other.scale_tril, &apart).square().sum([-2, -1]);
        let ratio = solved(&other.scale_tril, &self.scale_tril).square().sum([-2, -1]);
        other.log_volume() - self.log_volume() + (ratio + apart - n) * 0.5
    }
}

/// The Dirichlet distribution: shares along the last axis, which add up to 1.
#[derive(Clone, Debug)]
pub struct Dirichlet {
    /// The weights of the shares, `[.., n]`.
    pub concentration: DynTensor,
}

impl Dirichlet {
    /// A distribution for each row of weights.
    #[must_use]
    pub fn new(concentration: &DynTensor) -> Dirichlet {
        Dirichlet { concentration: concentration.clone() }
    }

    /// The sum of the weights.
    #[track_caller]
    fn total(&self) -> DynTensor {
        self.concentration.sum(keepdim(-1))
    }

    /// The logarithm of the multivariate beta function.
    #[track_caller]
    fn log_beta(&self) -> DynTensor {
        self.concentration.lgamma().sum(-1) - self.concentration.sum(-1).lgamma()
    }
}

impl Distribution for Dirichlet {
    fn sample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        self.rsample(sizes).detach()
    }
    fn log_prob(&self, value: &DynTensor) -> DynTensor {
        (&self.concentration - 1.0).xlogy(value).sum(-1) - self.log_beta()
    }
    fn entropy(&self) -> DynTensor {
        let (weights, total) = (&self.concentration, self.concentration.sum(-1));
        let n = weights.size(-1) as f64;
        self.log_beta() + (&total - n) * total.digamma()
            - ((weights - 1.0) * weights.digamma()).sum(-1)
    }
    fn mean(&self) -> DynTensor {
        &self.concentration / self.total()
    }
    fn variance(&self) -> DynTensor {
        let (weights, total) = (&self.concentration, self.total());
        weights * (&total - weights) / (total.square() * (&total + 1.0))
    }
}

impl Reparameterized for Dirichlet {
    fn rsample(&self, sizes: impl AsRef<[usize]>) -> DynTensor {
        let weights = spread(sizes.as_ref(), &self.concentration, &[]);
        let shares = log_standard_gamma(&weights).softmax(-1).to_dtype(weights.dtype());
        shares.clamp_min(float_limits(weights.dtype()).tiny)
    }
}

impl Divergence for Dirichlet {
    fn kl_divergence(&self, other: &Dirichlet) -> DynTensor {
        let apart = &self.concentration - &other.concentration;
        let slopes = self.concentration.digamma() - self.total().digamma();
        other.log_beta() - self.log_beta() + (apart * slopes).sum(-1)
    }
}
