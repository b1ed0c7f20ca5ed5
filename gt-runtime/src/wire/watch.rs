//! What clients and workers do by themselves, for tracers.
//!
//! A peer is asked ([`ToClient::Watch`](super::ToClient), [`ToWorker::Watch`](super::ToWorker)) and
//! answers with its latest moments. They have no texts, so a peer cannot write into a trace what it
//! likes.

use crate::ids::SessionId;
use serde::{Deserialize, Serialize};

/// The most moments of one answer.
pub const MAX_MOMENTS: usize = 2048;

/// The answer of a client or a worker to one question.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Moments {
    /// The time at which it was made, in nanoseconds of the peer's own clock.
    pub now: u64,
    /// The moments since the answer before that are missing, because there were too many.
    pub lost: u64,
    /// The moments.
    pub list: Vec<Moment>,
}

/// An interval in which a client or a worker did something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Moment {
    /// What it did.
    pub doing: Doing,
    /// Its beginning, in nanoseconds of the peer's own clock.
    pub at: u64,
    /// Its length in nanoseconds.
    pub took: u64,
    /// The session for which a worker did it, and the number of the segment or 0.
    pub of: Option<(SessionId, u64)>,
    /// The instructions of a segment or a plan, else the bytes of a value.
    pub n: u64,
    /// The worker to which a value was given: from the worker that gave it, the
    /// [tag](super::Door::tag) of the other one's door; from the dispatcher on, its number.
    pub to: Option<u64>,
}

/// What a client or a worker did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Doing {
    /// The program ran its own code, recorded instructions, and handed them over.
    Record,
    /// The program waited for a value.
    Wait,
    /// The pieces of a value arrived, or a worker handed one over.
    Read,
    /// A segment waited for its worker.
    Queue,
    /// A segment ran as a plan.
    Launch,
    /// A segment ran instruction by instruction, or was compiled at its first run.
    Run,
    /// A plan was made.
    Compile,
    /// A worker took a value out of its device for another worker.
    Exchange,
    /// A value was on its way to another worker.
    Give,
}
