//! Asks a server for its events, again and again.

use std::time::Duration;

use gt_ir::backend::{ErrorKind, RunError};

use crate::clock::{self, Time};
use crate::identity::{Identity, program};
use crate::ids::Incarnation;
use crate::wire::{Body, Events, Hello, Packet, Role, Stream};
use crate::zmq::{Address, Entry, Uplink, UplinkError, Waker, Wakeups, context, wake_pair};

/// The timeout of connection and of each answer.
const PATIENCE: Duration = Duration::from_millis(1_900);
/// The time after which a question is repeated.
const AGAIN: Duration = Duration::from_millis(100);

/// A tracer of one server.
pub struct Tracer {
    uplink: Uplink,
    _waker: Waker,
    wakeups: Wakeups,
    address: Address,
    next: u64,
    end: Option<Time>,
}

impl Tracer {
    /// Connects to the server at an address, and traces it for this long.
    ///
    /// # Errors
    /// The server cannot be reached within two seconds.
    pub fn connect(address: &Address, length: Option<Duration>) -> Result<Tracer, RunError> {
        let ctx = context();
        let uplink = Uplink::open(&ctx, address, PATIENCE, &Entry::from_environment())
            .map_err(|error| RunError::of(ErrorKind::Connection, &error))?;
        let (waker, wakeups) = wake_pair().map_err(|error| failure(error.to_string()))?;
        let end = length.map(|length| clock::now() + length);
        Ok(Tracer { uplink, _waker: waker, wakeups, address: address.clone(), next: 0, end })
    }

    /// The next events. There may be none yet. None at the end of the time.
    ///
    /// # Errors
    /// The server does not answer any more, or refuses.
    pub fn next_events(&mut self) -> Result<Option<Events>, RunError> {
        if self.end.is_some_and(|end| end <= clock::now()) {
            return Ok(None);
        }
        let body = Body::Hello(Hello::new(Role::Tracer(self.next), Identity::here(program())));
        let incarnation = Incarnation(clock::wall_nanos());
        let question = Packet { stream: Stream::Control, incarnation, body };
        let give_up = clock::now() + PATIENCE;
        while clock::now() < give_up {
            self.uplink.send(&question).map_err(broken)?;
            self.wait(AGAIN)?;
            while let Some(packet) = self.uplink.receive().map_err(broken)? {
                match packet.body {
                    Body::Events(events) if packet.incarnation == incarnation => {
                        self.next = events.next;
                        return Ok(Some(*events));
                    }
                    Body::Refused(refusal) => {
                        return Err(RunError::of(ErrorKind::Connection, &refusal));
                    }
                    _ => {}
                }
            }
        }
        let address = &self.address;
        Err(failure(format!("the server at {address} did not answer within 1.9 s")))
    }

    /// Waits before the next question.
    ///
    /// # Errors
    /// The sockets failed.
    pub fn wait(&self, time: Duration) -> Result<(), RunError> {
        self.uplink.wait(&self.wakeups, Some(time)).map_err(|error| failure(error.to_string()))
    }
}

fn failure(text: String) -> RunError {
    RunError::new(ErrorKind::Connection, text)
}

fn broken(error: UplinkError) -> RunError {
    failure(error.to_string())
}
