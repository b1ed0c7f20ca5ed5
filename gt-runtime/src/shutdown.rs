//! Handles that end a server or a worker from another thread, such as a signal handler or a test.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::zmq::{Waker, Wakeups, wake_pair};

/// A handle that ends its server or worker. Cheap to clone, and without effect after the end.
#[derive(Debug, Clone)]
pub struct Shutdown {
    end: Arc<Mutex<Option<Manner>>>,
    drain: Arc<Mutex<Option<Drain>>>,
    waker: Waker,
}

/// The end of a server that lets its programs go on for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Drain {
    /// What programs are told.
    pub(crate) reason: String,
    /// How long it waits for them.
    pub(crate) patience: Duration,
}

/// How the server or worker ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It tells its peers this reason.
    Politely(String),
    /// It tells its peers nothing, as after a crash.
    Silently,
}

impl Manner {
    /// The reason, for users.
    pub(crate) fn reason(self) -> String {
        match self {
            Manner::Politely(reason) => reason,
            Manner::Silently => "it was told to vanish".into(),
        }
    }
}

impl Shutdown {
    pub(crate) fn new() -> std::io::Result<(Shutdown, Wakeups)> {
        let (waker, wakeups) = wake_pair()?;
        Ok((Shutdown { end: Arc::default(), drain: Arc::default(), waker }, wakeups))
    }

    /// Ends it soon, and tells its peers the reason. Only the first call counts.
    pub fn shut_down(&self, reason: &str) {
        self.end(Manner::Politely(reason.to_owned()));
    }

    /// Lets a server take no new programs, and ends it when those that there are have ended, or
    /// after `patience`. Only the first call counts. A worker ignores it.
    pub fn drain(&self, reason: &str, patience: Duration) {
        let drain = Drain { reason: reason.to_owned(), patience };
        self.drain.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(drain);
        self.waker.wake();
    }

    /// Ends it soon and tells its peers nothing, as a crash does. For tests of the peers.
    pub fn vanish(&self) {
        self.end(Manner::Silently);
    }

    fn end(&self, how: Manner) {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(how);
        self.waker.wake();
    }

    /// The end that was asked for, if any.
    pub(crate) fn asked(&self) -> Option<Manner> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The drain that was asked for, if any.
    pub(crate) fn draining(&self) -> Option<Drain> {
        self.drain.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }
}
