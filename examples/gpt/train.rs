//! Training: AdamW, a learning rate that warms up and then falls along a cosine, clipped gradients.

use super::model::Gpt;
use super::text::{Places, Text, all_starts, passages};
use anyhow::Result;
use gt::optim::schedule::{Scheduler, WarmupCosine};
use gt::prelude::*;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::Instant;

/// Passages of a step.
const BATCH: usize = 16;
const LR: f64 = 2e-3;
/// Steps between two looks at how it goes.
const INTERVAL: u64 = 500;

/// A run of training.
pub struct Training<'a> {
    net: &'a Gpt,
    optimizer: AdamW,
    scheduler: Scheduler<WarmupCosine>,
    places: Places,
    steps: u64,
}

impl<'a> Training<'a> {
    pub fn new(net: &'a Gpt, steps: u64, seed: u64) -> Training<'a> {
        let config = AdamWConfig { lr: LR, betas: (0.9, 0.99), ..AdamWConfig::default() };
        let [matrices, others] = net.groups();
        let mut optimizer = AdamW::with_groups([
            (matrices, AdamWConfig { weight_decay: 0.1, ..config }),
            (others, AdamWConfig { weight_decay: 0.0, ..config }),
        ]);
        let shape = WarmupCosine { warmup: (steps / 10).min(100), total: steps, min_factor: 0.1 };
        let scheduler = Scheduler::new(&mut optimizer, shape);
        Training { net, optimizer, scheduler, places: Places(seed), steps }
    }

    /// All steps; says from time to time how it goes.
    pub fn run(&mut self, text: &Text) -> Result<()> {
        let bar = bar(self.steps);
        let (mut total, mut n, start): (T![], u64, _) = (Tensor::zeros(), 0, Instant::now());
        for step in 1..=self.steps {
            total += self.step(text)?;
            n += 1;
            bar.iter().for_each(|bar| bar.inc(1));
            if step % INTERVAL == 0 || step == self.steps {
                // The only reads: until here, steps were recorded while earlier ones ran.
                let loss = total.item()? / n as f64;
                let held_back = validation_loss(self.net, text)?;
                let seconds = start.elapsed().as_secs_f64();
                let line = format!(
                    "step {step:>5}  loss {loss:.3}  validation {held_back:.3}  {:.1} ms a step",
                    1e3 * seconds / step as f64
                );
                match &bar {
                    Some(bar) => bar.println(line),
                    None => writeln!(std::io::stderr(), "{line}")?,
                }
                (total, n) = (Tensor::zeros(), 0);
            }
        }
        bar.iter().for_each(ProgressBar::finish_and_clear);
        Ok(())
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

/// The mean loss over all that was held back.
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

/// A bar on a terminal; elsewhere lines are enough.
fn bar(steps: u64) -> Option<ProgressBar> {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal().then(|| {
        let colors = if set("NO_COLOR") { "{bar:30}" } else { "{bar:30.cyan/blue}" };
        let template = format!("{{elapsed}} {colors} {{pos}}/{{len}} steps, {{eta}} left");
        let style = ProgressStyle::with_template(&template);
        ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    })
}
