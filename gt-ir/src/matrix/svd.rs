//! Singular values and vectors by one-sided Jacobi rotations (Hestenes 1958) on the triangular
//! factor of a QR decomposition. Small singular values of columns of different scales are as exact
//! as large ones.

use super::{
    identity, norm, power_near,
    qr::Qr,
    rows::{dot, rotate},
    transposed,
};

/// Sweeps over all pairs of columns; about ten are usual.
const SWEEPS: usize = 60;
/// Squares of lengths below this are not exact: beside a largest element of about 1 such a vector
/// is 0.
const NO_LENGTH: f64 = 1e-280;

/// The decomposition of a matrix of at least as many rows as columns.
struct Svd {
    /// In descending order.
    values: Vec<f64>,
    /// The left vectors, one in each row.
    left: Vec<f64>,
    /// The right vectors, one in each row.
    right: Vec<f64>,
}

/// The singular values in descending order.
pub(super) fn values(m: usize, n: usize, a: &[f64], out: &mut [f64]) {
    let (m, n, a) = upright(m, n, a);
    match decompose(m, n, &a, Wanted::Values) {
        Some(svd) => out.copy_from_slice(&svd.values),
        None => out.fill(f64::NAN),
    }
}

/// Row i: singular value i in descending order, its left vector, then its right vector. With
/// `is_full` there is a row for each vector of the larger side, and zeros where there is no value
/// or no vector.
pub(super) fn packed(m: usize, n: usize, is_full: bool, a: &[f64], out: &mut [f64]) {
    let (rows, columns, upright) = upright(m, n, a);
    let wanted = if is_full { Wanted::Full } else { Wanted::Reduced };
    let Some(svd) = decompose(rows, columns, &upright, wanted) else { return out.fill(f64::NAN) };
    let (left, right) = if m >= n { (svd.left, svd.right) } else { (svd.right, svd.left) };
    for (i, row) in out.chunks_exact_mut(1 + m + n).enumerate() {
        let of = |vectors: &[f64], n: usize, to: &mut [f64]| match vectors.get(i * n..(i + 1) * n) {
            Some(vector) => to.copy_from_slice(vector),
            None => to.fill(0.0),
        };
        row[0] = svd.values.get(i).copied().unwrap_or(0.0);
        of(&left, m, &mut row[1..=m]);
        of(&right, n, &mut row[m + 1..]);
    }
}

/// The matrix, or its transpose if that has more rows.
fn upright(m: usize, n: usize, a: &[f64]) -> (usize, usize, Vec<f64>) {
    if m >= n { (m, n, a.to_vec()) } else { (n, m, transposed(m, n, a)) }
}

/// The vectors that are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Values,
    Reduced,
    Full,
}

/// `None` for a matrix with NaN or an infinity, and for one whose sweeps do not end. With `a = Q R`
/// and `R^T J = W S`, the columns of W are the right vectors and those of `Q J` the left ones.
fn decompose(m: usize, n: usize, a: &[f64], wanted: Wanted) -> Option<Svd> {
    if a.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let largest = a.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    let scale = if largest == 0.0 { 1.0 } else { power_near(largest) };
    let qr = Qr::new(m, n, &a.iter().map(|x| x / scale).collect::<Vec<_>>());
    // Columns of R^T as rows.
    let mut w: Vec<f64> = (0..n * n).map(|at| qr.r(at / n, at % n)).collect();
    let mut j = if wanted == Wanted::Values { Vec::new() } else { identity(n) };
    if (0..SWEEPS).all(|_| sweep(n, &mut w, &mut j)) {
        return None;
    }
    let lengths: Vec<f64> = w.chunks_exact(n.max(1)).map(norm).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|i, j| lengths[*j].total_cmp(&lengths[*i]));
    let values = order.iter().map(|i| lengths[*i] * scale).collect();
    if wanted == Wanted::Values {
        return Some(Svd { values, left: Vec::new(), right: Vec::new() });
    }
    let mut right = Vec::with_capacity(n * n);
    for &i in order.iter().filter(|i| lengths[**i] > 0.0) {
        right.extend(w[i * n..(i + 1) * n].iter().map(|x| x / lengths[i]));
    }
    complete(n, &mut right);
    let count = if wanted == Wanted::Full { m } else { n };
    let mut left = Vec::with_capacity(count * m);
    for i in 0..count {
        let mut x = vec![0.0; m];
        match order.get(i) {
            Some(&i) => x[..n].copy_from_slice(&j[i * n..(i + 1) * n]),
            None => x[i] = 1.0,
        }
        qr.combine(&mut x);
        left.extend(x);
    }
    Some(Svd { values, left, right })
}

/// Rotates each pair of rows of `w` until they are orthogonal, and those of `j` alike. Whether
/// there was anything to rotate: a product within its own rounding is 0.
fn sweep(n: usize, w: &mut [f64], j: &mut [f64]) -> bool {
    let rounding = f64::EPSILON * (n as f64).sqrt();
    let mut has_rotated = false;
    for p in 0..n {
        for q in p + 1..n {
            let (x, y) = two(n, w, p, q);
            let (alpha, beta, gamma) = (dot(x, x), dot(y, y), dot(x, y));
            if alpha.min(beta) < NO_LENGTH {
                if alpha < beta { x } else { y }.fill(0.0);
                continue;
            }
            if gamma.abs() <= rounding * alpha.sqrt() * beta.sqrt() {
                continue;
            }
            has_rotated = true;
            let zeta = (beta - alpha) / (2.0 * gamma);
            let t = libm::copysign(1.0, zeta) / (zeta.abs() + libm::hypot(1.0, zeta));
            let cosine = 1.0 / (1.0 + t * t).sqrt();
            rotate(x, y, cosine, cosine * t);
            if !j.is_empty() {
                let (x, y) = two(n, j, p, q);
                rotate(x, y, cosine, cosine * t);
            }
        }
    }
    has_rotated
}

/// Rows p and q, of which p is the first.
fn two(n: usize, rows: &mut [f64], p: usize, q: usize) -> (&mut [f64], &mut [f64]) {
    let (before, rest) = rows.split_at_mut(q * n);
    (&mut before[p * n..(p + 1) * n], &mut rest[..n])
}

/// Adds rows of length `n` to orthonormal ones until there are `n`: the last columns of the Q of
/// those that are there.
fn complete(n: usize, rows: &mut Vec<f64>) {
    let known = rows.len() / n.max(1);
    if known < n {
        let qr = Qr::new(n, known, &transposed(known, n, rows));
        (known..n).for_each(|i| rows.extend(qr.column(i)));
    }
}
