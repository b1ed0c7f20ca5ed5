//! Adam with decoupled weight decay (Loshchilov and Hutter 2019).

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
}

impl Default for AdamWConfig {
    fn default() -> Self {
        AdamWConfig { lr: 1e-3, betas: (0.9, 0.999), eps: 1e-8, weight_decay: 1e-2 }
    }
}

/// Adam with decoupled weight decay.
pub struct AdamW {
    params: Vec<DynTensor>,
    config: AdamWConfig,
}
