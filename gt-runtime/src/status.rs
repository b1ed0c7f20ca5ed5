//! Asks a server for its state, once or again and again, and ends sessions.

use std::time::Duration;

use gt_ir::backend::{ErrorKind, RunError};
use zmq::Context;

use crate::clock;
use crate::identity::{Identity, program, user};
use crate::ids::{Incarnation, SessionId};
use crate::wire::{Body, Hello, Packet, Role, Status, Stream};
use crate::zmq::{Address, Entry, Sent, Uplink, UplinkError, Waker, Wakeups, context, wake_pair};

/// The timeout of a connection, and of an answer.
const PATIENCE: Duration = Duration::from_millis(1_900);
/// The time after which a question is repeated.
const AGAIN: Duration = Duration::from_millis(100);

/// Somebody who asks a server. It keeps its connection, and the server keeps nothing for it.
pub struct Monitor {
    uplink: Uplink,
    wakeups: Wakeups,
    _waker: Waker,
    address: Address,
    incarnation: Incarnation,
    // After the sockets, because dropping the context waits for them.
    _ctx: Context,
}

impl Monitor {
    /// Connects to the server at an address.
    ///
    /// # Errors
    /// No server accepts within two seconds, or it refuses to.
    pub fn connect(address: &Address) -> Result<Monitor, RunError> {
        let entry = Entry::from_environment();
        let ctx = context();
        let uplink = Uplink::open(&ctx, address, PATIENCE, &entry)
            .map_err(|error| RunError::of(ErrorKind::Connection, &error))?;
        let (waker, wakeups) = wake_pair().map_err(|error| failure(error.to_string()))?;
        let incarnation = Incarnation(clock::wall_nanos());
        let (address, _waker, _ctx) = (address.clone(), waker, ctx);
        Ok(Monitor { uplink, wakeups, _waker, address, incarnation, _ctx })
    }

    /// The state of the server. A user with the role `monitor` sees all sessions, a client sees
    /// those of its user.
    ///
    /// # Errors
    /// The server does not answer within two seconds, or ten on another machine, or it refuses to.
    pub fn ask(&mut self) -> Result<Status, RunError> {
        self.question(Role::Monitor, program(), status)
    }

    /// Ends a session, which is told that this user has ended it. Returns the state after it.
    ///
    /// # Errors
    /// There was no such session, this user may not end it, or the server does not answer.
    pub fn end(&mut self, session: SessionId) -> Result<Status, RunError> {
        self.question(Role::Operator(session), user(), status)
    }

    /// Asks in a role, under a name, until an answer comes that `take` accepts.
    pub(crate) fn question<T>(
        &mut self,
        role: Role,
        name: String,
        take: impl Fn(Body) -> Option<T>,
    ) -> Result<T, RunError> {
        // A late answer to an earlier question is not the answer to this one.
        self.incarnation.0 += 1;
        let patience = self.address.patience(PATIENCE);
        let (incarnation, end) = (self.incarnation, clock::now() + patience);
        let body = Body::Hello(Box::new(Hello::new(role, Identity::here(name))));
        let question = Packet { stream: Stream::Control, incarnation, body };
        let broken = |error: UplinkError| failure(error.to_string());
        while clock::now() < end {
            if self.uplink.send(&question).map_err(broken)? == Sent::NoPeer {
                return Err(failure(format!("the server at {} was restarted", self.address)));
            }
            self.wait(AGAIN)?;
            while let Some(packet) = self.uplink.receive().map_err(broken)? {
                if let Body::Refused(refusal) = &packet.body {
                    return Err(RunError::of(ErrorKind::Connection, refusal));
                }
                if packet.incarnation == incarnation
                    && let Some(answer) = take(packet.body)
                {
                    return Ok(answer);
                }
            }
        }
        let (at, seconds) = (&self.address, patience.as_secs_f64());
        Err(failure(format!("the server at {at} did not answer within {seconds} s")))
    }

    /// Waits for a packet, or for a time.
    pub(crate) fn wait(&self, time: Duration) -> Result<(), RunError> {
        self.uplink.wait(&self.wakeups, Some(time)).map_err(|error| failure(error.to_string()))
    }
}

fn status(body: Body) -> Option<Status> {
    if let Body::Status(status) = body { Some(*status) } else { None }
}

/// The state of the server at an address, as [`Monitor::ask`].
///
/// # Errors
/// As [`Monitor::connect`] and [`Monitor::ask`].
pub fn ask(address: &Address) -> Result<Status, RunError> {
    Monitor::connect(address)?.ask()
}

fn failure(text: String) -> RunError {
    RunError::new(ErrorKind::Connection, text)
}
