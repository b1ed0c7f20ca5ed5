//! The actions that the dispatcher asks its shell for. Their order is part of the contract.

use super::Party;
use crate::identity::Identity;
use crate::ids::{PeerId, SessionId, WorkerId};
use crate::wire::{Capacity, Message, Packet};

/// An action for the shell.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Send a packet. It may get lost, because the links send it again.
    Send(PeerId, Packet),
    /// Nothing more is sent to this peer unless it says hello again, so its route may be forgotten.
    Forget(PeerId),
    /// Tell the operators of the server.
    Report(Report),
    /// Write a line to the instruction log. Only with [`Config::notes`](super::Config::notes).
    Note(Note),
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
    /// A peer was refused for this reason.
    Refused(PeerId, String),
}

/// A message that the dispatcher received or queued, for the instruction log.
#[derive(Clone, PartialEq, Debug)]
pub struct Note {
    /// The other side of the message.
    pub party: Party,
    /// The direction.
    pub way: Way,
    /// The message.
    pub message: Message,
}

/// The direction of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// To the dispatcher.
    In,
    /// From the dispatcher.
    Out,
}
