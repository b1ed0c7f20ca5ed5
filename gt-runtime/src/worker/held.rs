//! The tasks of sessions that wait for a plan, because their program asks for compiled runs from
//! the first on. Tasks of other sessions are done meanwhile.
//!
//! Guarantees: the tasks of a session stay in order. Their number is limited: their credit has gone
//! back, so nothing else limits them. A session with too many tasks no longer waits.

use std::collections::{BTreeMap, VecDeque};

use super::job::Task;
use crate::ids::SessionId;

/// The most tasks of a session that wait.
const MOST: usize = 1 << 14;

/// Tasks by session. The first of each waits for a plan.
#[derive(Debug, Default)]
pub(super) struct Held(BTreeMap<SessionId, VecDeque<Task>>);

impl Held {
    /// Whether tasks of a session wait.
    pub(super) fn waits(&self, session: SessionId) -> bool {
        self.0.get(&session).is_some_and(|tasks| !tasks.is_empty())
    }

    /// Whether no more tasks of a session may wait.
    pub(super) fn is_full(&self, session: SessionId) -> bool {
        self.0.get(&session).is_some_and(|tasks| tasks.len() >= MOST)
    }

    /// Adds a task behind the others of its session.
    pub(super) fn add(&mut self, task: Task) {
        self.0.entry(task.session).or_default().push_back(task);
    }

    /// Puts a task back before the others of its session.
    pub(super) fn put_back(&mut self, task: Task) {
        self.0.entry(task.session).or_default().push_front(task);
    }

    /// Takes the first task of a session.
    pub(super) fn take(&mut self, session: SessionId) -> Option<Task> {
        let tasks = self.0.get_mut(&session)?;
        let first = tasks.pop_front();
        if first.is_none() {
            self.0.remove(&session);
        }
        first
    }

    /// The sessions of which tasks wait.
    pub(super) fn sessions(&self) -> Vec<SessionId> {
        self.0.keys().copied().collect()
    }

    /// Forgets the tasks of a session that has ended.
    pub(super) fn forget(&mut self, session: SessionId) {
        self.0.remove(&session);
    }
}
