//! What is to follow the end of a supervised process: a pure function of how it ended and how long
//! it lived.

use crate::signals::INTERRUPTED;
use std::time::Duration;

/// Deaths in a row after which a process is given up.
const MOST_DEATHS: u32 = 6;
/// How long to wait after the first, and at most.
const WAIT: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// A life as long as this shows that the process can work: its death is the first again.
const LONG_LIFE: Duration = Duration::from_secs(60);

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ending {
    /// Its exit status; none when a signal ended it.
    pub(super) code: Option<i32>,
    pub(super) lived: Duration,
    /// Whether it was ever at work.
    pub(super) worked: bool,
}

/// What follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// Nothing: it did all there was to do.
    Over,
    /// Nothing: somebody stopped it.
    Stopped,
    /// It is started again, after this time.
    Again(Duration),
    /// It is given up.
    Failed,
}

/// How often a process has died in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Deaths(u32);

impl Deaths {
    /// What follows an end.
    pub(super) fn after(&mut self, ending: Ending) -> Next {
        match ending.code {
            Some(0) => Next::Over,
            Some(INTERRUPTED) => Next::Stopped,
            // It said why it cannot work, and would say so again.
            Some(1 | 2) if !ending.worked => Next::Failed,
            Some(_) | None => self.one_more(ending.lived),
        }
    }

    fn one_more(&mut self, lived: Duration) -> Next {
        self.0 = if lived >= LONG_LIFE { 1 } else { self.0 + 1 };
        if self.0 >= MOST_DEATHS {
            return Next::Failed;
        }
        Next::Again(WAIT.1.min(WAIT.0 * 2_u32.pow(self.0 - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: Option<i32>, lived: u64, worked: bool) -> Ending {
        Ending { code, lived: Duration::from_secs(lived), worked }
    }

    #[test]
    fn a_process_is_started_again_later_and_later_and_then_given_up() {
        let mut deaths = Deaths::default();
        let waits = [500, 1_000, 2_000, 4_000, 8_000].map(Duration::from_millis);
        for wait in waits {
            assert_eq!(deaths.after(ended(None, 1, true)), Next::Again(wait));
        }
        assert_eq!(deaths.after(ended(Some(1), 1, true)), Next::Failed);
        // A long life pays for all deaths before it.
        let mut deaths = Deaths(MOST_DEATHS - 1);
        assert_eq!(deaths.after(ended(Some(101), 60, true)), Next::Again(waits[0]));
        assert_eq!(deaths.after(ended(Some(101), 59, true)), Next::Again(waits[1]));
    }

    #[test]
    fn who_ended_in_order_or_cannot_begin_is_not_started_again() {
        for (ending, next) in [
            (ended(Some(0), 0, true), Next::Over),
            (ended(Some(130), 0, true), Next::Stopped),
            (ended(Some(1), 0, false), Next::Failed),
            (ended(Some(2), 0, false), Next::Failed),
            (ended(Some(101), 0, false), Next::Again(WAIT.0)),
            (ended(None, 0, false), Next::Again(WAIT.0)),
        ] {
            assert_eq!(Deaths::default().after(ending), next, "{ending:?}");
        }
    }
}
