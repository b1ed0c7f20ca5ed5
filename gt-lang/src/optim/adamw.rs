//! Adam with decoupled weight decay (Loshchilov and Hutter 2019).

use super::{Optimizer, distinct, end_step, gradient};
use crate::core::DynTensor;
use crate::error::Result;
use crate::no_grad::NoGrad;

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
    moments: Vec<Option<Moments>>,
}

/// The running means of one parameter's gradient and of its square, and how many steps they saw.
struct Moments {
    steps: i32,
    mean: DynTensor,
    square: DynTensor,
}

impl AdamW {
    /// An optimizer of these leaves.
    pub fn new(params: impl IntoIterator<Item = DynTensor>, config: AdamWConfig) -> AdamW {
        let params = distinct(params);
        AdamW { moments: params.iter().map(|_| None).collect(), params, config }
    }

    /// The settings.
    pub fn config(&self) -> &AdamWConfig {
        &self.config
    }
}

impl AdamWConfig {
    /// The moments after one more gradient. The first step starts from zeros, so that every step records the same.
    #[track_caller]
    fn moments(&self, grad: &DynTensor, before: Option<&Moments>) -> Moments {
        let (b1, b2) = self.betas;
        let (steps, mean, square) = match before {
            Some(m) => (m.steps, m.mean.clone(), m.square.clone()),
            None => (0, grad.zeros_like(), grad.zeros_like()),
        };
        Moments {
            steps: steps.saturating_add(1),
            mean: mean.mul(b1).add(&grad.mul(1.0 - b1)),
            square: square.mul(b2).add(&grad.mul(grad).mul(1.0 - b2)),
        }
    }

    /// The parameter after one step.
    #[track_caller]
    fn updated(&self, param: &DynTensor, moments: &Moments) -> DynTensor {
        let correction = |beta: f64| 1.0 - beta.powi(moments.steps);
        let size = self.lr / correction(self.betas.0);
        let denominator = moments.square.sqrt().div(correction(self.betas.1).sqrt()).add(self.eps);
        param.mul(1.0 - self.lr * self.weight_decay).sub(&moments.mean.mul(size).div(&denominator))
    }
}

impl Optimizer for AdamW {
    #[track_caller]
    fn step(&mut self) -> Result<()> {
        let _guard = NoGrad::enter();
        for (param, moments) in self.params.iter().zip(&mut self.moments) {
            let Some(grad) = gradient("adamw", param)? else { continue };
            let after = self.config.moments(&grad, moments.as_ref());
            param.assign(&self.config.updated(param, &after))?;
            *moments = Some(after);
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
