//! Products of `bf16` by the processor's own instruction, `vdpbf16ps` of AVX-512.
//!
//! The instruction adds two products to a sum of `f32`, first the one of the upper halves of its
//! operands, and rounds after each. Operands are packed so that the earlier of two terms is in the
//! upper half, and the depth is cut where [`multiply`](super::multiply) cuts it. The sums therefore
//! have the bits of widened operands, for any cut of the rows and columns, and are rounded to
//! `bf16` once at the end.
//!
//! The instruction takes operands below 2^-126 for zeros. They are found while operands are packed;
//! a block that has some is computed term by term. Sums below 2^-126 become zero in either way.
//!
//! Blocks are sized for caches as in Goto and van de Geijn, "Anatomy of High-Performance Matrix
//! Multiplication" (2008): a panel of the right side stays in the first-level cache while the rows
//! of a block of the left side pass by, which with its sums is in the second-level cache.
#![expect(unsafe_code, reason = "works on raw matrices with the processor's vectors")]

mod lines;
#[cfg(test)]
mod tests;

use std::{
    arch::x86_64::{
        _mm512_add_ps, _mm512_cvtneps_pbh, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_set1_epi32,
        _mm512_setzero_ps, _mm512_setzero_si512, _mm512_storeu_ps,
    },
    cell::RefCell,
    mem::transmute,
};

use half::bf16;
use lines::{Lines, Pair, Tiny, add};

use super::{DEPTH, Strided};

/// Sums in a vector.
const LANES: usize = 16;
/// Rows and columns of a block.
const ROWS: usize = 192;
const COLUMNS: usize = 256;
/// Columns that are worth vectors along them, where there are more rows; so is one whole vector.
const FEW: usize = 32;
/// Rows from which on the right side is packed, however it lies.
const LITTLE: usize = 4;
/// Columns whose sums stay in the nearest cache while rows that are not packed pass by.
const WIDE: usize = 1024;
/// Pairs of such rows that are added at a time.
const TOGETHER: usize = 4;

/// Memory of a thread for the packed blocks and the sums.
#[derive(Default)]
struct Scratch {
    lhs: Vec<Pair>,
    rhs: Vec<Pair>,
    sums: Vec<f32>,
    /// The sums of a part of the depth.
    part: Vec<f32>,
    /// Widened terms.
    wide: Vec<f32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Whether the processor has the instruction.
pub(super) fn is_here() -> bool {
    is_x86_feature_detected!("avx512bf16")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
}

/// `out = lhs * rhs`, where [`is_here`].
///
/// # Safety
/// As of [`multiply`](super::multiply).
pub(super) unsafe fn multiply(
    [m, n, k]: [usize; 3],
    lhs: &Strided<bf16>,
    rhs: &Strided<bf16>,
    out: *mut bf16,
    out_row: isize,
) {
    let lhs = Lines { at: lhs.at, apart: lhs.row, step: lhs.column, n: m };
    let rhs = Lines { at: rhs.at, apart: rhs.column, step: rhs.row, n };
    let is_narrow = n < FEW && n != LANES && n < m;
    let (lhs, rhs, strides) =
        if is_narrow { (rhs, lhs, [1, out_row]) } else { (lhs, rhs, [out_row, 1]) };
    let product = Product { lhs, rhs, depth: k, out, strides };
    SCRATCH.with_borrow_mut(|scratch| {
        // SAFETY: as the caller promises, and the processor has the instruction.
        unsafe { product.run(scratch) }
    });
}

/// A product whose vectors go along the columns of its right side.
struct Product {
    lhs: Lines,
    rhs: Lines,
    depth: usize,
    out: *mut bf16,
    /// Elements from row to row of the result, and from column to column.
    strides: [isize; 2],
}

impl Product {
    /// # Safety
    /// The processor has the instruction. The lines have `depth` terms, and nobody else touches the
    /// result.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn run(&self, scratch: &mut Scratch) {
        let is_little = self.lhs.n < LITTLE;
        let as_they_lie = match is_little && self.rhs.apart == 1 {
            true => self.rhs.n / LANES * LANES,
            false => 0,
        };
        for column in (0..as_they_lie).step_by(WIDE) {
            let size = [self.lhs.n, WIDE.min(as_they_lie - column)];
            // SAFETY: as the caller promises.
            let done = unsafe { self.lines(column, size, scratch) };
            // SAFETY: as the caller promises.
            done.unwrap_or_else(|Tiny| unsafe { self.exact([0, column], size, scratch) });
        }
        for column in (as_they_lie..self.rhs.n).step_by(COLUMNS) {
            for row in (0..self.lhs.n).step_by(ROWS) {
                let size = [ROWS.min(self.lhs.n - row), COLUMNS.min(self.rhs.n - column)];
                let at = [row, column];
                let done = match (is_little, self.rhs.n) {
                    // SAFETY: as the caller promises.
                    (true, _) => unsafe { self.block::<1, 4, 64>(at, size, scratch) },
                    // SAFETY: as the caller promises.
                    (_, ..=LANES) => unsafe { self.block::<16, 1, LANES>(at, size, scratch) },
                    // SAFETY: as the caller promises.
                    _ => unsafe { self.block::<8, 2, 32>(at, size, scratch) },
                };
                // SAFETY: as the caller promises.
                done.unwrap_or_else(|Tiny| unsafe { self.exact(at, size, scratch) });
            }
        }
    }

