//! The actions that the dispatcher asks its shell for. Their order is part of the contract.

use super::{Job, Party};
use crate::clock::Time;
use crate::identity::Identity;
use crate::ids::{Incarnation, PeerId, SessionId, WorkerId};
use crate::roles::User;
use crate::wire::{Capacity, Moments, Packet};
use crate::words::Words;
use std::fmt;
use std::sync::Arc;

/// An action for the shell.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Send a packet. It may get lost, because the links send it again.
    Send(PeerId, Packet),
    /// Nothing more is sent to this peer unless it says hello again, so its route may be forgotten.
    Forget(PeerId),
    /// Tell the operators of the server.
    Report(Report),
    /// Answer a peer that asks for the events from a number on, and forget its route.
    Trace {
        /// The peer, which may have them.
        peer: PeerId,
        /// Its incarnation.
        life: Incarnation,
        /// The number.
        from: u64,
    },
    /// Keep what a client or a worker did, for those who ask for events.
    Moments {
        /// The client or worker.
        party: Party,
        /// When it was asked.
        asked: Time,
        /// Its answer, in the time of its own clock.
        moments: Moments,
    },
    /// Make the partition of a session's segment, outside of the dispatcher's turn, and bring it as
    /// [`Event::Partitioned`](super::Event::Partitioned). The segments of the session wait for it.
    /// There is one at a time for a session. It may be left out once nobody else holds the job.
    Partition {
        /// The session.
        session: SessionId,
        /// On whose behalf.
        user: User,
        /// The partition.
        job: Arc<Job>,
    },
    /// Write a line to the instruction log. Only with [`Config::notes`](super::Config::notes).
    Note(Box<Note>),
}

/// News for the operators of the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Report {
    /// A session began.
    SessionOpened(SessionId, Identity),
    /// A session ended for this reason, and its values were freed.
    SessionClosed(SessionId, Identity, String),
    /// A worker joined.
    WorkerJoined(WorkerId, Identity, Capacity),
    /// A worker was lost for this reason.
    WorkerLost(WorkerId, Identity, String),
    /// The server sent a worker away, for this reason.
    WorkerLeft(WorkerId, Identity, String),
    /// A peer was refused for this reason.
    Refused(PeerId, String),
}

/// A line for users.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Report::SessionOpened(session, who) => {
                write!(f, "session {session} opened by {} ({who})", who.name)
            }
            Report::SessionClosed(session, who, why) => {
                write!(f, "session {session} of {} ({who}) closed: {why}", who.name)
            }
            Report::WorkerJoined(worker, who, capacity) => {
                let (known, engine, device) =
                    (who.known_as(worker), &capacity.engine, &capacity.device);
                let threads = capacity.threads;
                write!(f, "worker {known} joined: {engine} on {device} with {threads} threads")
            }
            Report::WorkerLost(worker, who, why) => {
                write!(f, "worker {} lost: {why}", who.known_as(worker))
            }
            Report::WorkerLeft(worker, who, why) => {
                write!(f, "worker {} left: {why}", who.known_as(worker))
            }
            Report::Refused(peer, why) => write!(f, "{peer} refused: {why}"),
        }
    }
}

/// A message that the dispatcher received or queued, for the instruction log.
#[derive(Clone, PartialEq, Debug)]
pub struct Note {
    /// The other side of the message.
    pub party: Party,
    /// The direction.
    pub way: Way,
    /// What a log says of the message.
    pub(crate) words: Words,
}

/// The direction of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// To the dispatcher.
    In,
    /// From the dispatcher.
    Out,
}
