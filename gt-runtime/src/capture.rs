//! The latest moments of one client or worker, for a tracer of its server.
//!
//! A capture is on while the server asks, and for some seconds more. While it is off, each hook
//! costs one look at a number. It keeps a bounded number of moments; later ones are counted.
//!
//! If a collector gathers spans (`spans`), each moment is one, whether a server asks or not.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::clock::{self, Time};
use crate::spans::{self, Amount, Exporter, Origin, Rank, Span, Words};
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
#[derive(Debug)]
pub(crate) struct Capture {
    /// When it turns off, in nanoseconds. 0 while it is off.
    until: AtomicU64,
    /// The number of calls that wait, and when the last of them began. 0 if it was off then.
    waiting: AtomicU64,
    waiting_since: AtomicU64,
    kept: Mutex<Kept>,
    /// Where spans go, if somebody collects them.
    spans: Option<&'static Exporter>,
    /// The session of a program, and when it was opened. A worker has none.
    opened: OnceLock<(Time, Arc<Origin>)>,
}

impl Default for Capture {
    fn default() -> Capture {
        Capture {
            until: AtomicU64::default(),
            waiting: AtomicU64::default(),
            waiting_since: AtomicU64::default(),
            kept: Mutex::default(),
            spans: spans::exporter(),
            opened: OnceLock::new(),
        }
    }
}

#[derive(Debug, Default)]
struct Kept {
    /// When it was turned on.
    since: u64,
    /// When the moments were last taken. Until then all waits are told.
    taken: u64,
    list: Vec<Moment>,
    lost: u64,
}

