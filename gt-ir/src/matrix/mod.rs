//! Linear algebra on single matrices: the one definition that the interpreter and the native engine
//! run.
//!
//! Matrices are row-major, in `f64`; callers round. Guarantees: total and deterministic, with the
//! same bits on every machine; no panic on any contents. A matrix without the result that an op
//! asks for gives NaN everywhere: a singular one to `solve`, one that is not positive definite to
//! `cholesky`, one with NaN or an infinity to `eigh` and `svd`. It knows nothing of batches beyond
//! their sizes, and starts no thread.
//!
//! The methods are those of the textbook (Golub and Van Loan), in plain loops over rows. They are
//! meant for matrices of some hundred rows; nothing here is blocked for caches.

mod eigen;
mod exp;
mod lu;
mod qr;
mod svd;
#[cfg(test)]
mod tests;

use crate::{
    attr::{Eigen, Extent, Spectrum},
    op::{Class, Op},
    shape::Type,
};

/// One op on the matrices of a batch: how large the operands and the result of each problem are.
#[derive(Clone, Debug)]
pub struct Problem {
    op: Op,
    /// Rows and columns of each operand.
    sizes: Vec<(usize, usize)>,
    /// Elements of a result.
    result: usize,
    /// Number of problems.
    batch: usize,
}

impl Problem {
    /// The problems of an op on operands of these types, whose leading axes are equal, and whose
    /// result has type `out`. `None` for an op that is no linear algebra.
    pub fn new(op: &Op, operands: &[Type], out: &Type) -> Option<Problem> {
        let batch = operands.first()?.shape.leading()?.iter().product();
        let size = |ty: &Type| match ty.shape.sizes() {
            [.., rows, columns] => Some((*rows, *columns)),
            _ => None,
        };
        let sizes = operands.iter().map(size).collect::<Option<Vec<_>>>()?;
        let result = out.shape.numel().checked_div(batch).unwrap_or(0);
        let is_ours = op.spec().class == Class::Matrix;
        is_ours.then_some(Problem { op: *op, sizes, result, batch })
    }

    /// Number of problems.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Elements of operand `i` of each problem.
    pub fn operand(&self, i: usize) -> usize {
        self.sizes.get(i).map_or(0, |(rows, columns)| rows * columns)
    }

    /// Elements of the result of each problem.
    pub fn result(&self) -> usize {
        self.result
    }

    /// Additions of one problem, roughly: the square of the longer side times the shorter one, and
    /// ten times as many where a spectrum is found step by step.
    pub fn work(&self) -> usize {
        let (rows, columns) = self.sizes.first().copied().unwrap_or_default();
        let product = rows.saturating_mul(columns).saturating_mul(rows.max(columns));
        let is_iterative = matches!(self.op, Op::Eigh(_) | Op::Svd(_) | Op::MatrixExp);
        product.saturating_mul(if is_iterative { 10 } else { 1 })
    }

    /// The result of one problem. Operands have the sizes that [`Problem::operand`] says, and `out`
    /// has that of [`Problem::result`].
    #[expect(clippy::wildcard_enum_match_arm, reason = "`new` has refused all other ops")]
    pub fn compute(&self, operands: &[&[f64]], out: &mut [f64]) {
        let (Some(&(rows, columns)), Some(&a)) = (self.sizes.first(), operands.first()) else {
            return;
        };
        let b = operands.get(1).copied().unwrap_or_default();
        let width = self.sizes.get(1).map_or(0, |(_, columns)| *columns);
        match self.op {
            Op::Cholesky => lu::cholesky(rows, a, out),
            Op::TriangularSolve(triangle) => lu::triangular(rows, width, triangle, a, b, out),
            Op::Solve => lu::solve(rows, width, a, b, out),
            Op::Determinant => lu::determinant(rows, a, out),
            Op::Qr(extent) => qr::packed(rows, columns, extent == Extent::Full, a, out),
            Op::Eigh(Eigen::Values) => eigen::values(rows, a, out),
            Op::Eigh(Eigen::Vectors) => eigen::packed(rows, a, out),
            Op::Svd(Spectrum::Values) => svd::values(rows, columns, a, out),
            Op::Svd(spectrum) => {
                svd::packed(rows, columns, spectrum == Spectrum::Full, a, out);
            }
            Op::MatrixExp => exp::matrix_exp(rows, a, out),
            _ => out.fill(f64::NAN),
        }
    }
}

/// The sum of the products of elements. Four sums side by side, which a processor adds at once.
fn dot(x: &[f64], y: &[f64]) -> f64 {
    let ([x4, x], [y4, y]) = (split(x, y.len()), split(y, x.len()));
    let mut sums = [0.0; 4];
    for (x, y) in x4.chunks_exact(4).zip(y4.chunks_exact(4)) {
        for i in 0..4 {
            sums[i] += x[i] * y[i];
        }
    }
    let rest: f64 = x.iter().zip(y).map(|(x, y)| x * y).sum();
    (sums[0] + sums[2]) + (sums[1] + sums[3]) + rest
}

/// Whole groups of four of the first elements, of which `other` has as many, and the rest.
fn split(x: &[f64], other: usize) -> [&[f64]; 2] {
    let x = &x[..x.len().min(other)];
    let (whole, rest) = x.split_at(x.len() / 4 * 4);
    [whole, rest]
}

/// `y += factor x`.
fn add_scaled(y: &mut [f64], factor: f64, x: &[f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += factor * x);
}

/// The Euclidean norm, without overflow on the way.
fn norm(x: &[f64]) -> f64 {
    if x.iter().any(|x| x.is_nan()) {
        return f64::NAN;
    }
    let largest = x.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    if largest == 0.0 || !largest.is_finite() {
        return largest;
    }
    let scale = power_near(largest);
    let sum: f64 = x.iter().map(|x| (x / scale) * (x / scale)).sum();
    scale * sum.sqrt()
}

/// The power of two at or below a positive number: division by it rounds nothing.
fn power_near(x: f64) -> f64 {
    let (_, exponent) = libm::frexp(x);
    libm::ldexp(1.0, (exponent - 1).clamp(-1021, 1023))
}

/// The matrix with rows for columns.
fn transposed(rows: usize, columns: usize, a: &[f64]) -> Vec<f64> {
    let mut t = vec![0.0; rows * columns];
    for i in 0..rows {
        for j in 0..columns {
            t[j * rows + i] = a[i * columns + j];
        }
    }
    t
}

/// The unit matrix.
fn identity(n: usize) -> Vec<f64> {
    let mut one = vec![0.0; n * n];
    one.iter_mut().step_by(n + 1).for_each(|x| *x = 1.0);
    one
}
/// Rotates two rows into each other.
fn rotate(x: &mut [f64], y: &mut [f64], cosine: f64, sine: f64) {
    for (x, y) in x.iter_mut().zip(y) {
        (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
    }
}

