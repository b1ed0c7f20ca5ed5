//! Stochastic gradient descent, with momentum and weight decay.

use super::{Optimizer, distinct, end_step, gradient};
use crate::core::DynTensor;
use crate::error::Result;
use crate::no_grad::NoGrad;

/// The settings of [`Sgd`]; defaults are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SgdConfig {
    /// Learning rate.
    pub lr: f64,
    /// Share of the last step kept in the next.
    pub momentum: f64,
    /// Share by which momentum does not take up a new gradient.
    pub dampening: f64,
    /// Weight decay, added to the gradient.
    pub weight_decay: f64,
    /// The form of momentum.
    pub nesterov: Nesterov,
}

/// Whether momentum looks ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nesterov {
    /// Plain momentum.
    #[default]
    Off,
    /// Nesterov's momentum.
    On,
}

impl Default for SgdConfig {
    fn default() -> Self {
        SgdConfig {
            lr: 1e-3,
            momentum: 0.0,
            dampening: 0.0,
            weight_decay: 0.0,
            nesterov: Nesterov::Off,
        }
    }
}

/// Stochastic gradient descent: `p -= lr * g`.
pub struct Sgd {
    params: Vec<DynTensor>,
    config: SgdConfig,
    momentum: Vec<Option<DynTensor>>,
}

impl Sgd {
    /// An optimizer of these leaves.
    pub fn new(params: impl IntoIterator<Item = DynTensor>, config: SgdConfig) -> Sgd {
        let params = distinct(params);
        Sgd { momentum: vec![None; params.len()], params, config }
    }

    /// The settings.
    pub fn config(&self) -> &SgdConfig {
        &self.config
    }

    /// The momentum of each parameter that has one.
    pub fn state(&self) -> impl Iterator<Item = &DynTensor> {
        self.momentum.iter().flatten()
    }

    /// The direction to go, and the momentum after it.
    #[track_caller]
    fn direction(
        &self,
        param: &DynTensor,
        grad: DynTensor,
        before: Option<&DynTensor>,
    ) -> (DynTensor, Option<DynTensor>) {
        let SgdConfig { momentum, dampening, weight_decay, nesterov, .. } = self.config;
        let grad = if weight_decay == 0.0 { grad } else { grad.add(&param.mul(weight_decay)) };
        if momentum == 0.0 {
            return (grad, None);
        }
        let velocity = match before {
            None => grad.clone(),
            Some(before) if dampening == 0.0 => before.mul(momentum).add(&grad),
            Some(before) => before.mul(momentum).add(&grad.mul(1.0 - dampening)),
        };
        let direction = match nesterov {
            Nesterov::Off => velocity.clone(),
            Nesterov::On => grad.add(&velocity.mul(momentum)),
        };
        (direction, Some(velocity))
    }
}

impl Optimizer for Sgd {
    #[track_caller]
    fn step(&mut self) -> Result<()> {
        let _guard = NoGrad::enter();
        for i in 0..self.params.len() {
            let param = &self.params[i];
            let Some(grad) = gradient("sgd", param)? else { continue };
            let (direction, velocity) = self.direction(param, grad, self.momentum[i].as_ref());
            param.assign(&param.sub(&direction.mul(self.config.lr)))?;
            self.momentum[i] = velocity;
        }
        end_step(&self.params);
        Ok(())
    }

    fn lr(&self) -> f64 {
        self.config.lr
    }

    fn set_lr(&mut self, lr: f64) {
        self.config.lr = lr;
    }

    fn parameters(&self) -> &[DynTensor] {
        &self.params
    }
}
