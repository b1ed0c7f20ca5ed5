//! Linear algebra.

use gt::DynTensor;
use gt::linalg::{self, MatrixNorm, Triangular};

use super::rows;
use crate::arguments::{Arguments, Outcome, absent};

rows! {
    "linalg.solve", "A B left=True" => |a| left(a, linalg::solve(a.t("A")?, a.t("B")?))?;
    "linalg.solve_triangular", "A B upper left=True unitriangular=False" => |a| triangular(a)?;
    "linalg.inv", "A" => |a| linalg::inv(a.t("A")?);
    "linalg.det", "A" => |a| linalg::det(a.t("A")?);
    "linalg.slogdet", "A" => |a| linalg::slogdet(a.t("A")?);
    "logdet", "A" => |a| logdet(a)?;
    "linalg.cholesky", "A upper=False" => |a| cholesky(a, "A")?;
    "cholesky", "A upper=False" => |a| cholesky(a, "A")?;
    "cholesky_solve", "B L upper=False" => |a| linalg::cholesky_solve(a.t("B")?, a.t("L")?, factor(a));
    "cholesky_inverse", "L upper=False" => |a| linalg::cholesky_inverse(a.t("L")?, factor(a));
    "linalg.qr", "A mode=reduced" => |a| qr(a)?;
    "linalg.eigh", "A UPLO=L" => |a| eigh(a)?;
    "linalg.eigvalsh", "A UPLO=L" => |a| linalg::eigvalsh(lower(a)?);
    "linalg.svd", "A full_matrices=True" => |a| svd(a)?;
    "linalg.svdvals", "A" => |a| linalg::svdvals(a.t("A")?);
    "linalg.lstsq/grad_oriented", "A B rcond=None driver=None" => |a| lstsq(a)?;
    "linalg.pinv", "A rcond=None atol=None rtol=None hermitian=False" => |a| pinv(a)?;
    "linalg.pinv/singular", "A B" => |a| linalg::pinv(&a.t("A")?.matmul(&a.t("B")?.transpose(-1, -2)));
    "linalg.matrix_rank", "A tol=None atol=None rtol=None hermitian=False" => |a| rank(a)?;
    "linalg.matrix_norm", "A ord=fro dim=None keepdim=False dtype=None" => |a| linalg::matrix_norm(a.t("A")?, order(a, "ord")?);
    "linalg.cond", "A p=None" => |a| cond(a)?;
    "linalg.matrix_power", "A n" => |a| linalg::matrix_power(a.t("A")?, a.int("n")?);
    "matrix_exp", "A" => |a| linalg::matrix_exp(a.t("A")?);
}

fn left(a: &Arguments<'_>, x: DynTensor) -> Outcome<DynTensor> {
    if a.truth("left") { Ok(x) } else { absent("left=False") }
}

fn triangular(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let triangle = match (a.truth("upper"), a.truth("unitriangular")) {
        (false, false) => Triangular::Lower,
        (true, false) => Triangular::Upper,
        (false, true) => Triangular::UnitLower,
        (true, true) => Triangular::UnitUpper,
    };
    left(a, linalg::solve_triangular(a.t("A")?, a.t("B")?, triangle))
}

/// NaN for a negative determinant.
fn logdet(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let (sign, log) = linalg::slogdet(a.t("A")?);
    Ok(sign.eq(-1.0).where_(f64::NAN, &log))
}

fn cholesky(a: &Arguments<'_>, name: &str) -> Outcome<DynTensor> {
    if a.truth("upper") { absent("upper=True") } else { Ok(linalg::cholesky(a.t(name)?)) }
}

fn factor(a: &Arguments<'_>) -> Triangular {
    if a.truth("upper") { Triangular::Upper } else { Triangular::Lower }
}

fn qr(a: &Arguments<'_>) -> Outcome<(DynTensor, DynTensor)> {
    match a.text("mode") {
        "reduced" => Ok(linalg::qr(a.t("A")?)),
        "complete" => Ok(linalg::qr_complete(a.t("A")?)),
        mode => absent(format!("mode={mode}")),
    }
}

/// GT reads the lower triangle.
fn lower<'a>(a: &Arguments<'a>) -> Outcome<&'a DynTensor> {
    if a.text("UPLO") == "L" { a.t("A") } else { absent("UPLO=U") }
}

/// Signs are arbitrary, so `cases.py` has absolute values as well.
fn eigh(a: &Arguments<'_>) -> Outcome<(DynTensor, DynTensor)> {
    let (values, vectors) = linalg::eigh(lower(a)?);
    Ok((values, vectors.abs()))
}

/// As for [`eigh`], and vectors without a singular value are arbitrary as a whole.
fn svd(a: &Arguments<'_>) -> Outcome<Vec<DynTensor>> {
    let x = a.t("A")?;
    let (u, values, v) =
        if a.truth("full_matrices") { linalg::svd_full(x) } else { linalg::svd(x) };
    let k = values.size(-1);
    Ok(vec![u.narrow(-1, 0, k).abs(), values, v.narrow(-2, 0, k).abs()])
}

fn lstsq(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let _ = a.value("driver"); // another way to the same solution
    if a.is_none("rcond") { Ok(linalg::lstsq(a.t("A")?, a.t("B")?)) } else { absent("rcond") }
}

fn pinv(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let x = a.t("A")?;
    if a.truth("hermitian") || !a.is_none("rcond") || !a.is_none("atol") {
        return absent("hermitian, rcond or atol");
    }
    if a.is_none("rtol") { Ok(linalg::pinv(x)) } else { Ok(linalg::pinv_with(x, a.float("rtol")?)) }
}

fn rank(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let x = a.t("A")?;
    if a.truth("hermitian") || !a.is_none("tol") {
        return absent("hermitian or tol");
    }
    let number = |name: &str| if a.is_none(name) { Ok(0.0) } else { a.float(name) };
    match a.is_none("atol") && a.is_none("rtol") {
        true => Ok(linalg::matrix_rank(x)),
        false => Ok(linalg::matrix_rank_with(x, number("atol")?, number("rtol")?)),
    }
}

fn order(a: &Arguments<'_>, name: &str) -> Outcome<MatrixNorm> {
    let last_axes = a.is_none("dim") || matches!(a.ints("dim")?[..], [-2, -1]);
    if !last_axes || a.truth("keepdim") || a.dtype("dtype")?.is_some() {
        return absent("dim, keepdim or dtype");
    }
    norm(a, name)
}

fn norm(a: &Arguments<'_>, name: &str) -> Outcome<MatrixNorm> {
    if a.value(name).is_string() && a.float(name).is_err() {
        return match a.text(name) {
            "fro" => Ok(MatrixNorm::Frobenius),
            "nuc" => Ok(MatrixNorm::Nuclear),
            other => absent(format!("ord={other}")),
        };
    }
    let order = a.float(name)?;
    [
        (f64::INFINITY, MatrixNorm::Inf),
        (f64::NEG_INFINITY, MatrixNorm::NegInf),
        (1.0, MatrixNorm::L1),
        (-1.0, MatrixNorm::NegL1),
        (2.0, MatrixNorm::L2),
        (-2.0, MatrixNorm::NegL2),
    ]
    .into_iter()
    .find(|(number, _)| *number == order)
    .map_or_else(|| absent(format!("ord={order}")), |(_, norm)| Ok(norm))
}

fn cond(a: &Arguments<'_>) -> Outcome<DynTensor> {
    match a.is_none("p") || a.float("p").is_ok_and(|p| p == 2.0) {
        true => Ok(linalg::cond(a.t("A")?)),
        false => absent("p"),
    }
}
