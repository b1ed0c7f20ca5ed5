//! The schedules themselves, each with PyTorch's parameters and values.

use std::f64::consts::PI;

use super::Schedule;

/// `gamma` times smaller every `step_size` steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepLr {
    /// Steps between two changes; 0 counts as 1.
    pub step_size: u64,
    /// Factor of each change.
    pub gamma: f64,
}

impl Schedule for StepLr {
    fn lr(&self, base: f64, step: u64) -> f64 {
        base * power(self.gamma, step / self.step_size.max(1))
    }
}

/// `gamma` times smaller at each of the milestones.
#[derive(Clone, Debug, PartialEq)]
pub struct MultiStepLr {
    /// The steps it changes at; one listed twice counts twice.
    pub milestones: Vec<u64>,
    /// Factor of each change.
    pub gamma: f64,
}

impl Schedule for MultiStepLr {
    fn lr(&self, base: f64, step: u64) -> f64 {
        base * power(self.gamma, self.milestones.iter().filter(|at| **at <= step).count() as u64)
    }
}

/// The learning rate times a factor for so many steps, then the learning rate. PyTorch's defaults
/// are a third for 5 steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConstantLr {
    /// What the learning rate is multiplied by.
    pub factor: f64,
    /// For how many steps.
    pub total_iters: u64,
}

impl Schedule for ConstantLr {
    fn lr(&self, base: f64, step: u64) -> f64 {
        if step < self.total_iters { base * self.factor } else { base }
    }
}

/// The learning rate times what a function gives for step 1, 2 and so on up to the present one.
/// Each step calls the function for all before.
pub struct MultiplicativeLr<F>(pub F);

impl<F: Fn(u64) -> f64> Schedule for MultiplicativeLr<F> {
    fn lr(&self, base: f64, step: u64) -> f64 {
        (1..=step).fold(base, |lr, step| lr * (self.0)(step))
    }
}

/// `gamma` times smaller in each step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExponentialLr {
    /// Factor of each change.
    pub gamma: f64,
}

impl Schedule for ExponentialLr {
    fn lr(&self, base: f64, step: u64) -> f64 {
        base * power(self.gamma, step)
    }
}

/// From `start_factor` to `end_factor` times the learning rate in `total_iters` steps, then it
/// stays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearLr {
    /// Factor of the first step.
    pub start_factor: f64,
    /// Factor of the last.
    pub end_factor: f64,
    /// Number of steps between them.
    pub total_iters: u64,
}

impl Schedule for LinearLr {
    fn lr(&self, base: f64, step: u64) -> f64 {
        let done = share(step, self.total_iters);
        base * (self.start_factor + (self.end_factor - self.start_factor) * done)
    }
}

/// Half a period of a cosine down to `eta_min` in `t_max` steps, then up again (Loshchilov and
/// Hutter 2017, without restarts).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CosineAnnealingLr {
    /// Steps of half a period.
    pub t_max: u64,
    /// The lowest learning rate.
    pub eta_min: f64,
}

impl Schedule for CosineAnnealingLr {
    fn lr(&self, base: f64, step: u64) -> f64 {
        let angle = PI * step as f64 / self.t_max.max(1) as f64;
        self.eta_min + (base - self.eta_min) * (1.0 + angle.cos()) / 2.0
    }
}

/// Up in a straight line for `warmup` steps, the first of which has `1 / warmup` of the learning
/// rate; then along half a cosine down to `min_factor` of it at step `total`, where it stays. What
/// GPT-like models are trained with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmupCosine {
    /// Steps of warm-up.
    pub warmup: u64,
    /// All steps, warm-up included.
    pub total: u64,
    /// The lowest factor.
    pub min_factor: f64,
}

impl Schedule for WarmupCosine {
    fn lr(&self, base: f64, step: u64) -> f64 {
        if step < self.warmup {
            return base * (step + 1) as f64 / self.warmup as f64;
        }
        let done = share(step - self.warmup, self.total.saturating_sub(self.warmup));
        base * (self.min_factor + (1.0 - self.min_factor) * (1.0 + (PI * done).cos()) / 2.0)
    }
}

/// Any function of the step's number: the factor of the learning rate.
#[derive(Clone, Copy, Debug)]
pub struct LambdaLr<F>(pub F);

impl<F: Fn(u64) -> f64> Schedule for LambdaLr<F> {
    fn lr(&self, base: f64, step: u64) -> f64 {
        base * (self.0)(step)
    }
}

/// Up from `max_lr / div_factor` to `max_lr`, then down to `max_lr / div_factor /
/// final_div_factor`, the momentum the other way (Smith and Topin 2018). The optimizer's own
/// learning rate is not used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OneCycleLr {
    /// The highest learning rate.
    pub max_lr: f64,
    /// Steps of the whole cycle.
    pub total_steps: u64,
    /// Share of the steps that go up.
    pub pct_start: f64,
    /// The curve between two turning points.
    pub anneal: Anneal,
    /// What the momentum does meanwhile.
    pub cycle_momentum: CycleMomentum,
    /// How much lower the first learning rate is than the highest.
    pub div_factor: f64,
    /// How much lower the last learning rate is than the first.
    pub final_div_factor: f64,
}

/// A curve between two values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anneal {
    /// Half a period of a cosine.
    #[default]
    Cos,
    /// A straight line.
    Linear,
}

/// Whether the momentum runs against the learning rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CycleMomentum {
    /// It stays.
    Off,
    /// From the second, higher value down to the first, and back.
    Between(f64, f64),
}

impl OneCycleLr {
    /// PyTorch's defaults for a cycle.
    pub fn new(max_lr: f64, total_steps: u64) -> OneCycleLr {
        OneCycleLr {
            max_lr,
            total_steps,
            pct_start: 0.3,
            anneal: Anneal::Cos,
            cycle_momentum: CycleMomentum::Between(0.85, 0.95),
            div_factor: 25.0,
            final_div_factor: 1e4,
        }
    }

    /// The value at a step of something that goes from `start` to `middle` to `end`.
    fn at(&self, step: u64, start: f64, middle: f64, end: f64) -> f64 {
        let top = self.pct_start * self.total_steps as f64 - 1.0;
        let last = self.total_steps as f64 - 1.0;
        let step = (step as f64).min(last);
        if step <= top {
            return self.anneal.between(start, middle, step / top);
        }
        self.anneal.between(middle, end, (step - top) / (last - top))
    }
}

impl Schedule for OneCycleLr {
    fn lr(&self, _: f64, step: u64) -> f64 {
        let first = self.max_lr / self.div_factor;
        self.at(step, first, self.max_lr, first / self.final_div_factor)
    }

    fn momentum(&self, step: u64) -> Option<f64> {
        match self.cycle_momentum {
            CycleMomentum::Off => None,
            CycleMomentum::Between(low, high) => Some(self.at(step, high, low, high)),
        }
    }
}

impl Anneal {
    /// The value at a fraction of the way from start to end.
    fn between(self, start: f64, end: f64, done: f64) -> f64 {
        match self {
            Anneal::Cos => end + (start - end) / 2.0 * (1.0 + (PI * done).cos()),
            Anneal::Linear => start + (end - start) * done,
        }
    }
}

/// A number to a whole power, however high.
fn power(base: f64, times: u64) -> f64 {
    base.powf(times as f64)
}

/// How much of the way is behind, at most all of it.
fn share(step: u64, of: u64) -> f64 {
    if of == 0 { 1.0 } else { step.min(of) as f64 / of as f64 }
}
