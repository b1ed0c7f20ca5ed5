//! A limit on how often something may happen. It reads no clock.

use std::time::Duration;

use crate::clock::Time;

/// So many times in each period, at most.
#[derive(Debug)]
pub(crate) struct Allowance {
    most: u32,
    period: Duration,
    /// When the current period began, and what is left of its allowance.
    since: Time,
    left: u32,
}

impl Allowance {
    pub(crate) fn new(most: u32, period: Duration) -> Allowance {
        Allowance { most, period, since: Time::ZERO, left: most }
    }

    /// Takes one time. Says whether there was one left.
    pub(crate) fn take(&mut self, now: Time) -> bool {
        if self.since + self.period <= now {
            (self.since, self.left) = (now, self.most);
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}
