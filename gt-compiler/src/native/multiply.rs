//! One matrix product on raw memory, with bits that depend on the elements alone.
//!
//! The `gemm` crate chooses among several ways to add by the strides of the operands and by how
//! many rows it is given: dot products for small results, others for vectors, sums in pieces for
//! long rows. So that a product has the same bits however its operands lie and however its rows are
//! cut, long rows are cut here, and where it would take a special way it is given contiguous copies
//! that leave it only the usual one. It also gets a copy of a right side whose columns lie so far
//! apart that bringing them into its own form would run into a cache's few ways. Products with a
//! vector or with few columns are computed here (`direct`), with the crate's bits.
#![expect(unsafe_code, reason = "hands raw matrices to the gemm crate")]

mod direct;
#[cfg(target_arch = "x86_64")]
mod pairs;

use bytemuck::Pod;
use direct::Source;
use half::bf16;

/// Products of a row summed before they are added to the result: not more than the crate sums by
/// itself for any size.
const DEPTH: usize = 512;
/// Elements of a result the crate may compute by dot products.
const SMALL: usize = 256;
/// Bytes between columns that, or a multiple of which, put the same row of all of them into one or
/// two sets of a cache.
const CLASH: usize = 2048;
/// Columns turned at a time, so that the copy stays in a cache; at most twice as many.
const STRIP: usize = 512;
/// Rows and columns turned at a time: a cache line of each column.
const BLOCK: usize = 16;

/// A matrix in memory: its first element, and strides in elements from row to row and from column
/// to column.
pub(super) struct Strided<T> {
    pub(super) at: *const T,
    pub(super) row: isize,
    pub(super) column: isize,
}

impl<T> Strided<T> {
    fn element(&self, row: usize, column: usize) -> *const T {
        self.at.wrapping_offset(row as isize * self.row + column as isize * self.column)
    }

    fn after_columns(&self, column: usize) -> Strided<T> {
        Strided { at: self.element(0, column), ..*self }
    }

    fn after_rows(&self, row: usize) -> Strided<T> {
        Strided { at: self.element(row, 0), ..*self }
    }

    /// Whether the columns of a right side that lies column after column get into each other's way
    /// in a cache.
    fn clashes(&self) -> bool {
        let apart = self.column.unsigned_abs() * size_of::<T>();
        self.row == 1 && apart > 0 && apart.is_multiple_of(CLASH)
    }
}

/// The arithmetic of the dtype of a result.
pub(super) trait Float: Pod {
    const ONE: Self;
    fn plus(self, other: Self) -> Self;
    /// `self * by + to`, rounded once.
    fn times_plus(self, by: Self, to: Self) -> Self;
}

macro_rules! floats {
    ($($float:ident),*) => { $(
        impl Float for $float {
            const ONE: $float = 1.0;
            #[inline(always)]
            fn plus(self, other: $float) -> $float {
                self + other
            }
            #[inline(always)]
            fn times_plus(self, by: $float, to: $float) -> $float {
                self.mul_add(by, to)
            }
        }
    )* };
}

floats!(f32, f64);

/// `out = lhs * rhs`, the result's elements of a row lying side by side.
///
/// # Safety
/// The operands are valid for reading `m * k` and `k * n` elements, the result for writing `m * n`
/// that nobody else touches.
pub(super) unsafe fn multiply<T: Float>(
    size: [usize; 3],
    lhs: &Strided<T>,
    rhs: &Strided<T>,
    out: *mut T,
    out_row: isize,
) {
    let other = |size: [usize; 3], a: &Strided<T>, b: &Strided<T>, add| {
        let [m, n, _] = size;
        let dots = a.column == 1 && b.row == 1 && m * n <= SMALL;
        if dots || m == 1 || n == 1 {
            // SAFETY: as the caller promises, of these columns and rows.
            unsafe { by_copies(size, a, b, out, out_row, add) };
        } else {
            // SAFETY: as the caller promises, of these columns and rows.
            unsafe { matrices(size, a, b, out, out_row, add) };
        }
    };
    // SAFETY: as the caller promises.
    unsafe { in_parts(size, lhs, rhs, out, out_row, other) };
}

/// One part of the depth after the other: what is computed here, and what `other` has to do. A part
/// after the first is added.
///
/// # Safety
/// As of [`multiply`].
unsafe fn in_parts<S: Source<T>, T: Float>(
    [m, n, k]: [usize; 3],
    lhs: &Strided<S>,
    rhs: &Strided<S>,
    out: *mut T,
    out_row: isize,
    other: impl Fn([usize; 3], &Strided<S>, &Strided<S>, bool),
) {
    for depth in (0..k).step_by(DEPTH) {
        let size = [m, n, DEPTH.min(k - depth)];
        let (a, b) = (lhs.after_columns(depth), rhs.after_rows(depth));
        if direct::takes(size, &b) {
            // SAFETY: as the caller promises, of these columns and rows.
            unsafe { direct::product(size, &a, &b, out, out_row, depth > 0) };
        } else {
            other(size, &a, &b, depth > 0);
        }
    }
}

