//! In builds without libtorch there are no lanes: sockets take every packet.

use std::sync::Arc;

use super::siblings::Road;
use super::wanted::Wanted;
use crate::wire::{Door, Packet};
use crate::zmq::Waker;

/// What becomes of a packet that is to be sent.
#[expect(dead_code, reason = "all but the first are for builds with lanes")]
pub(super) enum Fate {
    /// The sockets take it.
    Sockets,
    /// The sockets take this one in its place.
    Instead(Box<Packet>),
    /// It is on the lane already.
    Underway,
    /// The lane has failed, and the road with it.
    Over,
}

/// What comes from the lanes.
#[expect(dead_code, reason = "nothing comes from no lanes")]
pub(super) enum Come {
    /// A packet that is complete.
    Packet(Road, Packet),
    /// A packet for the sockets.
    Say(Road, Packet),
}

/// No lanes.
pub(super) struct Lanes;

impl Lanes {
    pub(super) fn new(_: Wanted, _: Option<Arc<Door>>, _: Waker) -> Lanes {
        Lanes
    }

    pub(super) fn fate(&mut self, _: &Road, _: &Packet, _: bool) -> Fate {
        Fate::Sockets
    }

    pub(super) fn follow(&mut self, _: &Road, _: &Packet) {}

    pub(super) fn sort(&mut self, _: &Road, packet: Packet) -> Option<Packet> {
        Some(packet)
    }

    pub(super) fn next(&mut self) -> Option<Come> {
        None
    }

    pub(super) fn forget(&mut self, _: &Road) {}
}
