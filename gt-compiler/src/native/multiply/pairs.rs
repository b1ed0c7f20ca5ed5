//! Products of `bf16` by the processor's own instruction, `vdpbf16ps` of AVX-512.
//!
//! The instruction adds two products to a sum of `f32`, first the one of the upper halves of its
//! operands, and rounds after each. Operands are packed so that the earlier of two terms is in the
//! upper half. The sums therefore have the bits of fused multiply-adds of widened operands, one
//! after the other along the depth, for any cut of the rows, columns and depth. The sum is rounded
//! to `bf16` once at the end.
//!
//! The instruction takes numbers below 2^-126 for zeros. Such an operand is found while operands
//! are read, and the product is then left to others. Sums of that size become zero.
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
        _mm512_cvtneps_pbh, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_set1_epi32,
        _mm512_setzero_ps, _mm512_setzero_si512, _mm512_storeu_ps,
    },
    cell::RefCell,
    mem::transmute,
};

use half::bf16;
use lines::{Lines, Pair, Tiny, add};

use super::Strided;

/// Sums in a vector.
const LANES: usize = 16;
/// Terms of a sum in a block.
const DEPTH: usize = 1024;
/// Rows and columns of a block.
const ROWS: usize = 192;
const COLUMNS: usize = 256;
/// Columns that are worth vectors along them, where there are more rows.
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

