//! Memory of values: 64-byte aligned blocks, pooled by size class, accounted against a limit.
//!
//! Guarantees: a block has at least [`ALIGN`] bytes, also one of no elements, and every byte of it
//! is initialized (fresh memory is zeroed by the system, recycled memory was written before); a
//! request beyond the limit, or one the system refuses, is an error and never an abort; pooled
//! memory is bounded by [`POOL_FLOOR`], the live bytes or a little more than the block given back
//! last, whichever is largest, and is given up before a request fails. Engines of one team share a
//! pool.
#![expect(unsafe_code, reason = "blocks are raw memory shared with compiled code")]

#[cfg(unix)]
mod guard;

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    any::Any,
    ptr::NonNull,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use bytes::Bytes;

use crate::error::EngineError;

/// Alignment of every block, a cache line.
pub(crate) const ALIGN: usize = 64;
/// The pool keeps at least this many bytes for reuse before it gives memory back.
const POOL_FLOOR: usize = 256 << 20;
/// Classes: four to each power of two, from 64 bytes up.
const CLASSES: usize = 4 * 58;

/// Where the elements of a value lie.
pub(crate) struct Storage {
    ptr: NonNull<u8>,
    len: usize,
    owner: Owner,
}

enum Owner {
    Pool {
        class: u16,
        pool: Arc<Pool>,
    },
    /// Memory of somebody else's, alive as long as its keeper.
    Foreign(Box<dyn Any + Send + Sync>),
}

// SAFETY: a storage is plain memory; it is written only by the engine before it is shared and
// read-only afterwards.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

impl Storage {
    /// Host bytes as they are; the caller has checked the alignment.
    pub(crate) fn host(bytes: Bytes) -> Storage {
        let ptr = NonNull::new(bytes.as_ptr().cast_mut()).unwrap_or(NonNull::dangling());
        Storage { ptr, len: bytes.len(), owner: Owner::Foreign(Box::new(bytes)) }
    }

    /// Memory of a device, which the host does not look into: only the engine of the device makes
    /// and reads such storage.
    #[cfg(feature = "torch")]
    pub(crate) fn on_device(
        address: u64,
        len: usize,
        keeper: Box<dyn Any + Send + Sync>,
    ) -> Storage {
        let ptr = NonNull::new(address as *mut u8).unwrap_or(NonNull::dangling());
        Storage { ptr, len, owner: Owner::Foreign(keeper) }
    }

    /// What keeps memory that is somebody else's, if it is of this kind.
    #[cfg_attr(not(feature = "torch"), expect(dead_code, reason = "the keeper is only held"))]
    pub(crate) fn keeper<K: Any>(&self) -> Option<&K> {
        match &self.owner {
            Owner::Foreign(keeper) => keeper.downcast_ref(),
            Owner::Pool { .. } => None,
        }
    }

    pub(crate) fn ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: `ptr` is valid for `len` initialized bytes as long as `self` lives, and nobody
        // writes them any more.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }

    /// Whether the memory is a pool's, not the host's.
    pub(crate) fn is_pooled(&self) -> bool {
        matches!(self.owner, Owner::Pool { .. })
    }

    /// The elements for writing, while nobody else holds this storage.
    pub(crate) fn as_mut_slice(&mut self) -> Option<&mut [u8]> {
        let Owner::Pool { .. } = self.owner else { return None };
        // SAFETY: pool memory is exclusively this storage's, which is borrowed mutably.
        Some(unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) })
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Owner::Pool { class, pool } = &self.owner {
            pool.put(*class, self.ptr, self.len);
        }
    }
}

