//! Losses: functions of tensors built from operations alone, with PyTorch's names and defaults (mean over all elements).

use crate::core::DynTensor;

/// The mean of the squared differences.
#[must_use]
#[track_caller]
pub fn mse_loss(input: &DynTensor, target: &DynTensor) -> DynTensor {
    input.sub(target).square().mean(..)
}

/// The mean of the absolute differences.
#[must_use]
#[track_caller]
pub fn l1_loss(input: &DynTensor, target: &DynTensor) -> DynTensor {
    input.sub(target).abs().mean(..)
}

/// The mean negative log-likelihood of the classes `target` names (`i64`, shape `[N]`) under `logits` (`[N, C]`).
///
/// Any number of leading axes may stand in place of `N`; the classes are the last axis.
#[must_use]
#[track_caller]
pub fn cross_entropy(logits: &DynTensor, target: &DynTensor) -> DynTensor {
    nll_loss(&logits.log_softmax(-1), target)
}

/// The mean of minus the log-probability of the classes `target` names; the classes are the last axis of `log_probs`.
#[must_use]
#[track_caller]
pub fn nll_loss(log_probs: &DynTensor, target: &DynTensor) -> DynTensor {
    log_probs.gather(-1, &target.unsqueeze(-1)).mean(..).neg()
}

/// Binary cross entropy of probabilities; logarithms are no smaller than -100, as in PyTorch.
#[must_use]
#[track_caller]
pub fn binary_cross_entropy(input: &DynTensor, target: &DynTensor) -> DynTensor {
    let yes = bounded_log(input);
    let no = bounded_log(&input.neg().add(1.0));
    target.mul(&yes).add(&target.neg().add(1.0).mul(&no)).mean(..).neg()
}

/// The logarithm, no smaller than -100. Zeros stay out of `log`: its infinite slope times zero would be a gradient of NaN.
#[track_caller]
fn bounded_log(p: &DynTensor) -> DynTensor {
    let zero = p.eq(0.0);
    p.masked_fill(&zero, 1.0).log().masked_fill(&zero, -100.0).maximum(-100.0)
}

/// Binary cross entropy of logits `x`, without overflow: `max(x, 0) - x * y + log(1 + exp(-|x|))`.
#[must_use]
#[track_caller]
pub fn binary_cross_entropy_with_logits(input: &DynTensor, target: &DynTensor) -> DynTensor {
    let softplus = input.abs().neg().exp().add(1.0).log();
    // Not `relu`: at 0 the gradient is that of the sigmoid only if `max(x, 0)` shares the tie.
    input.maximum(0.0).sub(&input.mul(target)).add(&softplus).mean(..)
}
