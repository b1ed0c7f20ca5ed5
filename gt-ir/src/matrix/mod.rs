//! Linear algebra on single matrices: the one definition that the interpreter and the native engine
//! run.
//!
//! Matrices are row-major. All but Fourier transforms are computed in `f64`, with the same bits on
//! every machine. Guarantees: total and deterministic; no panic on any contents. A matrix without
//! the result that an op asks for gives NaN everywhere: a singular one to `solve`, one that is not
//! positive definite to `cholesky`, one with NaN or an infinity to `eigh` and `svd`. It knows
//! nothing of batches beyond their sizes, and starts no thread.
//!
//! The methods are those of the textbook (Golub and Van Loan), in loops over rows (`rows`). They
//! are meant for matrices of some hundred rows: eliminations take eight rows at once, and nothing
//! else is blocked for caches. Fourier transforms are `rustfft`'s, in the type of the data and with
//! the processor's vectors: their last bits may differ from machine to machine.

mod eigen;
mod exp;
mod fourier;
mod lu;
mod qr;
mod rows;
mod svd;
#[cfg(test)]
mod tests;

pub use fourier::Number;

use crate::{
    attr::{Direction, Eigen, Extent, Spectrum},
    op::{Class, Op},
    shape::Type,
};

/// Additions of an op on operands of these types, roughly. The first operand is enough.
pub fn work(op: &Op, operands: &[Type], out: &Type) -> f64 {
    Problem::new(op, operands, out).map_or(0.0, |problem| problem.work() * problem.batch as f64)
}

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
    fn operand(&self, i: usize) -> usize {
        self.sizes.get(i).map_or(0, |(rows, columns)| rows * columns)
    }

    /// Elements of the result of each problem.
    pub fn result(&self) -> usize {
        self.result
    }

    /// Additions of one problem, roughly: the square of the longer side times the shorter one, ten
    /// times as many where a spectrum is found step by step, and a row for each element that is
    /// solved for. A Fourier transform takes a few for each step of its recursion.
    pub fn work(&self) -> f64 {
        let (rows, columns) = self.sides();
        if matches!(self.op, Op::Fft(_)) {
            return 8.0 * rows as f64 * f64::from(usize::BITS - rows.leading_zeros());
        }
        let own = rows as f64 * columns as f64 * rows.max(columns) as f64;
        let is_iterative = matches!(self.op, Op::Eigh(_) | Op::Svd(_) | Op::MatrixExp);
        let is_system = matches!(self.op, Op::Solve | Op::TriangularSolve(_));
        let solved = if is_system { rows as f64 * self.result as f64 } else { 0.0 };
        solved + own * if is_iterative { 10.0 } else { 1.0 }
    }

    /// Bytes that one problem takes beside its operands and its result, at most: a copy of these in
    /// `f64`, and matrices on the way.
    pub fn scratch(&self) -> usize {
        let (rows, columns) = self.sides();
        let operands = (0..self.sizes.len()).map(|i| self.operand(i)).sum::<usize>();
        let matrices = operands.saturating_add(self.result).saturating_mul(2);
        let between = 10usize.saturating_mul(rows.max(columns)).saturating_mul(rows.min(columns));
        matrices.saturating_add(between).saturating_mul(size_of::<f64>())
    }

    /// Rows and columns of the first operand.
    fn sides(&self) -> (usize, usize) {
        self.sizes.first().copied().unwrap_or_default()
    }

    /// Computes the problems from number `first` on: as many as `out` has room for. The operands
    /// are those of all problems.
    pub fn run<T: Number>(&self, first: usize, operands: &[&[T]], out: &mut [T]) {
        if self.result == 0 {
            return;
        }
        if let (Op::Fft(direction), [x]) = (self.op, operands) {
            let n = self.result;
            for (at, out) in (first..).zip(out.chunks_exact_mut(n)) {
                let forward = direction == Direction::Forward;
                fourier::transform(forward, &x[at * n..(at + 1) * n], out);
            }
            return;
        }
        let mut result = vec![0.0; self.result];
        for (at, out) in (first..).zip(out.chunks_exact_mut(self.result)) {
            let of = |(k, x): (usize, &&[T])| {
                let n = self.operand(k);
                x[at * n..(at + 1) * n].iter().map(|x| x.widen()).collect()
            };
            let own: Vec<Vec<f64>> = operands.iter().enumerate().map(of).collect();
            self.compute(&own.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut result);
            out.iter_mut().zip(&result).for_each(|(out, x)| *out = T::narrow(*x));
        }
    }

    /// The result of one problem. Operands have the sizes that [`Problem::operand`] says, and `out`
    /// has that of [`Problem::result`].
    #[expect(clippy::wildcard_enum_match_arm, reason = "`new` has refused all other ops")]
    fn compute(&self, operands: &[&[f64]], out: &mut [f64]) {
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
