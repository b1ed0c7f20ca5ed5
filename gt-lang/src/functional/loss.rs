//! Losses of numbers: distances between what came out and what should have.

use super::Reduction;
use super::precision::full;
use crate::core::DynTensor;

/// The mean of the squared differences.
#[must_use]
#[track_caller]
pub fn mse_loss(input: &DynTensor, target: &DynTensor) -> DynTensor {
    mse_loss_with(input, target, Reduction::Mean)
}

/// The squared differences.
#[must_use]
#[track_caller]
pub fn mse_loss_with(input: &DynTensor, target: &DynTensor, reduction: Reduction) -> DynTensor {
    reduction.of(&full(input).sub(&*full(target)).square())
}

/// The mean of the absolute differences.
#[must_use]
#[track_caller]
pub fn l1_loss(input: &DynTensor, target: &DynTensor) -> DynTensor {
    l1_loss_with(input, target, Reduction::Mean)
}

/// The absolute differences.
#[must_use]
#[track_caller]
pub fn l1_loss_with(input: &DynTensor, target: &DynTensor, reduction: Reduction) -> DynTensor {
    reduction.of(&full(input).sub(&*full(target)).abs())
}

/// [`smooth_l1_loss_with`] with `beta` 1, the mean.
#[must_use]
#[track_caller]
pub fn smooth_l1_loss(input: &DynTensor, target: &DynTensor) -> DynTensor {
    smooth_l1_loss_with(input, target, 1.0, Reduction::Mean)
}

/// `d^2 / (2 beta)` of differences smaller than `beta`, `|d| - beta / 2` of the others (Girshick
/// 2015). With `beta` 0 it is [`l1_loss_with`].
#[must_use]
#[track_caller]
pub fn smooth_l1_loss_with(
    input: &DynTensor,
    target: &DynTensor,
    beta: f64,
    reduction: Reduction,
) -> DynTensor {
    if beta == 0.0 {
        return l1_loss_with(input, target, reduction);
    }
    let difference = full(input).sub(&*full(target));
    let distance = difference.abs();
    let near = difference.square().mul(0.5 / beta);
    reduction.of(&distance.lt(beta).where_(&near, &distance.sub(0.5 * beta)))
}

/// `d^2 / 2` of differences up to `delta`, `delta (|d| - delta / 2)` of the others (Huber 1964).
/// PyTorch's `delta` is 1 by default.
#[must_use]
#[track_caller]
pub fn huber_loss(
    input: &DynTensor,
    target: &DynTensor,
    delta: f64,
    reduction: Reduction,
) -> DynTensor {
    let difference = full(input).sub(&*full(target));
    let distance = difference.abs();
    let far = distance.sub(0.5 * delta).mul(delta);
    reduction.of(&distance.le(delta).where_(&difference.square().mul(0.5), &far))
}