/// An owner of storage for `Bytes::from_owner`: what a download hands out.
pub(crate) struct Shared(pub(crate) Arc<Storage>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

/// Free blocks by class, and the account.
pub(crate) struct Pool {
    free: Mutex<Free>,
    limit: usize,
    guarded: bool,
    live: AtomicUsize,
    peak: AtomicUsize,
    pooled: AtomicUsize,
}

struct Free {
    lists: Vec<Vec<Block>>,
    /// When each class was last asked for or given a block, in ticks.
    used: Vec<u64>,
    ticks: u64,
}

impl Free {
    /// A block of this class; for a short time also of the next class that has one, up to a few
    /// times as large, but by no more than `room`.
    fn take(&mut self, class: u16, time: Time, room: usize) -> Option<(u16, Block)> {
        let size = class_size(class);
        let most = match time {
            Time::Short => LARGER.saturating_mul(size).min(size.saturating_add(room)),
            Time::Any => size,
        };
        let all = (class..self.lists.len() as u16).take_while(|&c| class_size(c) <= most);
        let found = { all }.find(|&c| !self.lists[usize::from(c)].is_empty()).unwrap_or(class);
        self.tick(found);
        Some((found, self.lists.get_mut(usize::from(found))?.pop()?))
    }

    fn put(&mut self, class: u16, block: Block) {
        self.tick(class);
        self.lists[usize::from(class)].push(block);
    }

    fn tick(&mut self, class: u16) {
        self.ticks += 1;
        self.used[usize::from(class)] = self.ticks;
    }
}

/// How many times as large as asked for a block may be for a short time.
const LARGER: usize = 4;

/// For how long a block is asked for.
#[derive(Clone, Copy)]
enum Time {
    /// No longer than a run of a program.
    Short,
    Any,
}

struct Block(NonNull<u8>);

// SAFETY: a free block is memory nobody refers to.
unsafe impl Send for Block {}

impl Pool {
    /// A pool of at most so many live bytes. Where `guarded`, each block ends at a page nobody may
    /// touch, and none is used again.
    pub(crate) fn new(limit: usize, guarded: bool) -> Arc<Pool> {
        Arc::new(Pool {
            free: Mutex::new(Free {
                lists: (0..CLASSES).map(|_| Vec::new()).collect(),
                used: vec![0; CLASSES],
                ticks: 0,
            }),
            limit,
            guarded: guarded && cfg!(unix),
            live: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            pooled: AtomicUsize::new(0),
        })
    }

    pub(crate) fn live(&self) -> usize {
        self.live.load(Relaxed)
    }

    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Relaxed)
    }

    pub(crate) fn pooled(&self) -> usize {
        self.pooled.load(Relaxed)
    }

    /// A block of at least `len` bytes, owned by nobody else.
    pub(crate) fn alloc(self: &Arc<Self>, len: usize) -> Result<Storage, EngineError> {
        self.alloc_for(len, Time::Any)
    }

    /// As [`alloc`](Self::alloc), of any larger block that is free, to be given back soon. Runs on
    /// batches of different sizes then share one block, whose pages are there.
    pub(crate) fn alloc_briefly(self: &Arc<Self>, len: usize) -> Result<Storage, EngineError> {
        self.alloc_for(len, Time::Short)
    }

    fn alloc_for(self: &Arc<Self>, len: usize, time: Time) -> Result<Storage, EngineError> {
        let (mut class, size) = class_of(len).ok_or_else(|| self.refused(len))?;
        let live = self.count(len)?;
        let room = self.limit - live;
        let reused = if self.guarded { None } else { self.lock().take(class, time, room) };
        let ptr = match reused {
            Some((found, Block(ptr))) => {
                class = found;
                self.pooled.fetch_sub(class_size(class), Relaxed);
                self.live.fetch_add(counted(class, len) - len, Relaxed);
                Some(ptr)
            }
            None if self.guarded => guarded(len),
            None => self.fresh(live, size),
        };
        let Some(ptr) = ptr else {
            self.live.fetch_sub(len, Relaxed);
            return Err(self.refused(len));
        };
        self.peak.fetch_max(self.live(), Relaxed);
        Ok(Storage { ptr, len, owner: Owner::Pool { class, pool: self.clone() } })
    }

    /// Counts bytes that are allocated elsewhere, such as by a routine on its way, until the result
    /// is dropped.
    pub(crate) fn reserve(&self, len: usize) -> Result<Reserved<'_>, EngineError> {
        let live = self.count(len)?;
        self.peak.fetch_max(live, Relaxed);
        self.make_room(live);
        Ok(Reserved { pool: self, len })
    }

    /// Adds bytes to those that are live, if the limit allows it. The live bytes then.
    fn count(&self, len: usize) -> Result<usize, EngineError> {
        let more = |live: usize| live.checked_add(len).filter(|live| *live <= self.limit);
        let live = self.live.fetch_update(Relaxed, Relaxed, more);
        live.map(|live| live + len).map_err(|_| self.refused(len))
    }

    fn refused(&self, asked: usize) -> EngineError {
        EngineError::OutOfMemory { asked, live: self.live(), limit: self.limit }
    }

    /// Gives up pooled blocks when they stand in the way of so many live bytes.
    fn make_room(&self, live: usize) {
        if live.saturating_add(self.pooled()) > self.limit {
            self.trim(0);
        }
    }

    /// New memory from the system.
    fn fresh(&self, live: usize, size: usize) -> Option<NonNull<u8>> {
        self.make_room(live);
        allocate(size).or_else(|| {
            self.trim(0);
            allocate(size)
        })
    }

    fn put(&self, class: u16, ptr: NonNull<u8>, len: usize) {
        let counted = counted(class, len);
        let live = self.live.fetch_sub(counted, Relaxed) - counted;
        if self.guarded {
            return give_up(ptr, len);
        }
        let size = class_size(class);
        let pooled = self.pooled.fetch_add(size, Relaxed) + size;
        self.lock().put(class, Block(ptr));
        // A block larger than everything else is what the next run of a program asks for.
        let keep = POOL_FLOOR.max(live).max(size + size / 4);
        if pooled > keep {
            self.trim(keep);
        }
    }

    /// Gives blocks back to the system, those of sizes unused for longest first, until at most
    /// `keep` bytes are pooled: what every run of a program asks for again stays, however large.
    /// Says how many bytes it gave back.
    pub(crate) fn trim(&self, keep: usize) -> usize {
        let free = &mut *self.lock();
        let mut given = 0;
        let mut classes: Vec<usize> = (0..CLASSES).filter(|&c| !free.lists[c].is_empty()).collect();
        classes.sort_unstable_by_key(|&c| free.used[c]);
        for class in classes {
            let (size, list) = (class_size(class as u16), &mut free.lists[class]);
            while self.pooled() > keep {
                let Some(Block(ptr)) = list.pop() else { break };
                self.pooled.fetch_sub(size, Relaxed);
                given += size;
                // SAFETY: the block came from `allocate(size)` and left the free list, so nobody
                // refers to it.
                unsafe { release(ptr, size) };
            }
        }
        given
    }

    fn lock(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.trim(0);
    }
}

