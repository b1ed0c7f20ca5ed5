//! Stochastic gradient descent, with momentum and weight decay.

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
    /// Nesterov's form of momentum or the plain one.
    pub nesterov: bool,
}

impl Default for SgdConfig {
    fn default() -> Self {
        SgdConfig { lr: 1e-3, momentum: 0.0, dampening: 0.0, weight_decay: 0.0, nesterov: false }
    }
}

/// Stochastic gradient descent: `p -= lr * g`.
pub struct Sgd {
    params: Vec<DynTensor>,
    config: SgdConfig,
    momentum: Vec<Option<DynTensor>>,
}
