//! Adafactor, whose mean squares of matrices are products of a column and a row (Shazeer and Stern
//! 2018).

use gt_ir::DType;

use super::grouped::{Grouped, Rule, Slots};
use crate::core::{DynTensor, keepdim};

/// The settings of [`Adafactor`]; defaults are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdafactorConfig {
    /// The largest learning rate; it is also at most one by the root of the number of steps.
    pub lr: f64,
    /// The power of the number of steps by which mean squares forget.
    pub beta2_decay: f64,
    /// What roots of mean squares are at least, and what the size of a parameter is at least. 0 as
    /// the first stands for the precision of the parameter's dtype, PyTorch's `None`.
    pub eps: (f64, f64),
    /// The largest root mean square of an update, before the learning rate.
    pub d: f64,
    /// Weight decay, taken off the parameter directly.
    pub weight_decay: f64,
}

impl Default for AdafactorConfig {
    fn default() -> Self {
        let eps = (0.0, 1e-3);
        AdafactorConfig { lr: 1e-2, beta2_decay: -0.8, eps, d: 1.0, weight_decay: 0.0 }
    }
}

/// Steps relative to the size of each parameter, with a state of rows and columns only: a matrix of
/// `m` by `n` needs `m + n` numbers.
pub type Adafactor = Grouped<AdafactorConfig>;

/// The slots.
const ROWS: usize = 0;
const COLUMNS: usize = 1;
const VARIANCE: usize = 2;

/// The distance from 1 to the next number.
fn precision(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        DType::F16 => 2.0_f64.powi(-10),
        DType::Bf16 => 2.0_f64.powi(-7),
        DType::F32 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => f32::EPSILON.into(),
    }
}

/// The root of the mean square.
#[track_caller]
fn size(x: &DynTensor) -> DynTensor {
    x.norm(..).div((x.numel() as f64).sqrt())
}

impl AdafactorConfig {
    /// The mean squares with those of this gradient.
    #[track_caller]
    fn squares(&self, grad: &DynTensor, slots: &mut Slots, eps: f64) -> DynTensor {
        let new = f64::from(slots.step).powf(self.beta2_decay);
        let mut moved = |slot: usize, to: &DynTensor| {
            let moved = slots.or_zeros(slot, to).lerp(to, new);
            slots.put(slot, &moved);
            moved
        };
        if grad.rank() < 2 {
            return moved(VARIANCE, &grad.square());
        }
        let rows = moved(ROWS, &grad.square().mean(keepdim(-1)));
        let columns = moved(COLUMNS, &grad.square().mean(keepdim(-2)));
        rows.matmul(&columns) / rows.mean(keepdim(-2)).clamp_min(eps)
    }
}

impl Rule for AdafactorConfig {
    const NAME: &'static str = "adafactor";
    const SLOTS: &'static [&'static str] = &["row_var", "col_var", "variance"];

    fn slot_sizes(slot: usize, sizes: &[usize]) -> Vec<usize> {
        let mut kept = sizes.to_vec();
        let folded = match slot {
            ROWS => kept.len().checked_sub(1),
            COLUMNS => kept.len().checked_sub(2),
            _ => None,
        };
        if let Some(axis) = folded {
            kept[axis] = 1;
        }
        kept
    }

    #[track_caller]
    fn update(&self, param: &DynTensor, grad: &DynTensor, slots: &mut Slots) -> DynTensor {
        let (eps1, eps2) = self.eps;
        let eps1 = if eps1 == 0.0 { precision(param.dtype()) } else { eps1 };
        let rate = self.lr.min(1.0 / f64::from(slots.step).sqrt());
        let rate = size(param).clamp_min(eps2).mul(rate);
        let update = grad * self.squares(grad, slots, eps1).clamp_min(eps1 * eps1).rsqrt();
        let bound = size(&update).div(self.d).clamp_min(1.0);
        param.mul(1.0 - self.lr * self.weight_decay).sub(&(update * (rate / bound)))
    }

    fn settings(&mut self) -> Vec<(&'static str, &mut f64)> {
        let AdafactorConfig { lr, beta2_decay, eps: (eps1, eps2), d, weight_decay } = self;
        vec![
            ("lr", lr),
            ("beta2_decay", beta2_decay),
            ("eps1", eps1),
            ("eps2", eps2),
            ("d", d),
            ("weight_decay", weight_decay),
        ]
    }
}
