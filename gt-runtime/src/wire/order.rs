//! Orders of a session, from its client to the worker that carries them out.
//!
//! The same [`Order`] travels from the client to the dispatcher and from the dispatcher to a
//! worker. [`FromClient`](super::FromClient) and [`ToWorker`](super::ToWorker) add only the fields
//! that the receiver needs. This file does not say how an order is carried out.

use super::{Chunk, Destination, Performance, Routine, Stream};
use crate::ids::RequestId;
use gt_ir::backend::RunError;
use gt_ir::canonical::{Bindings, Defined};
use gt_ir::tape::{Tape, ValueId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An order of a session. Orders are carried out one after the other, except that tensor data
/// travels on a stream of its own.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Order {
    /// Runs the next segment of the session's tape, when the data of its inputs has arrived.
    Run(Arc<Tape>),
    /// Defines a template: gives a number to a segment in canonical form. An earlier template of
    /// the number is forgotten. Runs nothing.
    Define {
        /// The number, below [`MAX_TEMPLATES`](super::MAX_TEMPLATES).
        template: u32,
        /// The segment, as [`gt_ir::canonical`] makes it.
        tape: Arc<Tape>,
        /// Whether launches wait until it is compiled.
        planned: bool,
    },
    /// Runs the next segment of the session's tape: a template with other values and scalars.
    Launch {
        /// The template's number.
        template: u32,
        /// The values and scalars.
        bindings: Arc<Bindings>,
    },
    /// Forgets a template, or a routine.
    Forget {
        /// Its number.
        template: u32,
    },
    /// Brings data of an input (bulk). The pieces of an input come in order, before or after the
    /// segment that declares it.
    Chunk(Box<Chunk>),
    /// Says that the data of an input will not come: what needs the value fails with this error.
    /// Only the dispatcher says so.
    Fail {
        /// The value.
        value: ValueId,
        /// The reason.
        error: Arc<RunError>,
    },
    /// Requests a value, when the earlier segments have run. The answer is chunks (bulk) or a
    /// failure.
    Fetch {
        /// The number of the request.
        request: RequestId,
        /// The value.
        value: ValueId,
    },
    /// Sends a value to another worker, when the earlier segments have run. The answer is
    /// [`FromWorker::Sent`](super::FromWorker::Sent), or a failure, or the value as for a fetch if
    /// the other worker cannot be reached. Only the dispatcher sends it.
    Send {
        /// The number of the request.
        request: RequestId,
        /// The value.
        value: ValueId,
        /// Where it goes.
        to: Arc<Destination>,
    },
    /// Defines a routine, whose templates are defined before. An earlier routine of the number is
    /// forgotten. Runs nothing. Only the dispatcher sends it.
    Learn {
        /// The number. No template has it.
        routine: u32,
        /// What is to be done.
        steps: Arc<Routine>,
    },
    /// Runs the next segments of the session and sends values to other workers, as a routine says.
    /// The answer is [`FromWorker::Performed`](super::FromWorker::Performed). Values that fail are
    /// reported as those of a [`Order::Send`]. Only the dispatcher sends it.
    Perform(Box<Performance>),
    /// Requests the session's statistics, when the earlier segments have run.
    Stats {
        /// The number of the request.
        request: RequestId,
    },
}

impl Order {
    /// The tape it carries.
    #[must_use]
    pub fn tape(&self) -> Option<&Arc<Tape>> {
        match self {
            Order::Run(tape) | Order::Define { tape, .. } => Some(tape),
            Order::Launch { .. }
            | Order::Forget { .. }
            | Order::Chunk(_)
            | Order::Fail { .. }
            | Order::Fetch { .. }
            | Order::Send { .. }
            | Order::Learn { .. }
            | Order::Perform(_)
            | Order::Stats { .. } => None,
        }
    }

    /// The number of segments that it runs.
    #[must_use]
    pub fn n_segments(&self) -> u64 {
        match self {
            Order::Run(_) | Order::Launch { .. } => 1,
            Order::Perform(performance) => performance.n_segments.into(),
            Order::Define { .. }
            | Order::Forget { .. }
            | Order::Chunk(_)
            | Order::Fail { .. }
            | Order::Fetch { .. }
            | Order::Send { .. }
            | Order::Learn { .. }
            | Order::Stats { .. } => 0,
        }
    }

    /// The number of its request.
    #[must_use]
    pub fn request(&self) -> Option<RequestId> {
        match self {
            Order::Fetch { request, .. }
            | Order::Send { request, .. }
            | Order::Stats { request } => Some(*request),
            Order::Run(_)
            | Order::Define { .. }
            | Order::Launch { .. }
            | Order::Forget { .. }
            | Order::Chunk(_)
            | Order::Learn { .. }
            | Order::Perform(_)
            | Order::Fail { .. } => None,
        }
    }

    /// The stream it travels on. An error travels where the pieces of its value would, so that it
    /// arrives after those that were sent.
    #[must_use]
    pub fn stream(&self) -> Stream {
        let is_data = matches!(self, Order::Chunk(_) | Order::Fail { .. });
        if is_data { Stream::Bulk } else { Stream::Control }
    }

    /// About the number of bytes that it holds.
    pub(crate) fn payload(&self) -> u64 {
        match self {
            Order::Run(tape) | Order::Define { tape, .. } => tape.entries.len() as u64 * 64,
            Order::Launch { bindings, .. } => {
                let n_listed = match &bindings.defined {
                    Defined::Run(..) => 0,
                    Defined::List(list) => list.len(),
                };
                8 * (bindings.inputs.len() + n_listed + 2 * bindings.scalars.len()) as u64
            }
            Order::Chunk(chunk) => chunk.bytes.len() as u64,
            Order::Fail { error, .. } => error.message.len() as u64,
            Order::Send { to, .. } => to.door.address.len() as u64,
            Order::Learn { steps, .. } => {
                let doors = steps.receivers.iter().map(|to| to.door.address.len());
                (16 * steps.size() + doors.sum::<usize>()) as u64
            }
            Order::Perform(performance) => {
                8 * (performance.given.len() + 2 * performance.scalars.len()) as u64
            }
            Order::Forget { .. } | Order::Fetch { .. } | Order::Stats { .. } => 0,
        }
    }
}
