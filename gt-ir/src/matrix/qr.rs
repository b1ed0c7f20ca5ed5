//! An orthogonal and an upper triangular factor, by Householder's reflections, in `f64`.
//!
//! `faer` takes what is left of a column for rounding if it is shorter than 16 roundings for each
//! of its rows. In `f64` this is below the rounding of `f32`; in `f32` tall matrices would lose
//! columns. Signs are LAPACK's in all other columns: each reflection turns the first element of its
//! column into the negative of that element's sign.

use super::{fill, scale::Scaled};

/// Row i: column i of Q, then row i of R. All `m` columns of Q if `is_full`.
pub(super) fn packed(m: usize, n: usize, is_full: bool, a: &[f64], out: &mut [f64]) {
    let Scaled { matrix, scale } = Scaled::new(m, n, a);
    let qr = matrix.qr();
    let q = if is_full { qr.compute_Q() } else { qr.compute_thin_Q() };
    let r = qr.R();
    for (i, row) in out.chunks_exact_mut(m + n).enumerate() {
        let (column, row) = row.split_at_mut(m);
        fill(column, |k| q[(k, i)]);
        fill(row, |j| if i <= j { r[(i, j)] * scale } else { 0.0 });
    }
}
