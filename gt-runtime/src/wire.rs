//! The wire protocol: the messages between clients, the dispatcher and workers. Only types of this
//! module are serialized.
//!
//! A [`Packet`] is one message of the transport. It carries traffic of a link (data with a sequence
//! number, acknowledgements, heartbeats), or a part of the handshake that opens a connection
//! ([`Hello`], [`Welcome`], [`Refusal`]). A link delivers a [`Message`], one enum for each
//! direction: [`FromClient`] and [`ToClient`], [`ToWorker`] and [`FromWorker`], and [`Parcel`]
//! between workers. An [`Order`]
//! travels from the client to the worker in one form. Packets are plain data and never executable.
//! Within one process they are not encoded, and only [`codec`] knows their bytes.

mod chunk;
mod client;
pub mod codec;
mod handshake;
mod message;
mod order;
mod routine;
mod sibling;
mod status;
mod watch;
mod worker;

pub use chunk::Chunk;
pub use client::{FromClient, Planned, ToClient};
pub use handshake::{Hello, Offer, Refusal, Role, Welcome};
pub use message::{Message, Weight};
pub use order::Order;
pub use routine::{
    Arrival, Literal, MAX_ROUTINE, Name, Performance, Performed, Receiver, Routine, Step,
};
pub use sibling::{Destination, Door, LaneMessage, Meeting, Parcel};
pub use status::{
    Counts, Events, LinkStatus, SessionStatus, Status, Totals, Traffic, Work, WorkerStatus,
};
pub use watch::{Doing, MAX_MOMENTS, Moment, Moments};
pub use worker::{Capacity, FromWorker, ToWorker};

use crate::ids::Incarnation;
use serde::{Deserialize, Serialize};

/// The version of this module. Peers of another version are refused.
pub const PROTOCOL: u32 = 22;
/// The most bytes of tensor data in one packet.
pub const MAX_CHUNK: usize = 1 << 20;
/// The most bytes of the events in one packet.
pub const MAX_EVENTS: usize = 512 << 10;
/// The most bytes of a packet without its chunk.
pub const MAX_HEAD: usize = 8 << 20;
/// The most bytes of the packet of a piece on a lane, without the piece.
pub const MAX_PIECE_HEAD: usize = 4 << 10;
/// The most entries of one tape.
pub const MAX_ENTRIES: usize = 1 << 16;
/// The first number of the values and requests that the dispatcher names itself. Clients count from
/// 0 on.
pub const RESERVED: u64 = 1 << 62;
/// The most templates of a session. Their numbers are below it.
pub const MAX_TEMPLATES: u32 = 64;
/// The most entries of all templates of a session together.
pub const MAX_TEMPLATE_ENTRIES: usize = 1 << 18;
/// The most bytes of a name, a host or an error message. The sender cuts longer texts.
pub const MAX_TEXT: usize = 16 << 10;

/// One of a peer's two links. Each has a socket of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Stream {
    /// Tapes, requests and reports, which never wait behind tensor data.
    Control,
    /// Tensor data.
    Bulk,
}

/// One message of the transport.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Packet<M = Message> {
    /// The packet's link. The handshake travels on [`Stream::Control`].
    pub stream: Stream,
    /// The incarnation of the connecting side (client or worker), in both directions.
    pub incarnation: Incarnation,
    /// The content.
    pub body: Body<M>,
}

impl Packet {
    /// The piece of a tensor that it carries.
    pub(crate) fn chunk_mut(&mut self) -> Option<&mut Chunk> {
        if let Body::Data { message, .. } = &mut self.body { message.chunk_mut() } else { None }
    }
}

/// The content of a packet.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Body<M = Message> {
    /// Opens a connection. It is repeated until it is answered.
    Hello(Box<Hello>),
    /// The connection is open. It is repeated if the hello is repeated.
    Welcome(Box<Welcome>),
    /// There is no such connection, for this reason.
    Refused(Refusal),
    /// The answer to the hello of a monitor or an operator, which opens no connection.
    Status(Box<Status>),
    /// The answer to the hello of a tracer, which opens no connection.
    Events(Box<Events>),
    /// A message of the link, with an acknowledgement for the other direction.
    Data {
        /// The number of the message, from 0.
        seq: u64,
        /// All messages below this number have arrived.
        ack: u64,
        /// The payload.
        message: M,
    },
    /// An acknowledgement without data.
    Ack {
        /// All messages below this number have arrived.
        upto: u64,
        /// One above the highest number that has arrived. Above `upto`, messages are missing.
        seen: u64,
        /// The sender may send while the total weight that it has sent is below this.
        credit: u64,
    },
    /// Asks for an acknowledgement, because an earlier one with credit may be lost.
    Ping,
    /// What two workers say about the lane beside their road.
    Lane(Box<LaneMessage>),
    /// The sender has closed the connection.
    Bye {
        /// The reason, for users.
        reason: String,
    },
}
