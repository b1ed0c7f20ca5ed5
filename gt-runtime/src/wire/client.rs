//! What clients and the dispatcher say to each other: orders one way, values and news the other.

use super::{Chunk, Order};
use crate::ids::RequestId;
use gt_ir::backend::{RunError, Stats};
use gt_ir::signal::Signals;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Client to dispatcher.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum FromClient {
    /// Something the session wants done.
    Order(Order),
    /// How the signals of all later segments are to be taken, in place of what was said before.
    /// [`Signals`] holds itself to its limits.
    Configure(Arc<Signals>),
    /// The session ends; everything it holds is freed.
    Close,
}

impl From<Order> for FromClient {
    fn from(order: Order) -> FromClient {
        FromClient::Order(order)
    }
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
