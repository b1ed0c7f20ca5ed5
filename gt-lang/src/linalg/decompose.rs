//! Decompositions, and what is read off them.

use gt_ir::attr::{Eigen, Extent, Spectrum};
use gt_ir::{DType, Op};

use super::{on, sides, tolerance, transposed};
use crate::core::{DynTensor, keepdim};

/// The lower triangular L with `a = L L^T`, of symmetric positive definite matrices; the lower
/// triangle is read.
///
/// A matrix that is not positive definite gives NaN, where PyTorch returns an error.
#[must_use]
#[track_caller]
pub fn cholesky(a: &DynTensor) -> DynTensor {
    on(Op::Cholesky, a)
}

/// Q with orthonormal columns and R upper triangular, with `a = Q R`: `[.., m, k]` and `[.., k,
/// n]`, where k is the smaller of m and n. PyTorch's `qr` with `mode="reduced"`.
#[must_use]
#[track_caller]
pub fn qr(a: &DynTensor) -> (DynTensor, DynTensor) {
    factors(Extent::Reduced, a)
}

/// As [`qr`], where Q is a whole basis: `[.., m, m]` and `[.., m, n]`. PyTorch's `qr` with
/// `mode="complete"`. As there, it has no gradient if there are more rows than columns.
#[must_use]
#[track_caller]
pub fn qr_complete(a: &DynTensor) -> (DynTensor, DynTensor) {
    factors(Extent::Full, a)
}

#[track_caller]
fn factors(extent: Extent, a: &DynTensor) -> (DynTensor, DynTensor) {
    let (m, n) = sides(a);
    let packed = on(Op::Qr(extent), a);
    (transposed(&packed.narrow(-1, 0, m)), packed.narrow(-1, m as i64, n))
}

/// The eigenvalues of symmetric matrices in ascending order, and their vectors as columns: `[..,
/// n]` and `[.., n, n]`. The lower triangle is read.
///
/// The sign of a vector is arbitrary, and so are the vectors of equal eigenvalues. A gradient
/// through such vectors takes them as they are, where PyTorch's has infinities.
#[must_use]
#[track_caller]
pub fn eigh(a: &DynTensor) -> (DynTensor, DynTensor) {
    let n = sides(a).0;
    let packed = on(Op::Eigh(Eigen::Vectors), a);
    (packed.narrow(-1, 0, 1).squeeze(-1), transposed(&packed.narrow(-1, 1, n)))
}

/// The eigenvalues of symmetric matrices in ascending order. The lower triangle is read.
#[must_use]
#[track_caller]
pub fn eigvalsh(a: &DynTensor) -> DynTensor {
    on(Op::Eigh(Eigen::Values), a)
}

/// U, the singular values S in descending order, and `V^T`, with `a = U diag(S) V^T`: `[.., m, k]`,
/// `[.., k]` and `[.., k, n]`, where k is the smaller of m and n.
///
/// PyTorch's `svd` with `full_matrices=False`. The sign of a pair of vectors is arbitrary, and so
/// are the vectors of equal singular values. A gradient through such vectors takes them as they
/// are, where PyTorch's has infinities.
#[must_use]
#[track_caller]
pub fn svd(a: &DynTensor) -> (DynTensor, DynTensor, DynTensor) {
    let (m, n) = sides(a);
    parts(Spectrum::Reduced, a, (m.min(n), m.min(n)))
}

/// As [`svd`], where U and V are whole bases: `[.., m, m]`, `[.., k]` and `[.., n, n]`. PyTorch's
/// `svd` with its default `full_matrices=True`. Vectors without a singular value have no gradient.
#[must_use]
#[track_caller]
pub fn svd_full(a: &DynTensor) -> (DynTensor, DynTensor, DynTensor) {
    parts(Spectrum::Full, a, sides(a))
}

/// So many vectors of the left and of the right.
#[track_caller]
fn parts(
    spectrum: Spectrum,
    a: &DynTensor,
    (left, right): (usize, usize),
) -> (DynTensor, DynTensor, DynTensor) {
    let (m, n) = sides(a);
    let packed = on(Op::Svd(spectrum), a);
    let values = packed.narrow(-1, 0, 1).squeeze(-1).narrow(-1, 0, m.min(n));
    let u = transposed(&packed.narrow(-1, 1, m).narrow(-2, 0, left));
    (u, values, packed.narrow(-1, 1 + m as i64, n).narrow(-2, 0, right))
}

/// The singular values in descending order.
#[must_use]
#[track_caller]
pub fn svdvals(a: &DynTensor) -> DynTensor {
    on(Op::Svd(Spectrum::Values), a)
}

/// The number of singular values above the largest times the precision of the dtype and the longer
/// side, as `i64`. It has no gradient.
#[must_use]
#[track_caller]
pub fn matrix_rank(a: &DynTensor) -> DynTensor {
    matrix_rank_with(a, 0.0, tolerance(a))
}

/// The number of singular values above `atol` and above `rtol` times the largest.
#[must_use]
#[track_caller]
pub fn matrix_rank_with(a: &DynTensor, atol: f64, rtol: f64) -> DynTensor {
    let values = svdvals(&a.detach());
    if values.sizes().last() == Some(&0) {
        return values.sum(-1).to_dtype(DType::I64);
    }
    let bound = values.max(keepdim(-1)).mul(rtol).maximum(atol);
    values.gt(&bound).sum(-1)
}
