//! `Trainer`: a training loop for programs that do not write one, as those of PyTorch Lightning and
//! Hugging Face.
//!
//! Guarantees: the losses, the parameters and the random numbers have the bits of the loop that one
//! would write by hand (loss, `zero_grad`, `backward`, clipping, `step`, schedule). A run that goes
//! on from its checkpoint has the bits of a run that was never stopped. Values are read at points
//! of the curves, at the ends of epochs and for checkpoints only, so the program runs ahead.
//!
//! Does not: read a clock, or handle signals of the operating system. The function of the loss
//! chooses the precision, and the loader the samples.

mod bar;
mod run;
mod state;

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::core::DynTensor;
use crate::data::Loader;
use crate::error::Result;
use crate::logger::Tracker;
use crate::nn::Module;
use crate::optim::Optimizer;
use crate::optim::schedule::{PlateauMode, Schedule};
use crate::typed::AnyTensor;

/// The loss of a batch.
type Loss<'a, M> = Box<dyn FnMut(&M, &[DynTensor]) -> DynTensor + 'a>;
/// A measure of the model.
type Validation<'a, M> = Box<dyn FnMut(&M) -> Result<f64> + 'a>;
/// What is called at the end of an epoch.
type OnEpoch<'a, M> = Box<dyn FnMut(&Epoch, &M) -> Result<()> + 'a>;

/// Trains a model: what is to be done is said by the methods, and [`Trainer::fit`] does it.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::trainer::{EarlyStopping, Interval};
/// dims! { Batch }
/// # fn f(rows: TensorDataset, x: T![8, 4], y: T![8; Int]) -> Result<()> {
/// let mut net: Linear<N<4>, N<3>> = Linear::new();
/// let mut optimizer = AdamW::new(net.parameters(), AdamWConfig::default());
/// let config = LoaderConfig { batch_size: 32, shuffle: Shuffle::Seed(0), ..Default::default() };
/// let mut loader = DataLoader::new(rows, config)?;
///
/// let outcome = Trainer::new(&mut net, &mut optimizer, |net, batch| {
///     let x: T![Batch, 4] = Tensor::from_dyn(batch[0].clone());
///     let labels: T![Batch; Int] = Tensor::from_dyn(batch[1].clone());
///     net.forward(&x).cross_entropy(&labels)
/// })
/// .epochs(20)
/// .schedule(schedule::CosineAnnealingLr { t_max: 20, eta_min: 0.0 }, Interval::Epoch)
/// .clip_grad_norm(1.0)
/// .validate("validation", |net| net.forward(&x).cross_entropy(&y).item())
/// .early_stopping("validation", EarlyStopping::default())
/// .checkpoint("run.safetensors", 500)
/// .resume()
/// .progress()
/// .fit(&mut loader)?;
/// println!("{} steps, {}", outcome.last.steps, outcome.last.metrics["validation"]);
/// # Ok(())
/// # }
/// ```
#[must_use = "`fit` trains"]
pub struct Trainer<'a, M> {
    model: &'a mut M,
    optimizer: &'a mut dyn Optimizer,
    loss: Loss<'a, M>,
    epochs: Option<u64>,
    max_steps: Option<u64>,
    accumulate: usize,
    clip: Option<f64>,
    schedule: Option<(Box<dyn Schedule + 'a>, Interval)>,
    validations: Vec<(String, Validation<'a, M>)>,
    early: Option<(String, EarlyStopping)>,
    checkpoint: Option<(PathBuf, u64)>,
    resume: bool,
    tracker: Option<Box<dyn Tracker + 'a>>,
    log_every: Option<u64>,
    bar: Option<bar::Bar>,
    on_epoch: Option<OnEpoch<'a, M>>,
    stop: Option<Box<dyn FnMut() -> bool + 'a>>,
}

/// How often a schedule goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// With each step of the optimizer.
    Step,
    /// With each epoch.
    Epoch,
}

/// When a measure that no longer gets better ends the training: Lightning's `EarlyStopping`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EarlyStopping {
    /// Which way is better.
    pub mode: PlateauMode,
    /// Epochs without getting better after which the training ends; 0 is as 1.
    pub patience: u64,
    /// A change of at most this much is not better.
    pub min_delta: f64,
}

impl Default for EarlyStopping {
    fn default() -> Self {
        EarlyStopping { mode: PlateauMode::Min, patience: 3, min_delta: 0.0 }
    }
}

/// What is known at the end of an epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Epoch {
    /// Epochs done, this one included.
    pub epochs: u64,
    /// Steps of the optimizer done.
    pub steps: u64,
    /// The mean of the losses of the epoch's batches; NaN before the first epoch.
    pub loss: f64,
    /// The measures of [`Trainer::validate`] by their names.
    pub metrics: BTreeMap<String, f64>,
}

/// Why a training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// All epochs or steps are done.
    Finished,
    /// A measure no longer got better.
    Early,
    /// [`Trainer::stop_when`] asked for it.
    Interrupted,
}

/// What [`Trainer::fit`] has done.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Why the training ended.
    pub stop: Stop,
    /// What was known at the end of the last epoch, and the steps done since.
    pub last: Epoch,
}

