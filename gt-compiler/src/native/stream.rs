//! Results larger than the caches: computed tile by tile into a block that stays in the first-level cache, and written from there past
//! the caches, which spares the memory reading lines that are about to be overwritten.
//!
//! Only for kernels of one loop that store one contiguous result. The values are the same either way.
#![expect(unsafe_code, reason = "calls generated code on a tile and stores past the caches")]

use smallvec::SmallVec;

use super::plan::KernelStep;
use crate::kernel::{Kernel, Nest, Range};

/// Bytes of a tile: small, so that reading for one tile overlaps with the stores of the one before.
const TILE: usize = 4 << 10;

#[repr(C, align(64))]
struct Tile([u8; TILE]);

/// Whether a kernel can run on tiles of its result.
pub(super) fn fits(nest: &Nest) -> bool {
    let [store] = nest.spec.stores.as_slice() else { return false };
    cfg!(target_arch = "x86_64") && nest.spec.loops.len() == 1 && store.access.strides[0] == 1
}

/// Runs a task of such a kernel; its range starts at a multiple of a cache line.
pub(super) fn run(kernel: &Kernel, step: &KernelStep, args: &[u64], range: Range) {
    let out = step.buffers.len() - 1; // the store's buffer is the last
    let size = step.nest.spec.buffers[out].size();
    let offset = step.nest.spec.stores[0].access.offset as usize;
    let mut tile = Tile([0; TILE]);
    let mut own: SmallVec<[u64; 12]> = args.into();
    let n = TILE / size;
    let mut start = range.start;
    while start < range.end {
        let end = (start + n).min(range.end);
        // The kernel adds what it has always added, and arrives at the beginning of the tile.
        own[out] = (tile.0.as_mut_ptr() as u64).wrapping_sub(((start + offset) * size) as u64);
        // SAFETY: the plan sized the buffers read; of the result only `start..end` is stored, which the tile holds.
        unsafe { kernel.call(&own, Range { start, end }, Range { start: 0, end: 1 }) };
        let to = (args[out] as *mut u8).wrapping_add((start + offset) * size);
        // SAFETY: the result has these bytes, and only this task writes them.
        unsafe { past_caches(&tile.0[..(end - start) * size], to) };
        start = end;
    }
    fence();
}

/// Copies without leaving the destination in the caches.
///
/// # Safety
/// `to` is valid for writing `from.len()` bytes that nobody else touches.
#[cfg(target_arch = "x86_64")]
unsafe fn past_caches(from: &[u8], to: *mut u8) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    let lines = if (to as usize).is_multiple_of(16) { from.len() / 16 } else { 0 };
    for i in 0..lines {
        // SAFETY: the 16 bytes lie inside `from`.
        let v = unsafe { _mm_loadu_si128(from.as_ptr().wrapping_add(16 * i).cast::<__m128i>()) };
        // SAFETY: inside the destination, and aligned as was checked.
        unsafe { _mm_stream_si128(to.wrapping_add(16 * i).cast::<__m128i>(), v) };
    }
    let rest = &from[16 * lines..];
    // SAFETY: the remaining bytes of both.
    unsafe {
        std::ptr::copy_nonoverlapping(rest.as_ptr(), to.wrapping_add(16 * lines), rest.len())
    };
}

/// # Safety
/// `to` is valid for writing `from.len()` bytes that nobody else touches.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn past_caches(from: &[u8], to: *mut u8) {
    // SAFETY: as the caller promises.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
}

/// Makes stores past the caches visible to other threads before the task counts as done.
fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
