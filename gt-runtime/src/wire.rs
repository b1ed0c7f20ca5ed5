//! The wire protocol: what travels between clients, the dispatcher and workers. The only types here that are serialized.
//!
//! A [`Packet`] is one message of the transport. It carries a part of a link (data with a sequence number, acknowledgements,
//! heartbeats) or of the handshake that opens it; [`Message`] is what the link delivers, one enum a direction. Packets are plain
//! data and never executable; inside one process they travel as they are, and only [`codec`] knows their bytes.

pub mod codec;

use crate::ids::{Identity, Incarnation, RequestId, SessionId};
use bytes::Bytes;
use gt_ir::backend::{RunError, Stats};
use gt_ir::canonical::{Bindings, Defined};
use gt_ir::shape::Type;
use gt_ir::signal::Signals;
use gt_ir::tape::{Tape, ValueId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Version of everything in this file. Peers of another version are refused.
pub const PROTOCOL: u32 = 4;
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

/// The first words of a connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`] of the sender.
    pub protocol: u32,
    /// [`gt_ir::op::FINGERPRINT`] of the sender: peers with other op tables would read each other's tapes wrongly.
    pub fingerprint: u64,
    /// What the sender is.
    pub role: Role,
    /// Who the sender is.
    pub identity: Identity,
    /// How many hellos from other addresses came before it in this life: an earlier one, late, moves nothing back.
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
    /// How many control messages of this incarnation the dispatcher holds: not 0 after a reconnection.
    pub accepted: u64,
}

/// Why a packet was refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// Builds do not match.
    #[error(
        "protocol version {theirs} was refused by a server of version {ours}\nhint: run the same version of gt on both sides"
    )]
    Protocol {
        /// The dispatcher's.
        ours: u32,
        /// The newcomer's.
        theirs: u32,
    },
    /// Op tables do not match.
    #[error(
        "the server's op table differs from this program's\nhint: run the same build of gt on both sides"
    )]
    Ops,
    /// The dispatcher does not know the connection: it was restarted, or gave the connection up after a long silence.
    #[error(
        "the server does not know this connection: it was restarted, or heard nothing from here for too long"
    )]
    Unknown,
    /// There is no room.
    #[error("the server is full: {limit} connections are its limit")]
    Full {
        /// The limit.
        limit: usize,
    },
    /// The peer broke the protocol, or used up what it may hold.
    #[error("{0}")]
    Fault(String),
}

/// What a link delivers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Message {
    /// Client to dispatcher.
    FromClient(FromClient),
    /// Dispatcher to client.
    ToClient(ToClient),
    /// Worker to dispatcher.
    FromWorker(FromWorker),
    /// Dispatcher to worker.
    ToWorker(ToWorker),
}

/// A piece of a tensor's bytes (row-major, little-endian). In one process it may be the whole tensor, whatever its size.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Chunk {
    /// Whose bytes.
    pub value: ValueId,
    /// Of what type the whole is.
    pub ty: Type,
    /// Where the piece begins.
    pub offset: u64,
    /// Bytes of the whole.
    pub total: u64,
    /// The piece; a frame of its own on the wire.
    #[serde(skip)]
    pub bytes: Bytes,
}

impl Chunk {
    /// Whether the piece ends its tensor.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.offset + self.bytes.len() as u64 == self.total
    }
}

/// Client to dispatcher.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum FromClient {
    /// The next segment of the session's tape.
    Tape(Arc<Tape>),
    /// Gives a number to a segment in canonical form, in place of what had it before. Runs nothing.
    Define {
        /// The number, below [`MAX_TEMPLATES`].
        template: u32,
        /// The segment, as [`gt_ir::canonical`] makes it.
        tape: Arc<Tape>,
    },
    /// The next segment of the session's tape: a template with other values and scalars.
    Launch {
        /// Its number.
        template: u32,
        /// The values and scalars.
        bindings: Arc<Bindings>,
    },
    /// A template is no longer needed.
    Forget {
        /// Its number.
        template: u32,
    },
    /// How the signals of all later segments are to be taken, in place of what was said before. [`Signals`] holds itself to its limits.
    Configure(Arc<Signals>),
    /// Data of an input (bulk). Pieces come in order; those of the value's segment may come before or after it.
    Chunk(Chunk),
    /// Asks for a value: answered by chunks (bulk) or by a failure.
    Fetch {
        /// The question.
        request: RequestId,
        /// The value.
        value: ValueId,
    },
    /// Asks what ran; answered when everything submitted before has run.
    Stats {
        /// The question.
        request: RequestId,
    },
    /// The session ends; everything it holds is freed.
    Close,
}

