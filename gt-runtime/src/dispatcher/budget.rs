//! How much of its workers' time a user may use for compiling programs.
//!
//! A user who has used more starts no new program until enough time has passed. Programs that are
//! compiled run on. The books are a bucket that drains at the allowed rate. This file reads no
//! clock.

use crate::clock::Time;
use std::time::Duration;

/// So much time in each period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// The time.
    pub most: Duration,
    /// The period.
    pub period: Duration,
}

impl Rate {
    /// How long it takes until so much time may be used again.
    fn refill(&self, used: Duration) -> Duration {
        let nanos = used.as_nanos() * self.period.as_nanos() / self.most.as_nanos().max(1);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// What a user has used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    /// When all that it has used is forgotten.
    free: Time,
}

impl Budget {
    /// Notes that so much time was used.
    pub(super) fn charge(&mut self, now: Time, rate: Rate, nanos: u64) {
        let used = rate.refill(Duration::from_nanos(nanos));
        self.free = self.free.max(now).saturating_add(used);
    }

    /// When more may be used: now, or after a wait.
    pub(super) fn ready(&self, rate: Rate) -> Time {
        self.free.saturating_sub(rate.period)
    }

    /// Whether nothing is left of what was used.
    pub(super) fn is_free(&self, now: Time) -> bool {
        self.free <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_beyond_the_rate_is_waited_for() {
        let seconds = Duration::from_secs;
        let rate = Rate { most: seconds(10), period: seconds(60) };
        let mut budget = Budget::default();
        let charge = |budget: &mut Budget, now: u64, used: u64| {
            budget.charge(seconds(now), rate, used * 1_000_000_000);
            budget.ready(rate).saturating_sub(seconds(now)).as_secs()
        };
        assert_eq!(charge(&mut budget, 100, 4), 0);
        assert_eq!(charge(&mut budget, 100, 6), 0);
        assert_eq!(charge(&mut budget, 100, 5), 30);
        assert_eq!(charge(&mut budget, 130, 1), 6);
        assert!(!budget.is_free(seconds(195)) && budget.is_free(seconds(196)));
        assert_eq!(charge(&mut budget, 1_000, 12), 12);
    }
}
