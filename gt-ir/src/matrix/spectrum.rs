//! Eigenvalues and eigenvectors of symmetric matrices, and singular values and vectors of all, by
//! dividing bidiagonal and tridiagonal matrices in two (Gu and Eisenstat 1995).
//!
//! A matrix with NaN or an infinity has NaN everywhere. A vector may have either sign; it gets the
//! one that a small change of the matrix does not turn, so that functions of vectors are smooth.

use faer::{Mat, MatRef, Side};

use super::{fill, number::Real, scale::Scaled};
use crate::attr::Spectrum;

/// The eigenvalues in ascending order. The lower triangle alone is read.
pub(super) fn eigenvalues<T: Real>(n: usize, a: &[T], out: &mut [T]) {
    let Scaled { matrix, scale } = lower(n, a);
    let found = finite(&matrix).and_then(|a| a.self_adjoint_eigenvalues(Side::Lower).ok());
    put(found, scale, out);
}

/// Row i: eigenvalue i in ascending order, then its vector. The lower triangle alone is read.
pub(super) fn eigenvectors<T: Real>(n: usize, a: &[T], out: &mut [T]) {
    let Scaled { matrix, scale } = lower(n, a);
    let found = finite(&matrix).and_then(|a| a.self_adjoint_eigen(Side::Lower).ok());
    let Some(eigen) = found else { return out.fill(T::NAN) };
    let (values, vectors) = (eigen.S().column_vector(), eigen.U());
    for (i, row) in out.chunks_exact_mut(n + 1).enumerate() {
        row[0] = values[i] * scale;
        let sign = sign(vectors, i);
        fill(&mut row[1..], |k| vectors[(k, i)] * sign);
    }
}

/// As `svd` with this result.
pub(super) fn singular<T: Real>(m: usize, n: usize, wanted: Spectrum, a: &[T], out: &mut [T]) {
    match wanted {
        Spectrum::Values => singular_values(m, n, a, out),
        Spectrum::Reduced => singular_vectors(m, n, false, a, out),
        Spectrum::Full => singular_vectors(m, n, true, a, out),
    }
}

/// The singular values in descending order.
fn singular_values<T: Real>(m: usize, n: usize, a: &[T], out: &mut [T]) {
    let Scaled { matrix, scale } = Scaled::new(m, n, a);
    put(finite(&matrix).and_then(|a| a.singular_values().ok()), scale, out);
}

/// Row i: singular value i in descending order, its left vector, then its right vector. With
/// `is_full` there is a row for each vector of the larger side, and zeros where there is no value
/// or no vector.
fn singular_vectors<T: Real>(m: usize, n: usize, is_full: bool, a: &[T], out: &mut [T]) {
    let Scaled { matrix, scale } = Scaled::new(m, n, a);
    let decompose = |a: MatRef<'_, T>| if is_full { a.svd() } else { a.thin_svd() };
    let found = finite(&matrix).and_then(|a| decompose(a).ok());
    let Some(svd) = found else { return out.fill(T::NAN) };
    let (values, left, right) = (svd.S().column_vector(), svd.U(), svd.V());
    let column = |vectors: MatRef<'_, T>, i: usize, sign: T, out: &mut [T]| {
        let is_there = i < vectors.ncols();
        fill(out, |k| if is_there { vectors[(k, i)] * sign } else { T::zero() });
    };
    for (i, row) in out.chunks_exact_mut(1 + m + n).enumerate() {
        row[0] = if i < m.min(n) { values[i] * scale } else { T::zero() };
        // The signs of both vectors of a value belong together.
        let sign = sign(if i < left.ncols() { left } else { right }, i);
        column(left, i, sign, &mut row[1..=m]);
        column(right, i, sign, &mut row[m + 1..]);
    }
}

/// Writes values of a scaled matrix; NaN if none were found.
fn put<T: Real>(found: Option<Vec<T>>, scale: T, out: &mut [T]) {
    match found {
        Some(values) => out.iter_mut().zip(values).for_each(|(out, x)| *out = x * scale),
        None => out.fill(T::NAN),
    }
}

/// 1 or -1: what makes the sum of the elements of column i positive, each divided by its place. A
/// plain sum would often be 0 but for rounding.
fn sign<T: Real>(vectors: MatRef<'_, T>, i: usize) -> T {
    let sum = (0..vectors.nrows()).map(|k| vectors[(k, i)].widen() / (k + 1) as f64).sum::<f64>();
    T::narrow(if sum < 0.0 { -1.0 } else { 1.0 })
}

/// The matrix if it has neither NaN nor an infinity.
fn finite<T: Real>(a: &Mat<T>) -> Option<MatRef<'_, T>> {
    a.is_all_finite().then_some(a.as_ref())
}

/// The symmetric matrix with the lower triangle of `a`.
fn lower<T: Real>(n: usize, a: &[T]) -> Scaled<T> {
    let whole: Vec<T> = (0..n * n)
        .map(|at| {
            let (i, j) = (at / n, at % n);
            a[i.max(j) * n + i.min(j)]
        })
        .collect();
    Scaled::new(n, n, &whole)
}
