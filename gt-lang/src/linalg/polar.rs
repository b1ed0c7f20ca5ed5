//! Matrices that are made orthogonal, or nearly so, by products alone: for initialization and for
//! optimizers, which run where products are fast.
//!
//! Guarantees: nothing is decomposed, so a device computes it, and gradients flow. Does not check
//! that operands are matrices of singular values in the range that it states.

use crate::core::DynTensor;

/// Applies a function of matrices that have no more rows than columns to any matrix, by its
/// transpose if it stands.
#[track_caller]
pub(crate) fn lying(x: &DynTensor, f: impl FnOnce(&DynTensor) -> DynTensor) -> DynTensor {
    if x.size(0) > x.size(1) { f(&x.t()).t() } else { f(x) }
}

/// The orthogonal factor of a matrix of normal numbers with no more rows than columns.
///
/// Both iterations apply an odd polynomial to the singular values. The first moves small ones away
/// from 0 by a factor of 3.4 a step, and ends near 1 (Jordan et al. 2024); the second, Newton and
/// Schulz's, converges to 1.
#[track_caller]
pub(crate) fn polar(matrix: &DynTensor) -> DynTensor {
    let (rows, columns) = (matrix.size(0) as f64, matrix.size(1) as f64);
    // Products of halves would not converge.
    let scaled = matrix.widened() * (1.0 / (rows.sqrt() + columns.sqrt()));
    let mut x = quintic(&scaled, 14);
    for _ in 0..8 {
        x = &x * 1.5 - x.matmul(&x.t()).matmul(&x) * 0.5;
    }
    x.to_dtype(matrix.dtype())
}

/// A matrix with no more rows than columns, whose singular values of at most 1 are moved near 1 by
/// so many steps of an odd polynomial of degree 5 (Jordan et al. 2024).
#[track_caller]
pub(crate) fn quintic(matrix: &DynTensor, steps: usize) -> DynTensor {
    (0..steps).fold(matrix.clone(), |x, _| {
        let a = x.matmul(&x.t());
        let b = &a * -4.7750 + a.matmul(&a) * 2.0315;
        &x * 3.4445 + b.matmul(&x)
    })
}
