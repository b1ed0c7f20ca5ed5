//! Norms of matrices.

use super::{refused, svdvals};
use crate::core::DynTensor;

/// A norm of a matrix, by PyTorch's `ord`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatrixNorm {
    /// The root of the sum of all squares: `'fro'`.
    #[default]
    Frobenius,
    /// The sum of the singular values: `'nuc'`.
    Nuclear,
    /// The largest sum of the absolute values of a row: `inf`.
    Inf,
    /// The smallest sum of the absolute values of a row: `-inf`.
    NegInf,
    /// The largest sum of the absolute values of a column: `1`.
    L1,
    /// The smallest sum of the absolute values of a column: `-1`.
    NegL1,
    /// The largest singular value: `2`.
    L2,
    /// The smallest singular value: `-2`.
    NegL2,
}

/// A norm of the matrices in the last two axes, which disappear. PyTorch's default is
/// [`MatrixNorm::Frobenius`].
#[must_use]
#[track_caller]
pub fn matrix_norm(a: &DynTensor, order: MatrixNorm) -> DynTensor {
    let sizes = a.sizes();
    if a.rank() < 2 && a.error().is_none() {
        let message = format!("matrix_norm: takes matrices, but got {}", a.ty());
        return refused(a, message, "matrices are the last two axes; `norm` takes vectors");
    }
    let is_empty = sizes.iter().rev().take(2).any(|n| *n == 0);
    if is_empty && !matches!(order, MatrixNorm::Frobenius | MatrixNorm::Nuclear) {
        let message = format!("matrix_norm: {} has no largest or smallest", a.ty());
        return refused(a, message, "an empty matrix has its Frobenius and its nuclear norm only");
    }
    // After the sum one axis is left, the last.
    let rows = || a.abs().sum(-1);
    let columns = || a.abs().sum(-2);
    match order {
        MatrixNorm::Frobenius => a.norm([-2, -1]),
        MatrixNorm::Nuclear => svdvals(a).sum(-1),
        MatrixNorm::Inf => rows().max(-1),
        MatrixNorm::NegInf => rows().min(-1),
        MatrixNorm::L1 => columns().max(-1),
        MatrixNorm::NegL1 => columns().min(-1),
        MatrixNorm::L2 => svdvals(a).max(-1),
        MatrixNorm::NegL2 => svdvals(a).min(-1),
    }
}

/// The largest singular value by the smallest: how much an error of b grows in the x of `a x = b`.
#[must_use]
#[track_caller]
pub fn cond(a: &DynTensor) -> DynTensor {
    matrix_norm(a, MatrixNorm::L2).div(&matrix_norm(a, MatrixNorm::NegL2))
}
