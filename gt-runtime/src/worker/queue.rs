//! A queue between threads whose reader spins for a moment before it sleeps.
//!
//! Waking a sleeping thread costs a system call and tens of microseconds, and a reader that was
//! just busy is likely to be needed again at once. The queue has no limit of its own, because the
//! credits of the links limit its items.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::slot::spin_until;

/// A queue between threads.
#[derive(Debug)]
pub struct Queue<T> {
    state: Mutex<State<T>>,
    /// Whether there may be an item to take. Read without the lock.
    busy: AtomicBool,
    filled: Condvar,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    sleeping: bool,
    closed: bool,
}

impl<T> Queue<T> {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        let state = State { items: VecDeque::new(), sleeping: false, closed: false };
        Queue { state: Mutex::new(state), busy: AtomicBool::new(false), filled: Condvar::new() }
    }

    /// Adds an item at the end.
    pub fn push(&self, item: T) {
        let mut state = self.lock();
        state.items.push_back(item);
        self.rouse(state);
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

    /// Takes the first item, and waits for it if necessary. None if the queue is closed and empty.
    #[must_use]
    pub fn pop(&self) -> Option<T> {
        spin_until(|| self.busy.load(Ordering::Acquire));
        let mut state = self.lock();
        loop {
            if let Some(item) = state.items.pop_front() {
                self.busy.store(!state.items.is_empty() || state.closed, Ordering::Release);
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
    pub fn try_pop(&self) -> Option<T> {
        if !self.busy.load(Ordering::Acquire) {
            return None;
        }
        let mut state = self.lock();
        let item = state.items.pop_front();
        self.busy.store(!state.items.is_empty() || state.closed, Ordering::Release);
        item
    }

    fn rouse(&self, state: MutexGuard<'_, State<T>>) {
        self.busy.store(true, Ordering::Release);
        let sleeping = state.sleeping;
        drop(state);
        if sleeping {
            self.filled.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Code under the lock cannot panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for Queue<T> {
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
        let queue = Arc::new(Queue::new());
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
