//! A training that runs: the loop, the ends of epochs, and the checkpoints.

use std::collections::BTreeMap;
use std::panic::Location;

use super::state::Standing;
use super::{EarlyStopping, Interval, Outcome, Stop, Trainer};
use crate::core::DynTensor;
use crate::data::{Batches, Loader};
use crate::error::{Error, ErrorKind, Result};
use crate::io::checkpoint;
use crate::nn::Module;
use crate::no_grad::no_grad;
use crate::optim::clip_grad_norm;
use crate::optim::schedule::{Schedule, Scheduler};
use crate::session::Session;
use crate::state::{Commit, StateDict, Stateful};

/// A training.
pub(super) struct Run<'a, M> {
    set: Trainer<'a, M>,
    scheduler: Option<(Scheduler<Box<dyn Schedule + 'a>>, Interval)>,
    session: Session,
    at: Standing,
    n_batches: Option<usize>,
}

impl<'a, M: Module> Run<'a, M> {
    /// A training that has not begun.
    #[track_caller]
    pub(super) fn new(mut set: Trainer<'a, M>) -> Result<Run<'a, M>> {
        check(&set)?;
        let session = Session::current()?;
        let scheduler = set
            .schedule
            .take()
            .map(|(schedule, interval)| (Scheduler::new(&mut *set.optimizer, schedule), interval));
        Ok(Run { set, scheduler, session, at: Standing::new(), n_batches: None })
    }

    /// All of it.
    #[track_caller]
    pub(super) fn fit(mut self, loader: &mut dyn Loader) -> Result<Outcome> {
        self.n_batches = loader.n_batches();
        self.set.model.train();
        self.restore(loader)?;
        let stop = loop {
            let stop = match self.over() {
                None => self.epoch(loader)?,
                over => over,
            };
            if let Some(stop) = stop {
                break stop;
            }
        };
        self.set.bar.iter_mut().for_each(super::bar::Bar::finish);
        self.set.tracker.as_mut().map_or(Ok(()), |tracker| tracker.flush())?;
        Ok(Outcome { stop, last: self.at.last })
    }

    /// Why no epoch is left, if none is.
    fn over(&self) -> Option<Stop> {
        let is_met = |how: &EarlyStopping| self.at.waited >= how.patience.max(1);
        if self.set.early.as_ref().is_some_and(|(_, how)| is_met(how)) {
            return Some(Stop::Early);
        }
        let default = if self.set.max_steps.is_some() { u64::MAX } else { 1 };
        let is_last = self.at.last.epochs >= self.set.epochs.unwrap_or(default);
        (is_last || (self.is_last_step() && self.at.of_epoch.n == 0)).then_some(Stop::Finished)
    }

    fn is_last_step(&self) -> bool {
        self.set.max_steps.is_some_and(|max| self.at.last.steps >= max)
    }

    /// An epoch, or the rest of a restored one. The result ends the training.
    #[track_caller]
    fn epoch(&mut self, loader: &mut dyn Loader) -> Result<Option<Stop>> {
        let mut batches = loader.epoch();
        let n_last = loop {
            if self.set.stop.as_mut().is_some_and(|stop| stop()) {
                self.save(batches.state_dict())?;
                return Ok(Some(Stop::Interrupted));
            }
            if self.is_last_step() {
                self.save(batches.state_dict())?;
                self.end_epoch()?;
                return Ok(Some(Stop::Finished));
            }
            let n = self.group(&mut batches)?;
            if n < self.set.accumulate {
                break n;
            }
            if self.set.log_every.is_some_and(|every| self.at.last.steps.is_multiple_of(every)) {
                self.point(&[])?;
            }
            if self.is_due() {
                self.save(batches.state_dict())?;
            }
        };
        drop(batches);
        self.end_epoch()?;
        if self.over().is_some() || (n_last > 0 && self.is_due()) {
            self.save(loader.state_dict()?)?;
        }
        Ok(None)
    }

    /// The batches of one step, and the step. Returns how many batches there were.
    #[track_caller]
    fn group(&mut self, batches: &mut Batches<'_>) -> Result<usize> {
        let (mut n, parts) = (0, self.set.accumulate);
        for batch in batches.take(parts) {
            let loss = (self.set.loss)(self.set.model, &batch?);
            if n == 0 {
                self.set.optimizer.zero_grad();
            }
            match parts {
                1 => loss.backward()?,
                _ => (&loss / parts as f64).backward()?,
            }
            self.count(&loss);
            n += 1;
        }
        if n > 0 {
            self.step()?;
        }
        Ok(n)
    }

    /// Adds a loss to the sums, without reading it.
    fn count(&mut self, loss: &DynTensor) {
        self.at.of_epoch.add(loss.detach());
        if self.set.tracker.is_some() {
            self.at.of_point.add(loss.detach());
        }
    }

    #[track_caller]
    fn step(&mut self) -> Result<()> {
        if let Some(max_norm) = self.set.clip {
            clip_grad_norm(self.set.optimizer.parameters(), max_norm);
        }
        self.set.optimizer.step()?;
        self.schedule(Interval::Step);
        self.at.last.steps += 1;
        if let Some(bar) = &mut self.set.bar {
            bar.step(self.at.last.epochs, self.at.of_epoch.n, self.n_batches);
        }
        Ok(())
    }

    /// Goes on with the schedule, if it is one of this interval.
    fn schedule(&mut self, now: Interval) {
        if let Some((scheduler, interval)) = &mut self.scheduler
            && *interval == now
        {
            scheduler.step(&mut *self.set.optimizer);
        }
    }

    /// The measures, and who is told of them.
    #[track_caller]
    fn end_epoch(&mut self) -> Result<()> {
        let Some(loss) = self.at.of_epoch.take()? else {
            let error = wrong("the loader has no batch");
            return Err(error.hint("its dataset is empty, or smaller than a batch of `Last::Drop`"));
        };
        self.schedule(Interval::Epoch);
        self.at.last.epochs += 1;
        self.at.last.loss = loss;
        self.measure()?;
        if let Some((name, how)) = &self.set.early {
            let measure = self.at.last.metrics.get(name).copied().unwrap_or(loss);
            self.at.judge(measure, how);
        }
        self.tell()
    }

    /// Measures the model.
    fn measure(&mut self) -> Result<()> {
        self.set.model.eval();
        let Trainer { model, validations, .. } = &mut self.set;
        let measured: Result<BTreeMap<String, f64>> = no_grad(|| {
            let measure = |(name, measure): &mut (String, super::Validation<'a, M>)| {
                Ok((name.clone(), measure(model)?))
            };
            validations.iter_mut().map(measure).collect()
        });
        self.set.model.train();
        self.at.last.metrics = measured?;
        Ok(())
    }

    /// Tells of an epoch that has ended.
    #[track_caller]
    fn tell(&mut self) -> Result<()> {
        let epoch = self.at.last.clone();
        let measures: Vec<(&str, f64)> =
            epoch.metrics.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        self.point(&measures)?;
        self.set.tracker.as_mut().map_or(Ok(()), |tracker| tracker.flush())?;
        self.set.bar.iter_mut().for_each(|bar| bar.epoch(&epoch));
        self.set.on_epoch.as_mut().map_or(Ok(()), |call| call(&epoch, self.set.model))
    }

    /// A point of the curves.
    #[track_caller]
    fn point(&mut self, measures: &[(&str, f64)]) -> Result<()> {
        let Some(tracker) = &mut self.set.tracker else { return Ok(()) };
        let mut values = Vec::new();
        values.extend(self.at.of_point.take()?.map(|loss| ("loss", loss)));
        values.push(("lr", self.set.optimizer.lr()));
        values.extend(measures);
        tracker.scalars(self.at.last.steps, &values)
    }

    fn is_due(&self) -> bool {
        let every = self.set.checkpoint.as_ref().map(|(_, every)| *every);
        every.is_some_and(|every| self.at.last.steps.is_multiple_of(every))
    }

    /// Writes the checkpoint, with the loader in this state.
    #[track_caller]
    fn save(&mut self, loader: StateDict) -> Result<()> {
        let Some((path, _)) = self.set.checkpoint.clone() else { return Ok(()) };
        let mut loader = Kept(loader);
        let parts = self.parts(&mut loader);
        let parts: Vec<(&str, &dyn Stateful)> =
            parts.iter().map(|(name, part)| (*name, &**part)).collect();
        checkpoint::save(path, &parts)
    }

    /// Restores the checkpoint, if that is asked for and there is one.
    #[track_caller]
    fn restore(&mut self, loader: &mut dyn Loader) -> Result<()> {
        match self.set.checkpoint.clone() {
            Some((path, _)) if self.set.resume && path.exists() => {
                checkpoint::load(path, &mut self.parts(loader))
            }
            _ => Ok(()),
        }
    }

    /// The parts of a checkpoint.
    fn parts<'s>(
        &'s mut self,
        loader: &'s mut dyn Stateful,
    ) -> Vec<(&'s str, &'s mut dyn Stateful)> {
        let mut parts: Vec<(&str, &mut dyn Stateful)> = vec![
            ("model", &mut *self.set.model),
            ("optimizer", &mut *self.set.optimizer),
            ("loader", loader),
            ("rng", &mut self.session),
            ("trainer", &mut self.at),
        ];
        parts.extend(self.scheduler.as_mut().map(|(scheduler, _)| ("scheduler", scheduler as _)));
        let tracker = self.set.tracker.as_mut().and_then(|tracker| tracker.state());
        parts.extend(tracker.map(|tracker| ("tracker", tracker)));
        parts
    }
}

