//! Eigenvalues and eigenvectors of symmetric matrices: Householder's reduction to a tridiagonal
//! matrix, then QL steps with implicit shifts.

use super::{
    identity, power_near,
    qr::{apply, reflection},
    rows::{add_rows, add_scaled, dot, rotate},
};

/// Steps for one eigenvalue; about two are usual.
const STEPS: usize = 120;

/// The eigenvalues in ascending order.
pub(super) fn values(n: usize, a: &[f64], out: &mut [f64]) {
    match decompose(n, a, false) {
        Some(eigen) => eigen.order().zip(out).for_each(|(i, out)| *out = eigen.d[i]),
        None => out.fill(f64::NAN),
    }
}

/// Row i: eigenvalue i in ascending order, then its vector.
pub(super) fn packed(n: usize, a: &[f64], out: &mut [f64]) {
    let Some(eigen) = decompose(n, a, true) else { return out.fill(f64::NAN) };
    for (i, row) in eigen.order().zip(out.chunks_exact_mut(n + 1)) {
        row[0] = eigen.d[i];
        row[1..].copy_from_slice(&eigen.vectors[i * n..(i + 1) * n]);
    }
}

/// The eigenvalues of a symmetric matrix in no order, and their vectors in rows, if they are asked
/// for.
struct Eigen {
    d: Vec<f64>,
    vectors: Vec<f64>,
}

impl Eigen {
    /// The places of the eigenvalues in ascending order.
    fn order(&self) -> impl Iterator<Item = usize> {
        let mut order: Vec<usize> = (0..self.d.len()).collect();
        order.sort_by(|i, j| self.d[*i].total_cmp(&self.d[*j]));
        order.into_iter()
    }
}

/// `None` for a matrix with NaN or an infinity. The lower triangle alone is read.
fn decompose(n: usize, a: &[f64], wants_vectors: bool) -> Option<Eigen> {
    let lower = |i: usize, j: usize| a[i.max(j) * n + i.min(j)];
    let mut a: Vec<f64> = (0..n * n).map(|at| lower(at / n, at % n)).collect();
    if a.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let largest = a.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    if largest == 0.0 {
        return Some(Eigen { d: vec![0.0; n], vectors: identity(n) });
    }
    let scale = power_near(largest);
    a.iter_mut().for_each(|x| *x /= scale);
    let (d, e, tau) = tridiagonal(n, &mut a);
    let vectors = if wants_vectors { basis(n, &a, &tau) } else { Vec::new() };
    let mut eigen = Eigen { d, vectors };
    diagonalize(&mut eigen, e)?;
    eigen.d.iter_mut().for_each(|d| *d *= scale);
    Some(eigen)
}

/// Reflects a symmetric matrix from both sides until it is tridiagonal: its diagonal, what is
/// beside it, and the factors of the reflections, which remain in the rows to the right of the
/// diagonal.
fn tridiagonal(n: usize, a: &mut [f64]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let (mut e, mut tau) = (vec![0.0; n], vec![0.0; n]);
    for k in 0..n.saturating_sub(1) {
        let (done, rest) = a.split_at_mut((k + 1) * n);
        let own = &mut done[k * n + k + 1..];
        tau[k] = reflection(own);
        e[k] = std::mem::replace(&mut own[0], 1.0);
        let product = rest.chunks_exact(n).map(|row| tau[k] * dot(&row[k + 1..], own));
        let mut w: Vec<f64> = product.collect();
        let half = -0.5 * tau[k] * dot(&w, own);
        add_scaled(&mut w, half, own);
        let width = w.len();
        w.extend_from_slice(own);
        for (i, row) in rest.chunks_exact_mut(n).enumerate() {
            add_rows(&mut row[k + 1..], &[-own[i], -w[i]], &w, width);
        }
    }
    (a.iter().step_by(n + 1).copied().collect(), e, tau)
}

/// The columns of the product of the reflections, as rows.
fn basis(n: usize, a: &[f64], tau: &[f64]) -> Vec<f64> {
    let mut rows = identity(n);
    for row in rows.chunks_exact_mut(n) {
        for k in (0..n.saturating_sub(1)).rev() {
            apply(tau[k], &a[k * n + k + 2..(k + 1) * n], &mut row[k + 1..]);
        }
    }
    rows
}

/// Turns the tridiagonal matrix with `e` beside its diagonal into a diagonal one.
fn diagonalize(eigen: &mut Eigen, mut e: Vec<f64>) -> Option<()> {
    let n = eigen.d.len();
    for l in 0..n {
        let mut steps = 0;
        loop {
            let d = &eigen.d;
            let is_small = |m: &usize| e[*m].abs() <= f64::EPSILON * (d[*m].abs() + d[m + 1].abs());
            let m = (l..n - 1).find(is_small).unwrap_or(n - 1);
            if m == l {
                break;
            }
            steps += 1;
            if steps > STEPS {
                return None;
            }
            step(eigen, &mut e, l, m);
        }
    }
    Some(())
}

/// One QL step with an implicit shift on rows `l` to `m`.
fn step(eigen: &mut Eigen, e: &mut [f64], l: usize, m: usize) {
    let n = eigen.d.len();
    let d = &mut eigen.d;
    let half = (d[l + 1] - d[l]) / (2.0 * e[l]);
    let shift = e[l] / (half + libm::copysign(libm::hypot(half, 1.0), half));
    let (mut g, mut sine, mut cosine, mut p) = (d[m] - d[l] + shift, 1.0, 1.0, 0.0);
    for i in (l..m).rev() {
        let (f, b) = (sine * e[i], cosine * e[i]);
        let r = libm::hypot(f, g);
        e[i + 1] = r;
        if r == 0.0 {
            d[i + 1] -= p;
            e[m] = 0.0;
            return;
        }
        (sine, cosine) = (f / r, g / r);
        let next = d[i + 1] - p;
        let r = (d[i] - next) * sine + 2.0 * cosine * b;
        p = sine * r;
        d[i + 1] = next + p;
        g = cosine * r - b;
        if let Some(two) = eigen.vectors.get_mut(i * n..(i + 2) * n) {
            let (x, y) = two.split_at_mut(n);
            rotate(x, y, cosine, sine);
        }
    }
    d[l] -= p;
    e[l] = g;
    e[m] = 0.0;
}
