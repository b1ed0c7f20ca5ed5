//! The events of the dispatcher. It learns everything from them.

use std::sync::Arc;

use gt_compiler::shard::Partition;
use gt_ir::OpError;

use super::Job;
use crate::ids::{PeerId, SessionId};
use crate::roles::{Pass, User};
use crate::wire::Packet;

/// An input of the dispatcher. Each event is legal at any time, and stale or repeated events are
/// ordinary.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A packet came from a peer, known or new.
    Packet(PeerId, Packet),
    /// As `Packet`, from a peer whom the transport has identified. `Packet` is for peers in the
    /// same process, which may be everything.
    Guest(PeerId, Pass, Packet),
    /// The key of the peer is no longer authorized.
    Revoked(PeerId),
    /// The transport knows that the peer is gone for good, because its process or thread ended. A
    /// broken connection that may come back is not such an event: the lease decides there.
    PeerLost(PeerId),
    /// A packet to the peer could not be delivered. The peer is lost unless it is heard from within
    /// the connection's grace.
    Unreachable(PeerId),
    /// A partition was made, as [`Action::Partition`](super::Action::Partition) asked.
    Partitioned(Made),
    /// Time has passed. Due at [`next_deadline`](super::Dispatcher::next_deadline) at the latest.
    Tick,
    /// The server ends soon. It takes no new sessions, and those that there are go on.
    Drain {
        /// The reason that clients show to their users.
        reason: String,
    },
    /// The server ends. All peers are told, and later events do nothing.
    Shutdown {
        /// The reason that peers show to their users.
        reason: String,
    },
}

/// A partition that was made.
#[derive(Clone, PartialEq, Debug)]
pub struct Made {
    /// The session that it is for.
    pub session: SessionId,
    /// The user of the session, who is charged for it even if the session has ended since.
    pub user: User,
    /// The partition that was asked for.
    pub job: Arc<Job>,
    /// The partition, or why the segment has none.
    pub partition: Result<Partition, OpError>,
    /// The nanoseconds that it took.
    pub nanos: u64,
}
