//! The messages between two workers of one session: values that the one sends the other.

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
    pub chunk: Chunk,
}
