//! The latest moments of one client or worker, for a tracer of its server.
//!
//! A capture is on while the server asks, and for some seconds more. While it is off, each hook
//! costs one look at a number. It keeps a bounded number of moments; later ones are counted.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::{self, Time};
use crate::wire::{Doing, MAX_MOMENTS, Moment, Moments};

/// How long moments are kept for a server that does not ask again.
const PATIENCE: Duration = Duration::from_secs(3);
/// Recording goes on within one moment for so long: a loop of thousands of short calls is one.
const LONG: u64 = 2_000_000;

thread_local! {
    /// When this thread came back from its last call into a system.
    static LEFT: Cell<Time> = const { Cell::new(Time::ZERO) };
}

/// The latest moments.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    /// When it turns off, in nanoseconds. 0 while it is off.
    until: AtomicU64,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// When it was turned on.
    since: u64,
    list: Vec<Moment>,
    lost: u64,
}

impl Capture {
    /// Whether somebody wants the moments.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.until.load(Ordering::Relaxed) != 0
    }

    /// The time, if somebody wants the moments.
    #[inline]
    pub(crate) fn now(&self) -> Option<Time> {
        self.is_on().then(clock::now)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Code under the lock cannot panic half-way.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a moment, unless it began before anybody asked.
    pub(crate) fn add(&self, now: Time, moment: Moment) {
        let mut kept = self.kept();
        if nanos(now) > self.until.load(Ordering::Relaxed) {
            self.until.store(0, Ordering::Relaxed);
            *kept = Kept::default();
        } else if moment.at >= kept.since {
            kept.add(moment);
        }
    }

    /// The moments since the last call. It is on from now on, for a time.
    pub(crate) fn take(&self, now: Time) -> Moments {
        let mut kept = self.kept();
        if nanos(now) > self.until.load(Ordering::Relaxed) {
            *kept = Kept { since: nanos(now), ..Kept::default() };
        }
        self.until.store(nanos(now + PATIENCE), Ordering::Relaxed);
        let (list, lost) = (std::mem::take(&mut kept.list), std::mem::take(&mut kept.lost));
        Moments { now: nanos(now), lost, list }
    }

    /// A call of a program's thread that hands over work. The time since the thread's last call was
    /// recording, and so is this call.
    pub(crate) fn submits(&self) -> Call<'_> {
        Call { capture: self, waits: None }
    }

    /// A call of a program's thread that waits for a value.
    pub(crate) fn waits(&self) -> Call<'_> {
        let now = self.now();
        now.into_iter().for_each(|now| self.recorded(now));
        Call { capture: self, waits: now }
    }

    /// What the thread did since its last call was recording.
    fn recorded(&self, now: Time) {
        let left = LEFT.replace(now);
        self.add(now, interval(Doing::Record, left, now));
    }
}

impl Kept {
    fn add(&mut self, moment: Moment) {
        if let Some(last) = self.list.last_mut()
            && last.doing == Doing::Record
            && moment.doing == Doing::Record
            && last.at + last.took == moment.at
            && last.took < LONG
        {
            last.took += moment.took;
        } else if self.list.len() < MAX_MOMENTS {
            self.list.push(moment);
        } else {
            self.lost += 1;
        }
    }
}

/// A moment between two times.
pub(crate) fn interval(doing: Doing, began: Time, end: Time) -> Moment {
    let (at, took) = (nanos(began), nanos(end.saturating_sub(began)));
    Moment { doing, at, took, of: None, n: 0 }
}

/// A call of a program's thread. Dropped at its end.
pub(crate) struct Call<'a> {
    capture: &'a Capture,
    /// When it began to wait, if it waits and somebody wants to know.
    waits: Option<Time>,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let Some(now) = self.capture.now() else { return };
        match self.waits {
            Some(began) => {
                LEFT.set(now);
                self.capture.add(now, interval(Doing::Wait, began, now));
            }
            None => self.capture.recorded(now),
        }
    }
}

fn nanos(time: Time) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Duration::from_secs(seconds)
    }

    fn doings(moments: &Moments) -> Vec<(Doing, u64)> {
        moments.list.iter().map(|moment| (moment.doing, moment.took)).collect()
    }

    #[test]
    fn moments_are_kept_while_somebody_asks() {
        let capture = Capture::default();
        assert!(!capture.is_on());
        capture.add(at(1), interval(Doing::Run, at(0), at(1)));
        assert_eq!(capture.take(at(10)).list, []);
        capture.add(at(11), interval(Doing::Run, at(9), at(11)));
        capture.add(at(11), interval(Doing::Wait, at(10), at(11)));
        assert_eq!(doings(&capture.take(at(12))), [(Doing::Wait, 1_000_000_000)]);
        capture.add(at(16), interval(Doing::Wait, at(15), at(16)));
        assert!(!capture.is_on(), "nobody has asked for more than three seconds");
    }

    #[test]
    fn there_are_so_many_at_most_and_recording_goes_on_within_one() {
        let capture = Capture::default();
        capture.take(at(1));
        let micros = |n: u64| at(1) + Duration::from_micros(n);
        (0..10).for_each(|n| {
            capture.add(at(1), interval(Doing::Record, micros(n), micros(n + 1)));
        });
        assert_eq!(doings(&capture.take(at(1))), [(Doing::Record, 10_000)]);
        (0..5_000).for_each(|n| {
            capture.add(at(1), interval(Doing::Run, micros(n), micros(n + 1)));
        });
        let moments = capture.take(at(1));
        assert_eq!((moments.list.len(), moments.lost), (MAX_MOMENTS, 5_000 - MAX_MOMENTS as u64));
        assert_eq!(capture.take(at(1)).lost, 0);
    }

    #[test]
    fn calls_of_a_thread_are_recording_and_waiting() {
        let capture = Capture::default();
        capture.take(clock::now());
        drop(capture.submits());
        drop(capture.submits());
        drop(capture.waits());
        let moments = capture.take(clock::now());
        let kinds: Vec<Doing> = moments.list.iter().map(|moment| moment.doing).collect();
        assert_eq!(kinds, [Doing::Record, Doing::Wait]);
        let [record, wait] = moments.list[..] else { panic!("{moments:?}") };
        assert_eq!(record.at + record.took, wait.at);
    }
}
