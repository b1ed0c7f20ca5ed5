//! Reductions, matrix products, scans and sorting.

use gt::DynTensor;

use super::rows;
use crate::arguments::{Arguments, Outcome, absent};

rows! {
    "sum", "input dim=None keepdim=False dtype=None" => |a| as_asked(a, typed(a)?.sum(a.axes()?))?;
    "mean", "input dim=None keepdim=False dtype=None" => |a| typed(a)?.mean(a.axes()?);
    "prod", "input dim=None keepdim=False dtype=None" => |a| as_asked(a, typed(a)?.prod(a.axes()?))?;
    "amax", "input dim=None keepdim=False" => |a| a.x()?.max(a.axes()?);
    "amin", "input dim=None keepdim=False" => |a| a.x()?.min(a.axes()?);
    "max/reduction_no_dim", "input" => |a| a.x()?.max(..);
    "min/reduction_no_dim", "input" => |a| a.x()?.min(..);
    "max/reduction_with_dim", "input dim keepdim=False" => |a| kept(a, a.x()?.max_along(a.int("dim")?))?;
    "min/reduction_with_dim", "input dim keepdim=False" => |a| kept(a, a.x()?.min_along(a.int("dim")?))?;
    "any", "input dim=None keepdim=False" => |a| a.x()?.any(a.axes()?);
    "all", "input dim=None keepdim=False" => |a| a.x()?.all(a.axes()?);
    "logsumexp", "input dim keepdim=False" => |a| a.x()?.logsumexp(a.axes()?);
    "norm", "input p=2 dim=None keepdim=False dtype=None" => |a| norm(a, "p")?;
    "norm/inf", "input p=2 dim=None keepdim=False dtype=None" => |a| norm(a, "p")?;
    "linalg.vector_norm", "input ord=2 dim=None keepdim=False dtype=None" => |a| norm(a, "ord")?;
    "argmax", "input dim=None keepdim=False" => |a| place(a, DynTensor::argmax)?;
    "argmin", "input dim=None keepdim=False" => |a| place(a, DynTensor::argmin)?;
    "var", "input dim=None unbiased=None keepdim=False correction=1" => |a| a.x()?.var_with(a.axes()?, correction(a)?);
    "std", "input dim=None unbiased=None keepdim=False correction=1" => |a| a.x()?.std_with(a.axes()?, correction(a)?);
    "var/unbiased", "input unbiased=True" => |a| a.x()?.var_with(.., correction(a)?);
    "std/unbiased", "input unbiased=True" => |a| a.x()?.std_with(.., correction(a)?);
    "mode", "input dim=-1 keepdim=False" => |a| mode(a)?;
    "median", "input dim=None keepdim=False" => |a| median(a)?;
    "softmax", "input dim dtype=None" => |a| typed(a)?.softmax(a.int("dim")?);
    "softmax/with_dtype", "input dim dtype=None" => |a| typed(a)?.softmax(a.int("dim")?);
    "log_softmax", "input dim dtype=None" => |a| typed(a)?.log_softmax(a.int("dim")?);
    "log_softmax/with_dtype", "input dim dtype=None" => |a| typed(a)?.log_softmax(a.int("dim")?);
    "cumsum", "input dim dtype=None" => |a| as_asked(a, typed(a)?.cumsum(a.int("dim")?))?;
    "cumprod", "input dim dtype=None" => |a| as_asked(a, typed(a)?.cumprod(a.int("dim")?))?;
    "cummax", "input dim" => |a| a.x()?.cummax(a.int("dim")?);
    "cummin", "input dim" => |a| a.x()?.cummin(a.int("dim")?);
    "argsort", "input dim=-1 descending=False stable=False" => |a| sorted(a)?.argsort(a.int("dim")?, a.truth("descending"));
    "sort", "input dim=-1 descending=False stable=False" => |a| sorted(a)?.sort(a.int("dim")?, a.truth("descending"));
    "topk", "input k dim=-1 largest=True sorted=True" => |a| topk(a)?;
    "matmul", "input other" => |a| a.x()?.matmul(a.t("other")?);
    "__rmatmul__", "input other" => |a| a.t("other")?.matmul(a.x()?);
    "mm", "input mat2" => |a| a.x()?.matmul(a.t("mat2")?);
    "bmm", "input mat2" => |a| a.x()?.matmul(a.t("mat2")?);
    "mv", "input vec" => |a| a.x()?.matmul(a.t("vec")?);
    "dot", "input other" => |a| a.x()?.matmul(a.t("other")?);
    "outer", "input vec2" => |a| a.x()?.outer(a.t("vec2")?);
}

