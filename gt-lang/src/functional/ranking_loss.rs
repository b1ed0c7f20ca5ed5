//! Losses of likelihoods with a parameter of their own, and losses that compare distances.

use std::f64::consts::PI;

use super::Reduction;
use super::normalization::pairwise_distance;
use super::precision::full;
use crate::core::DynTensor;

/// What [`gaussian_nll_loss`] may be told; the defaults are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GaussianNll {
    /// With the term `log(2 pi) / 2`, which changes no gradient.
    pub full: bool,
    /// What variances count as at least, without a gradient for that.
    pub eps: f64,
    /// What becomes of the losses.
    pub reduction: Reduction,
}

impl Default for GaussianNll {
    fn default() -> Self {
        GaussianNll { full: false, eps: 1e-6, reduction: Reduction::Mean }
    }
}

/// Half of `log var + (input - target)^2 / var`: the surprise of `target` under a normal
/// distribution with this mean and variance. Variances without the last axis of `input` are the
/// same for all of it.
#[must_use]
#[track_caller]
pub fn gaussian_nll_loss(
    input: &DynTensor,
    target: &DynTensor,
    var: &DynTensor,
    options: &GaussianNll,
) -> DynTensor {
    let (input, target, var) = (full(input), full(target), full(var));
    let sizes = input.sizes();
    let is_of_rows =
        var.sizes() != sizes && sizes.split_last().is_some_and(|(_, rows)| var.sizes() == rows);
    let var = if is_of_rows { var.unsqueeze(-1) } else { var.into_owned() };
    // The value is bounded, the gradient is that of the variance.
    let least = &var - var.detach() + options.eps;
    let bounded = var.detach().lt(options.eps).where_(&least, &var);
    let apart = input.sub(&*target).square();
    let constant = if options.full { (2.0 * PI).ln() / 2.0 } else { 0.0 };
    options.reduction.of(&((bounded.log() + apart / &bounded) * 0.5 + constant))
}

/// What [`poisson_nll_loss`] may be told; the defaults are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoissonNll {
    /// Whether the input has the logarithms of the rates, or the rates themselves.
    pub log_input: bool,
    /// With Stirling's approximation of the term of the counts alone, which changes no gradient.
    pub full: bool,
    /// Added to rates of which the logarithm is taken.
    pub eps: f64,
    /// What becomes of the losses.
    pub reduction: Reduction,
}

impl Default for PoissonNll {
    fn default() -> Self {
        PoissonNll { log_input: true, full: false, eps: 1e-8, reduction: Reduction::Mean }
    }
}

/// The surprise of the counts `target` under Poisson distributions with these rates, or logarithms
/// of rates.
#[must_use]
#[track_caller]
pub fn poisson_nll_loss(input: &DynTensor, target: &DynTensor, options: &PoissonNll) -> DynTensor {
    let (input, target) = (full(input), full(target));
    let losses = match options.log_input {
        true => input.exp() - target.mul(&*input),
        false => input.sub(&target.mul(&input.add(options.eps).log())),
    };
    if !options.full {
        return options.reduction.of(&losses);
    }
    let stirling = target.mul(&target.log()) - &*target + target.mul(2.0 * PI).log() * 0.5;
    options.reduction.of(&(losses + target.gt(1).where_(&stirling, 0.0)))
}

/// `max(0, -target * (first - second) + margin)`: `target` is 1 where the first is to be larger,
/// and -1 where the second is. PyTorch's margin is 0.
#[must_use]
#[track_caller]
pub fn margin_ranking_loss(
    first: &DynTensor,
    second: &DynTensor,
    target: &DynTensor,
    margin: f64,
    reduction: Reduction,
) -> DynTensor {
    let apart = full(first).sub(&*full(second));
    reduction.of(&(target.neg().mul(&apart) + margin).clamp_min(0.0))
}

/// What [`triplet_margin_loss`] may be told; the defaults are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TripletMargin {
    /// By how much the negative is to be farther away.
    pub margin: f64,
    /// The norm of distances.
    pub p: f64,
    /// Added to each difference.
    pub eps: f64,
    /// The negative is as far away as it is from the nearer of anchor and positive (Balntas et al.
    /// 2016).
    pub swap: bool,
    /// What becomes of the losses.
    pub reduction: Reduction,
}

impl Default for TripletMargin {
    fn default() -> Self {
        TripletMargin { margin: 1.0, p: 2.0, eps: 1e-6, swap: false, reduction: Reduction::Mean }
    }
}

/// By how much an anchor is not nearer to what is like it than to what is not, by a margin;
/// distances are over the last axis.
#[must_use]
#[track_caller]
pub fn triplet_margin_loss(
    anchor: &DynTensor,
    positive: &DynTensor,
    negative: &DynTensor,
    options: &TripletMargin,
) -> DynTensor {
    let (anchor, positive, negative) = (full(anchor), full(positive), full(negative));
    let TripletMargin { p, eps, .. } = *options;
    let near = pairwise_distance(&anchor, &positive, p, eps);
    let mut far = pairwise_distance(&anchor, &negative, p, eps);
    if options.swap {
        far = far.minimum(&pairwise_distance(&positive, &negative, p, eps));
    }
    options.reduction.of(&(near - far + options.margin).clamp_min(0.0))
}

/// [`triplet_margin_loss`] with a distance of your own, a number for each pair; `p` and `eps` of
/// the options do not count.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::functional::{TripletMargin, cosine_similarity, triplet_margin_with_distance_loss};
/// # let [a, p, n] = [(); 3].map(|()| DynTensor::randn([8, 16], DType::F32));
/// let turned = |a: &DynTensor, b: &DynTensor| 1.0 - cosine_similarity(a, b, -1, 1e-8);
/// let loss = triplet_margin_with_distance_loss(&a, &p, &n, turned, &TripletMargin::default());
/// ```
#[must_use]
#[track_caller]
pub fn triplet_margin_with_distance_loss(
    anchor: &DynTensor,
    positive: &DynTensor,
    negative: &DynTensor,
    distance: impl Fn(&DynTensor, &DynTensor) -> DynTensor,
    options: &TripletMargin,
) -> DynTensor {
    let (anchor, positive, negative) = (full(anchor), full(positive), full(negative));
    let (near, mut far) = (distance(&anchor, &positive), distance(&anchor, &negative));
    if options.swap {
        far = far.minimum(&distance(&positive, &negative));
    }
    options.reduction.of(&(near - far + options.margin).clamp_min(0.0))
}

/// `1 - cos` of pairs whose `target` is 1, `max(0, cos - margin)` of those whose `target` is -1,
/// over the last axis; 0 for any other `target`. PyTorch's margin is 0.
#[must_use]
#[track_caller]
pub fn cosine_embedding_loss(
    first: &DynTensor,
    second: &DynTensor,
    target: &DynTensor,
    margin: f64,
    reduction: Reduction,
) -> DynTensor {
    let (first, second) = (full(first).real(), full(second).real());
    // Not `cosine_similarity`, which keeps norms away from 0 in another way. The number is an `f32`
    // in PyTorch.
    let product = |a: &DynTensor, b: &DynTensor| (a * b).sum(-1);
    let square = |a: &DynTensor| product(a, a) + f64::from(1e-12_f32);
    let cosine = product(&first, &second) / (square(&first) * square(&second)).sqrt();
    let unlike = target.eq(-1).where_(&(&cosine - margin).clamp_min(0.0), 0.0);
    reduction.of(&target.eq(1).where_(&(1.0 - cosine), &unlike))
}