/// Bytes that count as live while memory is in use that the pool has not given out.
pub(crate) struct Reserved<'p> {
    pool: &'p Pool,
    len: usize,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.pool.live.fetch_sub(self.len, Relaxed);
    }
}

#[cfg(unix)]
fn guarded(len: usize) -> Option<NonNull<u8>> {
    guard::allocate(len)
}

#[cfg(not(unix))]
fn guarded(_: usize) -> Option<NonNull<u8>> {
    None
}

/// Ends a guarded block that has left its storage.
fn give_up(ptr: NonNull<u8>, len: usize) {
    #[cfg(unix)]
    // SAFETY: a guarded pool's blocks come from there, with this length, and the storage that had
    // it is gone.
    unsafe {
        guard::release(ptr, len);
    }
    #[cfg(not(unix))]
    let _ = (ptr, len);
}

/// Zeroed memory whose start is a cache line. The system's `calloc` gives untouched pages for large
/// blocks, but only at small alignments, so the block is aligned here and its true start kept in
/// the word before it.
fn allocate(size: usize) -> Option<NonNull<u8>> {
    // SAFETY: the size is not zero.
    let base = NonNull::new(unsafe { alloc_zeroed(layout(size)) })?;
    let padding = ALIGN - base.as_ptr() as usize % ALIGN; // 16..=64, as `base` is aligned to 16
    // SAFETY: the layout has ALIGN bytes more than `size`.
    let start = unsafe { base.add(padding) };
    // SAFETY: `padding` is at least 16, so the word before `start` lies inside the block.
    let word = unsafe { start.cast::<NonNull<u8>>().sub(1) };
    // SAFETY: as above, and aligned, as `start` is.
    unsafe { word.write(base) };
    Some(start)
}

/// # Safety
/// `start` came from `allocate(size)` and nobody refers to the block.
unsafe fn release(start: NonNull<u8>, size: usize) {
    // SAFETY: `allocate` put the block's true start into the word before it.
    let word = unsafe { start.cast::<NonNull<u8>>().sub(1) };
    // SAFETY: as above.
    let base = unsafe { word.read() };
    // SAFETY: `base` was allocated with this layout.
    unsafe { dealloc(base.as_ptr(), layout(size)) };
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size + ALIGN, 16)
        .expect("class sizes are far below isize::MAX, as class_of made sure")
}

