//! Losses of likelihoods with a parameter of their own, and losses that compare distances.

use super::Reduction;
use super::normalization::{cosine_similarity, pairwise_distance};
use super::precision::full;
use crate::core::DynTensor;

/// Half of `log var + (input - target)^2 / var`: the surprise of `target` under a normal
/// distribution with this mean and variance, without the constant. Variances count as `eps`
/// (PyTorch's default is 1e-6) at least, without a gradient for that.
#[must_use]
#[track_caller]
pub fn gaussian_nll_loss(
    input: &DynTensor,
    target: &DynTensor,
    var: &DynTensor,
    eps: f64,
    reduction: Reduction,
) -> DynTensor {
    let (input, target, var) = (full(input), full(target), full(var));
    // The value is bounded, the gradient is that of the variance.
    let bounded = &*var + (var.detach().clamp_min(eps) - var.detach());
    let apart = input.sub(&*target).square();
    reduction.of(&((bounded.log() + apart / &bounded) * 0.5))
}

/// The surprise of the counts `target` under Poisson distributions whose rates have the logarithms
/// `input`, without the term of the counts alone: PyTorch's `poisson_nll_loss` with its defaults.
#[must_use]
#[track_caller]
pub fn poisson_nll_loss(input: &DynTensor, target: &DynTensor, reduction: Reduction) -> DynTensor {
    let (input, target) = (full(input), full(target));
    reduction.of(&(input.exp() - target.mul(&*input)))
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

/// By how much an anchor is not nearer to what is like it than to what is not, by a `margin`
/// (PyTorch's default is 1); distances are 2-norms over the last axis.
#[must_use]
#[track_caller]
pub fn triplet_margin_loss(
    anchor: &DynTensor,
    positive: &DynTensor,
    negative: &DynTensor,
    margin: f64,
    reduction: Reduction,
) -> DynTensor {
    let anchor = full(anchor);
    let distance = |to: &DynTensor| pairwise_distance(&anchor, &full(to), 2.0, 1e-6);
    reduction.of(&(distance(positive) - distance(negative) + margin).clamp_min(0.0))
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
    let cosine = cosine_similarity(&full(first), &full(second), -1, 1e-8);
    let unlike = target.eq(-1).where_(&(&cosine - margin).clamp_min(0.0), 0.0);
    reduction.of(&target.eq(1).where_(&(1.0 - cosine), &unlike))
}
