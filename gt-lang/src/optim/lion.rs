//! Lion, "evolved sign momentum" (Chen et al. 2023, algorithm 2).

use super::grouped::{Grouped, Rule, Slots};
use crate::core::DynTensor;

/// The settings of [`Lion`]; defaults are the paper's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LionConfig {
    /// Learning rate; a tenth to a third of AdamW's.
    pub lr: f64,
    /// How much of the momentum goes into the step, and how much is kept.
    pub betas: (f64, f64),
    /// Weight decay, taken off the parameter directly; three to ten times AdamW's.
    pub weight_decay: f64,
}

impl Default for LionConfig {
    fn default() -> Self {
        LionConfig { lr: 1e-4, betas: (0.9, 0.99), weight_decay: 0.0 }
    }
}

/// Steps of one size, in the direction of the sign of a momentum.
pub type Lion = Grouped<LionConfig>;

impl Rule for LionConfig {
    const NAME: &'static str = "lion";
    const SLOTS: &'static [&'static str] = &["exp_avg"];

    #[track_caller]
    fn update(&self, param: &DynTensor, grad: &DynTensor, slots: &mut Slots) -> DynTensor {
        let (b1, b2) = self.betas;
        let momentum = slots.or_zeros(0, grad);
        let direction = momentum.mul(b1).add(&grad.mul(1.0 - b1)).sign();
        slots.put(0, &momentum.mul(b2).add(&grad.mul(1.0 - b2)));
        param.mul(1.0 - self.lr * self.weight_decay).sub(&direction.mul(self.lr))
    }

    fn settings(&mut self) -> Vec<(&'static str, &mut f64)> {
        let LionConfig { lr, betas: (beta1, beta2), weight_decay } = self;
        vec![("lr", lr), ("beta1", beta1), ("beta2", beta2), ("weight_decay", weight_decay)]
    }
}
