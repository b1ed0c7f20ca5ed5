//! The dispatcher: a pure state machine between clients and workers. It does no I/O, reads no clock
//! and draws no random number.
//!
//! [`Dispatcher::handle`] takes an [`Event`] and the time and returns [`Action`]s. A shell delivers
//! the packets and calls again at [`Dispatcher::next_deadline`]. Equal events give equal actions,
//! so a log of events replays exactly. The dispatcher computes no tensor, assembles no tensor, and
//! knows nothing of sockets, threads or engines.
//!
//! Files: `core` holds the state and routes messages. `party` has the types of connected peers, and
//! `peers` ties connections to them. `sessions` and `workers` carry out messages. `homes` sends
//! orders to the worker that [`placement`] chooses, among those of which `demands` says that the
//! session asks for them. A `gang` is the workers of a session whose
//! signals ask for several, and `gangs` sends the orders of its members. `advice` decides whether a
//! session that only asks for a plan becomes one. `answers` gives the
//! answers that no worker gives, and `status` those to monitors. A `budget` limits the time for
//! compiling. `check` states the invariants.

pub mod action;
mod advice;
mod answers;
mod budget;
mod check;
mod core;
mod demands;
pub mod event;
mod gang;
mod gangs;
#[cfg(test)]
pub(crate) mod holdings;
mod homes;
mod party;
mod peers;
pub mod placement;
#[cfg(test)]
mod scripts;
mod session;
mod sessions;
mod status;
mod templates;
mod watch;
mod workers;

pub use action::{Action, Note, Report, Way};
pub use budget::Rate;
pub use core::Dispatcher;
pub use event::{Event, Made};
pub use gang::Job;
pub use party::Party;

use crate::connection::ConnectionConfig;
use crate::machine::Machine;
use crate::priority::Priority;
use gt_compiler::shard::LARGE_UPLOAD;
use std::time::Duration;

/// The limits of a dispatcher, and its timeouts.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// The configuration of connections to clients.
    pub client: ConnectionConfig,
    /// The configuration of connections to workers.
    pub worker: ConnectionConfig,
    /// The most clients and workers connected at the same time.
    pub max_peers: usize,
    /// The places among them that only workers may take, at most a quarter of all.
    pub worker_places: usize,
    /// The most sessions of one process.
    pub max_of_process: usize,
    /// The most bytes of live values and unfinished uploads of one session.
    pub quota: u64,
    /// Whether this quota becomes [`MEMORIES`](Config::MEMORIES) times the memory of all workers
    /// when the first of them joins.
    pub quota_of_workers: bool,
    /// The most live values of one session.
    pub max_values: usize,
    /// The most bytes of one session's uploads whose input is not declared yet.
    pub max_uploads: u64,
    /// The bytes from which on an upload of a session on several workers goes straight to the
    /// workers that need its parts.
    pub large_upload: u64,
    /// The entries on all members up to which a partition is made in the dispatcher's turn.
    pub small_partition: usize,
    /// The most sessions of one user.
    pub max_sessions: usize,
    /// The most unanswered requests (reads and statistics) of one session.
    pub max_requests: usize,
    /// How long a client that may send brings none of the data of its unfinished uploads, before
    /// they are given up.
    pub pause: Duration,
    /// How long a read waits for a worker to connect that its session asks for.
    pub wait_worker: Duration,
    /// Whether other workers may join. If not, a session that asks for other workers fails at once.
    pub may_grow: bool,
    /// How long a read waits for a worker that sends no report about the session. A long segment
    /// looks like a worker that hangs, so this is far above a lease, which tells of a worker's end.
    pub stall: Duration,
    /// How much time for compiling the programs of a user may use, if it is limited.
    pub compile: Option<Rate>,
    /// The highest priority of a session, whatever its program asks for.
    pub max_priority: Priority,
    /// The bytes that a client has asked for and not taken, above which its further reads wait. One
    /// read is always under way.
    pub relay: u64,
    /// What the machine can do whose workers are in the dispatcher's own process, if it is known.
    pub machine: Option<Machine>,
    /// Whether each message causes an [`Action::Note`].
    pub notes: bool,
    /// The address for workers, for hints that say how to start one.
    pub address: Option<String>,
}

impl Config {
    /// The usual quota of a session is so many times the memory of all workers, because views of
    /// one tensor count as values of their own.
    pub const MEMORIES: u64 = 2;

    /// The configuration for processes that connect over sockets.
    #[must_use]
    pub fn remote() -> Config {
        let worker = ConnectionConfig::remote();
        // A dead client is noticed when it cannot be reached, long before its lease ends.
        Config {
            client: ConnectionConfig { patience: Some(worker.lease), ..worker },
            worker,
            max_peers: 1000,
            worker_places: 100,
            max_of_process: 300,
            quota: 1 << 40,
            quota_of_workers: true,
            max_values: 1 << 18,
            max_uploads: u64::MAX,
            large_upload: LARGE_UPLOAD,
            small_partition: 512,
            max_sessions: 800,
            max_requests: 1 << 12,
            pause: Duration::from_secs(30),
            wait_worker: Duration::from_secs(10),
            may_grow: true,
            stall: Duration::from_secs(600),
            compile: None,
            max_priority: Priority::MOST,
            relay: 64 << 20,
            machine: None,
            notes: false,
            address: None,
        }
    }

    /// The configuration within one process, which has no leases.
    #[must_use]
    pub fn embedded() -> Config {
        let connection = ConnectionConfig::embedded();
        let remote = Config::remote();
        Config {
            client: connection,
            worker: connection,
            max_of_process: remote.max_peers,
            may_grow: false,
            quota_of_workers: false,
            max_values: 1 << 20,
            relay: u64::MAX,
            small_partition: usize::MAX,
            ..remote
        }
    }
}
