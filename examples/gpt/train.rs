//! Training: AdamW, a learning rate with warmup and cosine annealing, clipped gradients,
//! checkpoints.

use super::model::Gpt;
use super::text::{Places, Text, all_starts, passages};
use anyhow::Result;
use gt::io::checkpoint;
use gt::logger::RunLogger;
use gt::optim::schedule::{Scheduler, WarmupCosine};
use gt::prelude::*;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Instant;

/// Passages in a step.
const BATCH: usize = 16;
const LR: f64 = 2e-3;
/// Steps for each point of the curves, and points between two drawings of the curves.
const POINT: (u64, usize) = (20, 5);

/// A run of training, with everything that a checkpoint holds.
pub struct Training {
    pub net: Gpt,
    optimizer: AdamW,
    scheduler: Scheduler<WarmupCosine>,
    places: Places,
    done: u64,
    steps: u64,
    curves: Option<RunLogger>,
}

impl Training {
    pub fn new(net: Gpt, steps: u64, seed: u64) -> Training {
        let config = AdamWConfig { lr: LR, betas: (0.9, 0.99), ..AdamWConfig::default() };
        let [matrices, others] = net.groups();
        let mut optimizer = AdamW::with_groups([
            (matrices, AdamWConfig { weight_decay: 0.1, ..config }),
            (others, AdamWConfig { weight_decay: 0.0, ..config }),
        ]);
        let shape = WarmupCosine { warmup: (steps / 10).min(100), total: steps, min_factor: 0.1 };
        let scheduler = Scheduler::new(&mut optimizer, shape);
        Training { net, optimizer, scheduler, places: Places(seed), done: 0, steps, curves: None }
    }

    /// Draws the curves of the run on the terminal and into a folder.
    pub fn draw(&mut self, folder: &Path) -> Result<()> {
        self.curves = Some(RunLogger::new(folder, &["loss", "validation"], POINT.1)?);
        Ok(())
    }

    /// Restores the run from the file if it exists, to the bit. Returns the number of steps done.
    pub fn resume(&mut self, file: &Path) -> Result<u64> {
        if file.exists() {
            let Training { net, optimizer, scheduler, places, done, curves, .. } = self;
            let mut parts: Vec<(&str, &mut dyn Stateful)> = vec![
                ("model", net),
                ("optimizer", optimizer),
                ("scheduler", scheduler),
                ("places", &mut places.0),
                ("done", done),
            ];
            if let Some(curves) = curves {
                parts.push(("curves", curves));
            }
            checkpoint::load(file, &mut parts)?;
        }
        Ok(self.done)
    }

    fn save(&self, file: &Path) -> Result<()> {
        let Training { net, optimizer, scheduler, places, done, curves, .. } = self;
        let mut parts: Vec<(&str, &dyn Stateful)> = vec![
            ("model", net),
            ("optimizer", optimizer),
            ("scheduler", scheduler),
            ("places", &places.0),
            ("done", done),
        ];
        if let Some(curves) = curves {
            parts.push(("curves", curves));
        }
        Ok(checkpoint::save(file, &parts)?)
    }

    /// Runs the remaining steps. Reports the losses and saves the run every `interval` steps.
    pub fn run(&mut self, text: &Text, interval: u64, file: Option<&Path>) -> Result<()> {
        // The curves take the place of the bar.
        let bar = bar(self.steps, self.done).filter(|_| self.curves.is_none());
        while self.done < self.steps {
            let until = (self.done / interval + 1) * interval;
            let line = self.interval(text, until.min(self.steps), bar.as_ref())?;
            match (&bar, &mut self.curves) {
                (_, Some(curves)) => curves.save()?,
                (Some(bar), _) => bar.println(line),
                (None, None) => writeln!(std::io::stderr(), "{line}")?,
            }
            if let Some(file) = file {
                self.save(file)?;
            }
        }
        bar.iter().for_each(ProgressBar::finish_and_clear);
        self.curves.take().map(RunLogger::finish).transpose()?;
        Ok(())
    }

    /// Runs the steps up to `until`. Returns a line about them.
    fn interval(&mut self, text: &Text, until: u64, bar: Option<&ProgressBar>) -> Result<String> {
        let (mut total, n) = (0.0, (until - self.done) as f64);
        let (start, mut last) = (Instant::now(), 0.0);
        while self.done < until {
            let from = self.done;
            let to = if self.curves.is_some() { until.min(from + POINT.0) } else { until };
            let sum = self.steps_until(text, to, bar)?;
            (total, last) = (total + sum, sum / (to - from) as f64);
            if let Some(curves) = self.curves.as_mut().filter(|_| to < until) {
                curves.log(to, &[("loss", last)]);
            }
        }
        let (loss, pace) = (total / n, 1e3 * start.elapsed().as_secs_f64() / n);
        let validation = validation_loss(&self.net, text)?;
        if let Some(curves) = &mut self.curves {
            curves.log(until, &[("loss", last), ("validation", validation)]);
        }
        Ok(format!(
            "step {until:>5}  loss {loss:.3}  validation {validation:.3}  {pace:.1} ms per step"
        ))
    }

    /// Runs the steps up to `until`. Returns the sum of their losses.
    fn steps_until(&mut self, text: &Text, until: u64, bar: Option<&ProgressBar>) -> Result<f64> {
        let mut total: T![] = Tensor::zeros();
        while self.done < until {
            total += self.step(text)?;
            self.done += 1;
            bar.iter().for_each(|bar| bar.inc(1));
        }
        // The only read. Until here the program recorded steps while the worker ran earlier steps.
        Ok(total.item()?)
    }

    fn step(&mut self, text: &Text) -> Result<T![]> {
        let (tokens, next) = passages(&text.training, &self.places.starts(&text.training, BATCH));
        let loss = self.net.loss(&tokens, &next);
        self.optimizer.zero_grad();
        loss.backward()?;
        clip_grad_norm(&self.net.parameters(), 1.0);
        self.optimizer.step()?;
        self.scheduler.step(&mut self.optimizer);
        Ok(loss.detach())
    }
}

/// The mean loss over the validation part.
pub fn validation_loss(net: &Gpt, text: &Text) -> Result<f64> {
    let starts = all_starts(&text.validation);
    let (mut total, mut n): (T![], usize) = (Tensor::zeros(), 0);
    for batch in starts.chunks_exact(BATCH.min(starts.len())) {
        let (tokens, next) = passages(&text.validation, batch);
        total += no_grad(|| net.loss(&tokens, &next));
        n += 1;
    }
    Ok(total.item()? / n as f64)
}

/// A progress bar, if standard error is a terminal.
fn bar(steps: u64, done: u64) -> Option<ProgressBar> {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal().then(|| {
        let colors = if set("NO_COLOR") { "{bar:30}" } else { "{bar:30.cyan/blue}" };
        let template = format!("{{elapsed}} {colors} {{pos}}/{{len}} steps, {{eta}} left");
        let style = ProgressStyle::with_template(&template);
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressBar::new(steps).with_style(style).with_position(done)
    })
}
