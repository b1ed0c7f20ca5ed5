//! Asks a server for its events, again and again.

use std::time::Duration;

use gt_ir::backend::RunError;

use crate::clock::{self, Time};
use crate::identity::program;
use crate::status::Monitor;
use crate::wire::{Body, Events, Role};
use crate::zmq::Address;

/// The time in which clients and workers answer to the last question.
const LATE: Duration = Duration::from_millis(20);

/// A tracer of one server.
pub struct Tracer {
    monitor: Monitor,
    next: u64,
    end: Option<Time>,
    is_over: bool,
}

impl Tracer {
    /// Connects to the server at an address, and traces it for this long.
    ///
    /// # Errors
    /// The server cannot be reached within two seconds.
    pub fn connect(address: &Address, length: Option<Duration>) -> Result<Tracer, RunError> {
        let monitor = Monitor::connect(address)?;
        let end = length.map(|length| clock::now() + length);
        Ok(Tracer { monitor, next: 0, end, is_over: false })
    }

    /// The next events. There may be none yet. None at the end of the time.
    ///
    /// # Errors
    /// The server does not answer any more, or refuses.
    pub fn next_events(&mut self) -> Result<Option<Events>, RunError> {
        if self.is_over {
            return Ok(None);
        }
        if self.end.is_some_and(|end| end <= clock::now()) {
            // What clients and workers say of themselves comes after the answer to a question.
            self.is_over = true;
            self.events()?;
            self.wait(LATE)?;
        }
        let events = self.events()?;
        self.next = events.next;
        Ok(Some(events))
    }

    fn events(&mut self) -> Result<Events, RunError> {
        let events = |body| if let Body::Events(events) = body { Some(*events) } else { None };
        self.monitor.question(Role::Tracer(self.next), program(), events)
    }

    /// Waits before the next question.
    ///
    /// # Errors
    /// The sockets failed.
    pub fn wait(&self, time: Duration) -> Result<(), RunError> {
        self.monitor.wait(time)
    }
}
