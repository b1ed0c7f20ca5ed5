//! The clocks of clients and workers, compared with the server's.
//!
//! A peer's answer says what its clock showed. The server knows when it asked and when the answer
//! came, so the answer was made between the two, and the middle is wrong by half of the time
//! between them at most. The quickest answer of a peer counts.

use std::collections::BTreeMap;

use crate::clock::Time;
use crate::dispatcher::Party;

/// The time that a clock may seem to be ahead, because answers take time.
const AHEAD: Time = Time::from_millis(100);

/// The clocks of those who were asked.
#[derive(Debug, Default)]
pub(super) struct Clocks(BTreeMap<Party, Clock>);

/// The clock of a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// How long the quickest answer took, in nanoseconds.
    took: i128,
    /// The server's time minus the peer's, in nanoseconds.
    offset: i128,
}

impl Clocks {
    /// Learns what a peer's clock showed between two times of the server.
    pub(super) fn compare(
        &mut self,
        party: Party,
        (asked, came): (Time, Time),
        theirs: u64,
    ) -> Clock {
        let took = nanos(came.saturating_sub(asked));
        let now = Clock { took, offset: nanos(asked) + took / 2 - i128::from(theirs) };
        let best = self.0.entry(party).or_insert(now);
        if now.took <= best.took {
            *best = now;
        }
        *best
    }
}

impl Clock {
    /// The beginning and the end of an interval in the server's time. None if it is not over, or
    /// was over before the server began: a peer may say anything.
    pub(super) fn interval(&self, at: u64, took: u64, now: Time) -> Option<(Time, Time)> {
        let began = i128::from(at) + self.offset;
        let end = began + i128::from(took);
        let is_possible = end >= 0 && end <= nanos(now + AHEAD);
        is_possible.then(|| (time(began), time(end)))
    }
}

fn nanos(time: Time) -> i128 {
    i128::try_from(time.as_nanos()).unwrap_or(i128::MAX)
}

fn time(nanos: i128) -> Time {
    Time::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::WorkerId;

    const W: Party = Party::Worker(WorkerId(1));

    fn ms(n: u64) -> Time {
        Time::from_millis(n)
    }

    #[test]
    fn the_quickest_answer_tells_the_time() {
        let mut clocks = Clocks::default();
        // The peer began 5 s before the server, and its answers take 1 ms there.
        let slow = clocks.compare(W, (ms(100), ms(141)), 5_101_000_000);
        let wrong = slow.interval(5_200_000_000, 1_000_000, ms(300)).unwrap();
        assert!(wrong.0.abs_diff(ms(200)) < ms(21), "{wrong:?}");
        clocks.compare(W, (ms(200), ms(202)), 5_201_000_000);
        let clock = clocks.compare(W, (ms(300), ms(350)), 5_301_000_000);
        let right = clock.interval(5_250_000_000, 1_000_000, ms(351)).unwrap();
        assert_eq!(right, (ms(250), ms(251)));
    }

    #[test]
    fn times_that_cannot_be_are_left_out() {
        let clock = Clocks::default().compare(W, (ms(10), ms(10)), 0);
        assert_eq!(clock.interval(0, 1_000_000, ms(10)), Some((ms(10), ms(11))));
        assert_eq!(clock.interval(u64::MAX, u64::MAX, ms(10)), None);
        assert_eq!(clock.interval(0, u64::MAX, ms(10)), None);
        let clock = Clocks::default().compare(W, (ms(10), ms(10)), u64::MAX);
        assert_eq!(clock.interval(0, 5, ms(10)), None);
        assert_eq!(clock.interval(u64::MAX - 20_000_000, 15_000_000, ms(10)), Some((ms(0), ms(5))));
    }
}
