//! Stochastic gradient descent, with momentum and weight decay.

use super::grouped::{Grouped, Rule, Slots};
use crate::core::DynTensor;

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

/// Stochastic gradient descent: `p -= lr * g` (Sutskever et al. 2013 for momentum).
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// # let net: Linear<N<3>, N<1>> = Linear::new();
/// let config = SgdConfig { lr: 0.1, momentum: 0.9, ..Default::default() };
/// let mut optimizer = Sgd::new(net.parameters(), config);
/// ```
pub type Sgd = Grouped<SgdConfig>;

impl Rule for SgdConfig {
    const NAME: &'static str = "sgd";
    const SLOTS: &'static [&'static str] = &["momentum_buffer"];

    #[track_caller]
    fn update(&self, param: &DynTensor, grad: &DynTensor, slots: &mut Slots) -> DynTensor {
        let grad = decayed(grad, param, self.weight_decay);
        param.sub(&self.direction(grad, slots).mul(self.lr))
    }

    fn settings(&mut self) -> Vec<(&'static str, &mut f64)> {
        vec![
            ("lr", &mut self.lr),
            ("momentum", &mut self.momentum),
            ("dampening", &mut self.dampening),
            ("weight_decay", &mut self.weight_decay),
        ]
    }
}

impl SgdConfig {
    /// The direction to go, with momentum.
    #[track_caller]
    fn direction(&self, grad: DynTensor, slots: &mut Slots) -> DynTensor {
        if self.momentum == 0.0 {
            return grad;
        }
        let velocity = match slots.get(0) {
            None => grad.clone(),
            Some(before) if self.dampening == 0.0 => before.mul(self.momentum).add(&grad),
            Some(before) => before.mul(self.momentum).add(&grad.mul(1.0 - self.dampening)),
        };
        slots.put(0, &velocity);
        match self.nesterov {
            Nesterov::Off => velocity,
            Nesterov::On => grad.add(&velocity.mul(self.momentum)),
        }
    }
}

/// The gradient with weight decay as a penalty.
#[track_caller]
pub(super) fn decayed(grad: &DynTensor, param: &DynTensor, weight_decay: f64) -> DynTensor {
    if weight_decay == 0.0 { grad.clone() } else { grad.add(&param.mul(weight_decay)) }
}
