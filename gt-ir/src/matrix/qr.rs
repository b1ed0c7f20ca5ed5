//! An orthogonal and an upper triangular factor, by Householder's reflections.
//!
//! Signs are LAPACK's: each reflection turns the first element of its column into the negative of
//! that element's sign.

use super::{
    norm,
    rows::{add_scaled, dot},
    transposed,
};

/// 2^-960: below it lengths and quotients have fewer digits.
const TINY: f64 = f64::from_bits((1023 - 960) << 52);

/// The reflections of a matrix: columns as rows, since they are what is walked along.
pub(super) struct Qr {
    m: usize,
    n: usize,
    /// Column j has R down to its diagonal, and the rest of reflection j below, whose first element
    /// is 1.
    columns: Vec<f64>,
    /// The factor of each reflection.
    tau: Vec<f64>,
}

impl Qr {
    /// Of a matrix of `m` rows and `n` columns.
    pub(super) fn new(m: usize, n: usize, a: &[f64]) -> Qr {
        let columns = transposed(m, n, a);
        let mut this = Qr { m, n, columns, tau: Vec::new() };
        (0..m.min(n)).for_each(|k| this.reflect(k));
        this
    }

    /// Number of reflections.
    fn rank(&self) -> usize {
        self.m.min(self.n)
    }

    fn reflect(&mut self, k: usize) {
        let m = self.m;
        let (done, later) = self.columns.split_at_mut((k + 1) * m);
        let own = &mut done[k * m + k..];
        let tau = reflection(own);
        for column in later.chunks_exact_mut(m) {
            apply(tau, &own[1..], &mut column[k..]);
        }
        self.tau.push(tau);
    }

    /// R's element in row i and column j.
    pub(super) fn r(&self, i: usize, j: usize) -> f64 {
        if i <= j { self.columns[j * self.m + i] } else { 0.0 }
    }

    /// `x` as a combination of the columns of the whole Q: `x = Q x`.
    pub(super) fn combine(&self, x: &mut [f64]) {
        for k in (0..self.rank()).rev() {
            let reflection = &self.columns[k * self.m + k + 1..(k + 1) * self.m];
            apply(self.tau[k], reflection, &mut x[k..]);
        }
    }

    /// Column i of the whole Q.
    pub(super) fn column(&self, i: usize) -> Vec<f64> {
        let mut x = vec![0.0; self.m];
        x[i] = 1.0;
        self.combine(&mut x);
        x
    }
}

/// The factor of the reflection that turns a vector into a multiple of the first unit vector. Its
/// first element becomes the multiple, and the others the reflection, whose first element is 1.
pub(super) fn reflection(x: &mut [f64]) -> f64 {
    let Some((first, rest)) = x.split_first_mut() else { return 0.0 };
    let length = norm(rest);
    if length == 0.0 {
        return 0.0;
    }
    let length = libm::hypot(*first, length);
    if length < TINY {
        x.iter_mut().for_each(|x| *x *= 1.0 / TINY);
        let tau = reflection(x);
        x[0] *= TINY;
        return tau;
    }
    // A zero is positive, whatever its sign.
    let beta = if *first < 0.0 { length } else { -length };
    let (tau, divisor) = ((beta - *first) / beta, *first - beta);
    rest.iter_mut().for_each(|x| *x /= divisor);
    *first = beta;
    tau
}

/// Reflects a vector; the first element of the reflection is 1.
pub(super) fn apply(tau: f64, reflection: &[f64], x: &mut [f64]) {
    if tau == 0.0 {
        return;
    }
    let Some((first, rest)) = x.split_first_mut() else { return };
    let sum = tau * (*first + dot(reflection, rest));
    *first -= sum;
    add_scaled(rest, -sum, reflection);
}

/// Row i: column i of Q, then row i of R. All `m` columns of Q if `is_full`.
pub(super) fn packed(m: usize, n: usize, is_full: bool, a: &[f64], out: &mut [f64]) {
    let qr = Qr::new(m, n, a);
    let width = m + n;
    let rows = if is_full { m } else { m.min(n) };
    for i in 0..rows {
        let (q, r) = out[i * width..(i + 1) * width].split_at_mut(m);
        q.copy_from_slice(&qr.column(i));
        r.iter_mut().enumerate().for_each(|(j, r)| *r = qr.r(i, j));
    }
}
