//! Linear algebra with the names of PyTorch's `torch.linalg`: solutions, decompositions, norms and
//! functions of matrices.
//!
//! Matrices are the last two axes, of `f32` or `f64`; all axes before them are a batch. Gradients
//! of every order and [`vmap`](crate::autograd::vmap) go through all functions but those that say
//! otherwise.
//!
//! A matrix without the result that is asked for gives NaN, where PyTorch waits for the result and
//! returns an error: a singular one to [`solve`] and [`inv`], one that is not positive definite to
//! [`cholesky`], one with NaN or an infinity to [`eigh`] and [`svd`]. The other matrices of the
//! batch have their results.
//!
//! ```no_run
//! # extern crate gt_lang as gt;
//! use gt::prelude::*;
//!
//! let a = DynTensor::from_vec(vec![4.0, 1.0, 1.0, 3.0], [2, 2]).requires_grad();
//! let b = DynTensor::from_vec(vec![1.0, 2.0], [2]);
//! let x = linalg::solve(&a, &b);
//! x.sum(..).backward()?;
//! let (values, vectors) = linalg::eigh(&a);
//! # Ok::<(), gt::Error>(())
//! ```

mod decompose;
mod function;
mod norm;
pub(crate) mod polar;
mod solve;

pub use decompose::{
    cholesky, eigh, eigvalsh, matrix_rank, matrix_rank_with, qr, qr_complete, svd, svd_full,
    svdvals,
};
pub use function::{matrix_exp, matrix_power};
pub use norm::{MatrixNorm, cond, matrix_norm};
pub use solve::{
    Triangular, cholesky_inverse, cholesky_solve, det, inv, lstsq, pinv, pinv_with, slogdet, solve,
    solve_triangular,
};

use gt_ir::{DType, Op, OpError};

use crate::core::{Arg, DynTensor};

/// Records an op on matrices.
#[track_caller]
fn on(op: Op, x: &DynTensor) -> DynTensor {
    x.record_with(|_| Ok(op))
}

/// The numbers of rows and columns; zeros for what is no matrix.
fn sides(x: &DynTensor) -> (usize, usize) {
    match x.sizes()[..] {
        [.., rows, columns] => (rows, columns),
        _ => (0, 0),
    }
}

/// The unit matrix that fits square matrices.
#[track_caller]
fn unit(a: &DynTensor) -> DynTensor {
    a.on_own(|| DynTensor::eye(sides(a).1, a.dtype()))
}

/// The transposed matrices.
#[track_caller]
fn transposed(x: &DynTensor) -> DynTensor {
    x.transpose(-2, -1)
}

/// PyTorch's relative bound, below which a singular value counts as 0.
fn tolerance(a: &DynTensor) -> f64 {
    let (rows, columns) = sides(a);
    let epsilon = if a.dtype() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    rows.max(columns) as f64 * epsilon
}

/// A tensor that carries an error about `x`.
#[track_caller]
fn refused(x: &DynTensor, message: String, hint: &str) -> DynTensor {
    x.record_with(|_| Err(OpError::new(message).hint(hint)))
}

/// An op with a number behind the matrices.
#[track_caller]
fn with_number(op: Op, x: &DynTensor, number: f64) -> DynTensor {
    x.record_with_args(&[Arg::Tensor(x), Arg::Scalar(number.into())], |_| Ok(op))
}
