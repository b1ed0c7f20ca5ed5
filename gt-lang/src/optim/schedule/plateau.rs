//! A learning rate that falls when a measure, such as the validation loss, stops getting better.

use crate::error::Result;
use crate::optim::Optimizer;
use crate::state::{Commit, Misfits, StateDict, Stateful};

/// Lowers the learning rates when a measure has not got better for a while. PyTorch's
/// `ReduceLROnPlateau`.
#[derive(Clone, Debug, PartialEq)]
pub struct ReduceLrOnPlateau {
    /// Which way is better.
    pub mode: PlateauMode,
    /// Factor of each change.
    pub factor: f64,
    /// Steps without getting better that are put up with.
    pub patience: u64,
    /// How much better counts as better.
    pub threshold: Threshold,
    /// Steps after a change in which nothing is counted.
    pub cooldown: u64,
    /// The lowest learning rate.
    pub min_lr: f64,
    /// A change smaller than this is not made.
    pub eps: f64,
    best: f64,
    bad_steps: u64,
    cooling: u64,
}

/// Which way a measure gets better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlateauMode {
    /// Smaller, as a loss.
    Min,
    /// Larger, as an accuracy.
    Max,
}

/// How much better counts as better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// By this share of the best.
    Relative(f64),
    /// By this much.
    Absolute(f64),
}

impl ReduceLrOnPlateau {
    /// PyTorch's defaults.
    pub fn new(mode: PlateauMode) -> ReduceLrOnPlateau {
        ReduceLrOnPlateau {
            mode,
            factor: 0.1,
            patience: 10,
            threshold: Threshold::Relative(1e-4),
            cooldown: 0,
            min_lr: 0.0,
            eps: 1e-8,
            best: worst(mode),
            bad_steps: 0,
            cooling: 0,
        }
    }

    /// Takes in one measure, and lowers the learning rates of all groups if it is time.
    pub fn step(&mut self, metric: f64, optimizer: &mut dyn Optimizer) {
        if self.is_better(metric) {
            (self.best, self.bad_steps) = (metric, 0);
        } else {
            self.bad_steps = self.bad_steps.saturating_add(1);
        }
        if self.cooling > 0 {
            (self.cooling, self.bad_steps) = (self.cooling - 1, 0);
        }
        if self.bad_steps > self.patience {
            self.reduce(optimizer);
            (self.cooling, self.bad_steps) = (self.cooldown, 0);
        }
    }

    fn is_better(&self, metric: f64) -> bool {
        match (self.mode, self.threshold) {
            (PlateauMode::Min, Threshold::Relative(t)) => metric < self.best * (1.0 - t),
            (PlateauMode::Min, Threshold::Absolute(t)) => metric < self.best - t,
            (PlateauMode::Max, Threshold::Relative(t)) => metric > self.best * (1.0 + t),
            (PlateauMode::Max, Threshold::Absolute(t)) => metric > self.best + t,
        }
    }

    fn reduce(&self, optimizer: &mut dyn Optimizer) {
        for group in 0..optimizer.groups() {
            let Some(lr) = optimizer.setting(group, "lr") else { continue };
            let lower = (lr * self.factor).max(self.min_lr);
            if lr - lower > self.eps {
                // It was just read.
                let _ = optimizer.set(group, "lr", lower);
            }
        }
    }
}

/// What every measure is better than.
fn worst(mode: PlateauMode) -> f64 {
    match mode {
        PlateauMode::Min => f64::INFINITY,
        PlateauMode::Max => f64::NEG_INFINITY,
    }
}

impl Stateful for ReduceLrOnPlateau {
    fn state_dict(&self) -> Result<StateDict> {
        let mut state = StateDict::new();
        state.insert_number("best", self.best);
        state.insert_number("bad_steps", self.bad_steps.cast_signed());
        state.insert_number("cooling", self.cooling.cast_signed());
        Ok(state)
    }

    fn prepare<'a>(&'a mut self, state: &StateDict) -> Result<Commit<'a>> {
        Misfits::names("plateau", state, &["best", "bad_steps", "cooling"]).finish()?;
        let best = state.number("best")?;
        let (bad, cooling): (i64, i64) = (state.number("bad_steps")?, state.number("cooling")?);
        Ok(Box::new(move || {
            (self.best, self.bad_steps) = (best, bad.cast_unsigned());
            self.cooling = cooling.cast_unsigned();
        }))
    }
}
