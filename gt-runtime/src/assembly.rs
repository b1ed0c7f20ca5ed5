//! Tensors in pieces: splitting them into chunks for the wire, and assembling chunks.
//!
//! A tensor in one piece is not copied. Several pieces are written into one buffer of the final
//! size, so each byte is copied once. The links deliver pieces in order. A repeated piece is
//! dropped, and a piece that does not fit ends the assembly with a reason. Memory is reserved only
//! if the type and the total of the first piece agree.

mod room;

use std::sync::Arc;

use bytes::Bytes;
use gt_ir::backend::RunError;
use gt_ir::{HostTensor, Type};

use self::room::Room;
use crate::wire::{Chunk, MAX_CHUNK};

/// A tensor that is assembled from pieces.
#[derive(Debug)]
pub enum Assembly {
    /// Some pieces have arrived.
    Partial {
        /// The type of the whole.
        ty: Type,
        /// The bytes so far.
        bytes: Room,
    },
    /// All pieces have arrived.
    Whole(HostTensor),
    /// It cannot be assembled, for this reason.
    Broken(String),
    /// It will not come: this error came in its place.
    Failed(Arc<RunError>),
}

impl Assembly {
    /// Begins with the first piece.
    #[must_use]
    pub fn begin(chunk: Box<Chunk>) -> Assembly {
        let (ty, total) = (chunk.ty, chunk.total);
        if total != ty.bytes() as u64 {
            return Assembly::Broken(format!("{total} bytes cannot be a {ty}"));
        }
        if chunk.offset != 0 {
            return Assembly::Broken(format!(
                "the first piece of a {ty} begins at byte {}",
                chunk.offset
            ));
        }
        if chunk.is_last() {
            return Assembly::end(ty, chunk.bytes);
        }
        let Some(bytes) = Room::new(ty.bytes()) else {
            return Assembly::Broken(format!("no memory for {total} bytes of a {ty}"));
        };
        let mut begun = Assembly::Partial { ty, bytes };
        begun.add(&chunk);
        begun
    }

    /// Adds the next piece.
    pub fn add(&mut self, chunk: &Chunk) {
        let Assembly::Partial { ty, bytes } = self else { return };
        let have = bytes.len() as u64;
        if chunk.offset < have {
            return; // Repeated.
        }
        let end = chunk.offset + chunk.bytes.len() as u64;
        if chunk.offset > have || !chunk.ty.same_layout(ty) || end > ty.bytes() as u64 {
            *self = Assembly::Broken(format!(
                "a piece of a {} at byte {} does not follow the {have} bytes before it",
                chunk.ty, chunk.offset
            ));
            return;
        }
        bytes.add(&chunk.bytes);
        if bytes.len() == ty.bytes() {
            *self = Assembly::end(*ty, std::mem::take(bytes).into());
        }
    }

    fn end(ty: Type, bytes: Bytes) -> Assembly {
        HostTensor::new(ty, bytes).map_or_else(|e| Assembly::Broken(e.to_string()), Assembly::Whole)
    }

    /// Whether it is whole or broken.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !matches!(self, Assembly::Partial { .. })
    }
}

/// How a transport carries tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Travel {
    /// As one chunk, within one process.
    Whole,
    /// In pieces of at most so many bytes.
    Pieces(usize),
}

impl Travel {
    /// In the largest pieces that fit a packet.
    pub const REMOTE: Travel = Travel::Pieces(MAX_CHUNK);

    /// The chunks in which a tensor travels.
    pub fn pieces(self, whole: Box<Chunk>) -> impl Iterator<Item = Box<Chunk>> {
        let most = match self {
            Travel::Whole => usize::MAX,
            Travel::Pieces(most) => most,
        };
        pieces(whole, most)
    }
}

/// A chunk cut into pieces of at most `max` bytes. The bytes are shared, not copied.
pub fn pieces(whole: Box<Chunk>, max: usize) -> impl Iterator<Item = Box<Chunk>> {
    let mut left = Some(whole);
    std::iter::from_fn(move || {
        let mut piece = left.take()?;
        if piece.bytes.len() > max {
            let mut rest = piece.clone();
            rest.offset += max as u64;
            rest.bytes = piece.bytes.split_off(max);
            left = Some(rest);
        }
        Some(piece)
    })
}

/// A tensor as one chunk.
#[must_use]
pub fn whole(value: gt_ir::ValueId, data: HostTensor) -> Box<Chunk> {
    Box::new(Chunk {
        value,
        ty: *data.ty(),
        offset: 0,
        total: data.ty().bytes() as u64,
        bytes: data.into_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gt_ir::{Shape, ValueId};

    fn tensor(n: usize) -> HostTensor {
        let bytes: Vec<u8> = (0..n).map(|i| (i % 251) as u8).collect();
        HostTensor::from_vec(bytes, Shape::new(&[n]).unwrap()).unwrap()
    }

    #[test]
    fn pieces_make_the_whole_again() {
        for n in [0, 1, MAX_CHUNK, MAX_CHUNK + 1, 3 * MAX_CHUNK, 3 * MAX_CHUNK + 7, 33 << 20] {
            let data = tensor(n);
            let mut cut = pieces(whole(ValueId(1), data.clone()), MAX_CHUNK);
            let mut assembly = Assembly::begin(cut.next().unwrap());
            for piece in cut {
                assert!(!assembly.is_over());
                assembly.add(&piece);
                assembly.add(&piece); // A duplicate changes nothing.
            }
            let Assembly::Whole(got) = assembly else { panic!("{n}: {assembly:?}") };
            assert_eq!(got, data, "{n}");
        }
    }

    #[test]
    fn a_single_piece_is_not_copied() {
        let data = tensor(100);
        let Assembly::Whole(got) = Assembly::begin(whole(ValueId(1), data.clone())) else {
            panic!()
        };
        assert_eq!(got.bytes().as_ptr(), data.bytes().as_ptr());
    }

    #[test]
    fn pieces_that_do_not_fit_break_it() {
        let cut: Vec<Box<Chunk>> =
            pieces(whole(ValueId(1), tensor(3 * MAX_CHUNK)), MAX_CHUNK).collect();
        assert!(matches!(Assembly::begin(cut[1].clone()), Assembly::Broken(_)));
        let mut gap = Assembly::begin(cut[0].clone());
        gap.add(&cut[2]);
        assert!(matches!(gap, Assembly::Broken(_)));
        let mut other = Assembly::begin(cut[0].clone());
        other.add(&Chunk { ty: *tensor(5).ty(), ..*cut[1].clone() });
        assert!(matches!(other, Assembly::Broken(_)));
        assert!(matches!(
            Assembly::begin(Box::new(Chunk { total: 9, ..*cut[0].clone() })),
            Assembly::Broken(_)
        ));
    }
}
