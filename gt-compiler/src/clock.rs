//! The compiler's stopwatch. Its times are reported and decide nothing: equal graphs are compiled
//! alike, however busy the machine is.

use std::time::Instant;

/// A moment, and the time since.
pub(crate) struct Clock(Instant);

impl Clock {
    /// A stopwatch that starts now.
    #[expect(clippy::disallowed_methods, reason = "the time that compiling takes is reported")]
    pub(crate) fn start() -> Clock {
        Clock(Instant::now())
    }

    /// Nanoseconds since the start.
    pub(crate) fn nanoseconds(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
