//! Schedules: how the learning rate (and with one-cycle the momentum) changes from step to step.
//!
//! A [`Schedule`] is a function of the step's number and of what the optimizer was given at first;
//! [`Scheduler`] applies one. Call `scheduler.step(&mut optimizer)` after `optimizer.step()`, once
//! an epoch or once a step as the schedule's numbers are meant.
//!
//! ```no_run
//! # extern crate gt_lang as gt;
//! use gt::optim::schedule::{Scheduler, WarmupCosine};
//! use gt::prelude::*;
//! # fn f(net: Linear<N<2>, N<3>>) -> Result<()> {
//! let mut optimizer = AdamW::new(net.parameters(), AdamWConfig::default());
//! let schedule = WarmupCosine { warmup: 100, total: 5000, min_factor: 0.1 };
//! let mut scheduler = Scheduler::new(&mut optimizer, schedule);
//! for _ in 0..5000 {
//!     // .. backward ..
//!     optimizer.step()?;
//!     scheduler.step(&mut optimizer);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Guarantees: only numbers change, which are literals of the tape, so a step's plan is used on.
//! Values are PyTorch's, in closed form: they depend on the number of the step only, so errors do
//! not add up and a restored scheduler goes on exactly.

mod cycles;
mod plateau;
mod shapes;

pub use cycles::{
    ChainedLr, CosineAnnealingWarmRestarts, CycleHeight, CyclicLr, PolynomialLr, SequentialLr,
};
pub use plateau::{PlateauMode, ReduceLrOnPlateau, Threshold};
pub use shapes::{
    Anneal, ConstantLr, CosineAnnealingLr, CycleMomentum, ExponentialLr, LambdaLr, LinearLr,
    MultiStepLr, MultiplicativeLr, OneCycleLr, StepLr, WarmupCosine,
};

use super::Optimizer;
use crate::error::Result;
use crate::state::{Commit, Misfits, StateDict, Stateful};

/// The settings of a step.
pub trait Schedule {
    /// The learning rate of step `step` (the first is 0) of a group whose own is `base`.
    fn lr(&self, base: f64, step: u64) -> f64;

    /// The momentum of that step, where the schedule changes it.
    fn momentum(&self, _step: u64) -> Option<f64> {
        None
    }
}

/// One of several kinds, chosen at run time.
impl<S: Schedule + ?Sized> Schedule for Box<S> {
    fn lr(&self, base: f64, step: u64) -> f64 {
        (**self).lr(base, step)
    }
    fn momentum(&self, step: u64) -> Option<f64> {
        (**self).momentum(step)
    }
}

/// Applies a schedule to an optimizer, group by group.
pub struct Scheduler<S> {
    schedule: S,
    /// The learning rates the groups were given.
    base: Vec<f64>,
    step: u64,
}

impl<S: Schedule> Scheduler<S> {
    /// Starts a schedule: the optimizer gets the settings of step 0.
    pub fn new(optimizer: &mut dyn Optimizer, schedule: S) -> Scheduler<S> {
        let base = (0..optimizer.groups()).filter_map(|group| optimizer.setting(group, "lr"));
        let scheduler = Scheduler { base: base.collect(), schedule, step: 0 };
        scheduler.apply(optimizer);
        scheduler
    }

    /// Goes on to the next step's settings.
    pub fn step(&mut self, optimizer: &mut dyn Optimizer) {
        self.step = self.step.saturating_add(1);
        self.apply(optimizer);
    }

    /// The learning rates of the groups now.
    pub fn last_lr(&self) -> Vec<f64> {
        self.base.iter().map(|base| self.schedule.lr(*base, self.step)).collect()
    }

    fn apply(&self, optimizer: &mut dyn Optimizer) {
        for (group, base) in self.base.iter().enumerate() {
            // The groups that `base` was read of have a learning rate.
            let _ = optimizer.set(group, "lr", self.schedule.lr(*base, self.step));
            if let Some(momentum) = self.schedule.momentum(self.step) {
                // As in PyTorch: the momentum of optimizers that have one, else the first of the
                // betas.
                let first = if optimizer.setting(group, "momentum").is_some() {
                    "momentum"
                } else {
                    "beta1"
                };
                let _ = optimizer.set(group, first, momentum);
            }
        }
    }
}

/// The optimizer's own state has the settings in force; this is where the schedule stands.
impl<S: Schedule> Stateful for Scheduler<S> {
    fn state_dict(&self) -> Result<StateDict> {
        let mut state = StateDict::new();
        state.insert_number("step", self.step.cast_signed());
        for (group, base) in self.base.iter().enumerate() {
            state.insert_number(format!("base.{group}"), *base);
        }
        Ok(state)
    }

    fn prepare<'a>(&'a mut self, state: &StateDict) -> Result<Commit<'a>> {
        let names: Vec<String> =
            (0..self.base.len()).map(|group| format!("base.{group}")).collect();
        let mut wanted = vec!["step"];
        wanted.extend(names.iter().map(String::as_str));
        Misfits::names("scheduler", state, &wanted).finish()?;
        let step: i64 = state.number("step")?;
        let base = names.iter().map(|name| state.number(name)).collect::<Result<Vec<f64>>>()?;
        Ok(Box::new(move || (self.step, self.base) = (step.cast_unsigned(), base)))
    }
}