impl<'a, M: Module> Trainer<'a, M> {
    /// A trainer of a model for one epoch, by an optimizer of its parameters and a function that
    /// gives the loss of a batch: a float without axes, the mean of the examples' losses.
    pub fn new<L: AnyTensor>(
        model: &'a mut M,
        optimizer: &'a mut dyn Optimizer,
        mut loss: impl FnMut(&M, &[DynTensor]) -> L + 'a,
    ) -> Trainer<'a, M> {
        Trainer {
            model,
            optimizer,
            loss: Box::new(move |model, batch| loss(model, batch).inner().clone()),
            epochs: None,
            max_steps: None,
            accumulate: 1,
            clip: None,
            schedule: None,
            validations: Vec::new(),
            early: None,
            checkpoint: None,
            resume: false,
            tracker: None,
            log_every: None,
            bar: None,
            on_epoch: None,
            stop: None,
        }
    }

    /// Ends after so many epochs, counted with those before a resumption.
    pub fn epochs(self, epochs: u64) -> Self {
        Trainer { epochs: Some(epochs), ..self }
    }

    /// Ends after so many steps of the optimizer. Without [`Trainer::epochs`] there are as many
    /// epochs as it takes. The epoch of the last step ends with it.
    pub fn max_steps(self, steps: u64) -> Self {
        Trainer { max_steps: Some(steps), ..self }
    }

    /// Adds the gradients of so many batches for each step, and divides their losses by this
    /// number. The last step of an epoch may have fewer batches, whose losses are divided by the
    /// same number.
    pub fn accumulate(self, batches: usize) -> Self {
        Trainer { accumulate: batches, ..self }
    }

    /// Clips the common norm of the gradients before each step, as
    /// [`clip_grad_norm`](crate::optim::clip_grad_norm).
    pub fn clip_grad_norm(self, max_norm: f64) -> Self {
        Trainer { clip: Some(max_norm), ..self }
    }

    /// Changes the learning rates by a schedule, whose steps are those of the optimizer or epochs.
    pub fn schedule(self, schedule: impl Schedule + 'a, interval: Interval) -> Self {
        Trainer { schedule: Some((Box::new(schedule), interval)), ..self }
    }

    /// Measures the model at the end of each epoch, in evaluation mode and without tracking. Give
    /// each measure a name of its own.
    pub fn validate(
        mut self,
        name: impl Into<String>,
        measure: impl FnMut(&M) -> Result<f64> + 'a,
    ) -> Self {
        self.validations.push((name.into(), Box::new(measure)));
        self
    }

    /// Ends when a measure of [`Trainer::validate`], or the mean loss `"loss"`, no longer gets
    /// better.
    pub fn early_stopping(self, measure: impl Into<String>, how: EarlyStopping) -> Self {
        Trainer { early: Some((measure.into(), how)), ..self }
    }

    /// Saves the run every so many steps of the optimizer and at the end: the model, the optimizer,
    /// the schedule, the generator, the place in the loader, the counters and the curves.
    pub fn checkpoint(self, path: impl Into<PathBuf>, every: u64) -> Self {
        Trainer { checkpoint: Some((path.into(), every)), ..self }
    }

    /// Goes on from the file of [`Trainer::checkpoint`], if it exists.
    pub fn resume(self) -> Self {
        Trainer { resume: true, ..self }
    }

    /// Tells a tracker at the end of each epoch: the curve `loss`, the mean since the point before;
    /// `lr`, the first learning rate; and the measures by their names. The step is the number of
    /// steps done. [`RunLogger::also`](crate::logger::RunLogger::also) joins several.
    pub fn track(self, tracker: impl Tracker + 'a) -> Self {
        Trainer { tracker: Some(Box::new(tracker)), ..self }
    }

    /// Tells the tracker `loss` and `lr` every so many steps as well. Each point reads a loss.
    pub fn log_every(self, steps: u64) -> Self {
        Trainer { log_every: Some(steps), ..self }
    }

    /// Shows progress on the error stream: a line for each epoch, and in a terminal a bar of the
    /// batches.
    pub fn progress(self) -> Self {
        Trainer { bar: Some(bar::Bar::new()), ..self }
    }

    /// Calls a function at the end of each epoch, after the measures: to print, or to save the best
    /// model. Its error ends the training.
    pub fn on_epoch(self, call: impl FnMut(&Epoch, &M) -> Result<()> + 'a) -> Self {
        Trainer { on_epoch: Some(Box::new(call)), ..self }
    }

    /// Ends before the next step when a function says so, after a checkpoint if there is a file for
    /// it: how a program stops at Ctrl-C. The handler of the signal sets a flag, which the function
    /// reads.
    pub fn stop_when(self, stop: impl FnMut() -> bool + 'a) -> Self {
        Trainer { stop: Some(Box::new(stop)), ..self }
    }

    /// Trains in the current session. The model is in training mode then and afterwards.
    ///
    /// # Errors
    /// A setting is wrong, which is said before anything is done. A batch, a gradient, an update or
    /// a measure fails. The loader has no batch. A file cannot be written, or the checkpoint does
    /// not fit; nothing has changed then.
    #[track_caller]
    pub fn fit(self, loader: &mut dyn Loader) -> Result<Outcome> {
        run::Run::new(self)?.fit(loader)
    }
}
