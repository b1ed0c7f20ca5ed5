//! The handshake: who connects, and whether it may. Peers of other versions or op tables are told
//! apart here, before anything else is read.

use super::PROTOCOL;
use crate::identity::Identity;
use gt_ir::error::Hinted;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What mends a difference of protocol versions.
pub(super) const SAME_VERSION: &str = "run the same version of gt on both sides";

/// The first words of a connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`] of the sender.
    pub protocol: u32,
    /// [`gt_ir::op::FINGERPRINT`] of the sender: peers with other op tables would read each other's
    /// tapes wrongly.
    pub fingerprint: u64,
    /// What the sender is.
    pub role: Role,
    /// Who the sender is.
    pub identity: Identity,
    /// How many hellos from other addresses came before it in this life: an earlier one, late,
    /// moves nothing back.
    pub move_number: u32,
    /// Whether this life was welcomed before.
    pub resumes: bool,
}

impl Hello {
    /// The hello of this build.
    #[must_use]
    pub fn new(role: Role, identity: Identity) -> Hello {
        Hello {
            protocol: PROTOCOL,
            fingerprint: gt_ir::op::FINGERPRINT,
            role,
            identity,
            move_number: 0,
            resumes: false,
        }
    }
}

/// What connects to a dispatcher.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Role {
    /// A program that records tapes.
    Client,
    /// A process that runs them.
    Worker,
}

/// The answer to a hello.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// What the dispatcher calls the newcomer: `s3`, `w1`.
    pub name: String,
    /// How many control messages of this incarnation the dispatcher holds: not 0 after a
    /// reconnection.
    pub accepted: u64,
}

/// Why a packet was refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// Builds do not match.
    Protocol {
        /// The dispatcher's.
        ours: u32,
        /// The newcomer's.
        theirs: u32,
    },
    /// Op tables do not match.
    Ops,
    /// The dispatcher does not know the connection: it was restarted, or gave the connection up
    /// after a long silence.
    Unknown,
    /// There is no room.
    Full {
        /// The limit.
        limit: usize,
    },
    /// The peer broke the protocol, or used up what it may hold.
    Fault(String),
}

impl Hinted for Refusal {
    fn message(&self) -> String {
        match self {
            Refusal::Protocol { ours, theirs } => {
                format!("protocol version {theirs} was refused by a server of version {ours}")
            }
            Refusal::Ops => "the server's op table differs from this program's".into(),
            Refusal::Unknown => "the server does not know this connection: it was restarted, or \
                                 heard nothing from here for too long"
                .into(),
            Refusal::Full { limit } => {
                format!("the server is full: {limit} connections are its limit")
            }
            Refusal::Fault(why) => why.clone(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Refusal::Protocol { .. } => Some(SAME_VERSION.into()),
            Refusal::Ops => Some("run the same build of gt on both sides".into()),
            Refusal::Unknown | Refusal::Full { .. } | Refusal::Fault(_) => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f)
    }
}
