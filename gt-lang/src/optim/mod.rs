//! Optimizers: they replace the values of leaf tensors from their gradients, with PyTorch's names
//! and defaults.
//!
//! An optimizer is a [`Rule`] (the settings of one update) applied to groups of parameters
//! ([`Grouped`]); `AdamW` is `Grouped<AdamWConfig>`. Schedulers ([`schedule`]) change the settings'
//! numbers from step to step.
//!
//! Guarantees: an update is recorded without tracking; the old value is freed; parameters without a
//! gradient are left alone; a parameter listed twice is updated once. Hyperparameters are literals
//! of the tape, so changing one does not make a new plan.

mod adafactor;
mod adagrad;
mod adam;
mod clip;
mod ema;
mod grouped;
mod lbfgs;
mod lion;
mod muon;
mod nadam;
mod pytorch;
mod radam;
mod rmsprop;
mod scaler;
pub mod schedule;
mod sgd;
#[cfg(test)]
mod tests;
mod wolfe;

pub use adafactor::{Adafactor, AdafactorConfig};
pub use adagrad::{Adagrad, AdagradConfig};
pub use adam::{Adam, AdamConfig, AdamW, AdamWConfig, Amsgrad};
pub use clip::{clip_grad_norm, clip_grad_value};
pub use ema::Ema;
pub use grouped::{Grouped, Rule, Slots};
pub use lbfgs::{Lbfgs, LbfgsConfig, LineSearch};
pub use lion::{Lion, LionConfig};
pub use muon::{Muon, MuonConfig};
pub use nadam::{Decay, NAdam, NAdamConfig};
pub use radam::{RAdam, RAdamConfig};
pub use rmsprop::{Centered, RmsProp, RmsPropConfig};
pub use scaler::{GradScaler, GradScalerConfig};
pub use sgd::{Nesterov, Sgd, SgdConfig};

use crate::core::DynTensor;
use crate::error::Result;
use crate::state::Stateful;

/// What all optimizers do.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// # let net: Linear<N<3>, N<1>> = Linear::new();
/// let config = AdamWConfig { lr: 1e-3, ..Default::default() };
/// let mut optimizer = AdamW::new(net.parameters(), config);
/// # let x: T![8, 3] = Tensor::randn();
/// let loss = net.forward(&x).square().mean();
/// optimizer.zero_grad();
/// loss.backward()?;
/// optimizer.step()?;
/// optimizer.set_lr(5e-4); // compiles nothing anew
/// # Ok::<(), gt::Error>(())
/// ```
pub trait Optimizer: Stateful {
    /// Updates every parameter that has a gradient, and ends a [step](crate::Session::step) of the
    /// program.
    ///
    /// # Errors
    /// A parameter is not a leaf, so it has no value to replace, or its gradient was set to one of
    /// another type.
    fn step(&mut self) -> Result<()>;

    /// The parameters, each once, in the order given, group after group.
    fn parameters(&self) -> &[DynTensor];

    /// How many groups of parameters there are.
    fn groups(&self) -> usize;

    /// A setting of a group by its PyTorch name, such as `lr` or `momentum`; the two `betas` are
    /// `beta1` and `beta2`. `None` where there is no such group or setting.
    fn setting(&self, group: usize, name: &str) -> Option<f64>;

    /// Changes a setting of a group, named as in [`Optimizer::setting`]: PyTorch's
    /// `param_groups[group][name] = value`.
    ///
    /// # Errors
    /// There is no such group, or its settings have other names, which are listed.
    #[track_caller]
    fn set(&mut self, group: usize, name: &str, value: f64) -> Result<()>;

    /// The learning rate of the first group.
    fn lr(&self) -> f64 {
        self.setting(0, "lr").unwrap_or(0.0)
    }

    /// Changes the learning rate of all groups.
    fn set_lr(&mut self, lr: f64) {
        for group in 0..self.groups() {
            // One without a learning rate, which none here is, keeps what it has.
            let _ = self.set(group, "lr", lr);
        }
    }

    /// Forgets the gradients.
    fn zero_grad(&self) {
        self.parameters().iter().for_each(DynTensor::zero_grad);
    }
}
