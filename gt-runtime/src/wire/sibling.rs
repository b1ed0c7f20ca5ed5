//! The messages between two workers of one session: values that the one sends the other, and what
//! they say about a lane beside their road.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Chunk;
use crate::ids::SessionId;
use gt_ir::tape::ValueId;

/// How other workers reach a worker. The dispatcher tells it only to workers that have values for
/// it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Door {
    /// The address at which the worker listens: `HOST:PORT`.
    pub address: String,
    /// Whether only programs on the same machine reach it.
    pub local: bool,
    /// Whether connections over tcp are encrypted. Their keys are made of `key`.
    pub sealed: bool,
    /// A number that nobody can guess. The worker talks only to peers that know it.
    pub key: [u8; 16],
}

impl Door {
    /// A number by which the dispatcher finds the worker behind the door. It does not tell the key.
    #[must_use]
    pub fn tag(&self) -> u64 {
        let key = u128::from_le_bytes(self.key);
        key as u64 ^ (key >> 64) as u64
    }
}

impl fmt::Debug for Door {
    /// Without the key, because debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Door({})", self.address)
    }
}

/// Where a value goes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Destination {
    /// The worker that receives it.
    pub door: Arc<Door>,
    /// The session, as that worker knows it.
    pub session: SessionId,
    /// The number of sessions that the dispatcher had opened on that worker, with this one.
    pub opened: u64,
    /// The name of the value there.
    pub value: ValueId,
}

/// A piece of a value (bulk), from one worker to another.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Parcel {
    /// The session, as the receiver knows it.
    pub session: SessionId,
    /// The number of sessions that the dispatcher had opened on the receiver, with this one. It
    /// tells a session that the receiver does not know yet from a session that has ended.
    pub opened: u64,
    /// The piece, with the name that the receiver gives the value.
    pub chunk: Box<Chunk>,
}

/// What two workers say about the lane beside their road, on which the bytes of large pieces go
/// (`worker/lanes`). It belongs to neither link of their connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum LaneMessage {
    /// How this end of the lane is reached. The end with values says it first.
    Meet(Meeting),
    /// A packet whose chunk comes over the lane.
    Piece {
        /// The tag of the bytes.
        tag: u32,
        /// Their number.
        len: u32,
        /// The packet without them.
        head: Vec<u8>,
    },
}

/// How an end of a lane is reached.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Meeting {
    /// A random number, of which the other end makes its proof that it knows the door's key.
    pub nonce: [u8; 32],
    /// What this end says to the library that connects the two.
    pub entries: Vec<(String, Vec<u8>)>,
}

impl Meeting {
    /// The most entries. Gloo has one.
    pub const MAX_ENTRIES: usize = 8;
    /// The most bytes of an entry, with its key.
    pub const MAX_ENTRY: usize = 4 << 10;
}
