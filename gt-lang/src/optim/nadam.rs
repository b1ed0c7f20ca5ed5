//! NAdam, Adam with Nesterov's momentum (Dozat 2016).

use gt_ir::DType;

use super::grouped::{Grouped, Rule, Slots};
use super::sgd::decayed;
use crate::core::DynTensor;

/// The settings of [`NAdam`]; defaults are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NAdamConfig {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the running means of the gradient and of its square.
    pub betas: (f64, f64),
    /// Added to the denominator.
    pub eps: f64,
    /// Weight decay.
    pub weight_decay: f64,
    /// How fast the momentum grows from half of `betas.0` to all of it.
    pub momentum_decay: f64,
    /// What the weight decay is taken off.
    pub decay: Decay,
}

/// Where a weight decay goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decay {
    /// To the gradient, as a penalty of large parameters.
    #[default]
    Gradient,
    /// Off the parameter directly: PyTorch's `decoupled_weight_decay=True`.
    Decoupled,
}

impl Default for NAdamConfig {
    fn default() -> Self {
        NAdamConfig {
            lr: 2e-3,
            betas: (0.9, 0.999),
            eps: 1e-8,
            weight_decay: 0.0,
            momentum_decay: 4e-3,
            decay: Decay::Gradient,
        }
    }
}

/// Adam that looks at the gradient where its momentum leads.
pub type NAdam = Grouped<NAdamConfig>;

/// The slot of the product of all momenta, a single number.
const PRODUCT: usize = 2;

impl Rule for NAdamConfig {
    const NAME: &'static str = "nadam";
    const SLOTS: &'static [&'static str] = &["exp_avg", "exp_avg_sq", "mu_product"];

    fn slot_sizes(slot: usize, sizes: &[usize]) -> Vec<usize> {
        if slot == PRODUCT { Vec::new() } else { sizes.to_vec() }
    }

    #[track_caller]
    fn update(&self, param: &DynTensor, grad: &DynTensor, slots: &mut Slots) -> DynTensor {
        let (b1, b2) = self.betas;
        let (off_grad, off_param) = match self.decay {
            Decay::Gradient => (self.weight_decay, 0.0),
            Decay::Decoupled => (0.0, self.weight_decay),
        };
        let grad = &decayed(grad, param, off_grad);
        let mu =
            |step: i32| b1 * (1.0 - 0.5 * 0.96_f64.powf(f64::from(step) * self.momentum_decay));
        let (now, next) = (mu(slots.step), mu(slots.step.saturating_add(1)));
        let product = match slots.get(PRODUCT) {
            Some(product) => product.clone(),
            None => param.on_own(|| DynTensor::ones((), DType::F64)),
        };
        let product = product.mul(now);
        let mean = slots.or_zeros(0, grad).mul(b1).add(&grad.mul(1.0 - b1));
        let square = slots.or_zeros(1, grad).mul(b2).add(&grad.mul(grad).mul(1.0 - b2));
        slots.put(0, &mean);
        slots.put(1, &square);
        slots.put(PRODUCT, &product);
        let root = square.div(1.0 - b2.powi(slots.step)).sqrt().add(self.eps);
        let share =
            |of: f64, product: &DynTensor| (self.lr * of / (1.0 - product)).to_dtype(param.dtype());
        let here = grad * share(1.0 - now, &product);
        let ahead = mean * share(next, &product.mul(next));
        param.mul(1.0 - self.lr * off_param).sub(&((here + ahead) / root))
    }

    fn settings(&mut self) -> Vec<(&'static str, &mut f64)> {
        let NAdamConfig { lr, betas: (beta1, beta2), eps, weight_decay, momentum_decay, decay: _ } =
            self;
        vec![
            ("lr", lr),
            ("beta1", beta1),
            ("beta2", beta2),
            ("eps", eps),
            ("weight_decay", weight_decay),
            ("momentum_decay", momentum_decay),
        ]
    }
}
