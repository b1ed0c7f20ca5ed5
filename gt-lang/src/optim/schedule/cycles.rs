//! Schedules that start again, and schedules one after the other.

use std::f64::consts::PI;

use super::{CycleMomentum, Schedule};

/// Down to 0 in `total_iters` steps along a power of what is left, then it stays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolynomialLr {
    /// Number of steps.
    pub total_iters: u64,
    /// The power; 1 is a straight line.
    pub power: f64,
}

impl Schedule for PolynomialLr {
    fn lr(&self, base: f64, step: u64) -> f64 {
        let total = self.total_iters.max(1);
        base * (1.0 - step.min(total) as f64 / total as f64).powf(self.power)
    }
}

/// Half a cosine down to `eta_min` in `t_0` steps, then up at once and down again, each time in
/// `t_mult` times as many steps (Loshchilov and Hutter 2017).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CosineAnnealingWarmRestarts {
    /// Steps until the first restart; 0 counts as 1.
    pub t_0: u64,
    /// By how much each period is longer than the one before; 0 counts as 1.
    pub t_mult: u64,
    /// The lowest learning rate.
    pub eta_min: f64,
}

impl Schedule for CosineAnnealingWarmRestarts {
    fn lr(&self, base: f64, step: u64) -> f64 {
        let (mut period, mut since) = (self.t_0.max(1), step);
        if self.t_mult <= 1 {
            since %= period;
        }
        while since >= period {
            since -= period;
            period = period.saturating_mul(self.t_mult);
        }
        let done = since as f64 / period as f64;
        self.eta_min + (base - self.eta_min) * (1.0 + (PI * done).cos()) / 2.0
    }
}

/// How the height of a [`CyclicLr`] changes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum CycleHeight {
    /// All cycles are as high: PyTorch's `triangular`.
    #[default]
    Same,
    /// Each is half as high as the one before: `triangular2`.
    Halved,
    /// By a power of this number for each step: `exp_range`.
    Decaying(f64),
}

/// From the learning rate up to `max_lr` and down again in straight lines, again and again (Smith
/// 2017).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CyclicLr {
    /// The rate at the height of the first cycle.
    pub max_lr: f64,
    /// Steps up; 0 counts as 1.
    pub step_size_up: u64,
    /// Steps down; 0 counts as 1.
    pub step_size_down: u64,
    /// How the height changes.
    pub height: CycleHeight,
    /// The momentum, which falls as the learning rate rises. PyTorch cycles it unless told not to,
    /// between 0.8 and 0.9.
    pub cycle_momentum: CycleMomentum,
}

impl CyclicLr {
    /// How far up a step is, from 0 to the height of its cycle.
    fn rise(&self, step: u64) -> f64 {
        let (up, down) = (self.step_size_up.max(1), self.step_size_down.max(1));
        let total = up.saturating_add(down);
        let (cycle, at) = (step / total, step % total);
        let share = match at <= up {
            true => at as f64 / up as f64,
            false => (total - at) as f64 / down as f64,
        };
        let factor = match self.height {
            CycleHeight::Same => 1.0,
            CycleHeight::Halved => 0.5_f64.powf(cycle as f64),
            CycleHeight::Decaying(gamma) => gamma.powf(step as f64),
        };
        share * factor
    }
}

impl Schedule for CyclicLr {
    fn lr(&self, base: f64, step: u64) -> f64 {
        base + (self.max_lr - base) * self.rise(step)
    }

    fn momentum(&self, step: u64) -> Option<f64> {
        match self.cycle_momentum {
            CycleMomentum::Off => None,
            CycleMomentum::Between(low, high) => Some(high - (high - low) * self.rise(step)),
        }
    }
}

/// Schedules one after the other, each of which counts its own steps from 0.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// # use gt::optim::schedule::*;
/// let warm_up = LinearLr { start_factor: 0.1, end_factor: 1.0, total_iters: 100 };
/// let down = PolynomialLr { total_iters: 900, power: 2.0 };
/// let schedule = SequentialLr::new(warm_up).then(100, down);
/// ```
pub struct SequentialLr {
    /// Where each begins; the first at 0.
    parts: Vec<(u64, Box<dyn Schedule>)>,
}

impl SequentialLr {
    /// Begins with a schedule.
    #[must_use]
    pub fn new(first: impl Schedule + 'static) -> SequentialLr {
        SequentialLr { parts: vec![(0, Box::new(first))] }
    }

    /// Goes on with another one from a step on, PyTorch's milestone. A step before that where the
    /// last one begins counts as that step.
    #[must_use]
    pub fn then(mut self, milestone: u64, next: impl Schedule + 'static) -> SequentialLr {
        let last = self.parts.last().map_or(0, |(begin, _)| *begin);
        self.parts.push((milestone.max(last), Box::new(next)));
        self
    }

    /// The schedule of a step, and the number of the step in it.
    fn at(&self, step: u64) -> Option<(&dyn Schedule, u64)> {
        let part = self.parts.iter().rev().find(|(begin, _)| *begin <= step);
        part.map(|(begin, schedule)| (&**schedule, step - begin))
    }
}

impl std::fmt::Debug for SequentialLr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let begins: Vec<u64> = self.parts.iter().map(|(begin, _)| *begin).collect();
        f.debug_struct("SequentialLr").field("begins", &begins).finish_non_exhaustive()
    }
}

impl Schedule for SequentialLr {
    fn lr(&self, base: f64, step: u64) -> f64 {
        self.at(step).map_or(base, |(schedule, own)| schedule.lr(base, own))
    }

    fn momentum(&self, step: u64) -> Option<f64> {
        self.at(step).and_then(|(schedule, own)| schedule.momentum(own))
    }
}

/// Schedules at the same time: each gets the learning rate that the one before gives. Of schedules
/// that multiply, which are all but those with a learning rate of their own as their aim, it is
/// PyTorch's `ChainedScheduler`. Of the momentum the last that changes it counts.
pub struct ChainedLr {
    schedules: Vec<Box<dyn Schedule>>,
}

impl ChainedLr {
    /// Begins with one schedule.
    #[must_use]
    pub fn new(first: impl Schedule + 'static) -> ChainedLr {
        ChainedLr { schedules: vec![Box::new(first)] }
    }

    /// Adds another.
    #[must_use]
    pub fn with(mut self, next: impl Schedule + 'static) -> ChainedLr {
        self.schedules.push(Box::new(next));
        self
    }
}

impl Schedule for ChainedLr {
    fn lr(&self, base: f64, step: u64) -> f64 {
        self.schedules.iter().fold(base, |lr, schedule| schedule.lr(lr, step))
    }

    fn momentum(&self, step: u64) -> Option<f64> {
        self.schedules.iter().rev().find_map(|schedule| schedule.momentum(step))
    }
}

impl std::fmt::Debug for ChainedLr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChainedLr({} schedules)", self.schedules.len())
    }
}
