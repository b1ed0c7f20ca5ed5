//! Matrix products of integers, which the `gemm` crate does not know.
//!
//! A panel of columns of the right side is copied side by side, and a few rows of the left side are
//! multiplied with it while their sums are in registers. A vector is multiplied with rows or
//! columns as they lie. Sums wrap around, so their order changes no bit. Code for this processor's
//! vectors is chosen at run time.
#![expect(unsafe_code, reason = "tasks write disjoint parts of one result")]

use bytemuck::Pod;
use pulp::{Arch, NullaryFnOnce};

use super::context::Target;
use crate::kernel::Range;

/// Columns of a panel, and rows whose sums with it are in registers.
const COLUMNS: usize = 32;
const ROWS: usize = 4;
/// Terms of a sum that are added at a time, so that a panel stays in a cache.
const DEPTH: usize = 1024;
/// Elements of a row that a vector is multiplied with at a time.
const STRIP: usize = 512;

/// The arithmetic of a dtype.
pub(super) trait Ring: Pod + Send + Sync {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

macro_rules! rings {
    ($($integer:ident),*) => { $(
        impl Ring for $integer {
            #[inline(always)]
            fn plus(self, other: $integer) -> $integer {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn times(self, other: $integer) -> $integer {
                self.wrapping_mul(other)
            }
        }
    )* };
}

rings!(i64, i32, u8);

/// A matrix among the elements of an operand: its first element, and strides in elements from row
/// to row and from column to column.
pub(super) struct Matrix<'a, T> {
    pub(super) elements: &'a [T],
    pub(super) first: i64,
    pub(super) row: i64,
    pub(super) column: i64,
}

impl<T: Copy> Matrix<'_, T> {
    #[inline(always)]
    fn place(&self, row: usize, column: usize) -> usize {
        (self.first + row as i64 * self.row + column as i64 * self.column) as usize
    }

    #[inline(always)]
    fn element(&self, row: usize, column: usize) -> T {
        self.elements[self.place(row, column)]
    }

    fn transposed(self) -> Self {
        Matrix { row: self.column, column: self.row, ..self }
    }
}

/// A result that several tasks write: the place of its first element, and the elements from one of
/// its rows to the next, and from column to column.
pub(super) struct Out {
    pub(super) at: Target,
    pub(super) strides: [usize; 2],
}

/// A product, or a part of it: `k` terms, added to these rows and columns of `out`.
pub(super) struct Product<'a, T> {
    pub(super) lhs: Matrix<'a, T>,
    pub(super) rhs: Matrix<'a, T>,
    pub(super) rows: Range,
    pub(super) columns: Range,
    pub(super) k: usize,
    pub(super) out: Out,
}

/// The work in code for the processor's vectors: all that it calls is compiled with it.
struct Work<'a, T>(Product<'a, T>);

impl<T: Ring> NullaryFnOnce for Work<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Work(product) = self;
        let is_vector = product.rows.end - product.rows.start == 1;
        if is_vector && product.rhs.column == 1 {
            return product.with_rows();
        }
        if is_vector && product.rhs.row == 1 {
            return product.with_columns();
        }
        // A loop, because the code of a closure may not be compiled with this function.
        for first in (0..product.k).step_by(DEPTH) {
            product.with_panels(first..(first + DEPTH).min(product.k));
        }
    }
}

impl<T: Ring> Product<'_, T> {
    /// Adds the products.
    ///
    /// # Safety
    /// The result is valid at these rows and columns, which nobody else touches.
    pub(super) unsafe fn add(self) {
        let (m, n) = (self.rows.end - self.rows.start, self.columns.end - self.columns.start);
        // What is high and narrow would leave most of a panel empty.
        Arch::new().dispatch(Work(if n < COLUMNS && n < m { self.transposed() } else { self }));
    }

    fn transposed(self) -> Self {
        Product {
            lhs: self.rhs.transposed(),
            rhs: self.lhs.transposed(),
            rows: self.columns,
            columns: self.rows,
            k: self.k,
            out: Out { at: self.out.at, strides: [self.out.strides[1], self.out.strides[0]] },
        }
    }

    #[inline(always)]
    fn with_panels(&self, depth: std::ops::Range<usize>) {
        let mut panel = vec![[T::zeroed(); COLUMNS]; depth.len()];
        for first in (self.columns.start..self.columns.end).step_by(COLUMNS) {
            let n = COLUMNS.min(self.columns.end - first);
            for (line, p) in panel.iter_mut().zip(depth.clone()) {
                let given = line[..n].iter_mut().enumerate();
                given.for_each(|(j, y)| *y = self.rhs.element(p, first + j));
            }
            for row in (self.rows.start..self.rows.end).step_by(ROWS) {
                let sums = self.sums(row, depth.start, &panel);
                for (i, sums) in (row..self.rows.end).zip(&sums) {
                    self.put(i, first, &sums[..n]);
                }
            }
        }
    }

    /// The sums of the terms from `first` on, of rows from `row` on with a panel.
    #[inline(always)]
    fn sums(&self, row: usize, first: usize, panel: &[[T; COLUMNS]]) -> [[T; COLUMNS]; ROWS] {
        let rows: [usize; ROWS] = std::array::from_fn(|i| (row + i).min(self.rows.end - 1));
        let mut sums = [[T::zeroed(); COLUMNS]; ROWS];
        for (line, p) in panel.iter().zip(first..) {
            for (sums, &row) in sums.iter_mut().zip(&rows) {
                let x = self.lhs.element(row, p);
                sums.iter_mut().zip(line).for_each(|(sum, y)| *sum = sum.plus(x.times(*y)));
            }
        }
        sums
    }

    /// A vector with rows of the right side, as they lie.
    #[inline(always)]
    fn with_rows(&self) {
        let row = self.rows.start;
        for first in (self.columns.start..self.columns.end).step_by(STRIP) {
            let mut sums = [T::zeroed(); STRIP];
            let sums = &mut sums[..STRIP.min(self.columns.end - first)];
            for p in 0..self.k {
                let (x, at) = (self.lhs.element(row, p), self.rhs.place(p, first));
                let line = &self.rhs.elements[at..][..sums.len()];
                sums.iter_mut().zip(line).for_each(|(sum, y)| *sum = sum.plus(x.times(*y)));
            }
            self.put(row, first, sums);
        }
    }

    /// A vector with columns of the right side, as they lie.
    #[inline(always)]
    fn with_columns(&self) {
        let row = self.rows.start;
        let vector: Vec<T> = (0..self.k).map(|p| self.lhs.element(row, p)).collect();
        for column in self.columns.start..self.columns.end {
            let line = &self.rhs.elements[self.rhs.place(0, column)..][..self.k];
            let terms = vector.iter().zip(line);
            let sum = terms.fold(T::zeroed(), |sum, (x, y)| sum.plus(x.times(*y)));
            self.put(row, column, &[sum]);
        }
    }

    /// Adds to neighboring elements of a row of the result.
    #[inline(always)]
    fn put(&self, row: usize, column: usize, sums: &[T]) {
        for (j, sum) in sums.iter().enumerate() {
            let at = row * self.out.strides[0] + (column + j) * self.out.strides[1];
            let to = self.out.at.address().cast::<T>().wrapping_add(at);
            // SAFETY: the element is at one of the rows and columns, which `add`'s caller gave to
            // this product alone.
            let to = unsafe { &mut *to };
            *to = to.plus(*sum);
        }
    }
}
