//! Stores past the caches, for results larger than those: it spares the memory reading lines that
//! are about to be overwritten.
//!
//! Kernels that write whole lines store them so by themselves. The rows of other tiles are computed
//! into scratch, a few at a time, and go from there. The values are the same either way.
#![expect(unsafe_code, reason = "stores past the caches")]

/// Results of so many bytes are out of the caches before anybody reads them.
pub(super) const LEAST: usize = 24 << 20;

/// Bytes of a line of the cache.
pub(super) const LINE: usize = 64;

/// Copies without leaving the destination in the caches.
///
/// # Safety
/// `from` is valid for reading `len` bytes, and `to` for writing as many that nobody else touches.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn past_caches(from: *const u8, len: usize, to: *mut u8) {
    let before = to.align_offset(LINE).min(len);
    let n_lines = (len - before) / LINE;
    let after = before + n_lines * LINE;
    // SAFETY: the bytes before the first whole line, of both.
    unsafe { std::ptr::copy_nonoverlapping(from, to, before) };
    let (source, lines) = (from.wrapping_add(before), to.wrapping_add(before));
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has the instructions; the lines lie inside of both.
        unsafe { whole_lines(source, n_lines, lines) };
    } else {
        // SAFETY: as above.
        unsafe { lines_by_pieces(source, n_lines, lines) };
    }
    // SAFETY: the remaining bytes of both.
    unsafe {
        std::ptr::copy_nonoverlapping(from.wrapping_add(after), to.wrapping_add(after), len - after)
    };
}

/// Lines at once: memory takes pieces of them for lines that are not whole.
///
/// # Safety
/// As of [`past_caches`], for so many lines; `to` begins one.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn whole_lines(from: *const u8, n: usize, to: *mut u8) {
    use std::arch::x86_64::{__m512i, _mm512_loadu_si512, _mm512_stream_si512};
    for i in 0..n {
        // SAFETY: the line lies inside of `from`.
        let v = unsafe { _mm512_loadu_si512(from.wrapping_add(LINE * i).cast::<__m512i>()) };
        // SAFETY: inside of the destination, and aligned as the caller promises.
        unsafe { _mm512_stream_si512(to.wrapping_add(LINE * i).cast::<__m512i>(), v) };
    }
}

/// # Safety
/// As of [`whole_lines`].
#[cfg(target_arch = "x86_64")]
unsafe fn lines_by_pieces(from: *const u8, n: usize, to: *mut u8) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    for i in 0..n * LINE / 16 {
        // SAFETY: the 16 bytes lie inside of `from`.
        let v = unsafe { _mm_loadu_si128(from.wrapping_add(16 * i).cast::<__m128i>()) };
        // SAFETY: inside of the destination, and aligned as the caller promises.
        unsafe { _mm_stream_si128(to.wrapping_add(16 * i).cast::<__m128i>(), v) };
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_all_bytes_wherever_it_begins() {
        let from: Vec<u8> = (0..400).map(|i| (i % 251) as u8).collect();
        for (first, len) in [(0, 400), (1, 300), (5, 63), (63, 65), (64, 0), (17, 128), (60, 3)] {
            let mut to = vec![255; 600];
            copy(&from[..len], &mut to[first..first + len]);
            assert_eq!(to[first..first + len], from[..len]);
            assert!(to[..first].iter().chain(&to[first + len..]).all(|byte| *byte == 255));
        }
    }
}
