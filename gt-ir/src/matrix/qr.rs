//! An orthogonal and an upper triangular factor, by Householder's reflections.
//!
//! Signs are LAPACK's: each reflection turns the first element of its column into the negative of
//! that element's sign.

use super::{elimination::fill, number::Real, scale::Scaled};

/// Row i: column i of Q, then row i of R. All `m` columns of Q if `is_full`.
pub(super) fn packed<T: Real>(m: usize, n: usize, is_full: bool, a: &[T], out: &mut [T]) {
    let Scaled { matrix, scale } = Scaled::new(m, n, a);
    let qr = matrix.qr();
    let q = if is_full { qr.compute_Q() } else { qr.compute_thin_Q() };
    let r = qr.R();
    for (i, row) in out.chunks_exact_mut(m + n).enumerate() {
        let (column, row) = row.split_at_mut(m);
        fill(column, |k| q[(k, i)]);
        fill(row, |j| if i <= j && i < m { r[(i, j)] * scale } else { T::zero() });
    }
}
