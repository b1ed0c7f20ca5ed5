//! Losses of probabilities: binary cross entropy and the Kullback-Leibler divergence.

use super::Reduction;
use super::precision::full;
use crate::core::DynTensor;

/// Binary cross entropy of probabilities; logarithms are no smaller than -100, as in PyTorch.
#[must_use]
#[track_caller]
pub fn binary_cross_entropy(input: &DynTensor, target: &DynTensor) -> DynTensor {
    binary_cross_entropy_with(input, target, None, Reduction::Mean)
}

/// [`binary_cross_entropy`] with a weight of each element (it broadcasts), or another reduction.
#[must_use]
#[track_caller]
pub fn binary_cross_entropy_with(
    input: &DynTensor,
    target: &DynTensor,
    weight: Option<&DynTensor>,
    reduction: Reduction,
) -> DynTensor {
    let (input, target) = (&*full(input), &*full(target));
    let yes = bounded_log(input);
    let no = bounded_log(&input.neg().add(1.0));
    let losses = target.mul(&yes).add(&target.neg().add(1.0).mul(&no)).neg();
    reduction.of(&weighted(losses, weight))
}

/// The logarithm, no smaller than -100. Zeros stay out of `log`: its infinite slope times zero
/// would be a gradient of NaN.
#[track_caller]
fn bounded_log(p: &DynTensor) -> DynTensor {
    let zero = p.eq(0.0);
    p.masked_fill(&zero, 1.0).log().masked_fill(&zero, -100.0).maximum(-100.0)
}

#[track_caller]
fn weighted(losses: DynTensor, weight: Option<&DynTensor>) -> DynTensor {
    match weight {
        Some(weight) => losses.mul(weight),
        None => losses,
    }
}

/// What [`binary_cross_entropy_with_logits_with`] may be told; the default is the plain mean.
#[derive(Clone, Default)]
pub struct BceWithLogits {
    /// The weight of each element; it broadcasts.
    pub weight: Option<DynTensor>,
    /// How much more a target of 1 counts than one of 0; it broadcasts, usually one number a class.
    pub pos_weight: Option<DynTensor>,
    /// What becomes of the losses.
    pub reduction: Reduction,
}

/// Binary cross entropy of logits `x`, without overflow: `(1 - y) * x - log(sigmoid(x))`.
#[must_use]
#[track_caller]
pub fn binary_cross_entropy_with_logits(input: &DynTensor, target: &DynTensor) -> DynTensor {
    binary_cross_entropy_with_logits_with(input, target, &BceWithLogits::default())
}

/// [`binary_cross_entropy_with_logits`] with weights, or another reduction.
#[must_use]
#[track_caller]
pub fn binary_cross_entropy_with_logits_with(
    input: &DynTensor,
    target: &DynTensor,
    options: &BceWithLogits,
) -> DynTensor {
    let (input, target) = (&*full(input), &*full(target));
    let dtypes = [input.dtype(), target.dtype()];
    // The gradient is a difference of two numbers, which are not to be rounded before.
    let (input, target) = (&input.widened(), &target.widened());
    let (rest, surprise) = (target.neg().add(1.0).mul(input), input.neg().softplus());
    let losses = match &options.pos_weight {
        None => rest.add(&surprise),
        Some(positive) => rest.add(&positive.sub(1.0).mul(target).add(1.0).mul(&surprise)),
    };
    let losses = losses.narrowed(dtypes);
    options.reduction.of(&weighted(losses, options.weight.as_ref()))
}

/// In which form the target of [`kl_div`] comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KlTarget {
    /// As probabilities.
    #[default]
    Probabilities,
    /// As logarithms of probabilities.
    Logarithms,
}

/// The Kullback-Leibler divergence, element by element `target * (log target - input)`; `input` is
/// log-probabilities. Where the target is 0, so is the loss. [`Reduction::BatchMean`] gives the
/// divergence itself.
#[must_use]
#[track_caller]
pub fn kl_div(
    input: &DynTensor,
    target: &DynTensor,
    form: KlTarget,
    reduction: Reduction,
) -> DynTensor {
    let (input, target) = (&*full(input), &*full(target));
    reduction.of(&match form {
        KlTarget::Logarithms => target.exp().mul(&target.sub(input)),
        KlTarget::Probabilities => {
            let zero = target.eq(0.0);
            let entropy = target.mul(&target.masked_fill(&zero, 1.0).log());
            entropy.sub(&target.mul(input))
        }
    })
}