/// Strides of a matrix that lies row after row, column after column, or with gaps in its rows.
#[cfg(test)]
fn any_strides([rows, columns]: [usize; 2], source: &mut gt_ir::testing::Source<'_>) -> [usize; 2] {
    let apart = source.below(3);
    match source.below(3) {
        0 => [columns + apart, 1],
        1 => [1, rows + apart],
        _ => [2 * columns + apart, 2],
    }
}

/// One product of operands of `S` into a result of `T`.
pub(super) type Multiply<S, T> = unsafe fn([usize; 3], &Strided<S>, &Strided<S>, *mut T, isize);

/// As [`multiply`], of `bf16` by the processor's own instruction, if it has one.
pub(super) fn by_pairs() -> Option<Multiply<bf16, bf16>> {
    #[cfg(target_arch = "x86_64")]
    if pairs::is_here() {
        return Some(pairs::multiply);
    }
    None
}

/// As [`multiply`], of a matrix and a vector of `bf16`, which are read as they lie. It has the bits
/// of [`multiply`] on operands that are widened first.
///
/// # Safety
/// As of [`multiply`].
pub(super) unsafe fn multiply_vector(
    size: [usize; 3],
    lhs: &Strided<bf16>,
    rhs: &Strided<bf16>,
    out: *mut f32,
    out_row: isize,
) {
    let other = |[m, n, k]: [usize; 3], a: &Strided<bf16>, b: &Strided<bf16>, add| {
        // SAFETY: as the caller promises, of these columns.
        let left = unsafe { widened(a, [m, k]) };
        // SAFETY: as the caller promises, of these rows.
        let right = unsafe { widened(b, [k, n]) };
        let dense =
            |of: &[f32], row: usize| Strided { at: of.as_ptr(), row: row as isize, column: 1 };
        // SAFETY: the copies have these columns and rows.
        unsafe { by_copies([m, n, k], &dense(&left, k), &dense(&right, n), out, out_row, add) };
    };
    // SAFETY: as the caller promises.
    unsafe { in_parts(size, lhs, rhs, out, out_row, other) };
}

/// A copy of a matrix, row after row.
///
/// # Safety
/// It is valid for reading that many rows and columns.
unsafe fn widened(of: &Strided<bf16>, [rows, columns]: [usize; 2]) -> Vec<f32> {
    let places = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
    // SAFETY: the matrix has this element.
    places.map(|(i, j)| unsafe { of.element(i, j).read_unaligned() }.to_f32()).collect()
}

/// By way of copies that are at least two rows and two columns, the left one column after column.
///
/// # Safety
/// As of [`multiply`].
unsafe fn by_copies<T: Float>(
    [m, n, k]: [usize; 3],
    lhs: &Strided<T>,
    rhs: &Strided<T>,
    out: *mut T,
    out_row: isize,
    add: bool,
) {
    let (rows, columns) = (m.max(2), n.max(2));
    let mut left = vec![T::zeroed(); k * rows];
    let turned = Strided { at: lhs.at, row: lhs.column, column: lhs.row };
    let by_blocks = m == rows && turned.row == 1;
    if by_blocks {
        // SAFETY: as the caller promises, of the transposed matrix.
        unsafe { turn(&turned, [k, m], &mut left) };
    }
    for (p, column) in left.chunks_exact_mut(rows).enumerate().filter(|_| !by_blocks) {
        for (i, to) in column[..m].iter_mut().enumerate() {
            // SAFETY: row `i` and column `p` exist.
            *to = unsafe { lhs.element(i, p).read_unaligned() };
        }
    }
    let mut right = vec![T::zeroed(); if n == 1 { k * columns } else { 0 }];
    for (p, row) in right.chunks_exact_mut(columns).enumerate() {
        // SAFETY: row `p` and column 0 exist.
        row[0] = unsafe { rhs.element(p, 0).read_unaligned() };
    }
    let left = Strided { at: left.as_ptr(), row: 1, column: rows as isize };
    let right_copy = Strided { at: right.as_ptr(), row: columns as isize, column: 1 };
    let right = if n == 1 { &right_copy } else { rhs };
    if m > 1 && n > 1 {
        // SAFETY: as the caller promises; the copy has all rows.
        return unsafe { matrices([m, n, k], &left, right, out, out_row, add) };
    }
    let mut result = vec![T::zeroed(); rows * columns];
    let place = |i: usize, j: usize| out.wrapping_offset(i as isize * out_row + j as isize);
    for i in (0..m).filter(|_| add) {
        for j in 0..n {
            // SAFETY: the result has this element.
            result[i * columns + j] = unsafe { place(i, j).read_unaligned() };
        }
    }
    let own = result.as_mut_ptr();
    // SAFETY: the copies have these rows and columns; what was added to them is zero.
    unsafe { matrices([rows, columns, k], &left, right, own, columns as isize, add) };
    for i in 0..m {
        for j in 0..n {
            // SAFETY: the result has this element.
            unsafe { place(i, j).write_unaligned(result[i * columns + j]) };
        }
    }
}

