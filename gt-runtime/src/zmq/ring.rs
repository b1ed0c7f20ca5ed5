//! Memory that two processes of one user share: blocks that one lends to the other.
//!
//! The lender makes the memory and writes into free blocks. The borrower maps the same memory,
//! reads a block, and marks it free. Nobody else can: the memory has no name in a file system, and
//! whoever opens it proves by a random number that the lender told it where to look. It cannot be
//! made smaller, so a mapped block is always there. A borrower trusts the lender, a process of its
//! own user, not to change a block that it has lent.
//!
//! A block takes memory from its first use on. On systems other than Linux there are no rings.
#![expect(unsafe_code, reason = "two processes write to the same memory")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use crate::doors::random;
use crate::wire::{MAX_CHUNK, Offer};

/// The number of blocks: as many as the window of a link, and some for what is on its way.
pub(super) const N_BLOCKS: usize = 40;
/// The bytes of a block.
pub(super) const BLOCK: usize = MAX_CHUNK;
/// The bytes before the first block: the random number, at `OPENED` a word that the borrower sets
/// when it has opened the memory, and at `STATES` a word for each block.
const HEAD: usize = 4096;
const OPENED: usize = 32;
const STATES: usize = 64;
const SIZE: usize = HEAD + N_BLOCKS * BLOCK;
const FREE: u32 = 0;
const LENT: u32 = 1;
/// The name under which the system lists the memory.
const NAME: &str = "gt-ring";

/// The memory, mapped.
#[derive(Debug)]
pub(super) struct Ring {
    map: MmapRaw,
    /// The memory as a file, if it is this process's own.
    file: Option<File>,
    offer: Offer,
}

impl Ring {
    /// New memory of this process.
    pub(super) fn new() -> io::Result<Ring> {
        let file = anonymous_file()?;
        let map = MmapOptions::new().len(SIZE).map_raw(&file)?;
        let fd = u32::try_from(file.as_raw_fd()).map_err(io::Error::other)?;
        let offer = Offer { pid: std::process::id(), fd, key: random() };
        let ring = Ring { map, file: Some(file), offer };
        ring.allocate(0, HEAD)?;
        let head = ring.map.as_mut_ptr().cast::<[u8; 16]>();
        // SAFETY: the head begins the mapping, is there, and nobody else knows the memory yet.
        unsafe { head.write(offer.key) };
        Ok(ring)
    }

    /// The memory that another process offers.
    pub(super) fn open(offer: Offer) -> io::Result<Ring> {
        let link = format!("/proc/{}/fd/{}", offer.pid, offer.fd);
        // Opening anything else could have effects.
        if !std::fs::read_link(&link)?.to_string_lossy().starts_with(&format!("/memfd:{NAME}")) {
            return Err(io::Error::other("it is no memory of gt"));
        }
        let file = File::options().read(true).write(true).open(link)?;
        let (held, own) = (file.metadata()?, std::fs::metadata("/proc/self")?);
        if held.uid() != own.uid() || held.len() != SIZE as u64 || !is_sealed(&file)? {
            return Err(io::Error::other("it is memory of another user or another size"));
        }
        let map = MmapOptions::new().len(SIZE).map_raw(&file)?;
        let head = map.as_ptr().cast::<[u8; 16]>();
        // SAFETY: the file has this size for good, and a key is any bytes.
        let key = unsafe { head.read_volatile() };
        if key != offer.key {
            return Err(io::Error::other("its key is another one"));
        }
        let ring = Ring { map, file: None, offer };
        ring.word(OPENED).store(1, Ordering::Release);
        Ok(ring)
    }

    /// Whether the other process has opened this process's memory.
    pub(super) fn is_opened(&self) -> bool {
        self.word(OPENED).load(Ordering::Acquire) != 0
    }

    /// How another process opens it.
    pub(super) fn offer(&self) -> Offer {
        self.offer
    }

    /// Whether a block may be written to.
    pub(super) fn is_free(&self, block: usize) -> bool {
        self.state(block).is_some_and(|state| state.load(Ordering::Acquire) == FREE)
    }

    /// Takes the memory of a block from the system.
    ///
    /// # Errors
    /// There is no memory.
    pub(super) fn reserve(&self, block: usize) -> io::Result<()> {
        self.allocate(HEAD + block * BLOCK, BLOCK)
    }

    /// Writes into a free, reserved block, and lends it.
    pub(super) fn lend(&self, block: usize, bytes: &[u8]) {
        let Some(state) = self.state(block).filter(|_| bytes.len() <= BLOCK) else { return };
        let to = self.place(block);
        // SAFETY: the block lies within the mapping, was reserved, and is free: only this process
        // touches it. The bytes fit.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        state.store(LENT, Ordering::Release);
    }

    /// Marks a block as free.
    pub(super) fn free(&self, block: usize) {
        if let Some(state) = self.state(block) {
            state.store(FREE, Ordering::Release);
        }
    }

    /// The first bytes of a block that was lent to this process. None if there are no such bytes.
    pub(super) fn bytes(&self, block: usize, len: usize) -> Option<&[u8]> {
        if block >= N_BLOCKS || len > BLOCK || self.is_free(block) {
            return None;
        }
        let from = self.place(block);
        // SAFETY: the bytes lie within the mapping, whose size is sealed. The lender does not write
        // to them before the block is free, which this process decides.
        Some(unsafe { std::slice::from_raw_parts(from, len) })
    }

    /// Where a block begins.
    fn place(&self, block: usize) -> *mut u8 {
        self.map.as_mut_ptr().wrapping_add(HEAD + block * BLOCK)
    }

    fn state(&self, block: usize) -> Option<&AtomicU32> {
        (block < N_BLOCKS).then(|| self.word(STATES + 4 * block))
    }

    /// The word at an offset in the head.
    fn word(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at.is_multiple_of(4) && at < HEAD);
        let word = self.map.as_mut_ptr().wrapping_add(at).cast();
        // SAFETY: the word lies within the head, which is reserved; it is aligned, and both
        // processes use it as an atomic only.
        unsafe { AtomicU32::from_ptr(word) }
    }

    #[cfg(target_os = "linux")]
    fn allocate(&self, from: usize, len: usize) -> io::Result<()> {
        let flags = rustix::fs::FallocateFlags::empty();
        let Some(file) = &self.file else { return Ok(()) };
        Ok(rustix::fs::fallocate(file, flags, from as u64, len as u64)?)
    }

    #[cfg(not(target_os = "linux"))]
    fn allocate(&self, _: usize, _: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Memory without a name that cannot be resized.
#[cfg(target_os = "linux")]
fn anonymous_file() -> io::Result<File> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let file = File::from(memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    file.set_len(SIZE as u64)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

#[cfg(target_os = "linux")]
fn is_sealed(file: &File) -> io::Result<bool> {
    Ok(rustix::fs::fcntl_get_seals(file)?.contains(rustix::fs::SealFlags::SHRINK))
}

#[cfg(not(target_os = "linux"))]
fn anonymous_file() -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
fn is_sealed(_: &File) -> io::Result<bool> {
    Ok(false)
}
