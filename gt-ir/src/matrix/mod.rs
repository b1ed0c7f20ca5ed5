//! Linear algebra on single matrices: the one definition that the interpreter and the native engine
//! run.
//!
//! Matrices are row-major. All is computed in the type of the data, but for QR decompositions,
//! singular values of tall and wide matrices, and exponentials, which are computed in `f64`.
//! Guarantees: total; no panic on any contents; the same bits for the same contents on a processor,
//! while processors with other vectors may differ in the last ones. A matrix without the result
//! that an op asks for gives NaN everywhere: a singular one to `solve`, one that is not positive
//! definite to `cholesky`, one with NaN or an infinity, or whose values are not found in as many
//! steps as `faer` takes, to `eigh` and `svd`. It knows nothing of batches beyond their sizes, and
//! starts no thread.
//!
//! The methods are those of `faer`, of `rustfft` for Fourier transforms, and plain loops for small
//! systems.

mod elimination;
mod exp;
mod fourier;
mod number;
mod qr;
mod scale;
mod small;
mod spectrum;
#[cfg(test)]
mod tests;

pub use fourier::Number;

use crate::{
    attr::{Direction, Eigen, Extent},
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

    /// Bytes that one problem takes beside its operands and its result, at most: copies of these,
    /// and matrices on the way.
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
        for (at, out) in (first..).zip(out.chunks_exact_mut(self.result)) {
            let of = |k: usize| {
                let (n, x) = (self.operand(k), operands.get(k).copied().unwrap_or_default());
                &x[at * n..(at + 1) * n]
            };
            self.compute(of(0), of(1), out);
        }
    }

    /// The result of one problem. Operands have the sizes that [`Problem::operand`] says, and `out`
    /// has that of [`Problem::result`].
    #[expect(clippy::wildcard_enum_match_arm, reason = "`new` has refused all other ops")]
    fn compute<T: Number>(&self, a: &[T], b: &[T], out: &mut [T]) {
        let (rows, columns) = self.sides();
        let width = self.sizes.get(1).map_or(0, |(_, columns)| *columns);
        match self.op {
            Op::Cholesky => elimination::cholesky(rows, a, out),
            Op::TriangularSolve(triangle) => {
                elimination::triangular(rows, width, triangle, a, b, out);
            }
            Op::Solve => elimination::solve(rows, width, a, b, out),
            Op::Determinant => elimination::determinant(rows, a, out),
            Op::Qr(extent) => {
                let is_full = extent == Extent::Full;
                in_f64(a, out, |a, out| qr::packed(rows, columns, is_full, a, out));
            }
            Op::Eigh(Eigen::Values) => spectrum::eigenvalues(rows, a, out),
            Op::Eigh(Eigen::Vectors) => spectrum::eigenvectors(rows, a, out),
            // One that is tall or wide begins with a QR decomposition.
            Op::Svd(spectrum) if rows.abs_diff(columns) > rows.min(columns) / 2 => {
                in_f64(a, out, |a, out| spectrum::singular(rows, columns, spectrum, a, out));
            }
            Op::Svd(spectrum) => spectrum::singular(rows, columns, spectrum, a, out),
            Op::MatrixExp => in_f64(a, out, |a, out| exp::matrix_exp(rows, a, out)),
            _ => out.fill(T::NAN),
        }
    }
}

/// Computes with wide numbers, and rounds once.
fn in_f64<T: Number>(a: &[T], out: &mut [T], compute: impl FnOnce(&[f64], &mut [f64])) {
    let wide: Vec<f64> = a.iter().map(|x| x.widen()).collect();
    let mut result = vec![0.0; out.len()];
    compute(&wide, &mut result);
    out.iter_mut().zip(result).for_each(|(out, x)| *out = T::narrow(x));
}

/// Gives each number of a row the one of its place.
fn fill<T>(row: &mut [T], of: impl Fn(usize) -> T) {
    row.iter_mut().enumerate().for_each(|(j, x)| *x = of(j));
}