/// Dispatcher to client.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ToClient {
    /// A piece of a fetched value (bulk), in order. When the rest is lost a failure follows, which may overtake pieces: those
    /// of a question that is answered are to be dropped.
    Chunk {
        /// The fetch it answers.
        request: RequestId,
        /// The piece.
        chunk: Chunk,
    },
    /// A fetch or a question failed.
    Failed {
        /// Which.
        request: RequestId,
        /// Why.
        error: Arc<RunError>,
    },
    /// What ran.
    Stats {
        /// The question it answers.
        request: RequestId,
        /// The answer.
        stats: Box<Stats>,
    },
    /// News of a template, for people.
    Planned(Box<Planned>),
    /// Why a launch was slower than it could be, for people.
    Note(Box<str>),
}

/// What became of compiling a template.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Planned {
    /// The segment's key.
    pub key: u128,
    /// Its instructions.
    pub instructions: u64,
    /// The plan's number on its worker.
    pub plan: u64,
    /// Why there is none, if so.
    pub failed: Option<String>,
    /// Whether there was one before, for inputs of other types.
    pub retyped: bool,
    /// Kernels of the plan.
    pub kernels: u64,
    /// Launches of the plan.
    pub launches: u64,
    /// Nanoseconds from the order to compile it to its end.
    pub nanos: u64,
    /// Whether it came from the disk.
    pub cached: bool,
}

/// Dispatcher to worker.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ToWorker {
    /// A session lives here from now on; before anything else of it.
    Open {
        /// Which.
        session: SessionId,
        /// Whose it is, as others are told: `s1 digits (pi, pid 123)`.
        client: Arc<str>,
    },
    /// A segment to run, after all earlier ones of its session and once its inputs are there.
    Run {
        /// Whose.
        session: SessionId,
        /// The segment's number in its session, from 0.
        seq: u64,
        /// How many workers the session has lost: reports carry it back.
        attempt: u32,
        /// The segment. A value it uses is live on this worker.
        tape: Arc<Tape>,
    },
    /// Gives a number to a segment in canonical form, in place of what had it before. Runs nothing.
    Define {
        /// Whose.
        session: SessionId,
        /// The number.
        template: u32,
        /// The segment.
        tape: Arc<Tape>,
    },
    /// As `Run`, with a template's number and its bindings for the tape.
    Launch {
        /// Whose.
        session: SessionId,
        /// The segment's number in its session, from 0.
        seq: u64,
        /// How many workers the session has lost: reports carry it back.
        attempt: u32,
        /// The template, defined here before.
        template: u32,
        /// Its values and scalars. A value it uses is live on this worker.
        bindings: Arc<Bindings>,
    },
    /// A template is no longer needed.
    Forget {
        /// Whose.
        session: SessionId,
        /// Its number.
        template: u32,
    },
    /// Data of an input (bulk), in order; perhaps before the segment that declares it.
    Chunk {
        /// Whose.
        session: SessionId,
        /// The piece.
        chunk: Chunk,
    },
    /// Asks for a value once the segments before it have run.
    Fetch {
        /// Whose.
        session: SessionId,
        /// The question.
        request: RequestId,
        /// The value.
        value: ValueId,
    },
    /// Asks what ran of a session, once the segments before it have run.
    Stats {
        /// Whose.
        session: SessionId,
        /// The question.
        request: RequestId,
    },
    /// The session is over: comes last on each of the two streams, and when it has come on both, nothing of the session is left.
    EndSession {
        /// Which.
        session: SessionId,
    },
}

