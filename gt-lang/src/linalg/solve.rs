//! Systems of equations, inverses and determinants.

use gt_ir::Op;
use gt_ir::attr::Triangle;

use super::{on, sides, tolerance, transposed, unit, with_number};
use crate::core::{Arg, DynTensor};

/// The solution x of `a x = b`, for square matrices: b has columns, `[.., n, k]`, or is one column,
/// `[n]` or `[.., n]` with the leading axes of `a`.
///
/// A singular matrix gives NaN, where PyTorch returns an error.
#[must_use]
#[track_caller]
pub fn solve(a: &DynTensor, b: &DynTensor) -> DynTensor {
    let (of_a, of_b) = (a.sizes(), b.sizes());
    let is_column = of_b.len() == 1 || of_a.split_last().is_some_and(|(_, rows)| rows == of_b);
    if is_column {
        return system(Op::Solve, a, &b.unsqueeze(-1)).squeeze(-1);
    }
    system(Op::Solve, a, b)
}

#[track_caller]
fn system(op: Op, a: &DynTensor, b: &DynTensor) -> DynTensor {
    a.record_with_args(&[Arg::Tensor(a), Arg::Tensor(b)], |_| Ok(op))
}

/// The triangle of a matrix that is read; with `Unit..` the diagonal counts as ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Triangular {
    /// On and below the diagonal.
    Lower,
    /// On and above the diagonal.
    Upper,
    /// Below the diagonal.
    UnitLower,
    /// Above the diagonal.
    UnitUpper,
}

/// The solution x of `a x = b` for triangular matrices, of which only the triangle is read:
/// PyTorch's `solve_triangular`. A zero on the diagonal gives infinities or NaN, as there.
#[must_use]
#[track_caller]
pub fn solve_triangular(a: &DynTensor, b: &DynTensor, triangle: Triangular) -> DynTensor {
    let (upper, unit) = match triangle {
        Triangular::Lower => (false, false),
        Triangular::Upper => (true, false),
        Triangular::UnitLower => (false, true),
        Triangular::UnitUpper => (true, true),
    };
    system(Op::TriangularSolve(Triangle { upper, unit }), a, b)
}

/// The solution x of `a x = b` for symmetric positive definite matrices, of which a Cholesky factor
/// is given, such as that of [`cholesky`](super::cholesky): `a = L L^T` with a lower triangle, `a =
/// U^T U` with an upper one. b has columns, `[.., n, k]`, and leading axes broadcast.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::linalg::Triangular;
/// let a = DynTensor::from([[4.0, 1.0], [1.0, 3.0]]);
/// let factor = linalg::cholesky(&a); // once, for many right sides
/// let x = linalg::cholesky_solve(&DynTensor::from([[1.0], [2.0]]), &factor, Triangular::Lower);
/// ```
#[must_use]
#[track_caller]
pub fn cholesky_solve(b: &DynTensor, factor: &DynTensor, triangle: Triangular) -> DynTensor {
    use Triangular::{Lower, UnitLower, UnitUpper, Upper};
    let turned = &transposed(factor);
    let ((lower, down), (upper, up)) = match triangle {
        Lower => ((factor, Lower), (turned, Upper)),
        UnitLower => ((factor, UnitLower), (turned, UnitUpper)),
        Upper => ((turned, Lower), (factor, Upper)),
        UnitUpper => ((turned, UnitLower), (factor, UnitUpper)),
    };
    solve_triangular(upper, &solve_triangular(lower, b, down), up)
}

/// The inverse of symmetric positive definite matrices by a Cholesky factor of them, as
/// [`cholesky_solve`] takes it.
#[must_use]
#[track_caller]
pub fn cholesky_inverse(factor: &DynTensor, triangle: Triangular) -> DynTensor {
    cholesky_solve(&unit(factor), factor, triangle)
}

/// The inverse of square matrices. A singular matrix gives NaN, where PyTorch returns an error.
///
/// [`solve`] is faster and more precise than a product with the inverse.
#[must_use]
#[track_caller]
pub fn inv(a: &DynTensor) -> DynTensor {
    system(Op::Solve, a, &unit(a))
}

/// The determinant of square matrices. Its gradient at a singular matrix is 0.
#[must_use]
#[track_caller]
pub fn det(a: &DynTensor) -> DynTensor {
    on(Op::Determinant, a).narrow(-1, 0, 1).squeeze(-1)
}

/// The sign of the determinant, and the logarithm of its absolute value, which neither overflows
/// nor vanishes: 0 and minus infinity for a singular matrix.
#[must_use]
#[track_caller]
pub fn slogdet(a: &DynTensor) -> (DynTensor, DynTensor) {
    let all = on(Op::Determinant, a);
    let at = |i: i64| all.narrow(-1, i, 1).squeeze(-1);
    (at(1).detach(), at(2))
}

/// The pseudoinverse (Moore-Penrose) of matrices of any rank. Singular values up to the largest
/// times the precision of the dtype and the longer side count as 0.
#[must_use]
#[track_caller]
pub fn pinv(a: &DynTensor) -> DynTensor {
    pinv_with(a, tolerance(a))
}

/// As [`pinv`], with another bound: singular values up to `rtol` times the largest count as 0.
#[must_use]
#[track_caller]
pub fn pinv_with(a: &DynTensor, rtol: f64) -> DynTensor {
    with_number(Op::Pinv, a, rtol)
}

/// The x with the least `|a x - b|`, and of several the one with the least norm: PyTorch's
/// `lstsq(a, b).solution`. b has columns, `[.., m, k]`, or is one column, `[m]` for one matrix.
///
/// Matrices may have any rank. It is a product with the pseudoinverse.
#[must_use]
#[track_caller]
pub fn lstsq(a: &DynTensor, b: &DynTensor) -> DynTensor {
    if b.rank() == 1 && sides(a).0 == b.size(0) {
        return pinv(a).matmul(&b.unsqueeze(-1)).squeeze(-1);
    }
    pinv(a).matmul(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::linalg::cholesky;
    use crate::reference::Reference;

    fn is_close(x: &DynTensor, want: &DynTensor) -> bool {
        let apart = (x - want).abs().max(..).item().expect("a value");
        x.sizes() == want.sizes() && apart < 1e-12
    }

    #[test]
    fn factors_solve_systems_and_invert() {
        let (session, _system) = Reference::session();
        let _entered = session.enter();
        let x = DynTensor::randn([2, 1, 3, 3], DType::F64);
        let a = x.matmul(&transposed(&x)) + DynTensor::eye(3, DType::F64);
        let b = DynTensor::randn([4, 3, 2], DType::F64);
        let lower = cholesky(&a);
        // What lies in the other triangle is not read.
        let (lower, upper) = (&lower + x.triu(1), transposed(&lower) + x.tril(-1));
        let (want, inverse) = (solve(&a, &b), inv(&a));
        for (factor, triangle) in [(lower, Triangular::Lower), (upper, Triangular::Upper)] {
            assert!(is_close(&cholesky_solve(&b, &factor, triangle), &want), "{triangle:?}");
            assert!(is_close(&cholesky_inverse(&factor, triangle), &inverse), "{triangle:?}");
        }
        // A diagonal of ones that is not there.
        let unit = Triangular::UnitLower;
        let ones = DynTensor::from([[1.0, 0.0], [0.5, 1.0]]);
        let other = DynTensor::from([[7.0, 9.0], [0.5, -3.0]]);
        let b = DynTensor::from([[1.0], [2.0]]);
        let want = cholesky_solve(&b, &ones, Triangular::Lower);
        assert!(is_close(&cholesky_solve(&b, &other, unit), &want));
    }
}
