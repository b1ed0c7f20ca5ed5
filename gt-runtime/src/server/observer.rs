//! Questions of other threads of the process about a server's state, such as those of its metrics.
//!
//! The server answers between two batches of messages. There is a limit of unanswered questions,
//! so that nobody who asks faster than the server answers costs more than a little.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::wire::Status;
use crate::zmq::Waker;

/// The most unanswered questions.
const MOST: usize = 16;

/// Somebody who is told the state.
type Ask = Box<dyn FnOnce(&Status) + Send>;

/// A handle by which other threads learn the state of a server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Observer {
    questions: Questions,
    waker: Waker,
}

/// The unanswered questions.
#[derive(Default, Clone)]
pub(super) struct Questions(Arc<Mutex<Vec<Ask>>>);

impl Observer {
    pub(super) fn new(questions: Questions, waker: Waker) -> Observer {
        Observer { questions, waker }
    }

    /// Calls `tell` soon with the state of the server, on the server's thread, unless the server
    /// ends before. Drops it if too many questions are unanswered.
    pub fn ask(&self, tell: impl FnOnce(&Status) + Send + 'static) {
        let mut questions = self.questions.0.lock().unwrap_or_else(PoisonError::into_inner);
        if questions.len() < MOST {
            questions.push(Box::new(tell));
            self.waker.wake();
        }
    }
}

impl Questions {
    /// Answers all questions, if there are any.
    pub(super) fn answer(&self, status: impl FnOnce() -> Status) {
        let asked = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if asked.is_empty() {
            return;
        }
        let status = status();
        asked.into_iter().for_each(|ask| ask(&status));
    }
}

impl fmt::Debug for Questions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Questions")
    }
}
