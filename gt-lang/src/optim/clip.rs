//! Clipping gradients, by their common norm or one by one. Call between `backward` and `step`.

use gt_ir::DType;

use crate::core::DynTensor;
use crate::no_grad::NoGrad;

/// Scales the gradients of these leaves so that their common Euclidean norm is at most `max_norm`;
/// returns the norm before. PyTorch's `clip_grad_norm_`.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// # let net: Linear<N<3>, N<1>> = Linear::new();
/// # let x: T![8, 3] = Tensor::randn();
/// net.forward(&x).square().mean().backward()?;
/// let before = clip_grad_norm(&net.parameters(), 1.0); // a tensor: reading it is up to you
/// # Ok::<(), gt::Error>(())
/// ```
#[doc(alias = "clip_grad_norm_")]
#[track_caller]
pub fn clip_grad_norm<'a>(
    params: impl IntoIterator<Item = &'a DynTensor>,
    max_norm: f64,
) -> DynTensor {
    let _guard = NoGrad::enter();
    let with_grad: Vec<(&DynTensor, DynTensor)> =
        params.into_iter().filter_map(|p| p.grad().map(|g| (p, g))).collect();
    let mut total: Option<DynTensor> = None;
    for (_, grad) in &with_grad {
        let squares = grad.square().sum(..);
        total = match total {
            Some(total) => Some(total + squares),
            None => Some(squares),
        };
    }
    let Some(total) = total else { return DynTensor::zeros((), DType::F32) };
    let norm = total.sqrt();
    let scale = norm.add(1e-6).pow(-1).mul(max_norm).minimum(1.0);
    for (param, grad) in with_grad {
        param.set_grad(Some(grad.mul(&scale)));
    }
    norm
}

/// Brings every element of the gradients of these leaves into `[-clip_value, clip_value]`.
/// PyTorch's `clip_grad_value_`.
#[doc(alias = "clip_grad_value_")]
#[track_caller]
pub fn clip_grad_value<'a>(params: impl IntoIterator<Item = &'a DynTensor>, clip_value: f64) {
    let _guard = NoGrad::enter();
    for param in params {
        if let Some(grad) = param.grad() {
            param.set_grad(Some(grad.clamp(-clip_value, clip_value)));
        }
    }
}