/// The input, cast to the argument `dtype` before the computation.
fn typed(a: &Arguments<'_>) -> Outcome<DynTensor> {
    Ok(match a.dtype("dtype")? {
        Some(dtype) => a.x()?.to_dtype(dtype),
        None => a.x()?.clone(),
    })
}

/// A result, cast to the argument `dtype`.
fn as_asked(a: &Arguments<'_>, result: DynTensor) -> Outcome<DynTensor> {
    Ok(a.dtype("dtype")?.map_or(result.clone(), |dtype| result.to_dtype(dtype)))
}

/// Values and positions, with the reduced axis if `keepdim`.
fn kept(a: &Arguments<'_>, found: (DynTensor, DynTensor)) -> Outcome<(DynTensor, DynTensor)> {
    match a.truth("keepdim") {
        false => Ok(found),
        true if a.x()?.rank() == 0 => Ok(found),
        true => {
            let dim = a.int("dim")?;
            Ok((found.0.unsqueeze(dim), found.1.unsqueeze(dim)))
        }
    }
}

fn norm(a: &Arguments<'_>, order: &str) -> Outcome<DynTensor> {
    match a.value(order).is_string() {
        true => absent(format!("the order {}", a.text(order))),
        false => Ok(typed(a)?.norm_p(a.float(order)?, a.axes()?)),
    }
}

/// Along an axis, or over all elements as one axis.
fn place(a: &Arguments<'_>, of: fn(&DynTensor, i64) -> DynTensor) -> Outcome<DynTensor> {
    let x = a.x()?;
    if a.is_none("dim") {
        return match a.truth("keepdim") {
            false => Ok(of(&x.reshape([-1]), 0)),
            true => absent("keepdim without dim"),
        };
    }
    let dim = a.int("dim")?;
    let found = of(x, dim);
    Ok(if a.truth("keepdim") && x.rank() > 0 { found.unsqueeze(dim) } else { found })
}

/// The correction of the count: 1, or 0 if `unbiased` is false.
fn correction(a: &Arguments<'_>) -> Outcome<f64> {
    match a.value("unbiased").as_bool() {
        Some(unbiased) => Ok(f64::from(u8::from(unbiased))),
        None if a.is_none("correction") => Ok(1.0),
        None => a.float("correction"),
    }
}

/// Along an axis with positions, or over all elements without positions.
fn mode(a: &Arguments<'_>) -> Outcome<(DynTensor, DynTensor)> {
    let (axis, keeps) = (a.int("dim")?, a.truth("keepdim") && a.x()?.rank() > 0);
    let (value, place) = a.x()?.mode(axis);
    let kept = |x: DynTensor| if keeps { x.unsqueeze(axis) } else { x };
    Ok((kept(value), kept(place)))
}

fn median(a: &Arguments<'_>) -> Outcome<Vec<DynTensor>> {
    if a.is_none("dim") {
        return Ok(vec![a.x()?.reshape([-1]).median(0).0]);
    }
    let (values, places) = kept(a, a.x()?.median(a.int("dim")?))?;
    Ok(vec![values, places])
}

/// GT always sorts stably, which PyTorch does on request.
fn sorted<'a>(a: &Arguments<'a>) -> Outcome<&'a DynTensor> {
    let _ = a.truth("stable");
    a.x()
}

/// The largest elements come first. Elements that PyTorch may leave unsorted are sorted as well.
fn topk(a: &Arguments<'_>) -> Outcome<(DynTensor, DynTensor)> {
    match (a.truth("largest"), a.truth("sorted")) {
        (false, _) => absent("largest=False"),
        (true, _) => Ok(a.x()?.topk(a.size("k")?, a.int("dim")?)),
    }
}
