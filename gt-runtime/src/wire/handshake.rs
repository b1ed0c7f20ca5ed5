//! The handshake: the identity of a peer, and whether it may connect. Peers of other versions or op
//! tables are refused before any other message is read.

use super::PROTOCOL;
use crate::identity::Identity;
use crate::ids::SessionId;
use crate::priority::Priority;
use gt_ir::backend::Demand;
use gt_ir::error::Hinted;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The hint for different protocol versions.
pub(super) const SAME_VERSION: &str = "run the same version of gt on both sides";

/// The first packet of a connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`] of the sender.
    pub protocol: u32,
    /// [`gt_ir::op::FINGERPRINT`] of the sender. Peers with different op tables would misread each
    /// other's tapes.
    pub fingerprint: u64,
    /// The role of the sender.
    pub role: Role,
    /// The identity of the sender.
    pub identity: Identity,
    /// The number of the incarnation's earlier moves to another address. A late hello of an earlier
    /// move is ignored.
    pub move_number: u32,
    /// Whether this incarnation was welcomed before.
    pub resumes: bool,
    /// Random bytes that only the sender knows. A later hello of the incarnation must repeat them.
    pub secret: [u8; 16],
    /// The workers that a client asks for.
    pub demand: Demand,
    /// The weight that a client asks for ([`Priority`]).
    pub weight: u32,
    /// Memory that the sender would share. The sockets add it.
    pub offer: Option<Offer>,
}

/// Where a process finds memory that another process of its user offers to share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Offer {
    /// The process that offers it.
    pub pid: u32,
    /// The number of the open file in this process.
    pub fd: u32,
    /// A random number at the beginning of the memory.
    pub key: [u8; 16],
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
            secret: [0; 16],
            demand: Demand::default(),
            offer: None,
            weight: Priority::default().weight(),
        }
    }

    /// The same hello of a client that asks for certain workers.
    #[must_use]
    pub fn asking(self, demand: Demand) -> Hello {
        Hello { demand, ..self }
    }

    /// The same hello of a client with this priority.
    #[must_use]
    pub fn at(self, priority: Priority) -> Hello {
        Hello { weight: priority.weight(), ..self }
    }
}

/// The role of a peer of the dispatcher.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Role {
    /// A program that records tapes.
    Client,
    /// A process that runs tapes.
    Worker,
    /// Somebody who asks a server for its state. The answer is a
    /// [`Body::Status`](super::Body::Status), and opens no connection.
    Monitor,
    /// Somebody who ends a session of the user, or of others with the role `operator`. The answer
    /// is a [`Body::Status`](super::Body::Status) without the session.
    Operator(SessionId),
    /// Somebody who asks a server for its events from this number on. The answer is a
    /// [`Body::Events`](super::Body::Events), and opens no connection.
    Tracer(u64),
    /// A worker that has values for another worker, whose key it knows
    /// ([`Door`](super::Door)).
    Sibling([u8; 16]),
}

impl Role {
    /// Whether a hello in this role opens a connection. The others are answered and forgotten.
    #[must_use]
    pub fn opens(self) -> bool {
        match self {
            Role::Client | Role::Worker | Role::Sibling(_) => true,
            Role::Monitor | Role::Operator(_) | Role::Tracer(_) => false,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Client => "client",
            Role::Monitor | Role::Tracer(_) => "monitor",
            Role::Operator(_) => "operator",
            Role::Worker | Role::Sibling(_) => "worker",
        })
    }
}

/// The answer to a hello.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// The dispatcher's name of the peer: `s3`, `w1`.
    pub name: String,
    /// The number of control messages of this incarnation that the dispatcher has received. Above 0
    /// after a reconnection.
    pub accepted: u64,
    /// Memory that the sender would share. The sockets add it.
    pub offer: Option<Offer>,
}

/// Why a packet was refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// The protocol versions differ.
    Protocol {
        /// The version of the dispatcher.
        ours: u32,
        /// The version of the peer.
        theirs: u32,
    },
    /// The op tables differ.
    Ops,
    /// The dispatcher does not know the connection: it was restarted, or closed the connection
    /// after a long silence.
    Unknown,
    /// The dispatcher has too many connections.
    Full {
        /// The limit.
        limit: usize,
    },
    /// The peer broke the protocol, or its connection was closed for this reason.
    Fault(String),
    /// The peer's key does not allow its role.
    Forbidden(Role),
    /// The connection is encrypted, and this side encrypts nothing.
    Plain,
    /// The connection is not encrypted, and this side takes nothing else.
    Encrypted,
    /// The server ends soon, for this reason, and takes no new programs.
    Ending(String),
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
            Refusal::Forbidden(role) => {
                format!("this program's key does not allow it to be a {role}")
            }
            Refusal::Plain => "the server does not encrypt: it was started with --insecure".into(),
            Refusal::Encrypted => "the server takes encrypted connections only".into(),
            Refusal::Ending(why) => {
                format!("the server ends soon and takes no new programs: {why}")
            }
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Refusal::Protocol { .. } => Some(SAME_VERSION.into()),
            Refusal::Ops => Some("run the same build of gt on both sides".into()),
            Refusal::Forbidden(role) => {
                Some(format!("on the server's machine: gt-cli keys add {role} KEY"))
            }
            Refusal::Plain => Some("on a network that you trust, set GT_INSECURE=1".into()),
            Refusal::Encrypted => Some("leave out --insecure, and unset GT_INSECURE".into()),
            Refusal::Ending(_) => Some("start the program again when the server is back".into()),
            Refusal::Unknown | Refusal::Full { .. } | Refusal::Fault(_) => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f)
    }
}
