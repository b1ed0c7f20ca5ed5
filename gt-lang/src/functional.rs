//! Losses: functions of tensors built from operations alone, with PyTorch's names and defaults (mean over all elements).

use crate::core::DynTensor;

/// The mean of the squared differences.
#[must_use]
#[track_caller]
pub fn mse_loss(input: &DynTensor, target: &DynTensor) -> DynTensor {
    (input - target).square().mean(..)
}

/// The mean negative log-likelihood of class indices `target` (`i64`, shape `[N]`) under `logits` (`[N, C]`).
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
    -log_probs.gather(-1, &target.unsqueeze(-1)).mean(..)
}

/// Binary cross entropy of probabilities; logarithms are no smaller than -100, as in PyTorch.
#[must_use]
#[track_caller]
pub fn binary_cross_entropy(input: &DynTensor, target: &DynTensor) -> DynTensor {
    todo!()
}

/// Binary cross entropy of logits, without overflow.
#[must_use]
#[track_caller]
pub fn binary_cross_entropy_with_logits(input: &DynTensor, target: &DynTensor) -> DynTensor {
    todo!()
}
