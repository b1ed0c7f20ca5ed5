//! The memory of a simulated device: an address space of its own.
//!
//! Guarantees: an address of it is no address of the host (it is not canonical, so the processor
//! refuses to follow it); every access is checked against the blocks alive, so that work on memory
//! given back or beyond the end of a block is an error that says so. Fresh memory holds garbage.
//! Addresses are used again only where the simulation is told to.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    buffer::{Pool, Storage},
    error::EngineError,
};

/// Where the device's addresses begin: bit 62 alone is no address a processor follows.
const START: u64 = 1 << 62;
/// Blocks are aligned to this, and have unused addresses between them.
const ALIGN: u64 = 256;
/// What fresh memory holds: as floats not a number, as indices far outside.
const GARBAGE: u8 = 0xff;

/// The address space.
pub(super) struct Space {
    blocks: Mutex<Blocks>,
    pool: Arc<Pool>,
    total: usize,
    /// Whether a block gets the address of the last one of its size that went.
    reuses: bool,
}

#[derive(Default)]
struct Blocks {
    alive: BTreeMap<u64, Storage>,
    /// Addresses free again, by size.
    free: BTreeMap<usize, Vec<u64>>,
    next: u64,
    live: usize,
    peak: usize,
}

/// A block of device memory.
pub(crate) struct Block {
    pub(super) address: u64,
    len: usize,
    space: Arc<Space>,
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut blocks = self.space.lock();
        blocks.alive.remove(&self.address);
        blocks.live -= self.len;
        if self.space.reuses {
            blocks.free.entry(self.len).or_default().push(self.address);
        }
    }
}

impl Space {
    pub(super) fn new(total: usize, reuses: bool) -> Arc<Space> {
        let pool = Pool::new(usize::MAX, false);
        Arc::new(Space { blocks: Mutex::default(), pool, total, reuses })
    }

    fn lock(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn alloc(self: &Arc<Self>, bytes: usize) -> Result<Block, EngineError> {
        let mut blocks = self.lock();
        let (len, live, limit) = (bytes.max(64), blocks.live, self.total);
        if live.saturating_add(len) > limit {
            return Err(EngineError::OutOfMemory { asked: bytes, live, limit });
        }
        let mut storage = self.pool.alloc(len)?;
        if let Some(memory) = storage.as_mut_slice() {
            memory.fill(GARBAGE);
        }
        let address = match blocks.free.get_mut(&len).and_then(Vec::pop) {
            Some(address) => address,
            None => {
                let address = START + blocks.next;
                blocks.next += (len as u64).next_multiple_of(ALIGN) + ALIGN;
                address
            }
        };
        blocks.alive.insert(address, storage);
        blocks.live += len;
        blocks.peak = blocks.peak.max(blocks.live);
        Ok(Block { address, len, space: self.clone() })
    }

    /// The host's address of device memory that is alive for so many bytes.
    pub(super) fn find(&self, address: u64, bytes: usize) -> Result<*mut u8, EngineError> {
        let blocks = self.lock();
        let below = blocks.alive.range(..=address).next_back();
        let found = below.and_then(|(start, storage)| {
            let at = (address - start) as usize;
            (at + bytes <= storage.as_slice().len()).then(|| storage.ptr().wrapping_add(at))
        });
        found.ok_or_else(|| {
            EngineError::Device(format!("no block has {bytes} bytes at address {address:#x}"))
        })
    }

    /// Bytes in blocks alive, the most there were, and what the device has.
    pub(super) fn account(&self) -> [usize; 3] {
        let blocks = self.lock();
        [blocks.live, blocks.peak, self.total]
    }
}
