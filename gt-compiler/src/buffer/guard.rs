//! Blocks of memory that end at a page nobody may touch: code that reads or writes beyond one ends
//! the process there and then.
//!
//! For tests of generated code, which would otherwise only now and then meet a page that is not
//! there. Slow: each block is a mapping.
#![expect(unsafe_code, reason = "maps pages")]

use std::ptr::NonNull;

use super::ALIGN;

/// What the elements are aligned to, and so the most bytes a read beyond the end may go unnoticed.
const STEP: usize = 8;
const PAGE: usize = 4096;

/// Bytes of a block as it is laid out, and of the pages before the last.
fn layout(len: usize) -> (usize, usize) {
    let len = len.max(ALIGN).next_multiple_of(STEP);
    (len, len.next_multiple_of(PAGE))
}

/// A block of zeros; `None` where the system refuses.
pub(crate) fn allocate(len: usize) -> Option<NonNull<u8>> {
    let (len, pages) = layout(len);
    let base = map(pages + PAGE)?;
    let end = base.wrapping_add(pages);
    forbid(end)?;
    NonNull::new(end.wrapping_sub(len))
}

/// Gives a block back.
///
/// # Safety
/// `start` came from `allocate(len)`, and nobody refers to the block.
pub(crate) unsafe fn release(start: NonNull<u8>, len: usize) {
    let (len, pages) = layout(len);
    let base = start.as_ptr().wrapping_add(len).wrapping_sub(pages);
    // SAFETY: `allocate` mapped these pages as one, and the caller has no use for them any more.
    // Where the system refuses, the block stays mapped, and no more than that.
    let _ = unsafe { rustix::mm::munmap(base.cast(), pages + PAGE) };
}

fn map(bytes: usize) -> Option<*mut u8> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping wherever the system likes touches nobody's memory.
    let base = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) };
    base.ok().map(<*mut _>::cast)
}

fn forbid(page: *mut u8) -> Option<()> {
    use rustix::mm::{MprotectFlags, mprotect};
    // SAFETY: the last page of a mapping just made, which nobody knows yet.
    unsafe { mprotect(page.cast(), PAGE, MprotectFlags::empty()) }.ok()
}
