//! What the dispatcher and workers say to each other: as between clients and the dispatcher, with
//! the session that each message is of.

use super::{Chunk, Order, Planned};
use crate::ids::{RequestId, SessionId};
use gt_ir::backend::{RunError, Stats};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Dispatcher to worker.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ToWorker {
    /// A session lives here from now on; before anything else of it.
    Open {
        /// Which.
        session: SessionId,
        /// Whose it is, as others are told: `s1 digits (pi, pid 123)`.
        client: Arc<str>,
    },
    /// Something to do for a session, after everything before it.
    Order {
        /// The session.
        session: SessionId,
        /// How many workers the session has lost: reports carry it back.
        attempt: u32,
        /// How many segments of the session were ordered before: the number of the segment, where
        /// the order runs one.
        seq: u64,
        /// The order. A value it uses is live on this worker, and a template is defined here.
        order: Order,
    },
    /// The session is over: comes last on each of the two streams, and when it has come on both,
    /// nothing of the session is left.
    EndSession {
        /// Which.
        session: SessionId,
    },
}

/// Worker to dispatcher.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum FromWorker {
    /// The first message: what the worker offers. Work comes after it.
    Register(Capacity),
    /// A segment ran; instructions that failed count too, their errors stay with their values.
    Done {
        /// Whose.
        session: SessionId,
        /// Which segment.
        seq: u64,
        /// The attempt of its `Run`.
        attempt: u32,
        /// What it cost.
        counts: Counts,
    },
    /// A piece of a fetched value (bulk), in order.
    Chunk {
        /// Whose.
        session: SessionId,
        /// The fetch it answers.
        request: RequestId,
        /// The piece.
        chunk: Chunk,
    },
    /// A fetch or a question failed.
    Failed {
        /// Whose.
        session: SessionId,
        /// Which.
        request: RequestId,
        /// Why.
        error: Arc<RunError>,
    },
    /// What ran of a session.
    Stats {
        /// Whose.
        session: SessionId,
        /// The question it answers.
        request: RequestId,
        /// The answer.
        stats: Box<Stats>,
    },
    /// News of a template of a session, for people.
    Planned {
        /// Whose.
        session: SessionId,
        /// The news.
        planned: Box<Planned>,
    },
    /// Why a launch of a session was slower than it could be, for people.
    Note {
        /// Whose.
        session: SessionId,
        /// Why.
        text: Box<str>,
    },
}

/// What a worker offers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Capacity {
    /// Its engine's name.
    pub engine: String,
    /// What the engine computes on: `cpu`, `cuda:0`.
    pub device: String,
    /// Threads it computes with.
    pub threads: u32,
    /// Bytes of memory for values; 0 when unknown.
    pub memory: u64,
}

/// What one segment cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Instructions run.
    pub instructions: u64,
    /// Nanoseconds from its start to its end.
    pub nanos: u64,
}
