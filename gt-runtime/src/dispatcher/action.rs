//! What the dispatcher wants done. The order of actions is part of the contract.

use super::Party;
use crate::identity::Identity;
use crate::ids::{PeerId, SessionId, WorkerId};
use crate::wire::{Capacity, Message, Packet};

/// Something to do.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Send a packet. It may be lost: the links send again.
    Send(PeerId, Packet),
    /// Nothing more will be sent to this peer unless it says hello again; its route may be
    /// forgotten.
    Forget(PeerId),
    /// Tell the people who watch the server.
    Report(Report),
    /// A line for the instruction log; only when the [`Config`](super::Config) asks for them.
    Note(Note),
}

/// News for the people who watch the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Report {
    /// A session began.
    SessionOpened(SessionId, Identity),
    /// A session ended and everything it held was freed; why.
    SessionClosed(SessionId, Identity, String),
    /// A worker joined.
    WorkerJoined(WorkerId, Identity, Capacity),
    /// A worker is gone; why.
    WorkerLost(WorkerId, Identity, String),
    /// A peer was turned away; why.
    Refused(PeerId, String),
}

/// A message the dispatcher took or gave, for the instruction log.
#[derive(Clone, PartialEq, Debug)]
pub struct Note {
    /// The other side.
    pub party: Party,
    /// Which way.
    pub way: Way,
    /// The message.
    pub message: Message,
}

/// Which way a message went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// To the dispatcher.
    In,
    /// From the dispatcher.
    Out,
}
