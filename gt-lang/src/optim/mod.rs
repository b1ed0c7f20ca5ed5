//! Optimizers: they replace the values of leaf tensors from their gradients, with PyTorch's names and defaults.
//!
//! Guarantees: an update is recorded without tracking; the old value is freed; parameters without a gradient are left
//! alone; a parameter listed twice is updated once. Hyperparameters are literals of the tape, so changing one does not
//! make a new plan.

mod adamw;
mod sgd;
#[cfg(test)]
mod tests;

use std::panic::Location;

pub use adamw::{AdamW, AdamWConfig};
pub use sgd::{Nesterov, Sgd, SgdConfig};

use gt_ir::DType;

use crate::core::DynTensor;
use crate::error::{Error, ErrorKind, Result};
use crate::no_grad::NoGrad;
use crate::session::Session;

/// What all optimizers do.
pub trait Optimizer {
    /// Updates every parameter that has a gradient, and ends a [step](crate::Session::step) of the program.
    ///
    /// # Errors
    /// A parameter is not a leaf, so it has no value to replace, or its gradient was set to one of another type.
    fn step(&mut self) -> Result<()>;

    /// The learning rate.
    fn lr(&self) -> f64;

    /// Changes the learning rate.
    fn set_lr(&mut self, lr: f64);

    /// The parameters, each once, in the order given.
    fn parameters(&self) -> &[DynTensor];

    /// Forgets the gradients.
    fn zero_grad(&self) {
        self.parameters().iter().for_each(DynTensor::zero_grad);
    }
}

/// Scales the gradients of these leaves so that their common Euclidean norm is at most `max_norm`; returns the norm
/// before. PyTorch's `clip_grad_norm_`.
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
        total = Some(total.map_or(squares.clone(), |t| t + squares));
    }
    let Some(norm) = total.map(|t| t.sqrt()) else { return DynTensor::zeros((), DType::F32) };
    let scale = norm.add(1e-6).pow(-1).mul(max_norm).minimum(1.0);
    for (param, grad) in with_grad {
        param.set_grad(Some(grad.mul(&scale)));
    }
    norm
}

/// Ends a step of the session the parameters live in, or of each if there are several.
fn end_step(params: &[DynTensor]) {
    let mut ended: Vec<Session> = Vec::new();
    for session in params.iter().filter_map(DynTensor::session) {
        if !ended.iter().any(|s| s.is(&session)) {
            session.step();
            ended.push(session);
        }
    }
}

/// The parameters, each once.
fn distinct(params: impl IntoIterator<Item = DynTensor>) -> Vec<DynTensor> {
    let mut kept: Vec<DynTensor> = Vec::new();
    for param in params {
        if !kept.iter().any(|k| k.is(&param)) {
            kept.push(param);
        }
    }
    kept
}

/// The gradient of a parameter; `None` when there is none to follow.
#[track_caller]
fn gradient(op: &str, param: &DynTensor) -> Result<Option<DynTensor>> {
    if !param.is_leaf() {
        let message = format!(
            "{op}: the parameter {} is not a leaf, so its value cannot be replaced",
            param.ty()
        );
        let error = Error::new(ErrorKind::Gradient, message, Location::caller());
        return Err(error.hint("make it one with `.requires_grad()` and compute from that"));
    }
    Ok(param.grad())
}