/// `out = lhs * rhs`, where [`is_here`]. If the answer is `false`, the operands have numbers that
/// the instruction does not know, and the result is undefined.
///
/// # Safety
/// As of [`multiply`](super::multiply).
pub(super) unsafe fn multiply(
    [m, n, k]: [usize; 3],
    lhs: &Strided<bf16>,
    rhs: &Strided<bf16>,
    out: *mut bf16,
    out_row: isize,
) -> bool {
    let lhs = Lines { at: lhs.at, apart: lhs.row, step: lhs.column, n: m };
    let rhs = Lines { at: rhs.at, apart: rhs.column, step: rhs.row, n };
    let is_narrow = n < FEW && n < m;
    let (lhs, rhs, strides) =
        if is_narrow { (rhs, lhs, [1, out_row]) } else { (lhs, rhs, [out_row, 1]) };
    let product = Product { lhs, rhs, depth: k, out, strides };
    SCRATCH.with_borrow_mut(|scratch| {
        // SAFETY: as the caller promises, and the processor has the instruction.
        unsafe { product.run(scratch) }.is_ok()
    })
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
    unsafe fn run(&self, scratch: &mut Scratch) -> Result<(), Tiny> {
        if self.lhs.n >= LITTLE {
            for column in (0..self.rhs.n).step_by(COLUMNS) {
                for row in (0..self.lhs.n).step_by(ROWS) {
                    // SAFETY: as the caller promises.
                    unsafe {
                        match self.rhs.n {
                            ..=LANES => self.block::<16, 1, LANES>([row, column], scratch),
                            _ => self.block::<8, 2, 32>([row, column], scratch),
                        }
                    }?;
                }
            }
            return Ok(());
        }
        let as_they_lie = if self.rhs.apart == 1 { self.rhs.n / LANES * LANES } else { 0 };
        // SAFETY: as the caller promises.
        unsafe { self.lines(as_they_lie, scratch) }?;
        for column in (as_they_lie..self.rhs.n).step_by(COLUMNS) {
            // SAFETY: as the caller promises.
            unsafe { self.block::<1, 4, 64>([0, column], scratch) }?;
        }
        Ok(())
    }

    /// The first columns of a result of [`LITTLE`] rows. Lines of the right side lie side by side:
    /// they are used once for each row, so that packing them would cost more.
    ///
    /// # Safety
    /// As of [`run`](Product::run). The columns are whole vectors.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn lines(&self, columns: usize, scratch: &mut Scratch) -> Result<(), Tiny> {
        let pairs = self.depth.div_ceil(2);
        // SAFETY: as the caller promises.
        unsafe { self.lhs.pack::<1>(self.depth, &mut scratch.lhs) }?;
        for column in (0..columns).step_by(WIDE) {
            let width = WIDE.min(columns - column);
            let rhs = self.rhs.part(column, width, 0);
            scratch.sums.clear();
            scratch.sums.resize(self.lhs.n * width, 0.0);
            let rows = || scratch.lhs.chunks_exact(pairs).zip(0..);
            let mut tiny = false;
            let whole = self.depth / (2 * TOGETHER) * TOGETHER;
            for p in (0..whole).step_by(TOGETHER) {
                for (x, row) in rows() {
                    let sums = &mut scratch.sums[row * width..][..width];
                    // SAFETY: as the caller promises.
                    tiny |= unsafe { rhs.add_to::<TOGETHER>(x, p, self.depth, sums) };
                }
            }
            for p in whole..pairs {
                for (x, row) in rows() {
                    let sums = &mut scratch.sums[row * width..][..width];
                    // SAFETY: as the caller promises.
                    tiny |= unsafe { rhs.add_to::<1>(x, p, self.depth, sums) };
                }
            }
            if tiny {
                return Err(Tiny);
            }
            for (row, sums) in scratch.sums.chunks_exact(width).enumerate() {
                // SAFETY: the result has this row and these columns.
                unsafe { self.put(row, column, sums.as_chunks().0, width) };
            }
        }
        Ok(())
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
        scratch: &mut Scratch,
    ) -> Result<(), Tiny> {
        const { assert!(W == V * LANES) };
        let (rows, columns) = (ROWS.min(self.lhs.n - row), COLUMNS.min(self.rhs.n - column));
        let width = columns.next_multiple_of(W);
        scratch.sums.clear();
        scratch.sums.resize(rows.next_multiple_of(R) * width, 0.0);
        for term in (0..self.depth).step_by(DEPTH) {
            let depth = DEPTH.min(self.depth - term);
            // SAFETY: as the caller promises.
            unsafe {
                self.lhs.part(row, ROWS, term).pack::<R>(depth, &mut scratch.lhs)?;
                self.rhs.part(column, COLUMNS, term).pack::<W>(depth, &mut scratch.rhs)?;
            }
            let pairs = depth.div_ceil(2);
            for (j, rhs) in scratch.rhs.chunks_exact(pairs * W).enumerate() {
                for (i, lhs) in scratch.lhs.chunks_exact(pairs * R).enumerate() {
                    let sums = &mut scratch.sums[i * R * width + j * W..];
                    add_tile::<R, V, W>(lhs, rhs, sums, width);
                }
            }
        }
        for (i, sums) in scratch.sums.chunks_exact(width).take(rows).enumerate() {
            // SAFETY: the result has this row and these columns.
            unsafe { self.put(row + i, column, sums.as_chunks().0, columns) };
        }
        Ok(())
    }

    /// # Safety
    /// The result has a row with so many columns from there on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn put(&self, row: usize, column: usize, sums: &[[f32; LANES]], columns: usize) {
        let [apart, step] = self.strides;
        let at = self.out.wrapping_offset(row as isize * apart + column as isize * step);
        for (j, sums) in (0..columns).step_by(LANES).zip(sums) {
            // SAFETY: the vector is read from an array of its size, and `__m256bh` is any 16
            // numbers of `bf16`.
            let rounded: [bf16; LANES] =
                unsafe { transmute(_mm512_cvtneps_pbh(_mm512_loadu_ps(sums.as_ptr()))) };
            let at = at.wrapping_offset(j as isize * step);
            for (i, x) in rounded[..LANES.min(columns - j)].iter().enumerate() {
                // SAFETY: the result has this place, and nobody else touches it.
                unsafe { at.wrapping_offset(i as isize * step).write_unaligned(*x) };
            }
        }
    }
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
    let at = |row: usize, vector: usize| row * width + vector * LANES;
    let mut tile = [[_mm512_setzero_ps(); V]; R];
    for (r, row) in tile.iter_mut().enumerate() {
        for (v, vector) in row.iter_mut().enumerate() {
            // SAFETY: the tile ends within the sums.
            *vector = unsafe { _mm512_loadu_ps(sums.as_ptr().add(at(r, v))) };
        }
    }
    for (x, line) in lhs.as_chunks::<R>().0.iter().zip(rhs.as_chunks::<W>().0) {
        let mut y = [_mm512_setzero_si512(); V];
        for (v, y) in y.iter_mut().enumerate() {
            // SAFETY: the panel has these pairs.
            *y = unsafe { _mm512_loadu_si512(line.as_ptr().add(v * LANES).cast()) };
        }
        for (row, x) in tile.iter_mut().zip(x) {
            let x = _mm512_set1_epi32(x.cast_signed());
            for (sum, y) in row.iter_mut().zip(y) {
                *sum = add(*sum, x, y);
            }
        }
    }
    for (r, row) in tile.iter().enumerate() {
        for (v, vector) in row.iter().enumerate() {
            // SAFETY: the tile ends within the sums.
            unsafe { _mm512_storeu_ps(sums.as_mut_ptr().add(at(r, v)), *vector) };
        }
    }
}
