//! What a link delivers, whichever the direction: the stream it travels on, the tensor data in it,
//! and its weight against the credit.

use super::{FromClient, FromWorker, Stream, ToClient, ToWorker};
use bytes::Bytes;
use gt_ir::canonical::Defined;
use gt_ir::shape::Type;
use gt_ir::tape::ValueId;
use serde::{Deserialize, Serialize};

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

/// A piece of a tensor's bytes (row-major, little-endian). In one process it may be the whole
/// tensor, whatever its size.
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

/// What a message counts against a link's credit: about the bytes it holds, at least
/// [`Weight::LEAST`].
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

    pub(super) fn chunk_mut(&mut self) -> Option<&mut Chunk> {
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
