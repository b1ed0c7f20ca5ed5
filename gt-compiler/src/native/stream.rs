//! Stores past the caches, for results larger than those: it spares the memory reading lines that
//! are about to be overwritten.
//!
//! A tile computes a few rows into scratch, which stays in the first-level cache, and they go from
//! there. The values are the same either way.
#![expect(unsafe_code, reason = "stores past the caches")]

/// Results of so many bytes are out of the caches before anybody reads them.
pub(super) const LEAST: usize = 16 << 20;

/// Copies without leaving the destination in the caches.
///
/// # Safety
/// `from` is valid for reading `len` bytes, and `to` for writing as many that nobody else touches.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn past_caches(from: *const u8, len: usize, to: *mut u8) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    let lines = if (to as usize).is_multiple_of(16) { len / 16 } else { 0 };
    for i in 0..lines {
        // SAFETY: the 16 bytes lie inside `from`.
        let v = unsafe { _mm_loadu_si128(from.wrapping_add(16 * i).cast::<__m128i>()) };
        // SAFETY: inside the destination, and aligned as was checked.
        unsafe { _mm_stream_si128(to.wrapping_add(16 * i).cast::<__m128i>(), v) };
    }
    let done = 16 * lines;
    let (from, to) = (from.wrapping_add(done), to.wrapping_add(done));
    // SAFETY: the remaining bytes of both.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len - done) };
}

/// # Safety
/// `from` is valid for reading `len` bytes, and `to` for writing as many that nobody else touches.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn past_caches(from: *const u8, len: usize, to: *mut u8) {
    // SAFETY: as the caller promises.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

/// Copies a slice without leaving its copy in the caches. Other threads see it once this task is
/// done.
pub(super) fn copy(from: &[u8], to: &mut [u8]) {
    let len = from.len().min(to.len());
    // SAFETY: both have so many bytes, and `to` is borrowed mutably.
    unsafe { past_caches(from.as_ptr(), len, to.as_mut_ptr()) };
    fence();
}

/// Makes stores past the caches visible to other threads before the task counts as done.
pub(super) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
