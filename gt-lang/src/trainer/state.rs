//! Where a training stands: its counters, its sums of losses, and the last measures.
//!
//! Guarantees: all of it is in a checkpoint, sums to the bit.

use std::collections::BTreeMap;

use gt_ir::{DType, HostTensor};

use super::{EarlyStopping, Epoch};
use crate::core::DynTensor;
use crate::error::Result;
use crate::optim::schedule::PlateauMode;
use crate::state::{Commit, StateDict, Stateful};

/// The mean of losses that are not read one by one.
#[derive(Default)]
pub(super) struct Mean {
    total: Option<DynTensor>,
    pub(super) n: u64,
}

impl Mean {
    /// Adds a loss. Narrow floats are added in `f32`.
    pub(super) fn add(&mut self, loss: DynTensor) {
        let loss = match loss.dtype() {
            DType::F16 | DType::Bf16 => loss.to_dtype(DType::F32),
            _ => loss,
        };
        self.total = Some(match self.total.take() {
            Some(total) => total + loss,
            None => loss,
        });
        self.n += 1;
    }

    /// The mean, which is read, and forgotten here; `None` of nothing.
    pub(super) fn take(&mut self) -> Result<Option<f64>> {
        let Mean { total, n } = std::mem::take(self);
        total.map(|total| Ok(total.item()? / n as f64)).transpose()
    }

    fn save(&self, name: &str, state: &mut StateDict) -> Result<()> {
        state.insert_number(format!("{name}.n"), self.n.cast_signed());
        if let Some(total) = &self.total {
            state.insert(format!("{name}.total"), total.to_host()?);
        }
        Ok(())
    }
}

/// A mean as a state has it.
struct Saved {
    total: Option<HostTensor>,
    n: u64,
}

impl Saved {
    fn of(name: &str, state: &StateDict) -> Result<Saved> {
        let n: i64 = state.number(&format!("{name}.n"))?;
        Ok(Saved { total: state.get(&format!("{name}.total")).cloned(), n: n.cast_unsigned() })
    }

    fn restore(self) -> Mean {
        Mean { total: self.total.map(DynTensor::from_host), n: self.n }
    }
}

/// Where a training stands.
pub(super) struct Standing {
    pub(super) last: Epoch,
    /// The losses of the epoch that has begun.
    pub(super) of_epoch: Mean,
    /// The losses since the last point of the curves.
    pub(super) of_point: Mean,
    /// The best that the watched measure was.
    best: Option<f64>,
    /// Epochs since then.
    pub(super) waited: u64,
}

impl Standing {
    pub(super) fn new() -> Standing {
        let last = Epoch { epochs: 0, steps: 0, loss: f64::NAN, metrics: BTreeMap::new() };
        let (of_epoch, of_point) = (Mean::default(), Mean::default());
        Standing { last, of_epoch, of_point, best: None, waited: 0 }
    }

    /// Takes in the watched measure of an epoch.
    pub(super) fn judge(&mut self, measure: f64, how: &EarlyStopping) {
        let is_better = self.best.is_none_or(|best| match how.mode {
            PlateauMode::Min => measure < best - how.min_delta,
            PlateauMode::Max => measure > best + how.min_delta,
        });
        match is_better && !measure.is_nan() {
            true => (self.best, self.waited) = (Some(measure), 0),
            false => self.waited += 1,
        }
    }
}

impl Stateful for Standing {
    fn state_dict(&self) -> Result<StateDict> {
        let mut state = StateDict::new();
        state.insert_number("epochs", self.last.epochs.cast_signed());
        state.insert_number("steps", self.last.steps.cast_signed());
        state.insert_number("waited", self.waited.cast_signed());
        state.insert_number("loss", self.last.loss);
        state.insert_number("best", self.best.unwrap_or(f64::NAN));
        for (name, measure) in &self.last.metrics {
            state.insert_number(format!("metric.{name}"), *measure);
        }
        self.of_epoch.save("of_epoch", &mut state)?;
        self.of_point.save("of_point", &mut state)?;
        Ok(state)
    }

    fn prepare<'a>(&'a mut self, state: &StateDict) -> Result<Commit<'a>> {
        let counter = |name| state.number(name).map(i64::cast_unsigned);
        let (epochs, steps, waited) = (counter("epochs")?, counter("steps")?, counter("waited")?);
        let (loss, best): (f64, f64) = (state.number("loss")?, state.number("best")?);
        let measures = state.part("metric");
        let measure = |(name, _): (&str, _)| Ok((name.to_owned(), measures.number(name)?));
        let metrics = measures.iter().map(measure).collect::<Result<BTreeMap<_, _>>>()?;
        let (of_epoch, of_point) = (Saved::of("of_epoch", state)?, Saved::of("of_point", state)?);
        Ok(Box::new(move || {
            self.last = Epoch { epochs, steps, loss, metrics };
            (self.best, self.waited) = (Some(best).filter(|best| !best.is_nan()), waited);
            (self.of_epoch, self.of_point) = (of_epoch.restore(), of_point.restore());
        }))
    }
}
