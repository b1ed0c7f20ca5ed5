//! RMSprop (Tieleman and Hinton 2012), centered as in Graves (2013) if asked for.

use super::grouped::{Grouped, Rule, Slots};
use super::sgd::decayed;
use crate::core::DynTensor;

/// The settings of [`RmsProp`]; defaults are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RmsPropConfig {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the running mean of the squared gradient.
    pub alpha: f64,
    /// Added to the denominator.
    pub eps: f64,
    /// Weight decay, added to the gradient.
    pub weight_decay: f64,
    /// Share of the last step kept in the next.
    pub momentum: f64,
    /// What the gradient is divided by.
    pub centered: Centered,
}

/// Whether the gradient is divided by its standard deviation instead of its root mean square.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Centered {
    /// By its root mean square.
    #[default]
    Off,
    /// By its standard deviation.
    On,
}

impl Default for RmsPropConfig {
    fn default() -> Self {
        RmsPropConfig {
            lr: 1e-2,
            alpha: 0.99,
            eps: 1e-8,
            weight_decay: 0.0,
            momentum: 0.0,
            centered: Centered::Off,
        }
    }
}

/// Gradient descent by gradients divided by a running root mean square of theirs.
pub type RmsProp = Grouped<RmsPropConfig>;

impl Rule for RmsPropConfig {
    const NAME: &'static str = "rmsprop";
    const SLOTS: &'static [&'static str] = &["square_avg", "momentum_buffer", "grad_avg"];

    #[track_caller]
    fn update(&self, param: &DynTensor, grad: &DynTensor, slots: &mut Slots) -> DynTensor {
        let grad = &decayed(grad, param, self.weight_decay);
        let scaled = grad.div(&self.size(grad, slots).add(self.eps));
        if self.momentum == 0.0 {
            return param.sub(&scaled.mul(self.lr));
        }
        let velocity = slots.or_zeros(1, grad).mul(self.momentum).add(&scaled);
        slots.put(1, &velocity);
        param.sub(&velocity.mul(self.lr))
    }

    fn settings(&mut self) -> Vec<(&'static str, &mut f64)> {
        let RmsPropConfig { lr, alpha, eps, weight_decay, momentum, centered: _ } = self;
        vec![
            ("lr", lr),
            ("alpha", alpha),
            ("eps", eps),
            ("weight_decay", weight_decay),
            ("momentum", momentum),
        ]
    }
}

impl RmsPropConfig {
    /// The size gradients have had lately.
    #[track_caller]
    fn size(&self, grad: &DynTensor, slots: &mut Slots) -> DynTensor {
        let rest = 1.0 - self.alpha;
        let square = slots.or_zeros(0, grad).mul(self.alpha).add(&grad.mul(grad).mul(rest));
        slots.put(0, &square);
        match self.centered {
            Centered::Off => square.sqrt(),
            Centered::On => {
                let mean = slots.or_zeros(2, grad).mul(self.alpha).add(&grad.mul(rest));
                slots.put(2, &mean);
                square.sub(&mean.mul(&mean)).sqrt()
            }
        }
    }
}
