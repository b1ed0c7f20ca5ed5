//! Optimizers: they replace the values of leaf tensors from their gradients, with PyTorch's names and defaults.
//!
//! Guarantees: an update is recorded without tracking; the old value is freed; parameters without a gradient are left
//! alone; a parameter listed twice is updated once. Hyperparameters are literals of the tape, so changing one does not
//! make a new plan.

mod adamw;
mod sgd;

pub use adamw::{AdamW, AdamWConfig};
pub use sgd::{Sgd, SgdConfig};

use crate::core::DynTensor;

/// What all optimizers do.
pub trait Optimizer {
    /// Updates every parameter from its gradient.
    fn step(&mut self);

    /// Forgets the gradients.
    fn zero_grad(&self);

    /// The learning rate.
    fn lr(&self) -> f64;

    /// Changes the learning rate.
    fn set_lr(&mut self, lr: f64);

    /// The parameters, in the order given.
    fn parameters(&self) -> &[DynTensor];
}
