//! Ending a server or a worker from another thread: a signal handler, a test.

use std::sync::{Arc, Mutex, PoisonError};

use crate::zmq::{Waker, Wakeups, wake_pair};

/// Ends what it belongs to. Cheap to clone; may be kept after the end.
#[derive(Debug, Clone)]
pub struct Shutdown {
    reason: Arc<Mutex<Option<String>>>,
    waker: Waker,
}

impl Shutdown {
    pub(crate) fn new() -> std::io::Result<(Shutdown, Wakeups)> {
        let (waker, wakeups) = wake_pair()?;
        Ok((Shutdown { reason: Arc::default(), waker }, wakeups))
    }

    /// Ends it soon; the others are told why. The first reason counts.
    pub fn shut_down(&self, reason: &str) {
        self.reason
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_with(|| reason.to_owned());
        self.waker.wake();
    }

    pub(crate) fn reason(&self) -> Option<String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }
}
