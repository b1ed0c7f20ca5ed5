//! Who is connected, as the core holds them: peers, the sessions and workers they are, and the
//! credit owed to them. Plain data.

use crate::connection::Connection;
use crate::identity::Identity;
use crate::ids::{PeerId, SessionId, WorkerId};
use crate::wire::Capacity;
use std::collections::{BTreeSet, VecDeque};

/// The other side of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Party {
    /// A client, by its session.
    Session(SessionId),
    /// A worker.
    Worker(WorkerId),
}

/// Somebody connected.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) connection: Connection,
    pub(super) party: Party,
    pub(super) identity: Identity,
    /// The move number of the hello that brought the peer to its address.
    pub(super) move_number: u32,
    /// For each queued message of the two streams, the credit it gives back when it is taken.
    pub(super) owed: [VecDeque<Owed>; 2],
}

/// One worker.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) peer: PeerId,
    /// What it offers; unknown until it registers, and no work for it until then.
    pub(super) capacity: Option<Capacity>,
    /// The sessions whose home it is.
    pub(super) sessions: BTreeSet<SessionId>,
}

impl Worker {
    pub(super) fn new(peer: PeerId) -> Worker {
        Worker { peer, capacity: None, sessions: BTreeSet::new() }
    }
}

/// The credit of a message that was passed on: the party that sent it gets it back when it has been
/// taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Owed {
    pub(super) to: Option<Party>,
    pub(super) weight: u64,
}

impl Owed {
    /// Nobody paid: the dispatcher's own message.
    pub(super) const NOTHING: Owed = Owed { to: None, weight: 0 };
}