/// At least two rows and two columns, in the way that is fastest for how the right side lies.
///
/// # Safety
/// As of [`multiply`].
unsafe fn matrices<T: Float>(
    size: [usize; 3],
    lhs: &Strided<T>,
    rhs: &Strided<T>,
    out: *mut T,
    out_row: isize,
    add: bool,
) {
    if rhs.clashes() {
        // SAFETY: as the caller promises.
        unsafe { by_turned_strips(size, lhs, rhs, out, out_row, add) };
    } else {
        // SAFETY: as the caller promises.
        unsafe { usual(size, lhs, rhs, out, out_row, add) };
    }
}

/// With the right side copied row after row, some columns at a time; never one alone, which the
/// crate would add up in a special way.
///
/// # Safety
/// As of [`multiply`].
unsafe fn by_turned_strips<T: Float>(
    [m, n, k]: [usize; 3],
    lhs: &Strided<T>,
    rhs: &Strided<T>,
    out: *mut T,
    out_row: isize,
    add: bool,
) {
    let mut turned = vec![T::zeroed(); k * n.min(2 * STRIP)];
    let mut first = 0;
    while first < n {
        let width = if n - first < 2 * STRIP { n - first } else { STRIP };
        // SAFETY: as the caller promises, of these columns.
        unsafe { turn(&rhs.after_columns(first), [k, width], &mut turned) };
        let right = Strided { at: turned.as_ptr(), row: width as isize, column: 1 };
        // SAFETY: as the caller promises; the copy has these rows and columns.
        unsafe { usual([m, width, k], lhs, &right, out.wrapping_add(first), out_row, add) };
        first += width;
    }
}

/// Copies a matrix whose columns lie one after the other, so that its rows do.
///
/// # Safety
/// It is valid for reading that many rows and columns.
unsafe fn turn<T: Float>(from: &Strided<T>, [rows, columns]: [usize; 2], to: &mut [T]) {
    for column in (0..columns).step_by(BLOCK) {
        for row in (0..rows).step_by(BLOCK) {
            if row + BLOCK <= rows && column + BLOCK <= columns {
                // SAFETY: the matrix has this block.
                unsafe { turn_block(from, [row, column], columns, to) };
                continue;
            }
            for c in column..(column + BLOCK).min(columns) {
                for r in row..(row + BLOCK).min(rows) {
                    // SAFETY: the matrix has this element.
                    to[r * columns + c] = unsafe { from.element(r, c).read_unaligned() };
                }
            }
        }
    }
}

/// Copies a block whose size the compiler knows, which it does by whole vectors.
///
/// # Safety
/// It is valid for reading [`BLOCK`] rows and columns from there.
unsafe fn turn_block<T: Float>(
    from: &Strided<T>,
    [row, column]: [usize; 2],
    columns: usize,
    to: &mut [T],
) {
    let block: [[T; BLOCK]; BLOCK] = std::array::from_fn(|c| {
        // SAFETY: the elements of a column lie side by side, and the matrix has these.
        unsafe { from.element(row, column + c).cast::<[T; BLOCK]>().read_unaligned() }
    });
    for r in 0..BLOCK {
        let line: [T; BLOCK] = std::array::from_fn(|c| block[c][r]);
        to[(row + r) * columns + column..][..BLOCK].copy_from_slice(&line);
    }
}

/// # Safety
/// As of [`multiply`].
unsafe fn usual<T: Float>(
    [m, n, k]: [usize; 3],
    lhs: &Strided<T>,
    rhs: &Strided<T>,
    out: *mut T,
    out_row: isize,
    add: bool,
) {
    // SAFETY: as the caller promises.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out,
            1,
            out_row,
            add,
            lhs.at,
            lhs.column,
            lhs.row,
            rhs.at,
            rhs.column,
            rhs.row,
            if add { T::ONE } else { T::zeroed() },
            T::ONE,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
