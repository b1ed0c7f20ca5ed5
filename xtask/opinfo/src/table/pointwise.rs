//! Pointwise operators.

use gt::core::Arg;
use gt::ir::Scalar;
use gt::{DType, DynTensor};

use super::rows;
use crate::arguments::{Arguments, Outcome, absent};

rows! {
    "neg", "input" => |a| a.x()?.neg();
    "exp", "input" => |a| a.x()?.exp();
    "log", "input" => |a| a.x()?.log();
    "sqrt", "input" => |a| a.x()?.sqrt();
    "rsqrt", "input" => |a| a.x()?.rsqrt();
    "abs", "input" => |a| a.x()?.abs();
    "sin", "input" => |a| a.x()?.sin();
    "cos", "input" => |a| a.x()?.cos();
    "tan", "input" => |a| a.x()?.tan();
    "tanh", "input" => |a| a.x()?.tanh();
    "erf", "input" => |a| a.x()?.erf();
    "sigmoid", "input" => |a| a.x()?.sigmoid();
    "sign", "input" => |a| a.x()?.sign();
    "floor", "input" => |a| a.x()?.floor();
    "ceil", "input" => |a| a.x()?.ceil();
    "trunc", "input" => |a| a.x()?.trunc();
    "round", "input" => |a| a.x()?.round();
    "log1p", "input" => |a| a.x()?.log1p();
    "expm1", "input" => |a| a.x()?.expm1();
    "atan", "input" => |a| a.x()?.atan();
    "log2", "input" => |a| a.x()?.log2();
    "log10", "input" => |a| a.x()?.log10();
    "exp2", "input" => |a| a.x()?.exp2();
    "square", "input" => |a| a.x()?.square();
    "reciprocal", "input" => |a| a.x()?.reciprocal();
    "logical_not", "input" => |a| a.x()?.logical_not();
    "isnan", "input" => |a| a.x()?.isnan();
    "isinf", "input" => |a| a.x()?.isinf();
    "isfinite", "input" => |a| a.x()?.isfinite();
    "nan_to_num", "input nan=0 posinf=None neginf=None" => |a| nan_to_num(a)?;
    "add", "input other alpha=1" => |a| a.x()?.add(a.arg("other")?);
    "sub", "input other alpha=1" => |a| a.x()?.sub(a.arg("other")?);
    "mul", "input other" => |a| a.x()?.mul(a.arg("other")?);
    "div/no_rounding_mode", "input other rounding_mode=None" => |a| a.x()?.div(a.arg("other")?);
    "true_divide", "input other" => |a| a.x()?.div(a.arg("other")?);
    "pow", "input exponent" => |a| a.x()?.pow(a.arg("exponent")?);
    "maximum", "input other" => |a| a.x()?.maximum(a.arg("other")?);
    "minimum", "input other" => |a| a.x()?.minimum(a.arg("other")?);
    "max/binary", "input other" => |a| a.x()?.maximum(a.arg("other")?);
    "min/binary", "input other" => |a| a.x()?.minimum(a.arg("other")?);
    "remainder", "input other" => |a| a.x()?.remainder(a.arg("other")?);
    "fmod", "input other" => |a| a.x()?.fmod(a.arg("other")?);
    "atan2", "input other" => |a| a.x()?.atan2(a.arg("other")?);
    "eq", "input other" => |a| a.x()?.eq(a.arg("other")?);
    "ne", "input other" => |a| a.x()?.ne(a.arg("other")?);
    "lt", "input other" => |a| a.x()?.lt(a.arg("other")?);
    "le", "input other" => |a| a.x()?.le(a.arg("other")?);
    "gt", "input other" => |a| a.x()?.gt(a.arg("other")?);
    "ge", "input other" => |a| a.x()?.ge(a.arg("other")?);
    "logical_and", "input other" => |a| a.x()?.logical_and(a.arg("other")?);
    "logical_or", "input other" => |a| a.x()?.logical_or(a.arg("other")?);
    "logical_xor", "input other" => |a| a.x()?.logical_xor(a.arg("other")?);
    "bitwise_and", "input other" => |a| a.x()?.bitwise_and(a.arg("other")?);
    "bitwise_or", "input other" => |a| a.x()?.bitwise_or(a.arg("other")?);
    "bitwise_xor", "input other" => |a| a.x()?.bitwise_xor(a.arg("other")?);
    "bitwise_not", "input" => |a| a.x()?.bitwise_not();
    "bitwise_left_shift", "input other" => |a| a.x()?.bitwise_left_shift(a.arg("other")?);
    "bitwise_right_shift", "input other" => |a| a.x()?.bitwise_right_shift(a.arg("other")?);
    "__rand__", "input other" => |a| turned_bits(a, |x, y| y & x, |y, x| y & x)?;
    "__ror__", "input other" => |a| turned_bits(a, |x, y| y | x, |y, x| y | x)?;
    "__rxor__", "input other" => |a| turned_bits(a, |x, y| y ^ x, |y, x| y ^ x)?;
    "__radd__", "input other" => |a| turned(a, |x, y| y + x, |x, y| y + x, |y, x| y.add(x))?;
    "__rsub__", "input other" => |a| turned(a, |x, y| y - x, |x, y| y - x, |y, x| y.sub(x))?;
    "__rmul__", "input other" => |a| turned(a, |x, y| y * x, |x, y| y * x, |y, x| y.mul(x))?;
    "__rdiv__", "input other" => |a| turned(a, |x, y| y / x, |x, y| y / x, |y, x| y.div(x))?;
    "where", "input condition other" => |a| condition(a)?.where_(a.arg("input")?, a.arg("other")?);
    "masked_fill", "input mask value" => |a| masked_fill(a)?;
    "clamp", "input min=None max=None" => |a| clamp(a)?;
    "clamp_min", "input min" => |a| a.x()?.clamp_min(a.arg("min")?);
    "clamp_max", "input max" => |a| a.x()?.clamp_max(a.arg("max")?);
    "lerp", "input end weight" => |a| a.x()?.lerp(a.t("end")?, a.arg("weight")?);
    "to", "input *words" => |a| to(a)?;
    "bfloat16", "input" => |a| a.x()?.to_dtype(DType::Bf16);
    "half", "input" => |a| a.x()?.to_dtype(DType::F16);
    "float", "input" => |a| a.x()?.to_dtype(DType::F32);
    "double", "input" => |a| a.x()?.to_dtype(DType::F64);
    "long", "input" => |a| a.x()?.to_dtype(DType::I64);
    "int", "input" => |a| a.x()?.to_dtype(DType::I32);
    "byte", "input" => |a| a.x()?.to_dtype(DType::U8);
    "bool", "input" => |a| a.x()?.to_dtype(DType::Bool);
    "nn.functional.relu", "input inplace=False" => |a| a.x()?.relu();
    "nn.functional.gelu", "input approximate=none" => |a| gelu(a)?;
    "nn.functional.silu", "input inplace=False" => |a| a.x()?.silu();
    "nn.functional.softplus", "input beta=1 threshold=20" => |a| a.x()?.softplus();
    "nn.functional.logsigmoid", "input" => |a| a.x()?.log_sigmoid();
    "nn.functional.mish", "input inplace=False" => |a| a.x()?.mish();
    "nn.functional.hardtanh", "input min_val=-1 max_val=1 inplace=False" => |a| hardtanh(a)?;
    "nn.functional.relu6", "input inplace=False" => |a| a.x()?.relu6();
    "nn.functional.hardsigmoid", "input inplace=False" => |a| a.x()?.hardsigmoid();
    "nn.functional.hardswish", "input inplace=False" => |a| a.x()?.hardswish();
    "nn.functional.leaky_relu", "input negative_slope=0.01 inplace=False" => |a| a.x()?.leaky_relu(a.arg("negative_slope")?);
    "nn.functional.elu", "input alpha=1.0 inplace=False" => |a| a.x()?.elu(a.arg("alpha")?);
    "nn.functional.prelu", "input weight" => |a| prelu(a)?;
    "nn.functional.glu", "input dim=-1" => |a| a.x()?.glu(a.int("dim")?);
    "nn.functional.dropout", "input p=0.5 training=True inplace=False" random => |a| dropout(a)?;
}

