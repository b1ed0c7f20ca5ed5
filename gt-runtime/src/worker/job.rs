//! The jobs that the core of a worker gives to its executor.

use std::collections::BTreeMap;
use std::sync::Arc;

use gt_ir::backend::RunError;
use gt_ir::{HostTensor, ValueId};

use super::definition::Definition;
use crate::clock::Time;
use crate::ids::{Incarnation, SessionId};
use crate::wire::Order;

/// The data of a segment's inputs, or for each input why it has none.
pub type Inputs = BTreeMap<ValueId, Result<HostTensor, Missing>>;

/// Why an input has no data.
#[derive(Clone, Debug, PartialEq)]
pub enum Missing {
    /// Its data did not come as it should have.
    Broken(String),
    /// It could not be computed where it comes from.
    Failed(Arc<RunError>),
}

/// A job for the executor. The jobs of a session are done in their order.
#[derive(Debug)]
pub enum Job {
    /// Remember the client of a session.
    Open {
        /// The session.
        session: SessionId,
        /// The client's name, which other clients of its user may see.
        client: Arc<str>,
        /// How much of the executor's time it gets.
        weight: u32,
        /// The user.
        user: u64,
        /// The life of the client's connection.
        life: Incarnation,
    },
    /// Carry out an order.
    Task(Task),
    /// Let the sessions go on that wait for plans, because one is made.
    Planned,
    /// Free the values of a session.
    End {
        /// The session.
        session: SessionId,
    },
}

impl Job {
    /// Notes when it was added to the jobs. Zero if nobody wants to know.
    pub(crate) fn since(&mut self, time: Time) {
        if let Job::Task(task) = self {
            task.since = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        }
    }
}

/// An order that can run, with its template and data. The core itself handles the orders that
/// define templates and bring data.
#[derive(Debug)]
pub struct Task {
    /// The session.
    pub session: SessionId,
    /// The attempt that the report names.
    pub attempt: u32,
    /// The number of a segment in its session. For other orders, the number of segments that must
    /// have run.
    pub seq: u64,
    /// The order.
    pub order: Order,
    /// The template of a launch.
    pub template: Option<Arc<Definition>>,
    /// The data of a segment's inputs, or for each input why it has none.
    pub inputs: Inputs,
    /// What has been done of a segment.
    pub begun: Begun,
    /// When it was added to the jobs, in nanoseconds. 0 if no tracer wants to know.
    pub since: u64,
}

/// The part of a segment that has run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Begun {
    /// Entries.
    pub entries: usize,
    /// The nanoseconds that they took.
    pub nanos: u64,
}

/// The outcome of a job.
#[derive(Debug)]
pub enum Ran {
    /// It is done, and took its session so many nanoseconds.
    Done(Option<SessionId>, u64),
    /// The segment gives way to other sessions, after so many nanoseconds. The rest comes back.
    Paused(Task, u64),
    /// The task waits for a plan, as all that its session does next.
    Waits(Task),
    /// A plan is made, so tasks that wait go on.
    Planned,
}

impl Task {
    /// Its place among the tasks of its session: behind a segment are the orders that need it.
    pub(super) fn place(&self) -> (u32, u64, bool) {
        let is_segment = matches!(self.order, Order::Run(_) | Order::Launch { .. });
        (self.attempt, self.seq, is_segment)
    }

    /// The instructions of a segment that is no launch.
    pub(super) fn n_instrs(&self) -> u64 {
        let Order::Run(tape) = &self.order else { return 0 };
        tape.instrs().count() as u64
    }

    /// Whether it is a segment without instructions and data.
    pub(super) fn computes_nothing(&self) -> bool {
        let Order::Run(tape) = &self.order else { return false };
        self.inputs.is_empty() && tape.instrs().next().is_none()
    }
}

impl Job {
    /// Whether it is a segment.
    pub(super) fn is_segment(&self) -> bool {
        matches!(self, Job::Task(task) if task.place().2)
    }

    /// Whether it is a segment without instructions and data.
    pub(super) fn computes_nothing(&self) -> bool {
        matches!(self, Job::Task(task) if task.computes_nothing())
    }

    /// Whether the job takes less time than waking a thread for it: it computes nothing, or it runs
    /// a plan that was quick.
    #[must_use]
    pub fn is_quick(&self) -> bool {
        let Job::Task(task) = self else { return true };
        match (&task.order, &task.template) {
            (Order::Run(_), _) => self.computes_nothing(),
            (Order::Launch { .. }, Some(template)) => template.plan.was_quick(),
            _ => true,
        }
    }
}
