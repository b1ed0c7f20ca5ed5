//! The dispatcher: a pure state machine between clients and workers. It does no I/O, reads no clock
//! and draws no random number.
//!
//! [`Dispatcher::handle`] takes an [`Event`] and the time and hands back [`Action`]s; a shell
//! delivers packets and calls again at [`Dispatcher::next_deadline`]. Equal events give equal
//! actions, so a log of events replays exactly. Files: `core` holds the state and passes messages
//! on, `party` says who is connected, `peers` ties connections to parties, `sessions` and `workers`
//! carry out messages, `homes` sends work where [`placement`] says, `answers` holds questions to
//! their time, `check` states the invariants. It computes no tensor, puts no tensor together, and
//! knows nothing of sockets, threads or engines.

pub mod action;
mod answers;
mod check;
mod core;
pub mod event;
mod homes;
mod party;
mod peers;
pub mod placement;
#[cfg(test)]
mod scripts;
mod session;
mod sessions;
mod templates;
mod workers;

pub use action::{Action, Note, Report, Way};
pub use core::Dispatcher;
pub use event::Event;
pub use party::Party;

use crate::connection::ConnectionConfig;
use std::time::Duration;

/// What a dispatcher allows, and how long it waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Connections to clients.
    pub client: ConnectionConfig,
    /// Connections to workers.
    pub worker: ConnectionConfig,
    /// Clients and workers at once.
    pub max_peers: usize,
    /// Bytes of live values, and of uploads under way, of one session.
    pub quota: u64,
    /// Live values of one session.
    pub max_values: usize,
    /// Reads and other questions of one session not yet answered.
    pub max_requests: usize,
    /// How long a read waits for a worker when there is none.
    pub wait_worker: Duration,
    /// How long a read waits for a worker that reports nothing of the session.
    pub stall: Duration,
    /// Bytes of fetched data kept for a slow client before its worker is held back.
    pub relay: u64,
    /// Whether to emit an [`Action::Note`] for each message.
    pub notes: bool,
    /// Where workers connect, for the hints that say how to start one.
    pub address: Option<String>,
}

impl Config {
    /// Between processes.
    #[must_use]
    pub fn remote() -> Config {
        let worker = ConnectionConfig::remote();
        // A client may be stopped in a debugger or on a sleeping laptop; one that is dead is
        // noticed when it cannot be reached.
        let lease = Duration::from_secs(30);
        Config {
            client: ConnectionConfig { lease, patience: Some(lease), ..worker },
            worker,
            max_peers: 1000,
            quota: 1 << 40,
            max_values: 1 << 20,
            max_requests: 1 << 12,
            wait_worker: Duration::from_secs(10),
            stall: Duration::from_secs(600),
            relay: 64 << 20,
            notes: false,
            address: None,
        }
    }

    /// Within one process: no leases, and no wait for a worker that never comes.
    #[must_use]
    pub fn embedded() -> Config {
        let connection = ConnectionConfig::embedded();
        Config { client: connection, worker: connection, relay: u64::MAX, ..Config::remote() }
    }
}
