//! Tapes measured one after another in one process, on request: the counterpart of
//! xtask/peers/ops_torch.py.
//!
//! Each line of standard input is an object. `{"tape": text, "below": n, "positive": b}` starts a
//! tape whose integer inputs are random numbers below `n`, runs it until it is warm, and is
//! answered with the milliseconds of its first step. `{"seconds": s}` runs a block of steps and is
//! answered with their milliseconds. Each tape has a session of its own.

use super::step::Step;
use super::tape::{Noise, TapeFile};
use anyhow::{Context, Result, anyhow};
use gt_ir::backend::{Backend, RunError};
use gt_ir::text;
use gt_runtime::choice::{Choice, Wish};
use gt_runtime::clock::{self, Time};
use gt_runtime::embedded::System;
use gt_runtime::log::Log;
use gt_runtime::tier::Tiers;
use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

/// The least number and the least time of steps before measuring.
const WARM_UP: (usize, Duration) = (4, Duration::from_millis(20));

/// A system of one worker, which makes results that nobody reads, too: they are the work.
///
/// # Errors
/// As of [`System::own`].
pub(super) fn system(wish: &Wish) -> std::result::Result<System, RunError> {
    let mut tiers = Tiers::from_environment()?;
    tiers.plans.least_unused = usize::MAX;
    System::chosen(1, Choice::make(wish)?, tiers, Log::from_environment())
}

/// Answers requests until the input ends.
pub(super) fn serve(
    session: impl Fn() -> Arc<dyn Backend>,
    asks: impl BufRead,
    mut answers: impl Write,
) -> Result<()> {
    writeln!(answers, "{}", json!({ "ready": true }))?;
    let mut step: Option<Step> = None;
    for ask in asks.lines() {
        let ask: Value = serde_json::from_str(&ask?).context("a request is an object")?;
        let answer = match ask["tape"].as_str() {
            Some(tape) => {
                step = None;
                let noise = Noise {
                    below: ask["below"].as_i64().unwrap_or(1),
                    positive: ask["positive"] == true,
                };
                started(tape, noise, session()).map(|(next, first)| {
                    step = Some(next);
                    json!({ "first_ms": first })
                })
            }
            None => step.as_mut().context("no tape has been started").and_then(|step| {
                let seconds = ask["seconds"].as_f64().unwrap_or_default();
                Ok(json!({ "samples": block(step, seconds)? }))
            }),
        };
        let answer = answer.unwrap_or_else(|error| json!({ "error": format!("{error:#}") }));
        writeln!(answers, "{answer}")?;
    }
    Ok(())
}

/// A tape as a step that has run until it is warm, and the milliseconds of its first run.
fn started(tape: &str, noise: Noise, backend: Arc<dyn Backend>) -> Result<(Step, f64)> {
    let faults = |faults: Vec<_>| anyhow!("{} faults in the tape", faults.len());
    let tape = TapeFile::noise(text::load(tape).map_err(faults)?.tape, noise)?;
    let mut step = tape.prepare(backend);
    let start = clock::now();
    step()?;
    let first = clock::now();
    let mut n_steps = 0;
    while n_steps < WARM_UP.0 || clock::now() - first < WARM_UP.1 {
        step()?;
        n_steps += 1;
    }
    Ok((step, milliseconds(first - start)))
}

fn block(step: &mut Step, seconds: f64) -> Result<Vec<f64>> {
    let (start, mut samples) = (clock::now(), Vec::new());
    loop {
        let before = clock::now();
        step()?;
        let now = clock::now();
        samples.push(milliseconds(now - before));
        if (now - start).as_secs_f64() >= seconds {
            return Ok(samples);
        }
    }
}

fn milliseconds(time: Time) -> f64 {
    time.as_secs_f64() * 1e3
}
