//! Elimination of matrices of a few rows, of which a batch has many: plain loops, since blocks and
//! memory of their own would take longer than the sums.

use std::cmp::Ordering;

use faer::traits::math_utils::sqrt;

use super::number::Real;
use crate::attr::Triangle;

/// The most rows that count as few: with more of them `faer` is faster.
pub(super) const ROWS: usize = 16;

/// A matrix as the product of a unit lower and an upper triangular one, both in `lu`, with its rows
/// in another order.
pub(super) struct Lu<T> {
    n: usize,
    lu: [T; ROWS * ROWS],
    /// The row of the matrix that stands in each row.
    order: [usize; ROWS],
}

impl<T: Real> Lu<T> {
    /// Of up to [`ROWS`] rows.
    pub(super) fn new(n: usize, a: &[T]) -> Lu<T> {
        let (mut lu, order) = ([T::zero(); ROWS * ROWS], std::array::from_fn(|i| i));
        lu[..n * n].copy_from_slice(a);
        let mut this = Lu { n, lu, order };
        (0..n).for_each(|k| this.eliminate(k));
        this
    }

    /// Brings the largest element of a column to the diagonal, and makes zeros below it.
    fn eliminate(&mut self, k: usize) {
        let n = self.n;
        let mut pivot = k;
        for i in k + 1..n {
            if self.lu[i * n + k].abs() > self.lu[pivot * n + k].abs() {
                pivot = i;
            }
        }
        if pivot != k {
            let (upper, lower) = self.lu.split_at_mut(pivot * n);
            upper[k * n..(k + 1) * n].swap_with_slice(&mut lower[..n]);
            self.order.swap(k, pivot);
        }
        let (upper, lower) = self.lu[..n * n].split_at_mut((k + 1) * n);
        let first = &upper[k * n..];
        if first[k].is_zero() {
            return;
        }
        for row in lower.chunks_exact_mut(n) {
            let factor = row[k] / first[k];
            row[k] = factor;
            subtract(&mut row[k + 1..], factor, &first[k + 1..]);
        }
    }

    /// The row of the matrix that stands in each row.
    pub(super) fn order(&self) -> &[usize] {
        &self.order[..self.n]
    }

    /// Element i of the diagonal of the upper factor.
    pub(super) fn pivot(&self, i: usize) -> f64 {
        self.lu[i * self.n + i].widen()
    }

    /// The solution for a right side with `width` columns, if no pivot is 0.
    pub(super) fn solve(&self, width: usize, b: &[T], x: &mut [T]) {
        let n = self.n;
        for (x, row) in x.chunks_exact_mut(width).zip(self.order) {
            x.copy_from_slice(&b[row * width..(row + 1) * width]);
        }
        substitute(width, Triangle { upper: false, unit: true }, &self.lu[..n * n], x);
        substitute(width, Triangle { upper: true, unit: false }, &self.lu[..n * n], x);
    }
}

/// Solves a triangular system in place: the right side, of `width` columns, becomes the solution.
pub(super) fn substitute<T: Real>(width: usize, triangle: Triangle, a: &[T], x: &mut [T]) {
    let n = x.len() / width;
    for step in 0..n {
        let i = if triangle.upper { n - 1 - step } else { step };
        let (before, rest) = x.split_at_mut(i * width);
        let (own, after) = rest.split_at_mut(width);
        let row = &a[i * n..(i + 1) * n];
        let known = if triangle.upper { (&row[i + 1..], &*after) } else { (&row[..i], &*before) };
        for (factor, known) in known.0.iter().zip(known.1.chunks_exact(width)) {
            subtract(own, *factor, known);
        }
        if !triangle.unit {
            own.iter_mut().for_each(|x| *x /= row[i]);
        }
    }
}

/// `y -= factor x`.
fn subtract<T: Real>(y: &mut [T], factor: T, x: &[T]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y -= factor * *x);
}

/// As [`super::elimination::cholesky`].
pub(super) fn cholesky<T: Real>(n: usize, a: &[T], out: &mut [T]) {
    out.fill(T::zero());
    for i in 0..n {
        let (before, rest) = out.split_at_mut(i * n);
        let own = &mut rest[..n];
        for (j, row) in before.chunks_exact(n).enumerate() {
            own[j] = (a[i * n + j] - dot(&own[..j], row)) / row[j];
        }
        let square = a[i * n + i] - dot(&own[..i], own);
        // NaN is not positive either.
        if square.partial_cmp(&T::zero()) != Some(Ordering::Greater) {
            return out.fill(T::NAN);
        }
        own[i] = sqrt(&square);
    }
}

/// The sum of the products of elements, of the shorter one.
fn dot<T: Real>(x: &[T], y: &[T]) -> T {
    x.iter().zip(y).fold(T::zero(), |sum, (x, y)| sum + *x * *y)
}
