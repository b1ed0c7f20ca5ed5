//! RAdam, Adam whose first steps are those of a momentum until the mean square is known well enough
//! (Liu et al. 2020).

use super::grouped::{Grouped, Rule, Slots};
use super::sgd::decayed;
use crate::core::DynTensor;

/// The settings of [`RAdam`]; defaults are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RAdamConfig {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the running means of the gradient and of its square.
    pub betas: (f64, f64),
    /// Added to the denominator.
    pub eps: f64,
    /// Weight decay, added to the gradient.
    pub weight_decay: f64,
}

impl Default for RAdamConfig {
    fn default() -> Self {
        RAdamConfig { lr: 1e-3, betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.0 }
    }
}

/// Adam with a rectified variance.
pub type RAdam = Grouped<RAdamConfig>;

impl Rule for RAdamConfig {
    const NAME: &'static str = "radam";
    const SLOTS: &'static [&'static str] = &["exp_avg", "exp_avg_sq"];

    #[track_caller]
    fn update(&self, param: &DynTensor, grad: &DynTensor, slots: &mut Slots) -> DynTensor {
        let (b1, b2) = self.betas;
        let grad = &decayed(grad, param, self.weight_decay);
        let mean = slots.or_zeros(0, grad).mul(b1).add(&grad.mul(1.0 - b1));
        let square = slots.or_zeros(1, grad).mul(b2).add(&grad.mul(grad).mul(1.0 - b2));
        slots.put(0, &mean);
        slots.put(1, &square);
        let correction = |beta: f64| 1.0 - beta.powi(slots.step);
        // How many steps the mean square averages, at most and by now.
        let most = 2.0 / (1.0 - b2) - 1.0;
        let now = most - 2.0 * f64::from(slots.step) * b2.powi(slots.step) / correction(b2);
        // Either number is 0, so that each step records the same.
        let (adaptive, plain) = match now > 5.0 {
            true => {
                let above = (now - 4.0) * (now - 2.0) * most;
                let below = (most - 4.0) * (most - 2.0) * now;
                ((above / below).sqrt() * correction(b2).sqrt(), 0.0)
            }
            false => (0.0, 1.0),
        };
        let scale = square.sqrt().add(self.eps).reciprocal().mul(adaptive).add(plain);
        param.sub(&mean.mul(self.lr / correction(b1)).mul(&scale))
    }

    fn settings(&mut self) -> Vec<(&'static str, &mut f64)> {
        let RAdamConfig { lr, betas: (beta1, beta2), eps, weight_decay } = self;
        vec![
            ("lr", lr),
            ("beta1", beta1),
            ("beta2", beta2),
            ("eps", eps),
            ("weight_decay", weight_decay),
        ]
    }
}
