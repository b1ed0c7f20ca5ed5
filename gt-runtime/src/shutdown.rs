//! Ending a server or a worker from another thread: a signal handler, a test.

use std::sync::{Arc, Mutex, PoisonError};

use crate::zmq::{Waker, Wakeups, wake_pair};

/// Ends what it belongs to. Cheap to clone; may be kept after the end.
#[derive(Debug, Clone)]
pub struct Shutdown {
    end: Arc<Mutex<Option<Ended>>>,
    waker: Waker,
}

/// How it is to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With a good-bye and its reason.
    Politely(String),
    /// Without a word, as if killed.
    Silently,
}

impl Ended {
    /// Why, for people.
    pub(crate) fn reason(self) -> String {
        match self {
            Ended::Politely(reason) => reason,
            Ended::Silently => "it was told to vanish".into(),
        }
    }
}

impl Shutdown {
    pub(crate) fn new() -> std::io::Result<(Shutdown, Wakeups)> {
        let (waker, wakeups) = wake_pair()?;
        Ok((Shutdown { end: Arc::default(), waker }, wakeups))
    }

    /// Ends it soon; the others are told why. The first call counts.
    pub fn shut_down(&self, reason: &str) {
        self.end(Ended::Politely(reason.to_owned()));
    }

    /// Ends it soon without a word to anybody, as a crash would: for tests of those who stay
    /// behind.
    pub fn vanish(&self) {
        self.end(Ended::Silently);
    }

    fn end(&self, how: Ended) {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(how);
        self.waker.wake();
    }

    pub(crate) fn asked(&self) -> Option<Ended> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }
}