/// An operator with exchanged operands: a number on the left, or a tensor.
fn turned(
    a: &Arguments<'_>,
    float: fn(&DynTensor, f64) -> DynTensor,
    integer: fn(&DynTensor, i64) -> DynTensor,
    tensor: fn(&DynTensor, &DynTensor) -> DynTensor,
) -> Outcome<DynTensor> {
    match a.arg("other")? {
        Arg::Tensor(other) => Ok(tensor(other, a.x()?)),
        Arg::Scalar(Scalar::F64(number)) => Ok(float(a.x()?, number)),
        Arg::Scalar(Scalar::I64(number)) => Ok(integer(a.x()?, number)),
        Arg::Scalar(Scalar::Bool(_)) => absent("a truth on the left"),
    }
}

fn turned_bits(
    a: &Arguments<'_>,
    integer: fn(&DynTensor, i64) -> DynTensor,
    tensor: fn(&DynTensor, &DynTensor) -> DynTensor,
) -> Outcome<DynTensor> {
    match a.arg("other")? {
        Arg::Tensor(other) => Ok(tensor(other, a.x()?)),
        Arg::Scalar(Scalar::I64(number)) => Ok(integer(a.x()?, number)),
        Arg::Scalar(_) => absent("other than an integer on the left"),
    }
}

