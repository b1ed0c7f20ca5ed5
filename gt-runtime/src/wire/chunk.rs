//! Tensor data on the wire: a tensor travels in pieces, in order.

use bytes::Bytes;
use gt_ir::shape::Type;
use gt_ir::tape::ValueId;
use serde::{Deserialize, Serialize};

/// A piece of a tensor's bytes (row-major, little-endian). Within one process it may be a whole
/// tensor of any size.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Chunk {
    /// The value of the tensor.
    pub value: ValueId,
    /// The type of the whole tensor.
    pub ty: Type,
    /// The offset of the piece, in bytes.
    pub offset: u64,
    /// The size of the whole tensor, in bytes.
    pub total: u64,
    /// The bytes of the piece, a frame of its own on the wire.
    #[serde(skip)]
    pub bytes: Bytes,
}

impl Chunk {
    /// Whether the piece is the last of its tensor.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.offset + self.bytes.len() as u64 == self.total
    }
}
