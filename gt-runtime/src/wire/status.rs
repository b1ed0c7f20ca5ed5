//! The state of a server, for those who watch it.

use serde::{Deserialize, Serialize};

/// The state of a server. Lists are in the order in which their members joined.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// The workers that are ready.
    pub workers: Vec<WorkerStatus>,
    /// The sessions that the asker may see: all, or those of its user.
    pub sessions: Vec<SessionStatus>,
    /// The number of all sessions.
    pub n_sessions: u64,
    /// The bytes that the dispatcher keeps for all sessions.
    pub kept: u64,
}

/// One worker.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// Its name: `w1 (pi, pid 123)`.
    pub name: String,
    /// Its engine's name.
    pub engine: String,
    /// The engine's device: `cpu`, `cuda:0`.
    pub device: String,
    /// The number of its threads.
    pub threads: u32,
    /// The bytes of memory for values. 0 if unknown.
    pub memory: u64,
    /// The number of sessions that live on it.
    pub sessions: u64,
}

/// One session.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Its name: `s1 digits (pi, pid 123)`.
    pub name: String,
    /// Its user, as a number that is equal for equal users. 0 is the server's own user.
    pub user: u64,
    /// Its weight ([`Priority`](crate::priority::Priority)).
    pub weight: u32,
    /// The workers on which it lives: `w1`.
    pub workers: Vec<String>,
    /// The segments that it has sent, and those of them that have not run.
    pub segments: u64,
    /// The segments that have not run.
    pub waiting: u64,
    /// Its unanswered requests.
    pub requests: u64,
    /// The number of its live values.
    pub values: u64,
    /// The bytes of its live values and unfinished uploads.
    pub bytes: u64,
    /// The bytes that the dispatcher keeps for it: orders on their way to its workers, and answers
    /// that it has not taken.
    pub kept: u64,
    /// The nanoseconds that its segments have run.
    pub ran: u64,
    /// The nanoseconds in which its programs were compiled.
    pub compiled: u64,
}
