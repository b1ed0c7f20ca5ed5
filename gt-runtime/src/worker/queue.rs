//! A queue between threads whose reader spins for a moment before it sleeps. The items are in the
//! order in which they were added, or in another one ([`Items`]).
//!
//! Waking a sleeping thread costs a system call and tens of microseconds, and a reader that was
//! just busy is likely to be needed again at once. The queue has no limit of its own, because the
//! credits of the links limit its items.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

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
    filled: Condvar,
}

#[derive(Debug)]
struct State<S> {
    items: S,
    sleeping: bool,
    closed: bool,
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
        let state = State { items: S::default(), sleeping: false, closed: false };
        Queue { state: Mutex::new(state), busy: AtomicBool::new(false), filled: Condvar::new() }
    }

    /// Changes the items.
    pub fn change<R>(&self, act: impl FnOnce(&mut S) -> R) -> R {
        let mut state = self.lock();
        let result = act(&mut state.items);
        self.rouse(state);
        result
    }

    /// Closes the queue. The reader gets the remaining items, then None.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.rouse(state);
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
    #[must_use]
    pub fn pop(&self) -> Option<S::Item> {
        spin_until(|| self.is_busy());
        let mut state = self.lock();
        loop {
            if let Some(item) = state.items.take() {
                self.busy.store(state.is_busy(), Ordering::Release);
                return Some(item);
            }
            if state.closed {
                return None;
            }
            state.sleeping = true;
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleeping = false;
        }
    }

    /// Takes the first item without waiting.
    #[must_use]
    pub fn try_pop(&self) -> Option<S::Item> {
        if !self.is_busy() {
            return None;
        }
        let mut state = self.lock();
        let item = state.items.take();
        self.busy.store(state.is_busy(), Ordering::Release);
        item
    }

    fn rouse(&self, state: MutexGuard<'_, State<S>>) {
        let busy = state.is_busy();
        self.busy.store(busy, Ordering::Release);
        let sleeping = state.sleeping;
        drop(state);
        if sleeping && busy {
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
}
