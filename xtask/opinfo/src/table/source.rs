//! Tensors without operands: constants, ranges, random numbers. PyTorch's `device` is always the
//! CPU.

use gt::ir::Scalar;
use gt::{DType, DynTensor};

use super::rows;
use crate::arguments::{Arguments, Outcome};

rows! {
    "zeros", "size dtype=None device=cpu requires_grad=False" => |a| DynTensor::zeros(a.sizes("size")?, dtype(a)?);
    "ones", "size dtype=None device=cpu requires_grad=False" => |a| DynTensor::ones(a.sizes("size")?, dtype(a)?);
    "full", "size fill_value dtype=None device=cpu requires_grad=False" => |a| DynTensor::full(a.sizes("size")?, a.scalar("fill_value")?, filled(a)?);
    "zeros_like", "input dtype=None device=cpu" => |a| a.x()?.zeros_like();
    "ones_like", "input dtype=None device=cpu" => |a| a.x()?.ones_like();
    "full_like", "input fill_value dtype=None device=cpu" => |a| a.x()?.full_like(a.scalar("fill_value")?);
    "arange", "*bounds end=None dtype=None device=cpu" => |a| arange(a)?;
    "linspace", "start end steps dtype=None device=cpu" => |a| DynTensor::linspace(a.float("start")?, a.float("end")?, a.size("steps")?, dtype(a)?);
    "eye", "n m=None dtype=None device=cpu requires_grad=False" => |a| DynTensor::eye(a.size("n")?, dtype(a)?);
    "randn", "size dtype=None device=cpu requires_grad=False" random => |a| DynTensor::randn(a.sizes("size")?, dtype(a)?);
    "randint", "*bounds dtype=None device=cpu requires_grad=False" random => |a| randint(a)?;
    "rand_like", "input dtype=None device=cpu" random => |a| a.x()?.rand_like();
    "randn_like", "input dtype=None device=cpu" random => |a| a.x()?.randn_like();
    "bernoulli", "input" random => |a| a.x()?.bernoulli();
    "multinomial", "input num_samples replacement=False" random => |a| multinomial(a)?;
    "normal/number_mean", "mean std size=None dtype=None device=cpu" random => |a| DynTensor::normal(a.float("mean")?, a.float("std")?, a.sizes("size")?, dtype(a)?);
}

/// The argument `dtype`, or PyTorch's default dtype.
fn dtype(a: &Arguments<'_>) -> Outcome<DType> {
    Ok(a.dtype("dtype")?.unwrap_or(DType::F32))
}

/// The argument `dtype`, or the dtype of the number.
fn filled(a: &Arguments<'_>) -> Outcome<DType> {
    let of = match a.scalar("fill_value")? {
        Scalar::Bool(_) => DType::Bool,
        Scalar::I64(_) => DType::I64,
        Scalar::F64(_) => DType::F32,
    };
    Ok(a.dtype("dtype")?.unwrap_or(of))
}

/// The end; start and end; or start, end and step.
fn arange(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let bounds = a.value("bounds").as_array().cloned().unwrap_or_default();
    let number = |i: usize| bounds.get(i).and_then(crate::arguments::scalar);
    let end = a.is_none("end");
    let (start, stop, step) = match (end, bounds.len()) {
        (false, 0) => (None, Some(a.scalar("end")?), None),
        (true, 1) => (None, number(0), None),
        _ => (number(0), number(1), number(2)),
    };
    let one = |n: i64, like: Option<Scalar>| match like {
        Some(Scalar::F64(_)) => Scalar::F64(n as f64),
        _ => Scalar::I64(n),
    };
    let (start, step) = (start.unwrap_or(one(0, stop)), step.unwrap_or(one(1, stop)));
    let stop = stop.map_or_else(|| a.scalar("end"), Ok)?;
    let floats = [start, stop, step].iter().any(|n| matches!(n, Scalar::F64(_)));
    let of = if floats { DType::F32 } else { DType::I64 };
    Ok(DynTensor::arange(start, stop, step, a.dtype("dtype")?.unwrap_or(of)))
}

/// The upper bound, or both bounds.
fn randint(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let bounds = a.value("bounds").as_array().cloned().unwrap_or_default();
    let numbers: Vec<i64> = bounds.iter().filter_map(serde_json::Value::as_i64).collect();
    let sizes = bounds.last().and_then(serde_json::Value::as_array).cloned().unwrap_or_default();
    let sizes: Vec<i64> = sizes.iter().filter_map(serde_json::Value::as_i64).collect();
    let (low, high) = match numbers.as_slice() {
        [low, high, ..] => (*low, *high),
        [high] => (0, *high),
        [] => (0, 0),
    };
    Ok(DynTensor::randint(low, high, sizes, a.dtype("dtype")?.unwrap_or(DType::I64)))
}

fn multinomial(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let (weights, n) = (a.x()?, a.size("num_samples")?);
    Ok(match a.truth("replacement") {
        true => weights.multinomial(n),
        false => weights.multinomial_without_replacement(n),
    })
}
