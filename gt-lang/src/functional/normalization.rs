//! Normalization by batches and instances, unit vectors, and how far two vectors point the same
//! way.

use gt_ir::Op;

use crate::core::{Arg, Axes, DynTensor, keepdim};

/// What [`batch_norm`] gives: the result, and the running statistics after it.
pub struct BatchNorm {
    /// The normalized tensor.
    pub output: DynTensor,
    /// The running mean; in evaluation the one given.
    pub running_mean: DynTensor,
    /// The running variance (of samples, divided by `n - 1`); in evaluation the one given.
    pub running_var: DynTensor,
}

/// Normalizes each channel (axis 1) by the statistics of this batch, and moves the running ones
/// towards them by `momentum` (PyTorch's default is 0.1): `running * (1 - momentum) + batch *
/// momentum`. All four vectors have one number a channel; the running ones take no gradient.
#[must_use]
#[track_caller]
pub fn batch_norm(
    x: &DynTensor,
    running: (&DynTensor, &DynTensor),
    affine: (&DynTensor, &DynTensor),
    momentum: f64,
    eps: f64,
) -> BatchNorm {
    let axes: Vec<i64> = (0..x.rank() as i64).filter(|&a| a != 1).collect();
    let axes = Axes::from(axes.as_slice());
    let mean = x.mean(axes.clone());
    let output = normalized(x, (&mean, &x.var_with(axes.clone(), 0.0)), affine, eps);
    let seen = x.detach();
    BatchNorm {
        output,
        running_mean: moved(running.0, &mean, momentum),
        running_var: moved(running.1, &seen.var_with(axes, 1.0), momentum),
    }
}

/// A running number moved towards a new one.
#[track_caller]
fn moved(old: &DynTensor, new: &DynTensor, momentum: f64) -> DynTensor {
    old.mul(1.0 - momentum).add(&new.detach().to_dtype(old.dtype()).mul(momentum))
}

/// Normalizes each channel (axis 1) by given statistics: what [`batch_norm`] does in evaluation.
#[must_use]
#[track_caller]
pub fn batch_norm_eval(
    x: &DynTensor,
    running: (&DynTensor, &DynTensor),
    affine: (&DynTensor, &DynTensor),
    eps: f64,
) -> DynTensor {
    normalized(x, running, affine, eps)
}

#[track_caller]
fn normalized(
    x: &DynTensor,
    (mean, var): (&DynTensor, &DynTensor),
    (weight, bias): (&DynTensor, &DynTensor),
    eps: f64,
) -> DynTensor {
    let [mean, var, weight, bias] = [mean, var, weight, bias].map(Arg::Tensor);
    DynTensor::record(Op::BatchNorm, &[Arg::Tensor(x), mean, var, weight, bias, Arg::from(eps)])
}

/// Normalizes each channel (axis 1) of each example by its own mean and variance, then `* weight +
/// bias` (Ulyanov, Vedaldi and Lempitsky 2016).
#[must_use]
#[track_caller]
pub fn instance_norm(x: &DynTensor, weight: &DynTensor, bias: &DynTensor, eps: f64) -> DynTensor {
    x.group_norm(x.size(1), weight, bias, eps)
}

/// x divided by its norm of order `p` along `axis`, which counts as `eps` where it is smaller.
#[must_use]
#[track_caller]
pub fn normalize(x: &DynTensor, p: f64, axis: i64, eps: f64) -> DynTensor {
    let wide = x.widened();
    wide.div(&wide.norm_p(p, keepdim(axis)).clamp_min(eps)).narrowed([x.dtype(); 2])
}

/// The cosine of the angle between two tensors' vectors along `axis` of the shape that they
/// broadcast to; norms count as `eps` (PyTorch's default is `1e-8`) where they are smaller.
#[must_use]
#[track_caller]
pub fn cosine_similarity(a: &DynTensor, b: &DynTensor, axis: i64, eps: f64) -> DynTensor {
    // Shapes that do not broadcast are refused by the product.
    let (a, b) = match a.shape().broadcast(&b.shape()) {
        Some(shape) => (&a.expand(shape), &b.expand(shape)),
        None => (a, b),
    };
    let dtypes = [a.dtype(), b.dtype()];
    let (a, b) = (a.widened(), b.widened());
    let norms = a.norm(axis).clamp_min(eps).mul(&b.norm(axis).clamp_min(eps));
    a.mul(&b).sum(axis).div(&norms).narrowed(dtypes)
}

/// The distance of order `p` between two tensors' vectors along the last axis; `eps` is added to
/// each difference, as PyTorch does (`1e-6`).
#[must_use]
#[track_caller]
pub fn pairwise_distance(a: &DynTensor, b: &DynTensor, p: f64, eps: f64) -> DynTensor {
    a.sub(b).add(eps).norm_p(p, -1)
}
