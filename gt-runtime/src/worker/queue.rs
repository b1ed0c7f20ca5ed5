//! A queue between threads whose reader spins for a moment before it sleeps. The items are in the
//! order in which they were added, or in another one ([`Items`]).
//!
//! Waking a sleeping thread costs a system call and tens of microseconds, and a reader that was
//! just busy is likely to be needed again at once. The queue has no limit of its own, because the
//! credits of the links limit its items.
//!
//! Other threads may take items too: helpers, which wait for something that the items lead to.
//! While a helper is expected, the reader leaves items to it ([`Queue::change_quietly`]), and takes
//! such an item only if nobody has taken one for a tick or two.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::slot::spin_until;

/// Items in the order in which they are taken.
pub trait Items {
    /// An item.
    type Item;
    /// Takes the next item, if one may be taken now.
    fn take(&mut self) -> Option<Self::Item>;
    /// Whether no item may be taken now.
    fn is_empty(&self) -> bool;
}

impl<T> Items for VecDeque<T> {
    type Item = T;

    fn take(&mut self) -> Option<T> {
        self.pop_front()
    }

    fn is_empty(&self) -> bool {
        VecDeque::is_empty(self)
    }
}

/// A queue between threads, of items in the order in which they were added.
pub type Fifo<T> = Queue<VecDeque<T>>;

/// A queue between threads.
#[derive(Debug)]
pub struct Queue<S> {
    state: Mutex<State<S>>,
    /// Whether there may be an item to take. Read without the lock.
    busy: AtomicBool,
    /// Whether there may be an item for the reader. Read without the lock.
    called: AtomicBool,
    filled: Condvar,
}

/// How often a reader that leaves items to helpers looks at them.
const TICK: Duration = Duration::from_millis(1);
/// The ticks without a change after which no helper is expected.
const PATIENCE: u32 = 50;

#[derive(Debug)]
struct State<S> {
    items: S,
    sleep: Sleep,
    closed: bool,
    /// Whether a helper is expected to take what is added.
    helped: bool,
    /// The number of changes.
    n_changes: u64,
}

/// How the reader waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sleep {
    Awake,
    /// It looks at the items at the next tick.
    Ticks,
    /// It sleeps until it is woken.
    Sound,
}

impl<T> Fifo<T> {
    /// Adds an item at the end.
    pub fn push(&self, item: T) {
        self.change(|items| items.push_back(item));
    }
}

