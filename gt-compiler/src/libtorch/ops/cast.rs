//! Conversions between dtypes. libtorch leaves open what a float beyond an integer's range becomes;
//! GT saturates, and NaN gives 0.

use gt_ir::{DType, HostTensor, Scalar};
use tch::{Device, Kind, Tensor};

use super::{
    Made,
    host::{dtype_of, kind_of, upload},
};

/// The largest double below 2^63.
const BELOW_I64: f64 = 9_223_372_036_854_774_784.0;
/// 2^63.
const ABOVE_I64: f64 = 9_223_372_036_854_775_808.0;

/// The values of `x` in another dtype.
pub(super) fn cast(x: &Tensor, to: DType) -> Made {
    let from = dtype_of(x)?;
    if from == to {
        return Ok(x.f_alias()?);
    }
    match to {
        DType::Bool => Ok(x.f_ne(0)?),
        DType::I32 if from.is_float() => bounded(x, f64::from(i32::MIN), f64::from(i32::MAX), to),
        DType::U8 if from.is_float() => bounded(x, 0.0, f64::from(u8::MAX), to),
        DType::I64 if from.is_float() => saturated(x),
        // By way of `f32`, as every engine has it.
        DType::Bf16 | DType::F16 if from.is_int() => {
            Ok(x.f_to_kind(Kind::Float)?.f_to_kind(kind_of(to))?)
        }
        DType::F32
        | DType::F64
        | DType::Bf16
        | DType::F16
        | DType::I64
        | DType::I32
        | DType::U8 => Ok(x.f_to_kind(kind_of(to))?),
    }
}

/// A float as a double within bounds, NaN as 0.
fn within(x: &Tensor, low: f64, high: f64) -> Made {
    let wide = x.f_to_kind(Kind::Double)?;
    Ok(wide.f_nan_to_num(0.0, None::<f64>, None::<f64>)?.f_clamp(low, high)?)
}

fn bounded(x: &Tensor, low: f64, high: f64, to: DType) -> Made {
    Ok(within(x, low, high)?.f_to_kind(kind_of(to))?)
}

/// No double is the largest `i64`, so what lies above is put there afterwards.
fn saturated(x: &Tensor) -> Made {
    let inside = within(x, -ABOVE_I64, BELOW_I64)?.f_to_kind(Kind::Int64)?;
    let above = x.f_to_kind(Kind::Double)?.f_ge(ABOVE_I64)?;
    Ok(inside.f_masked_fill(&above, i64::MAX)?)
}

/// A literal as a tensor without dimensions, converted as a cast converts.
///
/// # Errors
/// Those of libtorch.
pub fn literal(scalar: Scalar, dtype: DType, device: Device) -> Made {
    let wide = match scalar {
        Scalar::F64(v) => HostTensor::scalar(v),
        Scalar::I64(v) => HostTensor::scalar(v),
        Scalar::Bool(v) => HostTensor::scalar(v),
    };
    let host = cast(&upload(&wide, Device::Cpu)?, dtype)?;
    Ok(if device == Device::Cpu { host } else { host.f_to_device(device)? })
}
