//! The only reader of the clock.
//!
//! All other code takes the time as an argument. Pure code can therefore run on a virtual clock,
//! and a log of events replays exactly. A [`Time`] is the time since the process first read the
//! clock. It never goes backwards and has no date.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The time since this process first read the clock.
pub type Time = Duration;

static START: OnceLock<Instant> = OnceLock::new();

/// The current time.
#[expect(clippy::disallowed_methods, reason = "this file is the one place that reads the clock")]
#[must_use]
pub fn now() -> Time {
    let now = Instant::now();
    now.saturating_duration_since(*START.get_or_init(|| now))
}

/// Nanoseconds since 1970 by the machine's clock. For the numbers of incarnations, never to
/// measure.
#[must_use]
pub fn wall_nanos() -> u64 {
    let since =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #[test]
    fn never_goes_backwards() {
        let mut last = super::now();
        for _ in 0..1000 {
            let now = super::now();
            assert!(now >= last);
            last = now;
        }
    }
}