fn condition<'a>(a: &Arguments<'a>) -> Outcome<&'a DynTensor> {
    a.t("condition")
}

fn masked_fill(a: &Arguments<'_>) -> Outcome<DynTensor> {
    match a.arg("value")? {
        Arg::Scalar(value) => Ok(a.x()?.masked_fill(a.t("mask")?, value)),
        Arg::Tensor(value) => Ok(a.x()?.masked_assign(a.t("mask")?, value)),
    }
}

fn clamp(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let x = a.x()?;
    match (a.is_none("min"), a.is_none("max")) {
        (false, false) => Ok(x.clamp(a.arg("min")?, a.arg("max")?)),
        (false, true) => Ok(x.clamp_min(a.arg("min")?)),
        (true, false) => Ok(x.clamp_max(a.arg("max")?)),
        (true, true) => absent("no bound"),
    }
}

fn nan_to_num(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let largest = match a.x()?.dtype() {
        DType::F64 => f64::MAX,
        DType::F32 => f64::from(f32::MAX),
        DType::Bf16 => 3.389_531_389_251_535_5e38,
        _ => 65504.0,
    };
    let or = |name: &str, value: f64| if a.is_none(name) { Ok(value) } else { a.float(name) };
    Ok(a.x()?.nan_to_num(or("nan", 0.0)?, or("posinf", largest)?, or("neginf", -largest)?))
}

/// A dtype, or the dtype of a tensor. Device and copying change no result.
fn to(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let words = a.list_of_values("words");
    let dtype = words.iter().find_map(|word| word["d"].as_str()?.parse().ok());
    let dtype = match words.first() {
        Some(first) if !first["t"].is_null() => Some(a.one_tensor(first, "other")?.dtype()),
        _ => dtype,
    };
    dtype.map_or_else(|| absent("no dtype"), |dtype| Ok(a.x()?.to_dtype(dtype)))
}

fn gelu(a: &Arguments<'_>) -> Outcome<DynTensor> {
    Ok(if a.text("approximate") == "tanh" { a.x()?.gelu_tanh() } else { a.x()?.gelu() })
}

fn hardtanh(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let x = a.x()?;
    match (a.arg("min_val")?, a.arg("max_val")?) {
        (Arg::Scalar(min), Arg::Scalar(max)) => Ok(x.hardtanh_with(min, max)),
        (min, max) => Ok(x.clamp(min, max)),
    }
}

/// One slope, or one for each channel. Channels are axis 1.
fn prelu(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let (x, slope) = (a.x()?, a.t("weight")?);
    match slope.numel() {
        1 => Ok(x.leaky_relu(&slope.reshape(()))),
        n => {
            let behind = vec![1; x.rank().saturating_sub(2)];
            Ok(x.leaky_relu(&slope.reshape([vec![n], behind].concat())))
        }
    }
}

fn dropout(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let (x, p) = (a.x()?, a.float("p")?);
    Ok(if a.truth("training") { x.dropout(p) } else { x.clone() })
}
