//! How helpers hear of new jobs: a counter that they watch for a moment before they sleep.
//!
//! A call says how many helpers it wants, and the others neither wake nor touch what those share,
//! so a small job costs the same beside 2 threads and beside 200. Each helper sleeps by itself and
//! wakes a few others, so that waking many takes the caller no longer than waking some.
//!
//! Guarantees: a helper that is wanted by the last call hears of it, unless it sleeps and the call
//! wakes nobody. It may miss an earlier one, whose tasks the caller and the other helpers run.

use std::{
    sync::{
        OnceLock,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    thread::{self, Thread},
};

/// Turns a helper watches before it sleeps: some tens of microseconds.
pub(super) const SPINS: u32 = 2_000;
/// Helpers that one thread wakes.
const FAN_OUT: usize = 4;
/// Bits of a call that say how many helpers it wants, and whether it wakes them.
const WANTED: u32 = 16;
const ROUSES: u64 = 1 << WANTED;

/// The last call: its number, and below it whether it wakes helpers, and how many it wants. The
/// first ones are meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Call(u64);

impl Call {
    fn wanted(self) -> usize {
        (self.0 & (ROUSES - 1)) as usize
    }

    fn next(self, wanted: usize, rouses: bool) -> Call {
        let wanted = (wanted as u64).min(ROUSES - 1);
        let number = (self.0 >> (WANTED + 1)) + 1;
        Call(number << (WANTED + 1) | if rouses { ROUSES } else { 0 } | wanted)
    }
}

/// A helper, as those who wake it know it. Apart in memory, because every caller reads it.
#[derive(Default)]
#[repr(align(128))]
struct Helper {
    asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

/// The calls of a crew. Helpers are numbered from 1 on; 0 is a caller.
pub(super) struct Calls {
    last: AtomicU64,
    helpers: Box<[Helper]>,
    stop: AtomicBool,
}

impl Calls {
    pub(super) fn new(n_helpers: usize) -> Calls {
        let helpers = (0..n_helpers).map(|_| Helper::default()).collect();
        Calls { last: AtomicU64::new(0), helpers, stop: AtomicBool::new(false) }
    }

    /// Calls the first helpers, so many of them. Those that sleep hear of it only if it `rouses`.
    pub(super) fn call(&self, wanted: usize, rouses: bool) {
        let next = |last| Some(Call(last).next(wanted, rouses).0);
        let last = self.last.fetch_update(SeqCst, SeqCst, next);
        let (Ok(last) | Err(last)) = last;
        self.wake_others(0, Call(last).next(wanted, rouses));
    }

    /// Ends the waiting of all helpers, whose threads these are, now and later.
    pub(super) fn end<'a>(&self, helpers: impl IntoIterator<Item = &'a Thread>) {
        self.stop.store(true, SeqCst);
        helpers.into_iter().for_each(Thread::unpark);
    }

    /// Waits for a call after `seen` that wants this helper, and wakes those that this one has to
    /// wake. `None` at the end. A helper that `may_watch` refuses sleeps at once.
    pub(super) fn wait(
        &self,
        seen: Call,
        number: usize,
        may_watch: impl Fn() -> bool,
    ) -> Option<Call> {
        let call = self.watch(seen, number, may_watch).or_else(|| self.sleep(seen, number))?;
        self.wake_others(number, call);
        Some(call)
    }

    fn watch(&self, seen: Call, number: usize, may_watch: impl Fn() -> bool) -> Option<Call> {
        for _ in 0..SPINS {
            let call = self.news(seen, number);
            if call.is_some() || self.stop.load(Relaxed) || !may_watch() {
                return call;
            }
            std::hint::spin_loop();
        }
        None
    }

    fn sleep(&self, seen: Call, number: usize) -> Option<Call> {
        let helper = &self.helpers[number - 1];
        helper.thread.get_or_init(thread::current);
        loop {
            // A caller that finds it awake has called before the look below.
            helper.asleep.store(true, SeqCst);
            let call = self.news(seen, number);
            if call.is_some() || self.stop.load(SeqCst) {
                helper.asleep.store(false, SeqCst);
                return call;
            }
            thread::park();
        }
    }

    /// The last call, if it is new and wants this helper.
    fn news(&self, seen: Call, number: usize) -> Option<Call> {
        let call = Call(self.last.load(SeqCst));
        (call != seen && number <= call.wanted()).then_some(call)
    }

    /// Wakes those of the wanted helpers that it is this thread's to wake.
    fn wake_others(&self, number: usize, call: Call) {
        if call.0 & ROUSES == 0 {
            return;
        }
        let wanted = call.wanted();
        let first = number * FAN_OUT + 1;
        for other in first..(first + FAN_OUT).min(wanted.min(self.helpers.len()) + 1) {
            let helper = &self.helpers[other - 1];
            if helper.asleep.load(SeqCst) && helper.asleep.swap(false, SeqCst) {
                helper.thread.get().into_iter().for_each(Thread::unpark);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::atomic::AtomicUsize, time::Duration};

    /// Helpers that have gone to sleep hear of a call if it wants them, and only then.
    #[test]
    fn a_call_wakes_the_helpers_that_it_wants() {
        const N: usize = 30;
        let (calls, heard) = (Calls::new(N), AtomicUsize::new(0));
        thread::scope(|scope| {
            let helper = |number| {
                let (calls, heard) = (&calls, &heard);
                scope.spawn(move || {
                    let mut seen = Call::default();
                    while let Some(call) = calls.wait(seen, number, || number % 2 == 0) {
                        seen = call;
                        heard.fetch_add(1, SeqCst);
                    }
                })
            };
            let helpers: Vec<_> = (1..=N).map(helper).collect();
            let until = |n: usize| {
                while heard.load(SeqCst) < n {
                    thread::yield_now();
                }
            };
            for wanted in [N, 0, 1, 7, N] {
                let before = heard.load(SeqCst);
                calls.call(wanted, true);
                until(before + wanted);
                thread::sleep(Duration::from_millis(5));
                assert_eq!(heard.load(SeqCst), before + wanted);
            }
            calls.end(helpers.iter().map(|helper| helper.thread()));
        });
    }
}
