//! Linear algebra by libtorch's own functions. Parts of a decomposition are joined as the op table
//! says: a row for each vector.
//!
//! libtorch refuses a matrix without a result, where the op table has NaN for it. Such matrices are
//! found first, and unit matrices stand in their places.

use gt_ir::{
    Type,
    attr::{Direction, Eigen, Extent, Spectrum},
    op::Primitive,
};
use tch::{Kind, Tensor};

use super::Made;
use crate::error::EngineError;

/// An op on matrices, with a result of type `out`.
#[expect(clippy::wildcard_enum_match_arm, reason = "the caller names the ops")]
pub(super) fn run(op: Primitive, args: &[&Tensor], out: Type) -> Made {
    let [a, rest @ ..] = args else { return Err(missing()) };
    if out.shape.numel() == 0 {
        let sizes: Vec<i64> = out.shape.sizes().iter().map(|n| *n as i64).collect();
        return Ok(Tensor::f_zeros(sizes, (a.kind(), a.device()))?);
    }
    // As everywhere, in `f64`, and rounded once.
    let (kind, a) = (a.kind(), &a.f_to_kind(Kind::Double)?);
    let b = || Ok::<_, EngineError>(rest.first().ok_or_else(missing)?.f_to_kind(Kind::Double)?);
    let result = match op {
        Primitive::Cholesky => {
            let (l, info) = a.f_linalg_cholesky_ex(false, false)?;
            // Of a matrix with NaN it leaves parts.
            let has_nan = l.f_isnan()?.f_any_dim(-1, false)?.f_any_dim(-1, false)?;
            without(&l, &info.f_ne(0)?.f_logical_or(&has_nan)?, 2)?
        }
        Primitive::TriangularSolve(t) => {
            a.f_linalg_solve_triangular(&b()?, t.upper, true, t.unit)?
        }
        Primitive::Solve => {
            let (x, info) = Tensor::f_linalg_solve_ex(a, &b()?, true, false)?;
            without(&x, &info.f_ne(0)?, 2)?
        }
        Primitive::Determinant => {
            let (sign, log) = Tensor::f_linalg_slogdet(a)?;
            Tensor::f_stack(&[Tensor::f_linalg_det(a)?, sign, log], -1)?
        }
        Primitive::Qr(extent) => {
            let mode = if extent == Extent::Full { "complete" } else { "reduced" };
            let (q, r) = Tensor::f_linalg_qr(a, mode)?;
            Tensor::f_cat(&[&q.f_mt()?, &r], -1)?
        }
        Primitive::Eigh(wanted) => {
            let (finite, fails) = finite(&a.f_tril(0)?)?;
            let (values, vectors) = finite.f_linalg_eigh("L")?;
            match wanted {
                Eigen::Values => without(&values, &fails, 1)?,
                Eigen::Vectors => {
                    let parts = [values.f_unsqueeze(-1)?, vectors.f_mt()?];
                    without(&Tensor::f_cat(&parts, -1)?, &fails, 2)?
                }
            }
        }
        Primitive::Svd(wanted) => svd(a, wanted, out)?,
        Primitive::MatrixExp => {
            let (finite, fails) = finite(a)?;
            without(&finite.f_linalg_matrix_exp()?, &fails, 2)?
        }
        Primitive::Fft(direction) => {
            let numbers = a.f_contiguous()?.f_view_as_complex()?;
            // Neither direction divides.
            let transformed = match direction {
                Direction::Forward => numbers.f_fft_fft(None::<i64>, -1, "backward")?,
                Direction::Inverse => numbers.f_fft_ifft(None::<i64>, -1, "forward")?,
            };
            transformed.f_view_as_real()?.f_contiguous()?
        }
        _ => return Err(EngineError::Codegen(format!("{op:?} is no linear algebra"))),
    };
    Ok(result.f_to_kind(kind)?)
}

fn missing() -> EngineError {
    EngineError::Call("a matrix is missing".into())
}

/// Rows of a value and its vectors; zeros where there is none.
fn svd(a: &Tensor, wanted: Spectrum, out: Type) -> Made {
    let (finite, fails) = finite(a)?;
    // `linalg_svd` takes the name of a driver, which no CPU has.
    let (u, s, v) = finite.f_svd(wanted != Spectrum::Full, true)?;
    if wanted == Spectrum::Values {
        return without(&s, &fails, 1);
    }
    let rows = out.shape.sizes()[out.shape.rank() - 2] as i64;
    let padded = |x: Tensor| {
        let more = rows - x.size()[x.dim() - 2];
        x.f_constant_pad_nd([0, 0, 0, more])
    };
    let parts = [padded(s.f_unsqueeze(-1)?)?, padded(u.f_mt()?)?, padded(v.f_mt()?)?];
    without(&Tensor::f_cat(&parts, -1)?, &fails, 2)
}

/// The matrices with unit matrices in place of those with NaN or an infinity, and which these are.
fn finite(a: &Tensor) -> Result<(Tensor, Tensor), EngineError> {
    let is_finite = a.f_isfinite()?;
    let fails = is_finite.f_all_dim(-1, false)?.f_all_dim(-1, false)?.f_logical_not()?;
    let (rows, columns) = (a.size()[a.dim() - 2], a.size()[a.dim() - 1]);
    let one = Tensor::f_eye_m(rows, columns, (a.kind(), a.device()))?;
    let is_replaced = fails.f_unsqueeze(-1)?.f_unsqueeze(-1)?;
    Ok((one.f_where_self(&is_replaced, a)?, fails))
}

/// NaN in place of the results that fail; each result has so many last axes.
fn without(x: &Tensor, fails: &Tensor, axes: usize) -> Made {
    let fails = (0..axes).try_fold(fails.f_alias()?, |f, _| f.f_unsqueeze(-1))?;
    Ok(x.f_masked_fill(&fails.f_to_kind(Kind::Bool)?, f64::NAN)?)
}
