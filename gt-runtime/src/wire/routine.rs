//! What one worker does for a segment that several workers run in parts: the templates that it
//! launches and the values that it sends, in order. A routine is defined once
//! ([`Order::Learn`](super::Order::Learn)). One order and one report then stand for all of it
//! ([`Order::Perform`](super::Order::Perform), [`Performed`]).
//!
//! A routine names no value and no request. It counts them, so that all performances share it. Only
//! a dispatcher writes routines. A worker checks them as it checks what it does not trust: a number
//! that leads nowhere ends the performance and nothing else.

use std::sync::Arc;

use gt_ir::Scalar;
use gt_ir::tape::ValueId;
use serde::{Deserialize, Serialize};

use super::{Door, Work};
use crate::ids::{RequestId, SessionId};

/// The most parts ([`Routine::size`]) of one routine.
pub const MAX_ROUTINE: usize = 1 << 18;

/// The work of one worker, in order.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Routine {
    /// What it does.
    pub steps: Vec<Step>,
    /// The workers that it sends values.
    pub receivers: Vec<Receiver>,
}

/// One thing that a worker does.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Step {
    /// Launches a template, once what it receives is there.
    Run {
        /// The template's number.
        template: u32,
        /// The values from outside the template.
        inputs: Vec<Name>,
        /// The first value that it defines, counted from that of the performance on.
        first: u32,
        /// The literals.
        literals: Vec<Literal>,
    },
    /// Sends a value to another worker.
    Send {
        /// The value here.
        value: Name,
        /// The number of the request, counted from that of the performance on.
        request: u32,
        /// The worker that receives it. None: it goes through the dispatcher.
        to: Option<Arrival>,
    },
}

/// Where a value arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Arrival {
    /// The worker, by its place among the receivers.
    pub receiver: u32,
    /// The value there, counted from the first one of the performance on.
    pub made: u32,
}

/// A worker that receives values.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Receiver {
    /// How it is reached.
    pub door: Arc<Door>,
    /// The session, as that worker knows it.
    pub session: SessionId,
    /// The number of sessions that the dispatcher had opened on that worker, with this one.
    pub opened: u64,
}

/// A value of a performance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Name {
    /// One that was there before, by its place among those that are given.
    Given(u32),
    /// One that a worker makes or receives, counted from the first one of the performance on.
    Made(u32),
}

/// A literal of a template.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum Literal {
    /// One of the performance, by its place among them.
    Slot(u32),
    /// A number.
    Number(Scalar),
}

/// What a routine leaves out: the names and literals of one launch.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Performance {
    /// The routine's number.
    pub routine: u32,
    /// The number of segments that it runs here.
    pub n_segments: u32,
    /// The values that were there before.
    pub given: Vec<ValueId>,
    /// The literals of the segment.
    pub scalars: Arc<[Scalar]>,
    /// The first value that is made, on whatever worker.
    pub first: ValueId,
    /// The first request, of whatever worker.
    pub request: RequestId,
}

/// How far a worker is with a routine. A worker that takes long reports now and then.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Performed {
    /// The first request of the performance.
    pub request: RequestId,
    /// The number of its segments that have run.
    pub n_ran: u32,
    /// Whether all segments have run, and no value is on its way any more.
    pub is_over: bool,
    /// The requests whose values have arrived since the last report, counted from the first one on.
    /// None of them are listed when it is over.
    pub arrived: Vec<u32>,
    /// The requests whose values could not take their road and go through the dispatcher, counted
    /// likewise.
    pub returned: Vec<u32>,
    /// What it has cost since the last report.
    pub work: Work,
    /// The bytes that the values of all sessions take on the worker, as measured lately.
    pub memory: u64,
}

impl Routine {
    /// The number of its parts: steps, receivers, and what the steps name.
    #[must_use]
    pub fn size(&self) -> usize {
        let named = self.steps.iter().map(|step| match step {
            Step::Run { inputs, literals, .. } => inputs.len() + literals.len(),
            Step::Send { .. } => 0,
        });
        self.steps.len() + self.receivers.len() + named.sum::<usize>()
    }
}