/// Worker to dispatcher.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum FromWorker {
    /// The first message: what the worker offers. Work comes after it.
    Register(Capacity),
    /// A segment ran; instructions that failed count too, their errors stay with their values.
    Done {
        /// Whose.
        session: SessionId,
        /// Which segment.
        seq: u64,
        /// The attempt of its `Run`.
        attempt: u32,
        /// What it cost.
        counts: Counts,
    },
    /// A piece of a fetched value (bulk), in order.
    Chunk {
        /// Whose.
        session: SessionId,
        /// The fetch it answers.
        request: RequestId,
        /// The piece.
        chunk: Chunk,
    },
    /// A fetch or a question failed.
    Failed {
        /// Whose.
        session: SessionId,
        /// Which.
        request: RequestId,
        /// Why.
        error: Arc<RunError>,
    },
    /// What ran of a session.
    Stats {
        /// Whose.
        session: SessionId,
        /// The question it answers.
        request: RequestId,
        /// The answer.
        stats: Box<Stats>,
    },
    /// News of a template of a session, for people.
    Planned {
        /// Whose.
        session: SessionId,
        /// The news.
        planned: Box<Planned>,
    },
    /// Why a launch of a session was slower than it could be, for people.
    Note {
        /// Whose.
        session: SessionId,
        /// Why.
        text: Box<str>,
    },
}

/// What a worker offers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Capacity {
    /// Its engine's name.
    pub engine: String,
    /// What the engine computes on: `cpu`, `cuda:0`.
    pub device: String,
    /// Threads it computes with.
    pub threads: u32,
    /// Bytes of memory for values; 0 when unknown.
    pub memory: u64,
}

/// What one segment cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Instructions run.
    pub instructions: u64,
    /// Nanoseconds from its start to its end.
    pub nanos: u64,
}

/// What a message counts against a link's credit: about the bytes it holds, at least [`Weight::LEAST`].
pub trait Weight {
    /// The weight of the smallest message.
    const LEAST: u64 = 64;
    /// Its weight: the same at both ends.
    fn weight(&self) -> u64;
}

impl Weight for Message {
    fn weight(&self) -> u64 {
        let payload = match self {
            Message::FromClient(FromClient::Tape(tape) | FromClient::Define { tape, .. })
            | Message::ToWorker(ToWorker::Run { tape, .. } | ToWorker::Define { tape, .. }) => {
                tape.entries.len() as u64 * 64
            }
            Message::FromClient(FromClient::Configure(signals)) => signals.bytes() as u64,
            Message::FromClient(FromClient::Launch { bindings, .. })
            | Message::ToWorker(ToWorker::Launch { bindings, .. }) => {
                let n_listed = match &bindings.defined {
                    Defined::Run(..) => 0,
                    Defined::List(list) => list.len(),
                };
                8 * (bindings.inputs.len() + n_listed + 2 * bindings.scalars.len()) as u64
            }
            Message::FromClient(_)
            | Message::ToClient(_)
            | Message::FromWorker(_)
            | Message::ToWorker(_) => self.chunk().map_or(0, |chunk| chunk.bytes.len() as u64),
        };
        payload + Self::LEAST
    }
}

impl Message {
    /// The tensor data it carries.
    #[must_use]
    pub fn chunk(&self) -> Option<&Chunk> {
        match self {
            Message::FromClient(FromClient::Chunk(chunk))
            | Message::ToClient(ToClient::Chunk { chunk, .. })
            | Message::ToWorker(ToWorker::Chunk { chunk, .. })
            | Message::FromWorker(FromWorker::Chunk { chunk, .. }) => Some(chunk),
            Message::FromClient(_)
            | Message::ToClient(_)
            | Message::ToWorker(_)
            | Message::FromWorker(_) => None,
        }
    }

    fn chunk_mut(&mut self) -> Option<&mut Chunk> {
        match self {
            Message::FromClient(FromClient::Chunk(chunk))
            | Message::ToClient(ToClient::Chunk { chunk, .. })
            | Message::ToWorker(ToWorker::Chunk { chunk, .. })
            | Message::FromWorker(FromWorker::Chunk { chunk, .. }) => Some(chunk),
            Message::FromClient(_)
            | Message::ToClient(_)
            | Message::ToWorker(_)
            | Message::FromWorker(_) => None,
        }
    }

    /// The stream it travels on.
    #[must_use]
    pub fn stream(&self) -> Stream {
        if self.chunk().is_some() { Stream::Bulk } else { Stream::Control }
    }
}
