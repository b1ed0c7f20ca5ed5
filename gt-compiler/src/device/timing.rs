//! How long replays take: of the host, by its clock, and of the device, by its own.
//!
//! One replay of some is measured, so that measuring costs nothing to speak of. The device's
//! answers are read when a download that began behind them has arrived: nothing is waited for. What
//! is told are medians of the last ones.

use std::time::Duration;

use super::gpu::Gpu;
use crate::clock::Clock;

/// Replays of which one is measured.
const ONE_OF: u64 = 8;
/// Measurements a median is taken of.
const KEPT: usize = 128;
/// Measurements whose end nobody has seen yet, at most.
const PENDING: usize = 16;

/// The last measurements.
#[derive(Default)]
struct Samples(Vec<Duration>, usize);

impl Samples {
    fn add(&mut self, sample: Duration) {
        if self.0.len() < KEPT {
            return self.0.push(sample);
        }
        self.0[self.1] = sample;
        self.1 = (self.1 + 1) % KEPT;
    }

    /// The median; zero where there is none.
    fn median(&self) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }
}

/// Measurements of one device.
pub(super) struct Timing<G: Gpu> {
    n_replays: u64,
    /// With the number of downloads begun before each ended.
    pending: Vec<(u64, G::Timer)>,
    host: Samples,
    device: Samples,
}

/// A measurement that goes on.
pub(super) struct Running<G: Gpu> {
    timer: G::Timer,
    clock: Clock,
}

impl<G: Gpu> Default for Timing<G> {
    fn default() -> Timing<G> {
        let (host, device) = (Samples::default(), Samples::default());
        Timing { n_replays: 0, pending: Vec::new(), host, device }
    }
}

impl<G: Gpu> Timing<G> {
    /// A replay begins: perhaps one that is measured.
    pub(super) fn start(&mut self, gpu: &G) -> Option<Running<G>> {
        self.n_replays += 1;
        if !self.n_replays.is_multiple_of(ONE_OF) || self.pending.len() >= PENDING {
            return None;
        }
        // A device that fails says so where its answer is needed.
        let timer = gpu.start_timer().ok()?;
        Some(Running { timer, clock: Clock::start() })
    }

    /// It is enqueued, behind so many downloads.
    pub(super) fn stop(&mut self, gpu: &G, running: Option<Running<G>>, n_begun: u64) {
        let Some(Running { timer, clock }) = running else { return };
        self.host.add(Duration::from_nanos(clock.nanoseconds()));
        if gpu.stop_timer(&timer).is_ok() {
            self.pending.push((n_begun, timer));
        }
    }

    /// Reads what has been measured when so many downloads have passed: what ended before the last
    /// of them.
    pub(super) fn collect(&mut self, gpu: &G, n_passed: u64) {
        for (_, timer) in self.pending.extract_if(.., |(begun, _)| *begun < n_passed) {
            if let Ok(time) = gpu.elapsed(&timer) {
                self.device.add(time);
            }
        }
    }

    /// Medians of the host's time and of the device's.
    pub(super) fn medians(&self) -> [Duration; 2] {
        [self.host.median(), self.device.median()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_of_the_last_samples() {
        let mut samples = Samples::default();
        assert_eq!(samples.median(), Duration::ZERO);
        for n in 0..1000 {
            samples.add(Duration::from_nanos(n));
        }
        assert_eq!(samples.median(), Duration::from_nanos(1000 - KEPT as u64 / 2));
    }
}
