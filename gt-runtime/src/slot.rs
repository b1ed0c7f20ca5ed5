//! A slot for one answer, which one thread waits for and another thread puts there. A slot is also
//! a future, which wakes its task.
//!
//! Only the first answer counts. The thread that owes the answer must put an error into
//! the slot when it gives up, or the other thread waits forever.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::clock;

/// How long a thread spins before it waits for another thread of the process: about twice the time
/// of waking it.
pub const SPIN: Duration = Duration::from_micros(60);

/// The slot. Clones share it.
#[derive(Debug)]
pub struct Slot<T>(Arc<Inner<T>>);

#[derive(Debug)]
struct Inner<T> {
    there: AtomicBool,
    held: Mutex<Held<T>>,
    arrived: Condvar,
}

#[derive(Debug)]
struct Held<T> {
    value: Option<T>,
    sleeping: bool,
    /// The task that was the last to ask.
    task: Option<Waker>,
}

impl<T> Slot<T> {
    /// An empty slot.
    #[must_use]
    pub fn new() -> Self {
        Slot(Arc::new(Inner {
            there: AtomicBool::new(false),
            held: Mutex::new(Held { value: None, sleeping: false, task: None }),
            arrived: Condvar::new(),
        }))
    }

    /// Puts the answer into the slot, unless it has had one, and wakes whoever waits for it.
    pub fn put(&self, value: T) {
        if let Some(task) = self.fill(value) {
            task.wake();
        }
    }

    /// As [`put`](Slot::put), but leaves the task that waits for the answer to the caller. To wake
    /// a task is to run foreign code, which a thread that holds locks must not do.
    #[must_use = "the task sleeps until it is woken"]
    pub fn fill(&self, value: T) -> Option<Waker> {
        let mut held = self.lock();
        if self.0.there.load(Ordering::Relaxed) {
            return None;
        }
        held.value = Some(value);
        self.0.there.store(true, Ordering::Release);
        let (sleeping, task) = (held.sleeping, held.task.take());
        drop(held);
        if sleeping {
            self.0.arrived.notify_all();
        }
        task
    }

    /// Whether the answer has arrived.
    #[must_use]
    pub fn is_filled(&self) -> bool {
        self.0.there.load(Ordering::Acquire)
    }

    /// Waits for the answer and takes it. None if it was taken before.
    #[must_use]
    pub fn wait(&self) -> Option<T> {
        let mut held = self.lock();
        while !self.0.there.load(Ordering::Relaxed) {
            held.sleeping = true;
            held = self.0.arrived.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        held.value.take()
    }

    /// As [`wait`](Slot::wait), but at most for `patience`.
    #[must_use]
    pub fn wait_for(&self, patience: Duration) -> Option<T> {
        let mut held = self.lock();
        held.sleeping = true;
        let absent = |_: &mut Held<T>| !self.0.there.load(Ordering::Relaxed);
        let waited = self.0.arrived.wait_timeout_while(held, patience, absent);
        waited.unwrap_or_else(PoisonError::into_inner).0.value.take()
    }

    fn lock(&self) -> MutexGuard<'_, Held<T>> {
        // Code under the lock cannot panic half-way.
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer, as [`Slot::wait`] gives it.
impl<T> Future for Slot<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        // Cloned and dropped outside of the lock, as it is foreign code.
        let task = context.waker().clone();
        let mut held = self.lock();
        if self.0.there.load(Ordering::Relaxed) {
            return Poll::Ready(held.value.take());
        }
        let before = held.task.replace(task);
        drop(held);
        drop(before);
        Poll::Pending
    }
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Slot(self.0.clone())
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Spins until `so` is true or [`SPIN`] has passed. Says whether it became true. It yields to other
/// threads, because on a busy machine the thread that owes the answer may wait for this processor.
pub fn spin_until(so: impl Fn() -> bool) -> bool {
    let mut end = None;
    loop {
        for _ in 0..32 {
            if so() {
                return true;
            }
            std::hint::spin_loop();
        }
        let now = clock::now();
        if now >= *end.get_or_insert(now + SPIN) {
            return false;
        }
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[test]
    fn the_first_answer_is_the_one() {
        let slot = Slot::new();
        let other = slot.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            other.put(1);
            other.put(2);
        });
        assert_eq!(slot.wait(), Some(1));
        thread.join().unwrap();
        assert_eq!(slot.wait(), None);
    }

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_task_that_asked_last_is_woken_once() {
        let tasks: [Arc<Count>; 2] = Default::default();
        let wakers = tasks.clone().map(Waker::from);
        let mut slot = Slot::new();
        for waker in [&wakers[0], &wakers[0], &wakers[1]] {
            let asked = Pin::new(&mut slot).poll(&mut Context::from_waker(waker));
            assert_eq!(asked, Poll::Pending);
        }
        slot.put(1);
        slot.put(2);
        assert_eq!(tasks.map(|task| task.0.load(Ordering::Relaxed)), [0, 1]);
        let asked = Pin::new(&mut slot).poll(&mut Context::from_waker(&wakers[0]));
        assert_eq!(asked, Poll::Ready(Some(1)));
    }

    #[test]
    fn whoever_fills_a_slot_wakes_the_task() {
        let task: Arc<Count> = Arc::default();
        let waker = Waker::from(task.clone());
        let mut slot = Slot::new();
        let _ = Pin::new(&mut slot).poll(&mut Context::from_waker(&waker));
        let left = slot.fill(1);
        assert_eq!(task.0.load(Ordering::Relaxed), 0);
        assert!(left.is_some_and(|left| left.will_wake(&waker)));
        assert!(slot.fill(2).is_none());
    }

    #[test]
    fn patience_ends() {
        assert_eq!(Slot::<()>::new().wait_for(Duration::from_millis(1)), None);
    }
}
