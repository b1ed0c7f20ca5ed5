//! The rows of linear algebra as libtorch's own operators, on matrices that are far from singular:
//! near one, roundings decide.

use gt_compiler::torch::ops::Arg;
use gt_ir::{
    Op,
    attr::{Direction, Eigen, Extent, Spectrum},
};
use tch::{Kind, TchError, Tensor};

use crate::own::{finite, given};

/// The least singular value, as a part of the largest.
const LEAST: f64 = 0.1;

/// What libtorch gives for `op`; `None` where it may give one of several results.
#[expect(clippy::wildcard_enum_match_arm, reason = "the caller names the ops")]
pub(crate) fn own(
    op: &Op,
    args: &[Arg<'_>],
    tensors: &[Tensor],
) -> Result<Option<Tensor>, TchError> {
    let x = &tensors[0];
    let all_finite = tensors.iter().all(|t| finite(t).unwrap_or(false));
    if x.numel() == 0 || !all_finite || !is_regular(op, x)? {
        return Ok(None);
    }
    let kind = x.kind();
    // Rounded once, as in GT.
    let a = x.f_to_kind(Kind::Double)?;
    let b = || tensors[1].f_to_kind(Kind::Double);
    let result = match *op {
        Op::Cholesky => {
            let (l, info) = a.f_linalg_cholesky_ex(false, false)?;
            if info.f_any()?.f_int64_value(&[])? != 0 {
                return Ok(None);
            }
            l
        }
        Op::TriangularSolve(t) => a.f_linalg_solve_triangular(&b()?, t.upper, true, t.unit)?,
        Op::Solve => Tensor::f_linalg_solve(&a, &b()?, true)?,
        Op::Determinant => {
            let (sign, log) = Tensor::f_linalg_slogdet(&a)?;
            Tensor::f_stack(&[Tensor::f_linalg_det(&a)?, sign, log], -1)?
        }
        Op::Qr(extent) => {
            let full = extent == Extent::Full;
            if full && a.size()[a.dim() - 2] > a.size()[a.dim() - 1] {
                return Ok(None); // Without a gradient.
            }
            let (q, r) = Tensor::f_linalg_qr(&a, if full { "complete" } else { "reduced" })?;
            Tensor::f_cat(&[q.f_mt()?, r], -1)?
        }
        Op::Eigh(Eigen::Values) => a.f_linalg_eigvalsh("L")?,
        Op::Svd(Spectrum::Values) => a.f_svd(true, true)?.1,
        Op::Eigh(Eigen::Vectors) | Op::Svd(_) => return Ok(None), // Signs are arbitrary.
        Op::Fft(direction) => {
            let numbers = a.f_contiguous()?.f_view_as_complex()?;
            let transformed = match direction {
                Direction::Forward => numbers.f_fft_fft(None::<i64>, -1, "backward")?,
                Direction::Inverse => numbers.f_fft_ifft(None::<i64>, -1, "forward")?,
            };
            transformed.f_view_as_real()?
        }
        Op::MatrixExp => a.f_linalg_matrix_exp()?,
        Op::Pinv => a.f_linalg_pinv_atol_rtol_float(None::<f64>, given(args, 1).as_f64(), false)?,
        _ => return Ok(None),
    };
    Ok(Some(result.f_to_kind(kind)?))
}

/// Whether the matrices are far from singular, as the op sees them.
fn is_regular(op: &Op, x: &Tensor) -> Result<bool, TchError> {
    let seen = match op {
        Op::TriangularSolve(t) if t.unit => return Ok(true),
        Op::TriangularSolve(t) if t.upper => x.f_triu(0)?,
        Op::TriangularSolve(_) => x.f_tril(0)?,
        // Of the whole, the gradient has a part for each element.
        Op::Eigh(_) => {
            let lower = x.f_tril(0)?;
            lower.f_add(&x.f_tril(-1)?.f_mt()?)?
        }
        _ => x.shallow_clone(),
    };
    let values = seen.f_detach()?.f_to_kind(Kind::Double)?.f_svd(true, true)?.1;
    let (least, most) = (values.f_amin([-1], true)?, values.f_amax([-1], true)?);
    let fits = least.f_gt_tensor(&(most * LEAST))?;
    let moderate = values.f_lt(20.0)?;
    Ok(fits.f_logical_and(&moderate.f_all_dim(-1, true)?)?.f_all()?.f_int64_value(&[])? == 1)
}