impl Capture {
    /// Whether somebody wants the moments.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_kept() || self.has_spans()
    }

    #[inline]
    fn is_kept(&self) -> bool {
        self.until.load(Ordering::Relaxed) != 0
    }

    /// Whether each moment is a span for a collector.
    #[inline]
    pub(crate) fn has_spans(&self) -> bool {
        self.spans.is_some()
    }

    /// The session of this program was opened. Later calls, after a reconnection, change nothing.
    pub(crate) fn open(&self, now: Time, origin: impl FnOnce() -> Origin) {
        if self.has_spans() {
            self.opened.get_or_init(|| (now, Arc::new(origin())));
        }
    }

    /// The session of this program is over.
    pub(crate) fn close(&self, why: &str) {
        if let (Some(spans), Some((began, origin))) = (self.spans, self.opened.get()) {
            let time = (*began, clock::now());
            spans.add(Span::life("session", Rank::First, origin.clone(), time, why));
        }
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

    /// Adds a moment of a program: the part of it since somebody asked.
    pub(crate) fn add(&self, now: Time, moment: Moment) {
        if let (Some(spans), Some((opened, origin))) = (self.spans, self.opened.get())
            && let Some(moment) = since(nanos(*opened), moment)
        {
            spans.add(span(&moment, origin.clone(), 0, Words::None));
        }
        if self.is_kept() {
            self.keep(now, moment);
        }
    }

    /// Adds a moment of a worker, with whose it is, and what more a collector wants to know of it.
    pub(crate) fn add_of(
        &self,
        now: Time,
        moment: Moment,
        origin: Option<&Arc<Origin>>,
        plan: u128,
        words: Words,
    ) {
        if let (Some(spans), Some(origin)) = (self.spans, origin) {
            spans.add(span(&moment, origin.clone(), plan, words));
        }
        if self.is_kept() {
            self.keep(now, moment);
        }
    }

    fn keep(&self, now: Time, moment: Moment) {
        let mut kept = self.kept();
        if nanos(now) > self.until.load(Ordering::Relaxed) {
            self.until.store(0, Ordering::Relaxed);
            *kept = Kept::default();
            return;
        }
        let untold = if moment.doing == Doing::Wait { kept.taken } else { kept.since };
        if let Some(moment) = since(untold, moment) {
            kept.add(moment);
        }
    }

    /// The moments since the last call, and how long a program waits that still does. It is on from
    /// now on, for a time.
    pub(crate) fn take(&self, now: Time) -> Moments {
        let mut kept = self.kept();
        if nanos(now) > self.until.load(Ordering::Relaxed) {
            *kept = Kept { since: nanos(now), taken: nanos(now), ..Kept::default() };
        } else if self.waiting.load(Ordering::Relaxed) > 0 {
            let began = Duration::from_nanos(self.waiting_since.load(Ordering::Relaxed));
            let wait = since(kept.taken, interval(Doing::Wait, began, now));
            wait.into_iter().for_each(|wait| kept.add(wait));
        }
        kept.taken = nanos(now);
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
        let began = now.unwrap_or_default();
        self.waiting_since.store(nanos(began), Ordering::Relaxed);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Call { capture: self, waits: Some(began) }
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

/// The part of a moment that is after a time.
fn since(time: u64, moment: Moment) -> Option<Moment> {
    let end = moment.at.saturating_add(moment.took);
    let at = moment.at.max(time);
    (end >= at).then(|| Moment { at, took: end - at, ..moment })
}

/// A moment as a span.
fn span(moment: &Moment, origin: Arc<Origin>, plan: u128, words: Words) -> Span {
    let (name, amount) = match moment.doing {
        Doing::Record => ("record", Amount::Nothing),
        Doing::Wait => ("wait", Amount::Nothing),
        Doing::Read => ("read", Amount::Bytes(moment.n)),
        Doing::Queue => ("queue", Amount::Nothing),
        Doing::Launch => ("launch", Amount::Instructions(moment.n)),
        Doing::Run => ("run", Amount::Instructions(moment.n)),
        Doing::Compile => ("compile", Amount::Instructions(moment.n)),
        Doing::Exchange => ("exchange", Amount::Bytes(moment.n)),
        Doing::Give => ("give", Amount::Bytes(moment.n)),
    };
    let [began, took] = [moment.at, moment.took].map(Duration::from_nanos);
    let segment = moment.of.map_or(0, |(_, segment)| segment);
    Span { name, rank: Rank::Part, origin, began, took, amount, segment, plan, words }
}

/// A moment between two times.
pub(crate) fn interval(doing: Doing, began: Time, end: Time) -> Moment {
    let (at, took) = (nanos(began), nanos(end.saturating_sub(began)));
    Moment { doing, at, took, of: None, n: 0, to: None }
}

/// A call of a program's thread. Dropped at its end.
pub(crate) struct Call<'a> {
    capture: &'a Capture,
    /// When it began to wait, if it waits. Zero if nobody wanted to know then.
    waits: Option<Time>,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.waits.is_some() {
            self.capture.waiting.fetch_sub(1, Ordering::Relaxed);
        }
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
    fn a_moment_that_began_before_the_session_begins_with_it() {
        let moment = interval(Doing::Record, at(1), at(3));
        let began = |seconds| since(nanos(at(seconds)), moment).map(|m| (m.at, m.took));
        let second = 1_000_000_000;
        assert_eq!(began(0), Some((second, 2 * second)));
        assert_eq!(began(2), Some((2 * second, second)));
        assert_eq!(began(4), None);
    }

    #[test]
    fn moments_are_kept_while_somebody_asks() {
        let capture = Capture::default();
        assert!(!capture.is_on());
        capture.add(at(1), interval(Doing::Run, at(0), at(1)));
        assert_eq!(capture.take(at(10)).list, []);
        capture.add(at(11), interval(Doing::Run, at(9), at(11)));
        capture.add(at(11), interval(Doing::Wait, at(10), at(11)));
        let second = 1_000_000_000;
        assert_eq!(
            doings(&capture.take(at(12))),
            [(Doing::Run, second), (Doing::Wait, second)],
            "only the part since somebody asked"
        );
        capture.add(at(16), interval(Doing::Wait, at(15), at(16)));
        assert!(!capture.is_on(), "nobody has asked for more than three seconds");
    }

    #[test]
    fn a_wait_that_began_before_anybody_asked_is_no_recording() {
        let capture = Capture::default();
        let waits = capture.waits();
        capture.take(clock::now());
        drop(waits);
        let moments = capture.take(clock::now());
        let kinds: Vec<Doing> = moments.list.iter().map(|moment| moment.doing).collect();
        assert_eq!(kinds, [Doing::Wait]);
    }

    #[test]
    fn a_wait_that_is_not_over_is_told_so_far_and_later_the_rest() {
        // Later than the call's own end, whatever the machine does meanwhile.
        let (capture, zero) = (Capture::default(), clock::now() + at(1000));
        let later = |millis| zero + Duration::from_millis(millis);
        let waits = capture.waits();
        capture.take(later(0));
        let told = [capture.take(later(20)), capture.take(later(50))].map(|told| doings(&told));
        assert_eq!(told, [[(Doing::Wait, 20_000_000)], [(Doing::Wait, 30_000_000)]]);
        let rest = interval(Doing::Wait, later(0), later(60));
        capture.add(later(60), rest);
        drop(waits);
        let told = doings(&capture.take(later(70)));
        assert_eq!(told, [(Doing::Wait, 10_000_000)]);
        assert_eq!(doings(&capture.take(later(80))), []);
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

    /// A program that hands over work to a server that takes no more for now.
    #[test]
    fn a_wait_within_a_call_that_hands_over_work_is_no_recording() {
        let capture = Capture::default();
        capture.take(clock::now());
        let began = clock::now();
        LEFT.set(began);
        let submits = capture.submits();
        drop(capture.waits());
        drop(submits);
        let moments = doings(&capture.take(clock::now()));
        let took: u64 = moments.iter().map(|(_, took)| took).sum();
        assert!(took <= nanos(clock::now() - began), "{moments:?}");
        let kinds: Vec<Doing> = moments.iter().map(|(doing, _)| *doing).collect();
        assert_eq!(kinds, [Doing::Record, Doing::Wait, Doing::Record]);
    }

    #[test]
    fn calls_of_a_thread_are_recording_and_waiting() {
        let capture = Capture::default();
        capture.take(clock::now());
        drop(capture.submits());
        drop(capture.submits());
        drop(capture.waits());
        let moments = capture.take(clock::now());
        let mut kinds: Vec<Doing> = moments.list.iter().map(|moment| moment.doing).collect();
        // On a busy machine recording takes longer than one moment.
        kinds.dedup();
        assert_eq!(kinds, [Doing::Record, Doing::Wait]);
        let [.., record, wait] = moments.list[..] else { panic!("{moments:?}") };
        assert_eq!(record.at + record.took, wait.at);
    }
}