    /// So many columns of a result of few rows. Lines of the right side lie side by side: they are
    /// used once for each row, so that packing them would cost more.
    ///
    /// # Safety
    /// As of [`run`](Product::run). The columns are whole vectors.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn lines(
        &self,
        column: usize,
        [rows, width]: [usize; 2],
        scratch: &mut Scratch,
    ) -> Result<(), Tiny> {
        zeros(&mut scratch.sums, rows * width);
        for term in (0..self.depth).step_by(DEPTH) {
            let depth = DEPTH.min(self.depth - term);
            let rhs = self.rhs.part(column, width, term);
            // SAFETY: as the caller promises.
            unsafe { self.lhs.part(0, rows, term).pack::<1>(depth, &mut scratch.lhs) }?;
            zeros(&mut scratch.part, rows * width);
            let (pairs, whole) = (depth.div_ceil(2), depth / (2 * TOGETHER) * TOGETHER);
            let mut tiny = false;
            for p in (0..whole).step_by(TOGETHER) {
                for (x, sums) in
                    scratch.lhs.chunks_exact(pairs).zip(scratch.part.chunks_exact_mut(width))
                {
                    // SAFETY: as the caller promises.
                    tiny |= unsafe { rhs.add_to::<TOGETHER>(x, p, depth, sums) };
                }
            }
            for p in whole..pairs {
                for (x, sums) in
                    scratch.lhs.chunks_exact(pairs).zip(scratch.part.chunks_exact_mut(width))
                {
                    // SAFETY: as the caller promises.
                    tiny |= unsafe { rhs.add_to::<1>(x, p, depth, sums) };
                }
            }
            if tiny {
                return Err(Tiny);
            }
            for (sum, part) in scratch.sums.iter_mut().zip(&scratch.part) {
                *sum += part;
            }
        }
        // SAFETY: the result has these rows and columns.
        unsafe { self.put([0, column], [rows, width], (&scratch.sums, width)) };
        Ok(())
    }

    /// A part of the result, term by term in `f32`. Numbers below 2^-126 count; sums of that size
    /// are zeros, as the instruction has them.
    ///
    /// # Safety
    /// As of [`run`](Product::run).
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn exact(&self, [row, column]: [usize; 2], size: [usize; 2], scratch: &mut Scratch) {
        let [rows, columns] = size;
        let width = columns.next_multiple_of(LANES);
        zeros(&mut scratch.sums, rows * width);
        for term in (0..self.depth).step_by(DEPTH) {
            let depth = DEPTH.min(self.depth - term);
            let (lhs, rhs) = (self.lhs.part(row, rows, term), self.rhs.part(column, columns, term));
            zeros(&mut scratch.wide, depth * width);
            for (p, line) in scratch.wide.chunks_exact_mut(width).enumerate() {
                for (j, y) in line[..columns].iter_mut().enumerate() {
                    // SAFETY: the line has this term.
                    *y = unsafe { rhs.widened(j, p) };
                }
            }
            for (i, sums) in scratch.sums.chunks_exact_mut(width).enumerate() {
                zeros(&mut scratch.part, width);
                for (p, line) in scratch.wide.chunks_exact(width).enumerate() {
                    // SAFETY: the line has this term.
                    let x = unsafe { lhs.widened(i, p) };
                    for (sum, y) in scratch.part.iter_mut().zip(line) {
                        let next = x.mul_add(*y, *sum);
                        *sum = if next.abs() < f32::MIN_POSITIVE { 0.0 } else { next };
                    }
                }
                for (sum, part) in sums.iter_mut().zip(&scratch.part) {
                    *sum += part;
                }
            }
        }
        // SAFETY: the result has these rows and columns.
        unsafe { self.put([row, column], size, (&scratch.sums, width)) };
    }

    /// The block of the result from a row and a column on, in tiles of `R` rows and `V` vectors,
    /// which are `W` columns.
    ///
    /// # Safety
    /// As of [`run`](Product::run).
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn block<const R: usize, const V: usize, const W: usize>(
        &self,
        [row, column]: [usize; 2],
        [rows, columns]: [usize; 2],
        scratch: &mut Scratch,
    ) -> Result<(), Tiny> {
        const { assert!(W == V * LANES) };
        let width = columns.next_multiple_of(W);
        zeros(&mut scratch.sums, rows.next_multiple_of(R) * width);
        for term in (0..self.depth).step_by(DEPTH) {
            let depth = DEPTH.min(self.depth - term);
            let lhs = self.lhs.part(row, rows, term);
            let rhs = self.rhs.part(column, columns, term);
            // SAFETY: as the caller promises.
            unsafe { lhs.pack::<R>(depth, &mut scratch.lhs) }?;
            // SAFETY: as the caller promises.
            unsafe { rhs.pack::<W>(depth, &mut scratch.rhs) }?;
            let pairs = depth.div_ceil(2);
            for (j, rhs) in scratch.rhs.chunks_exact(pairs * W).enumerate() {
                for (i, lhs) in scratch.lhs.chunks_exact(pairs * R).enumerate() {
                    let sums = &mut scratch.sums[i * R * width + j * W..];
                    add_tile::<R, V, W>(lhs, rhs, sums, width);
                }
            }
        }
        // SAFETY: the result has these rows and columns.
        unsafe { self.put([row, column], [rows, columns], (&scratch.sums, width)) };
        Ok(())
    }

    /// Rounds so many rows and columns of sums, whose rows are `width` apart and filled up to whole
    /// vectors.
    ///
    /// # Safety
    /// The result has these rows and columns from there on, and nobody else touches them.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn put(
        &self,
        [row, column]: [usize; 2],
        [rows, columns]: [usize; 2],
        (sums, width): (&[f32], usize),
    ) {
        let [apart, step] = self.strides;
        for (i, sums) in sums.chunks_exact(width).take(rows).enumerate() {
            let line = (row + i) as isize * apart + column as isize * step;
            for (j, sums) in (0..columns).step_by(LANES).zip(sums.as_chunks::<LANES>().0) {
                // SAFETY: the array has the size of the vector.
                let sums = unsafe { _mm512_loadu_ps(sums.as_ptr()) };
                let rounded = _mm512_cvtneps_pbh(sums);
                // SAFETY: the vector is 16 numbers of `bf16`.
                let rounded: [bf16; LANES] = unsafe { transmute(rounded) };
                if step == 1 && columns - j >= LANES {
                    let to = self.out.wrapping_offset(line + j as isize);
                    // SAFETY: the result has these places, side by side, and nobody else touches
                    // them.
                    unsafe { to.cast::<[bf16; LANES]>().write_unaligned(rounded) };
                    continue;
                }
                for (i, x) in rounded[..LANES.min(columns - j)].iter().enumerate() {
                    let to = self.out.wrapping_offset(line + (j + i) as isize * step);
                    // SAFETY: the result has this place, and nobody else touches it.
                    unsafe { to.write_unaligned(*x) };
                }
            }
        }
    }
}

