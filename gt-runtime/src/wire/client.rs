//! What clients and the dispatcher say to each other: segments and templates one way, values and
//! news the other.

use super::Chunk;
use crate::ids::RequestId;
use gt_ir::backend::{RunError, Stats};
use gt_ir::canonical::Bindings;
use gt_ir::signal::Signals;
use gt_ir::tape::{Tape, ValueId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Client to dispatcher.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum FromClient {
    /// The next segment of the session's tape.
    Tape(Arc<Tape>),
    /// Gives a number to a segment in canonical form, in place of what had it before. Runs nothing.
    Define {
        /// The number, below [`MAX_TEMPLATES`](super::MAX_TEMPLATES).
        template: u32,
        /// The segment, as [`gt_ir::canonical`] makes it.
        tape: Arc<Tape>,
    },
    /// The next segment of the session's tape: a template with other values and scalars.
    Launch {
        /// Its number.
        template: u32,
        /// The values and scalars.
        bindings: Arc<Bindings>,
    },
    /// A template is no longer needed.
    Forget {
        /// Its number.
        template: u32,
    },
    /// How the signals of all later segments are to be taken, in place of what was said before.
    /// [`Signals`] holds itself to its limits.
    Configure(Arc<Signals>),
    /// Data of an input (bulk). Pieces come in order; those of the value's segment may come before
    /// or after it.
    Chunk(Chunk),
    /// Asks for a value: answered by chunks (bulk) or by a failure.
    Fetch {
        /// The question.
        request: RequestId,
        /// The value.
        value: ValueId,
    },
    /// Asks what ran; answered when everything submitted before has run.
    Stats {
        /// The question.
        request: RequestId,
    },
    /// The session ends; everything it holds is freed.
    Close,
}

/// Dispatcher to client.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ToClient {
    /// A piece of a fetched value (bulk), in order. When the rest is lost a failure follows, which
    /// may overtake pieces: those of a question that is answered are to be dropped.
    Chunk {
        /// The fetch it answers.
        request: RequestId,
        /// The piece.
        chunk: Chunk,
    },
    /// A fetch or a question failed.
    Failed {
        /// Which.
        request: RequestId,
        /// Why.
        error: Arc<RunError>,
    },
    /// What ran.
    Stats {
        /// The question it answers.
        request: RequestId,
        /// The answer.
        stats: Box<Stats>,
    },
    /// News of a template, for people.
    Planned(Box<Planned>),
    /// Why a launch was slower than it could be, for people.
    Note(Box<str>),
}

/// What became of compiling a template.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Planned {
    /// The segment's key.
    pub key: u128,
    /// Its instructions.
    pub instructions: u64,
    /// The plan's number on its worker.
    pub plan: u64,
    /// Why there is none, if so.
    pub failed: Option<String>,
    /// Which input is of another type than in the plan before, if there was one, and both types.
    pub retyped: Option<String>,
    /// Kernels of the plan.
    pub kernels: u64,
    /// Launches of the plan.
    pub launches: u64,
    /// Nanoseconds from the order to compile it to its end.
    pub nanos: u64,
    /// Whether it came from the disk.
    pub cached: bool,
}
