//! Asks a server for its state.

use std::time::Duration;

use gt_ir::backend::{ErrorKind, RunError};

use crate::clock;
use crate::identity::{Identity, program};
use crate::ids::Incarnation;
use crate::wire::{Body, Hello, Packet, Role, Status, Stream};
use crate::zmq::{Address, Entry, Uplink, UplinkError, context, wake_pair};

/// The timeout of connection and answer together.
const PATIENCE: Duration = Duration::from_millis(1_900);
/// The time after which a question is repeated.
const AGAIN: Duration = Duration::from_millis(100);

/// The state of the server at an address. A user with the role `monitor` sees all sessions, a
/// client sees those of its user.
///
/// # Errors
/// No server answers within two seconds, or it refuses to.
pub fn ask(address: &Address) -> Result<Status, RunError> {
    let failure = |text: String| RunError::new(ErrorKind::Connection, text);
    let end = clock::now() + PATIENCE;
    let ctx = context();
    let uplink = Uplink::open(&ctx, address, PATIENCE, &Entry::from_environment())
        .map_err(|error| RunError::of(ErrorKind::Connection, &error))?;
    let (_waker, wakeups) = wake_pair().map_err(|error| failure(error.to_string()))?;
    let body = Body::Hello(Hello::new(Role::Monitor, Identity::here(program())));
    let incarnation = Incarnation(clock::wall_nanos());
    let question = Packet { stream: Stream::Control, incarnation, body };
    let broken = |error: UplinkError| failure(error.to_string());
    while clock::now() < end {
        uplink.send(&question).map_err(broken)?;
        uplink.wait(&wakeups, Some(AGAIN)).map_err(|error| failure(error.to_string()))?;
        while let Some(packet) = uplink.receive().map_err(broken)? {
            match packet.body {
                Body::Status(status) => return Ok(*status),
                Body::Refused(refusal) => {
                    return Err(RunError::of(ErrorKind::Connection, &refusal));
                }
                _ => {}
            }
        }
    }
    Err(failure(format!("the server at {address} did not answer within 1.9 s")))
}
