//! The measurement of one work in this process: the first call, a warm-up, then a number of steps
//! or steps for a time.
//!
//! The first call lasts from recording the first step to its result, including compilation. Inputs
//! and parameters are made before. `start` counts from the session's first operation instead.
//! Compilation in the background ends during the warm-up.

use super::print::Row;
use super::step::Step;
use anyhow::{Context, Result};
use gt_ir::backend::Stats;
use gt_runtime::clock::{self, Time};
use serde_json::json;
use std::io::{BufRead, Write};
use std::time::Duration;

/// The least number and the least time of steps before measuring.
const WARM_UP: (usize, Duration) = (5, Duration::from_millis(300));

/// How long to wait for a plan after the warm-up. A work of one instruction never becomes a plan.
const PLAN_PATIENCE: Duration = Duration::from_millis(1500);

/// The fewest samples of a median, however slow a step is.
const MIN_SAMPLES: usize = 5;

/// The length of a measurement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Until {
    /// This number of steps.
    Steps(usize),
    /// As many steps as fit into this time, in seconds.
    Seconds(f64),
}

/// The system in which a work is measured.
pub(crate) struct Surroundings<'a> {
    /// Waits until everything recorded so far has run.
    pub(crate) settle: &'a dyn Fn() -> Result<()>,
    /// The statistics of the session.
    pub(crate) stats: &'a dyn Fn() -> Result<Stats>,
    /// Whether the workers are other processes.
    pub(crate) apart: bool,
    /// Called after every step with the share of the measurement that is done, from 0 to 1.
    pub(crate) progress: &'a dyn Fn(f64),
}

/// Measures a work and fills its row.
pub(crate) fn measure(
    prepare: impl FnOnce() -> Result<Step>,
    until: Until,
    around: &Surroundings<'_>,
    row: Row,
) -> Result<Row> {
    let (mut step, row) = started(prepare, around, row)?;
    let before = baseline(&mut step, around)?;
    let samples = samples(&mut step, until, around.progress)?;
    finished(row, samples, &before, around)
}

/// As [`measure`], in blocks that another process requests, so that it can measure several programs
/// in turn. The first line of the answers says that the work is ready. Each line of `asks` is the
/// seconds of a block, and is answered with the milliseconds of its steps.
pub(crate) fn measure_paced(
    prepare: impl FnOnce() -> Result<Step>,
    around: &Surroundings<'_>,
    row: Row,
    asks: impl BufRead,
    mut answers: impl Write,
) -> Result<()> {
    let (mut step, row) = started(prepare, around, row)?;
    let before = baseline(&mut step, around)?;
    writeln!(answers, "{}", json!({ "ready": true }))?;
    let mut all = Vec::new();
    for ask in asks.lines() {
        let seconds =
            ask?.trim().parse().context("the length of a block must be a number of seconds")?;
        let block = samples(&mut step, Until::Seconds(seconds), around.progress)?;
        writeln!(answers, "{}", json!({ "samples": block }))?;
        all.extend(block);
    }
    let row = finished(row, all, &before, around)?;
    writeln!(answers, "{}", row.json())?;
    Ok(())
}

/// Runs the first call and the warm-up.
fn started(
    prepare: impl FnOnce() -> Result<Step>,
    around: &Surroundings<'_>,
    mut row: Row,
) -> Result<(Step, Row)> {
    let start = clock::now();
    let resident = memory("VmRSS:");
    let mut step = prepare()?;
    (around.settle)()?;
    let prepared = clock::now();
    step()?;
    let first = clock::now();
    row.first_s = (first - prepared).as_secs_f64();
    row.start_s = (first - start).as_secs_f64();
    row.resident = resident;
    let mut n_steps = 0;
    while n_steps < WARM_UP.0 || clock::now() - first < WARM_UP.1 {
        step()?;
        n_steps += 1;
    }
    // On a busy machine compilation in the background takes longer.
    let warm = clock::now();
    while row.tier > 0 && clock::now() - warm < PLAN_PATIENCE && !is_planned(&mut step, around)? {}
    Ok((step, row))
}

/// Runs two steps, and says whether the second ran as a plan. A request for statistics ends a
/// segment, so the first step may differ from others.
fn is_planned(step: &mut Step, around: &Surroundings<'_>) -> Result<bool> {
    let before = (around.stats)()?.total();
    step()?;
    step()?;
    Ok((around.stats)()?.total().launches > before.launches)
}