impl<S: Items + Default> Queue<S> {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        let items = S::default();
        let (sleep, closed, helped, n_changes) = (Sleep::Awake, false, false, 0);
        Queue {
            state: Mutex::new(State { items, sleep, closed, helped, n_changes }),
            busy: AtomicBool::new(false),
            called: AtomicBool::new(false),
            filled: Condvar::new(),
        }
    }

    /// Changes the items, and calls the reader to them.
    pub fn change<R>(&self, act: impl FnOnce(&mut S) -> R) -> R {
        let mut state = self.lock();
        let result = act(&mut state.items);
        self.settle(state, true);
        result
    }

    /// As [`change`](Queue::change), but if a helper is expected and `act` says so, the reader is
    /// not called.
    pub fn change_quietly(&self, act: impl FnOnce(&mut S) -> bool) {
        let mut state = self.lock();
        let is_quiet = act(&mut state.items);
        self.settle(state, !is_quiet);
    }

    /// Expects a helper: a thread that takes items while it waits. Changes the items for it, and
    /// calls the reader only to what is left then.
    pub fn help<R>(&self, act: impl FnOnce(&mut S) -> R) -> R {
        let mut state = self.lock();
        state.helped = true;
        let result = act(&mut state.items);
        self.settle(state, true);
        result
    }

    /// From now on, no helper is expected.
    pub fn leave(&self) {
        let mut state = self.lock();
        state.helped = false;
        self.settle(state, true);
    }

    /// Closes the queue. The reader gets the remaining items, then None.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.settle(state, true);
    }

    /// Whether the queue is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Whether there may be an item to take.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// Takes the first item, and waits for it if necessary. None if the queue is closed and empty.
    /// For the reader alone.
    #[must_use]
    pub fn pop(&self) -> Option<S::Item> {
        // A helper may be faster, so that there is nothing to take.
        while spin_until(|| self.called.load(Ordering::Acquire)) {
            let mut state = self.lock();
            let item = self.take(&mut state);
            if item.is_some() || state.closed {
                return item;
            }
        }
        let (mut state, mut seen, mut n_idle) = (self.lock(), None, 0);
        loop {
            let is_same = seen == Some(state.n_changes);
            n_idle = if is_same { n_idle + 1 } else { 0 };
            if is_same && state.is_busy() || n_idle > PATIENCE {
                state.helped = false;
            }
            if !state.helped {
                let item = self.take(&mut state);
                if item.is_some() || state.closed {
                    return item;
                }
            }
            seen = state.helped.then_some(state.n_changes);
            state = self.sleep(state);
        }
    }

    /// Takes the first item without waiting.
    #[must_use]
    pub fn try_pop(&self) -> Option<S::Item> {
        if !self.is_busy() {
            return None;
        }
        self.take(&mut self.lock())
    }

    fn take(&self, state: &mut State<S>) -> Option<S::Item> {
        let item = state.items.take();
        let busy = state.is_busy();
        self.busy.store(busy, Ordering::Release);
        self.called.store(busy && !state.helped, Ordering::Release);
        item
    }

    fn sleep<'a>(&'a self, mut state: MutexGuard<'a, State<S>>) -> MutexGuard<'a, State<S>> {
        state.sleep = if state.helped { Sleep::Ticks } else { Sleep::Sound };
        let mut state = match state.sleep {
            Sleep::Ticks => {
                let woken = self.filled.wait_timeout(state, TICK);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
            Sleep::Awake | Sleep::Sound => {
                self.filled.wait(state).unwrap_or_else(PoisonError::into_inner)
            }
        };
        state.sleep = Sleep::Awake;
        state
    }

    /// Ends a change.
    fn settle(&self, mut state: MutexGuard<'_, State<S>>, calls: bool) {
        let busy = state.is_busy();
        state.n_changes += 1;
        state.helped &= !(busy && calls);
        let called = busy && !state.helped;
        self.busy.store(busy, Ordering::Release);
        self.called.store(called, Ordering::Release);
        let wakes = match state.sleep {
            Sleep::Awake => false,
            Sleep::Ticks => called,
            // It is to look at the items from now on.
            Sleep::Sound => busy,
        };
        drop(state);
        if wakes {
            self.filled.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        // Code under the lock cannot panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Items> State<S> {
    fn is_busy(&self) -> bool {
        self.closed || !self.items.is_empty()
    }
}

impl<S: Items + Default> Default for Queue<S> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn items_come_in_order_and_then_none() {
        let queue = Arc::new(Fifo::new());
        let reader = {
            let queue = queue.clone();
            std::thread::spawn(move || std::iter::from_fn(|| queue.pop()).collect::<Vec<u32>>())
        };
        for i in 0..1000 {
            queue.push(i);
            if i % 100 == 0 {
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        }
        queue.close();
        assert_eq!(reader.join().unwrap(), (0..1000).collect::<Vec<_>>());
        assert_eq!(queue.try_pop(), None);
    }

    /// A helper is expected, and takes nothing.
    #[test]
    fn items_that_are_left_to_helpers_are_taken_at_last() {
        let queue = Arc::new(Fifo::new());
        queue.help(|_: &mut VecDeque<u32>| ());
        let reader = {
            let queue = queue.clone();
            std::thread::spawn(move || std::iter::from_fn(|| queue.pop()).collect::<Vec<u32>>())
        };
        for (i, pause) in (0..).zip([0, 200, 3_000, 100_000, 10]) {
            queue.help(|_| ());
            std::thread::sleep(std::time::Duration::from_micros(pause));
            queue.change_quietly(|items| {
                items.push_back(i);
                i != 1
            });
        }
        while queue.is_busy() {
            std::thread::yield_now();
        }
        queue.close();
        assert_eq!(reader.join().unwrap(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_helper_has_the_items_that_are_left_to_it() {
        let queue = Arc::new(Fifo::new());
        let reader = {
            let queue = queue.clone();
            std::thread::spawn(move || std::iter::from_fn(|| queue.pop()).count())
        };
        // The reader stops spinning.
        std::thread::sleep(std::time::Duration::from_millis(5));
        let mut n_helped = 0;
        for i in 0..1000 {
            queue.help(|_| ());
            queue.change_quietly(|items| {
                items.push_back(i);
                true
            });
            n_helped += usize::from(queue.help(|items| items.pop_front()).is_some());
        }
        queue.close();
        let n_read = reader.join().unwrap();
        assert_eq!(n_helped + n_read, 1000);
        assert!(n_helped > 500, "{n_helped} of 1000");
    }
}
