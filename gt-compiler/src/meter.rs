//! How long the jobs of a program take, for profiles.
//!
//! Metering is off unless somebody turns it on for the whole process; then a run of a program reads
//! the clock between its launches. The times are reported and decide nothing.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use crate::clock::Clock;

static IS_ON: AtomicBool = AtomicBool::new(false);

/// Turns metering on or off, for all engines of this process.
pub fn turn(on: bool) {
    IS_ON.store(on, Relaxed);
}

/// Whether runs are metered.
pub fn is_on() -> bool {
    IS_ON.load(Relaxed)
}

/// A job of a program: a tile of fused kernels, a product or a routine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// What it is: `3 kernels`, `product 64x128x10`.
    pub name: String,
    /// The launch that it belongs to. Jobs of a launch share the threads.
    pub launch: usize,
    /// The nodes of the compiled graph behind it, by number, and the floating-point operations of
    /// each.
    pub sources: Vec<(u32, u64)>,
    /// The bytes of the buffers that it reads and writes, each once.
    pub bytes: u64,
}

impl Job {
    /// Its floating-point operations.
    pub fn flops(&self) -> u64 {
        self.sources.iter().map(|(_, flops)| flops).sum()
    }
}

/// The nanoseconds of each job in the last run of a program.
#[derive(Debug, Default)]
pub(crate) struct Meter(Mutex<Vec<u64>>);

impl Meter {
    /// The times of the last metered run. Empty if there was none.
    pub(crate) fn last(&self) -> Vec<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins to meter a run.
    pub(crate) fn begin(&self) -> Option<Running<'_>> {
        is_on().then(|| Running { meter: self, clock: Clock::start(), at: 0, nanos: Vec::new() })
    }
}

/// A run that is metered.
pub(crate) struct Running<'m> {
    meter: &'m Meter,
    clock: Clock,
    at: u64,
    nanos: Vec<u64>,
}

impl Running<'_> {
    /// Notes that a launch has ended, and gives its time to its jobs by how long each kept threads
    /// busy.
    pub(crate) fn lap(&mut self, busy: &[AtomicU64]) {
        let now = self.clock.nanoseconds();
        let took = now.saturating_sub(std::mem::replace(&mut self.at, now));
        let all: u64 = busy.iter().map(|nanos| nanos.load(Relaxed)).sum();
        match busy {
            [] | [_] => self.nanos.push(took),
            busy => self.nanos.extend(busy.iter().map(|nanos| {
                let share = nanos.load(Relaxed) as f64 / all.max(1) as f64;
                (took as f64 * share) as u64
            })),
        }
    }

    /// Ends the run.
    pub(crate) fn finish(self) {
        *self.meter.0.lock().unwrap_or_else(PoisonError::into_inner) = self.nanos;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_gives_its_time_to_its_jobs_by_their_shares() {
        let meter = Meter::default();
        let mut running =
            Running { meter: &meter, clock: Clock::start(), at: 0, nanos: Vec::new() };
        running.lap(&[]);
        running.lap(&[AtomicU64::new(30), AtomicU64::new(10)]);
        running.finish();
        let last = meter.last();
        assert_eq!(last.len(), 3);
        assert!(last[1] >= 2 * last[2], "{last:?}");
    }
}
