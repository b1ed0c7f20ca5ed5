//! The restart of a supervised process: a pure function of how the process ended and how long it
//! lived.

use crate::signals::INTERRUPTED;
use std::time::Duration;

/// The number of deaths in a row after which a process is not started again.
const MOST_DEATHS: u32 = 6;
/// The wait after the first death, and the longest wait.
const WAIT: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// The life after which a death counts as the first again, because the process can work.
const LONG_LIFE: Duration = Duration::from_secs(60);

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ending {
    /// Its exit status. None if a signal ended it.
    pub(super) code: Option<i32>,
    pub(super) lived: Duration,
    /// Whether it has registered with a server.
    pub(super) worked: bool,
}

/// The next step for a process that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// None, because its work is done.
    Over,
    /// None, because somebody stopped it.
    Stopped,
    /// Start it again after this time.
    Again(Duration),
    /// None, because it failed for good.
    Failed,
}

/// The number of a process's deaths in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Deaths(u32);

impl Deaths {
    /// The next step after an end.
    pub(super) fn after(&mut self, ending: Ending) -> Next {
        match ending.code {
            Some(0) => Next::Over,
            Some(INTERRUPTED) => Next::Stopped,
            // It, a shell or ssh has reported why it cannot work, and would fail again.
            Some(1 | 2 | 126 | 127 | 255) if !ending.worked => Next::Failed,
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
        // A long life resets the count.
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
            (ended(Some(127), 0, false), Next::Failed),
            (ended(Some(255), 0, false), Next::Failed),
            (ended(Some(255), 0, true), Next::Again(WAIT.0)),
            (ended(Some(101), 0, false), Next::Again(WAIT.0)),
            (ended(None, 0, false), Next::Again(WAIT.0)),
        ] {
            assert_eq!(Deaths::default().after(ending), next, "{ending:?}");
        }
    }
}
