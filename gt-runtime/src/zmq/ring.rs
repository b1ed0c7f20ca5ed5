//! Memory that two processes of one user share: blocks that one lends to the other, and a mailbox.
//!
//! The lender makes the memory and writes into free blocks. The borrower maps the same memory,
//! reads a block, and marks it free. Nobody else can: the memory has no name in a file system, and
//! whoever opens it proves by a random number that the lender told it where to look. It cannot be
//! made smaller, so a mapped block is always there. A borrower trusts the lender, a process of its
//! own user, not to change a block that it has lent.
//!
//! The mailbox ([`mailbox`](super::mailbox)) carries small messages of the lender. The memory also
//! says by which pipe the lender is woken.
//!
//! A block takes memory from its first use on. On systems other than Linux there are no rings.
#![expect(unsafe_code, reason = "two processes write to the same memory")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use super::wake::Bell;
use crate::doors::random;
use crate::wire::{MAX_CHUNK, Offer};

/// The number of blocks: as many as the window of a link, and some for what is on its way.
pub(super) const N_BLOCKS: usize = 40;
/// The bytes of a block.
pub(super) const BLOCK: usize = MAX_CHUNK;
/// The bytes of the mailbox.
pub(super) const MAILBOX: usize = 32 << 10;
/// The bytes before the first block: the random number, at `OPENED` a word that the borrower sets
/// when it has opened the memory, at `BELL` the descriptor of the lender's pipe or 0, at `STATES` a
/// word for each block, the words of the mailbox, and at `LETTERS` its bytes.
const HEAD: usize = LETTERS + MAILBOX;
const OPENED: usize = 32;
const BELL: usize = 36;
const STATES: usize = 64;
const WORDS: [usize; 3] = [1024, 1152, 1280];
const LETTERS: usize = 4096;
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
    /// The pipe of the other process, if this is its memory.
    bell: Option<File>,
    offer: Offer,
}

/// A word of the mailbox.
#[derive(Clone, Copy, Debug)]
pub(super) enum Word {
    /// The bytes ever written, modulo 2^32. Its owner sets it.
    Written,
    /// The bytes ever read, modulo 2^32. The other process sets it.
    Read,
    /// Whether the other process has been woken since it last looked.
    Rung,
}

impl Ring {
    /// New memory of this process.
    pub(super) fn new() -> io::Result<Ring> {
        let file = anonymous_file()?;
        let map = MmapOptions::new().len(SIZE).map_raw(&file)?;
        let fd = u32::try_from(file.as_raw_fd()).map_err(io::Error::other)?;
        let offer = Offer { pid: std::process::id(), fd, key: random() };
        let ring = Ring { map, file: Some(file), bell: None, offer };
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
        let mut ring = Ring { map, file: None, bell: None, offer };
        ring.bell = bell(offer.pid, ring.word(BELL).load(Ordering::Acquire));
        ring.word(OPENED).store(1, Ordering::Release);
        Ok(ring)
    }

    /// Says by which pipe this process is woken.
    pub(super) fn set_bell(&self, Bell(fd): Bell) {
        self.word(BELL).store(fd, Ordering::Release);
    }

    /// The pipe by which the process that offers this memory is woken.
    pub(super) fn bell(&self) -> Option<&File> {
        self.bell.as_ref()
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

    /// A word of the mailbox.
    pub(super) fn mailbox(&self, word: Word) -> &AtomicU32 {
        self.word(WORDS[word as usize])
    }

    /// Writes bytes into the mailbox. Those that do not fit are left out.
    pub(super) fn write(&self, at: usize, bytes: &[u8]) {
        let len = bytes.len().min(MAILBOX.saturating_sub(at));
        let to = self.map.as_mut_ptr().wrapping_add(LETTERS + at.min(MAILBOX));
        // SAFETY: the bytes lie within the mailbox, which is reserved. The other process does not
        // read them before the word for it is set.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, len) };
    }

    /// Reads bytes of the mailbox. Those after its end are not written.
    pub(super) fn read(&self, at: usize, bytes: &mut [u8]) {
        let len = bytes.len().min(MAILBOX.saturating_sub(at));
        let from = self.map.as_ptr().wrapping_add(LETTERS + at.min(MAILBOX));
        // SAFETY: the bytes lie within the mailbox, whose size is sealed. The other process does
        // not write to them before the word for it is set.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len) };
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

/// The pipe with this number in a process. Opened for reading too, so that it never breaks: writing
/// to a broken pipe can end a process.
fn bell(pid: u32, fd: u32) -> Option<File> {
    let link = format!("/proc/{pid}/fd/{fd}");
    let name = std::fs::read_link(&link).ok().filter(|_| fd > 0)?;
    if !name.to_string_lossy().starts_with("pipe:") {
        return None;
    }
    let file = File::options().read(true).write(true).open(link).ok()?;
    rustix::io::ioctl_fionbio(&file, true).ok()?;
    Some(file)
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
