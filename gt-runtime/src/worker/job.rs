//! What the core of a worker gives its executor to do.

use std::collections::BTreeMap;
use std::sync::Arc;

use gt_ir::{HostTensor, ValueId};

use super::definition::Definition;
use crate::ids::SessionId;
use crate::wire::Order;

/// Data of a segment's inputs, or why there is none.
pub type Inputs = BTreeMap<ValueId, Result<HostTensor, String>>;

/// Work for the executor, to be done in the order given.
#[derive(Debug)]
pub enum Job {
    /// Remember whose a session is.
    Open {
        /// The session.
        session: SessionId,
        /// Its client, as others are told.
        client: Arc<str>,
    },
    /// Carry out an order.
    Task(Task),
    /// Free everything a session holds.
    End {
        /// The session.
        session: SessionId,
    },
}

/// An order whose turn has come, with all it needs. Templates and tensor data are the core's own
/// affair: their orders never come here.
#[derive(Debug)]
pub struct Task {
    /// The session.
    pub session: SessionId,
    /// The attempt to report.
    pub attempt: u32,
    /// The number of a segment in its session.
    pub seq: u64,
    /// The order.
    pub order: Order,
    /// The template of a launch.
    pub template: Option<Arc<Definition>>,
    /// Data of a segment's inputs, or why there is none.
    pub inputs: Inputs,
    /// The credit its sender gets back when it is done.
    pub owed: u64,
}

impl Job {
    /// The credit its sender gets back when it is done.
    #[must_use]
    pub fn owed(&self) -> u64 {
        if let Job::Task(task) = self { task.owed } else { 0 }
    }

    /// Whether it is sure to take no longer than waking a thread for it would be worth: nothing is
    /// computed, or a plan that was quick.
    #[must_use]
    pub fn is_quick(&self) -> bool {
        let Job::Task(task) = self else { return true };
        match (&task.order, &task.template) {
            (Order::Run(tape), _) => task.inputs.is_empty() && tape.instrs().next().is_none(),
            (Order::Launch { .. }, Some(template)) => template.plan.was_quick(),
            _ => true,
        }
    }
}
