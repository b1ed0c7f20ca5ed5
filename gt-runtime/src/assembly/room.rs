//! Memory for a tensor that arrives in pieces.
//!
//! The system gives out fresh memory page by page, at the first write to each page. For a large
//! tensor this takes longer than copying its bytes, so large tensors ask for huge pages.

use bytes::Bytes;
use memmap2::MmapMut;

/// The fewest bytes for which huge pages are asked for. A smaller tensor gets memory that was used
/// before.
const LARGE: usize = 32 << 20;

/// Memory of a fixed size that is filled from its beginning.
#[derive(Debug)]
pub enum Room {
    /// Memory of the allocator.
    Heap(Vec<u8>),
    /// Memory of the system.
    Huge {
        /// All of it.
        map: MmapMut,
        /// The number of bytes that are filled.
        len: usize,
    },
}

impl Room {
    /// Memory for so many bytes. None if there is not as much.
    pub(super) fn new(size: usize) -> Option<Room> {
        if size >= LARGE {
            let map = MmapMut::map_anon(size).ok()?;
            #[cfg(target_os = "linux")]
            {
                // Without huge pages it is slower.
                let _ = map.advise(memmap2::Advice::HugePage);
            }
            return Some(Room::Huge { map, len: 0 });
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).ok()?;
        Some(Room::Heap(bytes))
    }

    /// The number of bytes that are filled.
    pub(crate) fn len(&self) -> usize {
        match self {
            Room::Heap(bytes) => bytes.len(),
            Room::Huge { len, .. } => *len,
        }
    }

    /// Fills the next bytes. The caller has checked that they fit.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        match self {
            Room::Heap(held) => held.extend_from_slice(bytes),
            Room::Huge { map, len } => {
                if let Some(to) = map.get_mut(*len..*len + bytes.len()) {
                    to.copy_from_slice(bytes);
                    *len += bytes.len();
                }
            }
        }
    }
}

impl Default for Room {
    fn default() -> Room {
        Room::Heap(Vec::new())
    }
}

impl From<Room> for Bytes {
    fn from(room: Room) -> Bytes {
        match room {
            Room::Heap(bytes) => bytes.into(),
            Room::Huge { map, .. } => Bytes::from_owner(map),
        }
    }
}