/// The statistics before measuring. The request for them disturbs the next step, so one step runs
/// without being measured.
fn baseline(step: &mut Step, around: &Surroundings<'_>) -> Result<Stats> {
    let before = (around.stats)()?;
    step()?;
    Ok(before)
}

fn finished(
    mut row: Row,
    mut samples: Vec<f64>,
    before: &Stats,
    around: &Surroundings<'_>,
) -> Result<Row> {
    let after = (around.stats)()?;
    row.n_steps = samples.len();
    // Linux counts resident pages by thread and adds them up late, so the peak may be below the
    // start.
    let over = |(peak, at_start): (u64, u64)| peak.saturating_sub(at_start);
    row.peak_bytes = match around.apart {
        true => after.workers.iter().map(|worker| worker.memory.peak).max(),
        false => memory("VmHWM:").zip(row.resident).map(over),
    };
    row.count(&before.total(), &after.total());
    row.place(&after);
    samples.sort_by(f64::total_cmp);
    row.spread(&samples);
    Ok(row)
}

/// The milliseconds of steps, one after another.
fn samples(step: &mut Step, until: Until, progress: &dyn Fn(f64)) -> Result<Vec<f64>> {
    let start = clock::now();
    let mut last = start;
    let mut taken = Vec::new();
    loop {
        step()?;
        let now = clock::now();
        taken.push((now - last).as_secs_f64() * 1e3);
        let done = share(until, taken.len(), now - start);
        if done >= 1.0 {
            return Ok(taken);
        }
        progress(done);
        // The time for showing the progress is not part of the next step.
        last = clock::now();
    }
}

/// The share of the measurement that is done, up to 1.
fn share(until: Until, n_taken: usize, elapsed: Time) -> f64 {
    match until {
        Until::Steps(n) => n_taken as f64 / n.max(1) as f64,
        Until::Seconds(_) if n_taken < MIN_SAMPLES => 0.0,
        Until::Seconds(seconds) => elapsed.as_secs_f64() / seconds.max(f64::MIN_POSITIVE),
    }
}

/// A figure of this process's memory on Linux, in bytes. None on other systems.
fn memory(line: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|l| l.strip_prefix(line))?.trim().strip_suffix(" kB")?;
    kib.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    fn around() -> Surroundings<'static> {
        Surroundings {
            settle: &|| Ok(()),
            stats: &|| Ok(Stats::default()),
            apart: false,
            progress: &|share| assert!((0.0..1.0).contains(&share)),
        }
    }

    fn counting() -> (Rc<Cell<usize>>, Step) {
        let count = Rc::new(Cell::new(0));
        let counted = count.clone();
        let step = move || {
            counted.set(counted.get() + 1);
            Ok(())
        };
        (count, Box::new(step))
    }

    #[test]
    fn as_many_steps_as_asked_for_are_sampled() {
        let (count, step) = counting();
        let row = measure(|| Ok(step), Until::Steps(7), &around(), Row::new("w", 0)).unwrap();
        assert_eq!(row.n_steps, 7);
        assert!(count.get() > 1 + WARM_UP.0 + 7);
        assert!(row.start_s >= row.first_s && row.p10 <= row.ms && row.ms <= row.p90);
    }

    #[test]
    fn a_median_has_enough_samples() {
        let (_, step) = counting();
        let row = measure(|| Ok(step), Until::Seconds(0.0), &around(), Row::new("w", 0));
        assert_eq!(row.unwrap().n_steps, MIN_SAMPLES);
    }

    #[test]
    fn blocks_are_answered_one_by_one() {
        let (_, step) = counting();
        let mut said = Vec::new();
        let row = Row::new("w", 0);
        measure_paced(|| Ok(step), &around(), row, &b"0\n0\n"[..], &mut said).unwrap();
        let lines: Vec<serde_json::Value> = String::from_utf8(said)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0]["ready"], true);
        assert_eq!(lines[1]["samples"].as_array().unwrap().len(), MIN_SAMPLES);
        assert_eq!(lines[3]["steps"], 2 * MIN_SAMPLES);
    }
}
