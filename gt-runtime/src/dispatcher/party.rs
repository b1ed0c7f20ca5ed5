//! The core's data about connected peers: connections, workers, and the credit owed to senders.

use crate::clock::Time;
use crate::connection::Connection;
use crate::identity::Identity;
use crate::ids::{PeerId, SessionId, WorkerId};
use crate::roles::{Pass, User};
use crate::wire::{Capacity, Counts, Traffic, Work};
use std::collections::{BTreeSet, VecDeque};

/// The other side of a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Party {
    /// A client, by its session.
    Session(SessionId),
    /// A worker.
    Worker(WorkerId),
}

impl std::fmt::Display for Party {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Party::Session(id) => id.fmt(f),
            Party::Worker(id) => id.fmt(f),
        }
    }
}

/// A connected peer: a client or a worker.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) connection: Connection,
    pub(super) party: Party,
    pub(super) identity: Identity,
    /// What the transport knows about it.
    pub(super) pass: Pass,
    /// What only this incarnation knows. Whoever takes over its connection must know it.
    pub(super) secret: [u8; 16],
    /// The move number of the hello that brought the peer to its address.
    pub(super) move_number: u32,
    /// What it has sent, and what was queued for it.
    pub(super) traffic: [Traffic; 2],
    /// For each queued message of the two streams, the credit that it gives back when it is
    /// acknowledged.
    pub(super) owed: [VecDeque<Owed>; 2],
    /// When it was asked what it does, if it has not answered (`watch`).
    pub(super) asked: Option<Time>,
}

impl Peer {
    /// Whether it is a client of this user.
    pub(super) fn is_client_of(&self, user: User) -> bool {
        matches!(self.party, Party::Session(_)) && self.pass.user == user
    }
}

/// One worker.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) peer: PeerId,
    /// Its engine and memory. None until it registers, and it gets no work before.
    pub(super) capacity: Option<Capacity>,
    /// The sessions whose home it is.
    pub(super) sessions: BTreeSet<SessionId>,
    /// The number of sessions that were opened on it.
    pub(super) n_opened: u64,
    /// What it has done.
    pub(super) work: Work,
    /// The bytes that values take on it, by its latest report less those of sessions that have
    /// left since, and when that report came.
    pub(super) used: u64,
    pub(super) reported: Time,
}

impl Worker {
    pub(super) fn new(peer: PeerId) -> Worker {
        let (sessions, work) = (BTreeSet::new(), Work::default());
        let reported = Time::ZERO;
        Worker { peer, capacity: None, sessions, n_opened: 0, work, used: 0, reported }
    }

    /// Takes a session off it whose values take so many bytes.
    pub(super) fn leave(&mut self, session: SessionId, bytes: u128) {
        if self.sessions.remove(&session) {
            let left = u128::from(self.used).saturating_sub(bytes);
            self.used = if self.sessions.is_empty() { 0 } else { left as u64 };
        }
    }

    /// Counts a segment that it has run.
    pub(super) fn ran(&mut self, now: Time, counts: Counts) {
        self.work.count(counts);
        self.report(now, counts.memory);
    }

    /// Counts segments that it has run.
    pub(super) fn did(&mut self, now: Time, work: Work, memory: u64) {
        self.work.add(work);
        self.report(now, memory);
    }

    /// Notes the bytes in use. A report that left the worker before it heard of the end of its last
    /// session says nothing new.
    fn report(&mut self, now: Time, memory: u64) {
        self.reported = now;
        self.used = if self.sessions.is_empty() { 0 } else { memory };
    }
}

/// The credit of a message that was passed on. Its sender gets the credit back when the receiver
/// has taken the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Owed {
    /// The sender, unless the dispatcher itself sent it.
    pub(super) to: Option<Party>,
    pub(super) weight: u64,
}

impl Owed {
    /// The credit of the dispatcher's own messages.
    pub(super) const NOTHING: Owed = Owed { to: None, weight: 0 };
}
