//! The messages between the dispatcher and workers: as between clients and the dispatcher, with the
//! session of each message.

use super::{Chunk, Counts, Door, Moments, Order, Performed, Planned};
use crate::ids::{Incarnation, RequestId, SessionId};
use gt_ir::backend::{RunError, Stats};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Dispatcher to worker.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ToWorker {
    /// The worker becomes the home of a session. The first message of the session.
    Open {
        /// The session.
        session: SessionId,
        /// The client's name, which other clients of its user may see: `s1 digits (pi, pid 123)`.
        client: Arc<str>,
        /// How much of the worker's time it gets ([`Priority`](crate::priority::Priority)).
        weight: u32,
        /// Its user, as a number that is equal for equal users.
        user: u64,
        /// The life of the client's connection.
        life: Incarnation,
    },
    /// An order of a session.
    Order {
        /// The session.
        session: SessionId,
        /// The number of workers that the session has lost. Reports repeat it.
        attempt: u32,
        /// The number of the session's segments before the order. For a segment, its number. For a
        /// read, the number of segments that it needs.
        seq: u64,
        /// The order. Its values are live on this worker, and its template is defined here.
        order: Order,
    },
    /// A tracer wants to know what the worker does. There is one such question at a time.
    Watch,
    /// The session is over. The last message on each of the two streams: when it has come on both,
    /// the worker frees the session.
    EndSession {
        /// The session.
        session: SessionId,
    },
}

/// Worker to dispatcher.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum FromWorker {
    /// The first message, with the worker's capacity. The worker gets orders after it.
    Register(Box<Capacity>),
    /// A segment ran. Failed instructions count too, and their errors stay with their values.
    Done {
        /// The session.
        session: SessionId,
        /// The number of the segment.
        seq: u64,
        /// The attempt of its order.
        attempt: u32,
        /// The cost of the segment.
        counts: Counts,
    },
    /// Some of a routine is done, or all of it. Failed instructions count too.
    Performed {
        /// The session.
        session: SessionId,
        /// The number of its first segment.
        seq: u64,
        /// The attempt of its order.
        attempt: u32,
        /// What is done.
        performed: Box<Performed>,
    },
    /// A piece of a fetched value (bulk), in order.
    Chunk {
        /// The session.
        session: SessionId,
        /// The fetch it answers.
        request: RequestId,
        /// The piece.
        chunk: Box<Chunk>,
    },
    /// A value has arrived at the worker that it was sent to.
    Sent {
        /// The session.
        session: SessionId,
        /// The request that it answers.
        request: RequestId,
        /// The bytes of the value.
        bytes: u64,
    },
    /// A request failed.
    Failed {
        /// The session.
        session: SessionId,
        /// The request.
        request: RequestId,
        /// The error.
        error: Arc<RunError>,
    },
    /// The statistics of a session.
    Stats {
        /// The session.
        session: SessionId,
        /// The request that it answers.
        request: RequestId,
        /// The answer.
        stats: Box<Stats>,
    },
    /// The outcome of compiling a session's template, for users.
    Planned {
        /// The session.
        session: SessionId,
        /// The news.
        planned: Box<Planned>,
    },
    /// The reason why a session's launch was slower than necessary, for users.
    Note {
        /// The session.
        session: SessionId,
        /// The reason.
        text: Box<str>,
    },
    /// The answer to [`ToWorker::Watch`].
    Moments(Box<Moments>),
}

/// The engine, threads and memory of a worker.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Capacity {
    /// Its engine's name.
    pub engine: String,
    /// The engine's device: `cpu`, `cuda:0`.
    pub device: String,
    /// The number of its threads.
    pub threads: u32,
    /// The bytes of memory for values. 0 if unknown.
    pub memory: u64,
    /// The floating-point operations and the bytes of memory that it reaches in a second. 0 if
    /// unknown.
    pub flops: u64,
    /// See `flops`.
    pub bytes: u64,
    /// How other workers reach it, if they can.
    pub door: Option<Arc<Door>>,
}