/// So many zeros.
fn zeros(sums: &mut Vec<f32>, n: usize) {
    sums.clear();
    sums.resize(n, 0.0);
}

/// Adds the products of a panel of each side to `R` rows of `V` vectors of sums.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
fn add_tile<const R: usize, const V: usize, const W: usize>(
    lhs: &[Pair],
    rhs: &[Pair],
    sums: &mut [f32],
    width: usize,
) {
    assert!(sums.len() >= (R - 1) * width + W, "the tile is a part of the block");
    let mut tile = [[_mm512_setzero_ps(); V]; R];
    for (x, line) in lhs.as_chunks::<R>().0.iter().zip(rhs.as_chunks::<W>().0) {
        let mut y = [_mm512_setzero_si512(); V];
        for (y, pairs) in y.iter_mut().zip(line.as_chunks::<LANES>().0) {
            // SAFETY: the array has the size of the vector.
            *y = unsafe { _mm512_loadu_si512(pairs.as_ptr().cast()) };
        }
        for (row, x) in tile.iter_mut().zip(x) {
            let x = _mm512_set1_epi32(x.cast_signed());
            for (sum, y) in row.iter_mut().zip(y) {
                *sum = add(*sum, x, y);
            }
        }
    }
    for (row, sums) in tile.iter().zip(sums.chunks_mut(width)) {
        for (part, sums) in row.iter().zip(sums.as_chunks_mut::<LANES>().0) {
            // SAFETY: the array has the size of the vector.
            let sum = _mm512_add_ps(unsafe { _mm512_loadu_ps(sums.as_ptr()) }, *part);
            // SAFETY: as above.
            unsafe { _mm512_storeu_ps(sums.as_mut_ptr(), sum) };
        }
    }
}
