//! Muon, a momentum whose matrices are made nearly orthogonal (Jordan et al. 2024).

use super::grouped::{Grouped, Rule, Slots};
use super::sgd::Nesterov;
use crate::core::DynTensor;
use crate::linalg::polar::{lying, quintic};

/// Steps of the polynomial that makes a matrix nearly orthogonal.
const STEPS: usize = 5;

/// The settings of [`Muon`]; defaults are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MuonConfig {
    /// Learning rate, multiplied by the root of rows over columns where there are more rows.
    pub lr: f64,
    /// How much of the momentum is kept.
    pub momentum: f64,
    /// Whether the gradient is looked at where the momentum leads.
    pub nesterov: Nesterov,
    /// Weight decay, taken off the parameter directly.
    pub weight_decay: f64,
}

impl Default for MuonConfig {
    fn default() -> Self {
        MuonConfig { lr: 1e-3, momentum: 0.95, nesterov: Nesterov::On, weight_decay: 0.1 }
    }
}

/// Steps along a momentum whose singular values are made nearly equal. For the matrices between
/// hidden layers; give embeddings, heads, biases and scales to another optimizer. Axes behind the
/// first count as one, and a parameter without two axes is a column.
///
/// PyTorch computes the polynomial in `bf16`; here it has the parameter's dtype.
pub type Muon = Grouped<MuonConfig>;

impl Rule for MuonConfig {
    const NAME: &'static str = "muon";
    const SLOTS: &'static [&'static str] = &["momentum_buffer"];

    #[track_caller]
    fn update(&self, param: &DynTensor, grad: &DynTensor, slots: &mut Slots) -> DynTensor {
        let kept = self.momentum;
        let buffer = slots.or_zeros(0, grad).mul(kept).add(&grad.mul(1.0 - kept));
        slots.put(0, &buffer);
        let direction = match self.nesterov {
            Nesterov::On => grad.mul(1.0 - kept).add(&buffer.mul(kept)),
            Nesterov::Off => buffer,
        };
        let rows = param.sizes().first().copied().unwrap_or(1).max(1);
        let columns = (param.numel() / rows).max(1);
        let matrix = direction.reshape([rows, columns]);
        let scaled = &matrix / matrix.norm(..).clamp_min(1e-7);
        let made = lying(&scaled, |x| quintic(x, STEPS));
        let lr = self.lr * (rows as f64 / columns as f64).max(1.0).sqrt();
        let step = made.reshape(param.shape()).mul(lr);
        param.mul(1.0 - self.lr * self.weight_decay).sub(&step)
    }

    fn settings(&mut self) -> Vec<(&'static str, &mut f64)> {
        let MuonConfig { lr, momentum, nesterov: _, weight_decay } = self;
        vec![("lr", lr), ("momentum", momentum), ("weight_decay", weight_decay)]
    }
}
