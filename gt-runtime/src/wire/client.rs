//! The messages between clients and the dispatcher: orders in one direction, values and news in the
//! other.

use super::{Chunk, Moments, Order};
use crate::ids::RequestId;
use gt_ir::backend::{RunError, Stats};
use gt_ir::signal::Signals;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Client to dispatcher.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum FromClient {
    /// An order of the session.
    Order(Order),
    /// The configuration of the signals for all later segments, in place of the earlier one.
    /// [`Signals`] checks its limits itself.
    Configure(Arc<Signals>),
    /// The answer to [`ToClient::Watch`].
    Moments(Box<Moments>),
    /// The session ends, and its values are freed.
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
    /// A piece of a fetched value (bulk), in order. If the rest is lost, a failure follows, which
    /// may overtake pieces. The client drops pieces of an answered request.
    Chunk {
        /// The fetch it answers.
        request: RequestId,
        /// The piece.
        chunk: Box<Chunk>,
    },
    /// A request failed.
    Failed {
        /// The request.
        request: RequestId,
        /// The error.
        error: Arc<RunError>,
    },
    /// The statistics of the session.
    Stats {
        /// The request that it answers.
        request: RequestId,
        /// The answer.
        stats: Box<Stats>,
    },
    /// The outcome of compiling a template, for users.
    Planned(Box<Planned>),
    /// The reason why a launch was slower than necessary, for users.
    Note(Box<str>),
    /// Something that the program asked for and did not get, which its user is to see.
    Warning(Box<str>),
    /// A tracer wants to know what the program does. There is one such question at a time.
    Watch,
}

/// The outcome of compiling a template.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Planned {
    /// The segment's key.
    pub key: u128,
    /// The number of its instructions.
    pub instructions: u64,
    /// The plan's number on its worker.
    pub plan: u64,
    /// The error, if compiling failed.
    pub failed: Option<String>,
    /// A text about the first input whose type differs from the previous plan's, if any.
    pub retyped: Option<String>,
    /// The number of the plan's kernels.
    pub kernels: u64,
    /// The number of the plan's launches.
    pub launches: u64,
    /// The number of results that the plan does not make, because nothing has used them.
    pub unused: u64,
    /// The nanoseconds of compiling.
    pub nanos: u64,
    /// Whether the program came from the cache on disk.
    pub cached: bool,
}
