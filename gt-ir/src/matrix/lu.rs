//! Elimination: LU with partial pivoting, Cholesky's factor, triangular systems, and what follows
//! from them: solutions and determinants.

use super::rows::{add_rows, add_scaled, dot};
use crate::attr::Triangle;

/// Columns that are eliminated before the columns behind them.
const BLOCK: usize = 8;

/// A matrix as the product of a unit lower and an upper triangular one, both in `lu`, with its rows
/// in another order.
pub(super) struct Lu {
    n: usize,
    lu: Vec<f64>,
    /// The row of the matrix that stands in each row.
    order: Vec<usize>,
    /// -1 after an odd number of exchanges.
    sign: f64,
    is_singular: bool,
}

impl Lu {
    pub(super) fn new(n: usize, a: &[f64]) -> Lu {
        let (lu, order) = (a.to_vec(), (0..n).collect());
        let mut this = Lu { n, lu, order, sign: 1.0, is_singular: false };
        for first in (0..n).step_by(BLOCK) {
            let end = n.min(first + BLOCK);
            (first..end).for_each(|k| this.eliminate(k, end));
            this.follow(first, end);
        }
        this
    }

    /// Brings the largest element of a column to the diagonal, and makes zeros below it. Columns
    /// from `end` on are left as they are.
    fn eliminate(&mut self, k: usize, end: usize) {
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
            self.sign = -self.sign;
        }
        let (upper, lower) = self.lu.split_at_mut((k + 1) * n);
        let first = &upper[k * n..];
        if first[k] == 0.0 {
            self.is_singular = true;
            return;
        }
        for row in lower.chunks_exact_mut(n) {
            let factor = row[k] / first[k];
            row[k] = factor;
            add_scaled(&mut row[k + 1..end], -factor, &first[k + 1..end]);
        }
    }

    /// Does to the columns from `end` on what elimination did to the columns before: the same
    /// additions to each element in the same order, but for all rows at once.
    fn follow(&mut self, first: usize, end: usize) {
        let n = self.n;
        for i in first + 1..n {
            let (upper, lower) = self.lu.split_at_mut(i * n);
            let (own, rest) = lower[..n].split_at_mut(end);
            let known = first..i.min(end);
            let mut factors = [0.0; BLOCK];
            let factors = &mut factors[..known.len()];
            factors.iter_mut().zip(&own[known]).for_each(|(to, factor)| *to = -factor);
            add_rows(rest, factors, &upper[first * n + end..], n);
        }
    }

    /// The solution for a right side with `width` columns; NaN if the matrix is singular.
    pub(super) fn solve(&self, width: usize, b: &[f64], x: &mut [f64]) {
        if self.is_singular {
            return x.fill(f64::NAN);
        }
        for (i, row) in self.order.iter().enumerate() {
            x[i * width..(i + 1) * width].copy_from_slice(&b[row * width..(row + 1) * width]);
        }
        substitute(self.n, width, Triangle { upper: false, unit: true }, &self.lu, x);
        substitute(self.n, width, Triangle { upper: true, unit: false }, &self.lu, x);
    }
}

/// Solves a triangular system in place: the right side becomes the solution.
fn substitute(n: usize, width: usize, triangle: Triangle, a: &[f64], x: &mut [f64]) {
    if width == 0 {
        return;
    }
    let mut factors = Vec::with_capacity(n);
    for step in 0..n {
        let i = if triangle.upper { n - 1 - step } else { step };
        let (before, rest) = x.split_at_mut(i * width);
        let (own, after) = rest.split_at_mut(width);
        let row = &a[i * n..(i + 1) * n];
        let known = if triangle.upper { (&row[i + 1..], &*after) } else { (&row[..i], &*before) };
        factors.clear();
        factors.extend(known.0.iter().map(|factor| -factor));
        add_rows(own, &factors, known.1, width);
        if !triangle.unit {
            own.iter_mut().for_each(|x| *x /= row[i]);
        }
    }
}

/// As `solve_triangular`: the other triangle is not read.
pub(super) fn triangular(
    n: usize,
    width: usize,
    triangle: Triangle,
    a: &[f64],
    b: &[f64],
    out: &mut [f64],
) {
    out.copy_from_slice(b);
    substitute(n, width, triangle, a, out);
}

pub(super) fn solve(n: usize, width: usize, a: &[f64], b: &[f64], out: &mut [f64]) {
    Lu::new(n, a).solve(width, b, out);
}

/// The determinant, its sign, and the logarithm of its absolute value.
pub(super) fn determinant(n: usize, a: &[f64], out: &mut [f64]) {
    let lu = Lu::new(n, a);
    let diagonal = || lu.lu.iter().step_by(n + 1);
    let det = diagonal().product::<f64>() * lu.sign;
    let sign = diagonal().fold(lu.sign, |sign, x| match x {
        x if *x > 0.0 => sign,
        x if *x < 0.0 => -sign,
        x => x.abs() * sign.abs(),
    });
    let log = diagonal().fold(0.0, |sum, x| sum + libm::log(x.abs()));
    out.copy_from_slice(&[det, sign, log]);
}

/// The lower triangular L with `a = L L^T`; the upper triangle of `a` is not read.
pub(super) fn cholesky(n: usize, a: &[f64], out: &mut [f64]) {
    out.fill(0.0);
    for i in 0..n {
        let (before, rest) = out.split_at_mut(i * n);
        let own = &mut rest[..n];
        for j in 0..i {
            let row = &before[j * n..(j + 1) * n];
            own[j] = (a[i * n + j] - dot(&own[..j], &row[..j])) / row[j];
        }
        let square = a[i * n + i] - dot(&own[..i], &own[..i]);
        own[i] = square.sqrt();
        if square.is_nan() || square <= 0.0 {
            return out.fill(f64::NAN);
        }
    }
}
