//! Adam (Kingma and Ba 2015), and Adam with decoupled weight decay (Loshchilov and Hutter 2019).

use super::grouped::{Grouped, Rule, Slots};
use super::sgd::decayed;
use crate::core::DynTensor;

/// The settings of [`AdamW`]; defaults are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamWConfig {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the running means of the gradient and of its square.
    pub betas: (f64, f64),
    /// Added to the denominator.
    pub eps: f64,
    /// Weight decay, taken off the parameter directly.
    pub weight_decay: f64,
    /// Which mean square the step is divided by.
    pub amsgrad: Amsgrad,
}

/// The settings of [`Adam`]; defaults are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamConfig {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the running means of the gradient and of its square.
    pub betas: (f64, f64),
    /// Added to the denominator.
    pub eps: f64,
    /// Weight decay, added to the gradient.
    pub weight_decay: f64,
    /// Which mean square the step is divided by.
    pub amsgrad: Amsgrad,
}

/// Whether steps are divided by the largest mean square so far (Reddi, Kale and Kumar 2018) instead
/// of the present one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Amsgrad {
    /// The present one.
    #[default]
    Off,
    /// The largest so far.
    On,
}

/// Adam with decoupled weight decay.
pub type AdamW = Grouped<AdamWConfig>;

/// Adam.
pub type Adam = Grouped<AdamConfig>;

impl Default for AdamWConfig {
    fn default() -> Self {
        AdamWConfig {
            lr: 1e-3,
            betas: (0.9, 0.999),
            eps: 1e-8,
            weight_decay: 1e-2,
            amsgrad: Amsgrad::Off,
        }
    }
}

impl Default for AdamConfig {
    fn default() -> Self {
        AdamConfig {
            lr: 1e-3,
            betas: (0.9, 0.999),
            eps: 1e-8,
            weight_decay: 0.0,
            amsgrad: Amsgrad::Off,
        }
    }
}

const SLOTS: &[&str] = &["exp_avg", "exp_avg_sq", "max_exp_avg_sq"];

/// What both forms share.
struct Moments {
    lr: f64,
    betas: (f64, f64),
    eps: f64,
    amsgrad: Amsgrad,
}

impl Moments {
    /// What the parameter loses in one step.
    #[track_caller]
    fn step(&self, grad: &DynTensor, slots: &mut Slots) -> DynTensor {
        let (b1, b2) = self.betas;
        let mean = slots.or_zeros(0, grad).mul(b1).add(&grad.mul(1.0 - b1));
        let square = slots.or_zeros(1, grad).mul(b2).add(&grad.mul(grad).mul(1.0 - b2));
        slots.put(0, &mean);
        slots.put(1, &square);
        let square = match self.amsgrad {
            Amsgrad::Off => square,
            Amsgrad::On => {
                let most = slots.or_zeros(2, grad).maximum(&square);
                slots.put(2, &most);
                most
            }
        };
        let correction = |beta: f64| 1.0 - beta.powi(slots.step);
        let denominator = square.sqrt().div(correction(b2).sqrt()).add(self.eps);
        mean.mul(self.lr / correction(b1)).div(&denominator)
    }
}

impl Rule for AdamWConfig {
    const NAME: &'static str = "adamw";
    const SLOTS: &'static [&'static str] = SLOTS;

    #[track_caller]
    fn update(&self, param: &DynTensor, grad: &DynTensor, slots: &mut Slots) -> DynTensor {
        let AdamWConfig { lr, betas, eps, weight_decay, amsgrad } = *self;
        let step = Moments { lr, betas, eps, amsgrad }.step(grad, slots);
        param.mul(1.0 - lr * weight_decay).sub(&step)
    }

    fn settings(&mut self) -> Vec<(&'static str, &mut f64)> {
        let AdamWConfig { lr, betas, eps, weight_decay, amsgrad: _ } = self;
        settings(lr, betas, eps, weight_decay)
    }
}

impl Rule for AdamConfig {
    const NAME: &'static str = "adam";
    const SLOTS: &'static [&'static str] = SLOTS;

    #[track_caller]
    fn update(&self, param: &DynTensor, grad: &DynTensor, slots: &mut Slots) -> DynTensor {
        let AdamConfig { lr, betas, eps, weight_decay, amsgrad } = *self;
        let grad = decayed(grad, param, weight_decay);
        param.sub(&Moments { lr, betas, eps, amsgrad }.step(&grad, slots))
    }

    fn settings(&mut self) -> Vec<(&'static str, &mut f64)> {
        let AdamConfig { lr, betas, eps, weight_decay, amsgrad: _ } = self;
        settings(lr, betas, eps, weight_decay)
    }
}

fn settings<'a>(
    lr: &'a mut f64,
    (beta1, beta2): &'a mut (f64, f64),
    eps: &'a mut f64,
    weight_decay: &'a mut f64,
) -> Vec<(&'static str, &'a mut f64)> {
    vec![
        ("lr", lr),
        ("beta1", beta1),
        ("beta2", beta2),
        ("eps", eps),
        ("weight_decay", weight_decay),
    ]
}
