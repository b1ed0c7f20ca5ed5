//! Elimination: Cholesky's factor, triangular systems, LU with partial pivoting, and what follows
//! from them: solutions and determinants.

use faer::{
    MatMut, MatRef, Par, Side,
    linalg::{solvers::PartialPivLu, triangular_solve},
    prelude::Solve as _,
};

use super::{fill, number::Real, small};
use crate::attr::Triangle;

/// The lower triangular L with `a = L L^T`; the upper triangle of `a` is not read. NaN if `a` is
/// not positive definite.
pub(super) fn cholesky<T: Real>(n: usize, a: &[T], out: &mut [T]) {
    if n <= small::ROWS {
        return small::cholesky(n, a, out);
    }
    let llt = MatRef::from_row_major_slice(a, n, n).llt(Side::Lower);
    let is_definite = |l: &MatRef<'_, T>| (0..n).all(|i| l[(i, i)].widen() > 0.0);
    match llt.as_ref().map(|llt| llt.L()) {
        Ok(l) if is_definite(&l) => {
            let rows = out.chunks_exact_mut(n).enumerate();
            rows.for_each(|(i, row)| fill(row, |j| if j <= i { l[(i, j)] } else { T::zero() }));
        }
        _ => out.fill(T::NAN),
    }
}

/// As `solve_triangular`: the other triangle is not read.
pub(super) fn triangular<T: Real>(
    n: usize,
    width: usize,
    triangle: Triangle,
    a: &[T],
    b: &[T],
    out: &mut [T],
) {
    out.copy_from_slice(b);
    if n <= small::ROWS {
        return small::substitute(width, triangle, a, out);
    }
    let (a, x) = (MatRef::from_row_major_slice(a, n, n), columns(n, width, out));
    match (triangle.upper, triangle.unit) {
        (false, false) => triangular_solve::solve_lower_triangular_in_place(a, x, Par::Seq),
        (false, true) => triangular_solve::solve_unit_lower_triangular_in_place(a, x, Par::Seq),
        (true, false) => triangular_solve::solve_upper_triangular_in_place(a, x, Par::Seq),
        (true, true) => triangular_solve::solve_unit_upper_triangular_in_place(a, x, Par::Seq),
    }
}

/// The solution of a square system; NaN if the matrix is singular.
pub(super) fn solve<T: Real>(n: usize, width: usize, a: &[T], b: &[T], out: &mut [T]) {
    let lu = Lu::new(n, a);
    if lu.pivots().any(|pivot| pivot == 0.0) {
        return out.fill(T::NAN);
    }
    match &lu {
        Lu::Small(lu) => lu.solve(width, b, out),
        Lu::Large(lu) => {
            out.copy_from_slice(b);
            lu.solve_in_place(columns(n, width, out));
        }
    }
}

/// The determinant, its sign, and the logarithm of its absolute value.
pub(super) fn determinant<T: Real>(n: usize, a: &[T], out: &mut [T]) {
    let lu = Lu::new(n, a);
    let exchanged = sign(lu.order());
    if lu.pivots().any(|pivot| pivot == 0.0) && a.iter().all(|x| x.widen().is_finite()) {
        // Behind a pivot of 0 `faer` has no numbers. The small factors have, and so the 0 a sign.
        let zero = match &lu {
            Lu::Small(_) => lu.pivots().fold(exchanged, |sign, x| sign * 1.0_f64.copysign(x)),
            Lu::Large(_) => 1.0,
        };
        let zero = 0.0_f64.copysign(zero);
        return out.copy_from_slice(&[zero, 0.0, f64::NEG_INFINITY].map(T::narrow));
    }
    let det = lu.pivots().product::<f64>() * exchanged;
    let sign = lu.pivots().fold(exchanged, |sign, x| match x {
        x if x > 0.0 => sign,
        x if x < 0.0 => -sign,
        x => x.abs() * sign.abs(),
    });
    let log = lu.pivots().fold(0.0, |sum, x| sum + libm::log(x.abs()));
    out.copy_from_slice(&[det, sign, log].map(T::narrow));
}

/// A matrix with its rows in another order, as the product of a unit lower and an upper triangular
/// one.
enum Lu<T: Real> {
    Small(small::Lu<T>),
    Large(PartialPivLu<T>),
}

impl<T: Real> Lu<T> {
    fn new(n: usize, a: &[T]) -> Lu<T> {
        match n <= small::ROWS {
            true => Lu::Small(small::Lu::new(n, a)),
            false => Lu::Large(MatRef::from_row_major_slice(a, n, n).partial_piv_lu()),
        }
    }

    /// The row of the matrix that stands in each row.
    fn order(&self) -> &[usize] {
        match self {
            Lu::Small(lu) => lu.order(),
            Lu::Large(lu) => lu.P().arrays().0,
        }
    }

    /// The diagonal of the upper triangular factor.
    fn pivots(&self) -> impl Iterator<Item = f64> {
        (0..self.order().len()).map(|i| match self {
            Lu::Small(lu) => lu.pivot(i),
            Lu::Large(lu) => lu.U()[(i, i)].widen(),
        })
    }
}

/// 1 for a permutation of an even number of exchanges, -1 for the others: each cycle takes one less
/// than it has elements.
fn sign(order: &[usize]) -> f64 {
    let mut seen = vec![false; order.len()];
    let mut sign = 1.0;
    for first in 0..order.len() {
        let mut at = first;
        while !std::mem::replace(&mut seen[at], true) {
            at = order[at];
            sign = if at == first { sign } else { -sign };
        }
    }
    sign
}

/// Rows of `width` numbers as a matrix.
fn columns<T>(n: usize, width: usize, x: &mut [T]) -> MatMut<'_, T> {
    MatMut::from_row_major_slice_mut(x, n, width)
}