/// A state that is to be saved.
struct Kept(StateDict);

impl Stateful for Kept {
    fn state_dict(&self) -> Result<StateDict> {
        Ok(self.0.clone())
    }

    fn prepare<'a>(&'a mut self, state: &StateDict) -> Result<Commit<'a>> {
        let state = state.clone();
        Ok(Box::new(move || self.0 = state))
    }
}

/// Looks whether the settings fit each other.
#[track_caller]
fn check<M>(set: &Trainer<'_, M>) -> Result<()> {
    let zeros = [
        ("accumulate", set.accumulate == 0),
        ("checkpoint", set.checkpoint.as_ref().is_some_and(|(_, every)| *every == 0)),
        ("log_every", set.log_every == Some(0)),
    ];
    if let Some((name, _)) = zeros.iter().find(|(_, is_zero)| *is_zero) {
        return Err(wrong(&format!("`{name}` is given 0")).hint("give it at least 1"));
    }
    if set.resume && set.checkpoint.is_none() {
        return Err(wrong("`resume` without a file").hint("name it by `checkpoint`"));
    }
    check_names(set)
}

/// Looks whether the measures have names of their own, and the watched one is among them.
#[track_caller]
fn check_names<M>(set: &Trainer<'_, M>) -> Result<()> {
    let mut names = vec!["loss", "lr"];
    for (name, _) in &set.validations {
        if names.contains(&name.as_str()) {
            return Err(wrong(&format!("two measures are called `{name}`"))
                .hint("`loss` is the mean loss of an epoch, and `lr` the learning rate"));
        }
        names.push(name);
    }
    names.retain(|name| *name != "lr");
    match &set.early {
        Some((name, _)) if !names.contains(&name.as_str()) => {
            let what = format!("`early_stopping` watches `{name}`, which nothing measures");
            Err(wrong(&what).hint(format!("there are: {}", names.join(", "))))
        }
        _ => Ok(()),
    }
}

#[track_caller]
fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::Operation, format!("trainer: {what}"), Location::caller())
}
