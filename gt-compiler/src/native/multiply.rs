//! One matrix product on raw memory, with bits that depend on the elements alone.
//!
//! The `gemm` crate chooses among several ways to add by the strides of the operands and by how many rows it is given: dot products for small
//! results, others for vectors, sums in pieces for long rows. So that a product has the same bits however its operands lie and however its
//! rows are cut, long rows are cut here, and where it would take a special way it is given contiguous copies that leave it only the usual one.
#![expect(unsafe_code, reason = "hands raw matrices to the gemm crate")]

use bytemuck::Pod;

/// Products of a row summed before they are added to the result: not more than the crate sums by itself for any size.
const DEPTH: usize = 512;
/// Elements of a result the crate may compute by dot products.
const SMALL: usize = 256;

/// A matrix in memory: its first element, and strides in elements from row to row and from column to column.
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
}

/// What a result's dtype needs of arithmetic here.
pub(super) trait Float: Pod {
    const ONE: Self;
}

impl Float for f32 {
    const ONE: f32 = 1.0;
}

impl Float for f64 {
    const ONE: f64 = 1.0;
}

/// `out = lhs * rhs`, the result's elements of a row lying side by side.
///
/// # Safety
/// The operands are valid for reading `m * k` and `k * n` elements, the result for writing `m * n` that nobody else touches.
pub(super) unsafe fn multiply<T: Float>(
    [m, n, k]: [usize; 3],
    lhs: &Strided<T>,
    rhs: &Strided<T>,
    out: *mut T,
    out_row: isize,
) {
    for depth in (0..k).step_by(DEPTH) {
        let size = [m, n, DEPTH.min(k - depth)];
        let (a, b) = (lhs.after_columns(depth), rhs.after_rows(depth));
        let dots = a.column == 1 && b.row == 1 && m * n <= SMALL;
        if dots || m == 1 || n == 1 {
            // SAFETY: as the caller promises.
            unsafe { by_copies(size, &a, &b, out, out_row, depth > 0) };
        } else {
            // SAFETY: as the caller promises.
            unsafe { usual(size, &a, &b, out, out_row, depth > 0) };
        }
    }
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
    for (p, column) in left.chunks_exact_mut(rows).enumerate() {
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
        return unsafe { usual([m, n, k], &left, right, out, out_row, add) };
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
    unsafe { usual([rows, columns, k], &left, right, own, columns as isize, add) };
    for i in 0..m {
        for j in 0..n {
            // SAFETY: the result has this element.
            unsafe { place(i, j).write_unaligned(result[i * columns + j]) };
        }
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