/// The smallest class that holds `len` bytes, and its size.
fn class_of(len: usize) -> Option<(u16, usize)> {
    if len > isize::MAX as usize / 2 {
        return None;
    }
    let len = len.max(64);
    // 2^power < len <= 2^(power+1).
    let power = (usize::BITS - 1 - (len - 1).max(32).leading_zeros()) as usize;
    let quarter = ((len - 1) >> (power - 2)) & 3;
    let class = (power - 5) * 4 + quarter;
    Some((class as u16, class_size(class as u16)))
}

fn class_size(class: u16) -> usize {
    let (power, quarter) = (usize::from(class) / 4 + 5, usize::from(class) % 4);
    ((1usize << power) + ((quarter + 1) << (power - 2))).next_multiple_of(ALIGN)
}

/// The bytes that count as live for a value in a block of this class: its own, and by how much the
/// block is larger than it has to be.
fn counted(class: u16, len: usize) -> usize {
    len + class_of(len).map_or(0, |(_, size)| class_size(class) - size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_promise() {
        let mut last = 0;
        for len in (0..5000).chain((10..46).flat_map(|p| [(1usize << p) - 1, 1 << p, (1 << p) + 1]))
        {
            let (class, size) = class_of(len).unwrap();
            assert!(size >= len && size % ALIGN == 0, "{len} {size}");
            assert!(len < 256 || size <= len + len / 4 + 64, "{len} wastes {size}");
            assert_eq!(size, class_size(class));
            assert!(usize::from(class) < CLASSES);
            assert!(class >= last || len < 5000, "larger blocks have larger classes");
            last = class;
        }
        assert!(class_of(usize::MAX).is_none());
    }

    #[test]
    fn memory_is_reused_accounted_and_limited() {
        let pool = Pool::new(1 << 20, false);
        let a = pool.alloc(1000).unwrap();
        let address = a.ptr();
        assert_eq!((pool.live(), a.ptr() as usize % ALIGN), (1000, 0));
        drop(a);
        assert_eq!((pool.live(), pool.peak()), (0, 1000));
        assert_eq!(pool.alloc(990).unwrap().ptr(), address);
        assert_eq!((pool.trim(0), pool.trim(0), pool.pooled()), (1024, 0, 0));
        let error = pool.alloc(2 << 20).map(|_| ()).unwrap_err();
        assert_eq!(error, EngineError::OutOfMemory { asked: 2 << 20, live: 0, limit: 1 << 20 });
        let large = pool.alloc(100_000).unwrap();
        let address = large.ptr();
        drop(large);
        assert_eq!(pool.alloc_briefly(30_000).unwrap().ptr(), address);
        assert_ne!(pool.alloc(30_000).unwrap().ptr(), address);
        assert_ne!(pool.alloc_briefly(10).unwrap().ptr(), address, "too much would be idle");
        let sizes = [100_000, 30_000, 10].map(|len| class_of(len).unwrap().1);
        assert_eq!(pool.pooled(), sizes.iter().sum::<usize>());
    }

    #[test]
    fn larger_blocks_and_reserved_bytes_are_within_the_limit() {
        let pool = Pool::new(1 << 20, false);
        drop(pool.alloc(1 << 19).unwrap());
        let (small, large) = (1 << 17, 1 << 19);
        let brief = pool.alloc_briefly(small).unwrap();
        assert_eq!((pool.live(), pool.peak(), pool.pooled()), (large, large, 0));
        let reserved = pool.reserve(1 << 18).unwrap();
        let error = EngineError::OutOfMemory { asked: large, live: 3 << 18, limit: 1 << 20 };
        assert_eq!(pool.alloc(large).map(|_| ()).unwrap_err(), error);
        assert!(pool.reserve(usize::MAX).is_err());
        drop((brief, reserved));
        assert_eq!((pool.live(), pool.pooled()), (0, large));
        // What is idle of a block does not fit beside the other bytes, nor does the block.
        let reserved = pool.reserve(3 << 18).unwrap();
        assert_eq!(pool.pooled(), 0);
        drop(reserved);
        drop(pool.alloc(large).unwrap());
        let _other = pool.alloc((1 << 20) - small - 1).unwrap();
        let brief = pool.alloc_briefly(small).unwrap();
        assert_eq!(pool.live(), (1 << 20) - 1);
        drop(brief);
    }

    #[test]
    fn requests_beyond_the_system_are_refused() {
        let huge = Pool::new(usize::MAX, false);
        assert!(huge.alloc(1 << 60).is_err());
        assert!(huge.alloc(usize::MAX).is_err());
    }
}
