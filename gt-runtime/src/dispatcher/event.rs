//! What can happen to the dispatcher. Everything it knows comes through these.

use crate::ids::PeerId;
use crate::wire::Packet;

/// Something that happened. Each is legal at any time: stale and repeated ones are ordinary.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A packet came from a peer: one the shell has seen before, or a new one.
    Packet(PeerId, Packet),
    /// The transport knows that the peer is gone for good (its process or thread ended). A broken
    /// connection that may come back is no such thing: leases take care of those.
    PeerLost(PeerId),
    /// A packet to the peer could not be delivered just now. It has a grace to be heard of again.
    Unreachable(PeerId),
    /// Time has passed: due by [`next_deadline`](super::Dispatcher::next_deadline) at the latest.
    Tick,
    /// The server is to end: everybody is told, and nothing happens after this.
    Shutdown {
        /// Why, for the people at the other ends.
        reason: String,
    },
}
