//! Adagrad (Duchi, Hazan and Singer 2011).

use super::grouped::{Grouped, Rule, Slots};
use super::sgd::decayed;
use crate::core::DynTensor;

/// The settings of [`Adagrad`]; defaults are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdagradConfig {
    /// Learning rate.
    pub lr: f64,
    /// How fast the learning rate falls: step `t` has `lr / (1 + (t - 1) * lr_decay)`.
    pub lr_decay: f64,
    /// Weight decay, added to the gradient.
    pub weight_decay: f64,
    /// What the sums of squares start from.
    pub initial_accumulator_value: f64,
    /// Added to the denominator.
    pub eps: f64,
}

impl Default for AdagradConfig {
    fn default() -> Self {
        AdagradConfig {
            lr: 1e-2,
            lr_decay: 0.0,
            weight_decay: 0.0,
            initial_accumulator_value: 0.0,
            eps: 1e-10,
        }
    }
}

/// Gradient descent by gradients divided by the root of the sum of their squares so far.
pub type Adagrad = Grouped<AdagradConfig>;

impl Rule for AdagradConfig {
    const NAME: &'static str = "adagrad";
    const SLOTS: &'static [&'static str] = &["sum"];

    #[track_caller]
    fn update(&self, param: &DynTensor, grad: &DynTensor, slots: &mut Slots) -> DynTensor {
        let grad = decayed(grad, param, self.weight_decay);
        let before = match slots.get(0) {
            Some(sum) => sum.clone(),
            None => grad.full_like(self.initial_accumulator_value),
        };
        let sum = before.add(&grad.mul(&grad));
        slots.put(0, &sum);
        let lr = self.lr / (1.0 + f64::from(slots.step - 1) * self.lr_decay);
        param.sub(&grad.div(&sum.sqrt().add(self.eps)).mul(lr))
    }

    fn settings(&mut self) -> Vec<(&'static str, &mut f64)> {
        let AdagradConfig { lr, lr_decay, weight_decay, initial_accumulator_value, eps } = self;
        vec![
            ("lr", lr),
            ("lr_decay", lr_decay),
            ("weight_decay", weight_decay),
            ("initial_accumulator_value", initial_accumulator_value),
            ("eps", eps),
        ]
    }
}
