//! The wire protocol: what travels between clients, the dispatcher and workers. The only types here
//! that are serialized.
//!
//! A [`Packet`] is one message of the transport. It carries a part of a link (data with a sequence
//! number, acknowledgements, heartbeats) or of the handshake that opens it ([`Hello`], [`Welcome`],
//! [`Refusal`]); [`Message`] is what the link delivers, one enum a direction: [`FromClient`] and
//! [`ToClient`], [`ToWorker`] and [`FromWorker`]. An [`Order`] goes from client to worker as one
//! declaration. Packets are plain data and never executable;
//! inside one process they travel as they are, and only [`codec`] knows their bytes.

mod client;
pub mod codec;
mod handshake;
mod message;
mod order;
mod worker;

pub use client::{FromClient, Planned, ToClient};
pub use handshake::{Hello, Refusal, Role, Welcome};
pub use message::{Message, Weight};
pub use order::{Chunk, Order};
pub use worker::{Capacity, Counts, FromWorker, ToWorker};

use crate::ids::Incarnation;
use serde::{Deserialize, Serialize};

/// Version of everything in this module. Peers of another version are refused.
pub const PROTOCOL: u32 = 6;
/// Most bytes of tensor data in one packet.
pub const MAX_CHUNK: usize = 1 << 20;
/// Most bytes of a packet, its chunk not counted.
pub const MAX_HEAD: usize = 8 << 20;
/// Most entries of one tape.
pub const MAX_ENTRIES: usize = 1 << 16;
/// Most templates a session may hold, and one above the highest number of one.
pub const MAX_TEMPLATES: u32 = 64;
/// Most entries of all templates of a session together.
pub const MAX_TEMPLATE_ENTRIES: usize = 1 << 18;
/// Most bytes of a name, a host or an error message; longer ones are cut by the sender.
pub const MAX_TEXT: usize = 16 << 10;

/// Which of a peer's two links a packet belongs to, and which of its two sockets it travels on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Stream {
    /// Tapes, requests, reports: small, and never behind tensor data.
    Control,
    /// Tensor data.
    Bulk,
}

/// One message of the transport.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Packet<M = Message> {
    /// The link it belongs to. Handshake and heartbeats travel on [`Stream::Control`].
    pub stream: Stream,
    /// The life of the connecting side (client or worker) it belongs to, whoever sends it.
    pub incarnation: Incarnation,
    /// What it says.
    pub body: Body<M>,
}

/// What a packet says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Body<M = Message> {
    /// Opens a connection; repeated until answered.
    Hello(Hello),
    /// The connection is open; repeated when the hello is.
    Welcome(Welcome),
    /// There is no such connection, and why.
    Refused(Refusal),
    /// A message of the link, numbered from 0, with the acknowledgement of what came the other way.
    Data {
        /// Its number.
        seq: u64,
        /// Everything below this number arrived.
        ack: u64,
        /// The payload.
        message: M,
    },
    /// An acknowledgement of its own.
    Ack {
        /// Everything below this number arrived, in order.
        upto: u64,
        /// One above the highest number that arrived: beyond `upto`, there is a gap to fill.
        seen: u64,
        /// The sender may send while the total weight it has sent is below this.
        credit: u64,
    },
    /// Asks for an acknowledgement, since one that gave credit may have got lost.
    Ping,
    /// The sender is gone when this arrives; the reason is for people.
    Bye {
        /// Why.
        reason: String,
    },
}
