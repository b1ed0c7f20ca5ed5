//! Arrays of the interpreter: every float is held as an `f64`, every integer as an `i64`.
//!
//! Guarantees: after [`Array::new`] each element is a value of the dtype (rounded to it, or wrapped
//! into it), so kernels compute in the wide type and never think of the narrow one.

use half::{bf16, f16};

use super::EvalError;
use crate::{DType, HostTensor, Type};

/// The most elements one value may have: the interpreter is for small things, and this keeps it
/// from eating the host.
pub const MAX_ELEMENTS: usize = 1 << 28;

/// Elements in row-major order, in the wide type of their category.
#[derive(Clone, Debug)]
pub(super) enum Data {
    /// `f32`, `f64`, `bf16`, `f16`
    Float(Vec<f64>),
    /// `i64`, `i32`, `u8`
    Int(Vec<i64>),
    /// `bool`
    Bool(Vec<bool>),
}

/// A value: its type, and `ty.shape.numel()` elements.
#[derive(Clone, Debug)]
pub(super) struct Array {
    pub(super) ty: Type,
    pub(super) data: Data,
}

/// Calls `$f` with the elements, whatever their type, and wraps the `Vec` it gives back the same
/// way.
macro_rules! map_data {
    ($data:expr, $v:ident => $body:expr) => {
        match $data {
            Data::Float($v) => Data::Float($body),
            Data::Int($v) => Data::Int($body),
            Data::Bool($v) => Data::Bool($body),
        }
    };
}

impl Array {
    /// Rounds or wraps `data` into `ty`. The category of `data` is that of `ty`.
    pub(super) fn new(ty: Type, data: Data) -> Array {
        let data = match data {
            Data::Float(v) => Data::Float(v.into_iter().map(|x| round(ty.dtype, x)).collect()),
            Data::Int(v) => Data::Int(v.into_iter().map(|x| wrap(ty.dtype, x)).collect()),
            Data::Bool(v) => Data::Bool(v),
        };
        Array { ty, data }
    }

    /// The elements of `from` picked by their offsets.
    pub(super) fn pick(ty: Type, from: &Array, offsets: impl Iterator<Item = usize>) -> Array {
        Array { ty, data: map_data!(&from.data, v => offsets.map(|o| v[o]).collect()) }
    }

    pub(super) fn sizes(&self) -> &[usize] {
        self.ty.shape.sizes()
    }

    /// The elements of a float dtype. Another dtype is an error that names the type found, here and
    /// in the next two functions.
    pub(super) fn floats(&self) -> Result<&[f64], EvalError> {
        if let Data::Float(v) = &self.data {
            Ok(v)
        } else {
            Err(EvalError::Kind { wanted: "floats", found: self.ty })
        }
    }

    pub(super) fn ints(&self) -> Result<&[i64], EvalError> {
        if let Data::Int(v) = &self.data {
            Ok(v)
        } else {
            Err(EvalError::Kind { wanted: "integers", found: self.ty })
        }
    }

    pub(super) fn bools(&self) -> Result<&[bool], EvalError> {
        if let Data::Bool(v) = &self.data {
            Ok(v)
        } else {
            Err(EvalError::Kind { wanted: "bools", found: self.ty })
        }
    }

    /// Reads a host tensor.
    pub(super) fn from_host(host: &HostTensor) -> Result<Array, EvalError> {
        let ty = *host.ty();
        check_size(&ty)?;
        let b = host.bytes().as_ref();
        let data = match ty.dtype {
            DType::F32 => Data::Float(words(b, |x| f64::from(f32::from_le_bytes(x)))),
            DType::F64 => Data::Float(words(b, f64::from_le_bytes)),
            DType::Bf16 => Data::Float(words(b, |x| bf16::from_le_bytes(x).to_f64())),
            DType::F16 => Data::Float(words(b, |x| f16::from_le_bytes(x).to_f64())),
            DType::I64 => Data::Int(words(b, i64::from_le_bytes)),
            DType::I32 => Data::Int(words(b, |x| i64::from(i32::from_le_bytes(x)))),
            DType::U8 => Data::Int(words(b, |[x]: [u8; 1]| i64::from(x))),
            DType::Bool => Data::Bool(words(b, |[x]: [u8; 1]| x != 0)),
        };
        Ok(Array { ty, data })
    }

    /// The row-major little-endian bytes.
    pub(super) fn to_host(&self) -> Result<HostTensor, EvalError> {
        let bytes: Vec<u8> = match &self.data {
            Data::Float(v) => match self.ty.dtype {
                DType::F64 => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
                DType::Bf16 => v.iter().flat_map(|x| to_bf16(*x).to_le_bytes()).collect(),
                DType::F16 => v.iter().flat_map(|x| f16::from_f64(*x).to_le_bytes()).collect(),
                DType::F32 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
                    v.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect()
                }
            },
            Data::Int(v) => {
                let size = self.ty.dtype.size();
                v.iter().flat_map(|x| x.to_le_bytes().into_iter().take(size)).collect()
            }
            Data::Bool(v) => v.iter().map(|x| u8::from(*x)).collect(),
        };
        Ok(HostTensor::new(self.ty, bytes.into())?)
    }
}

/// Refuses a value too large for the interpreter.
pub(super) fn check_size(ty: &Type) -> Result<(), EvalError> {
    if ty.shape.numel() > MAX_ELEMENTS {
        Err(EvalError::TooLarge { ty: *ty, limit: MAX_ELEMENTS })
    } else {
        Ok(())
    }
}

fn words<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    let (words, _) = bytes.as_chunks::<N>();
    words.iter().map(|w| read(*w)).collect()
}

/// The value of `dtype` nearest to `x`, ties to even.
pub(super) fn round(dtype: DType, x: f64) -> f64 {
    match dtype {
        DType::F32 => f64::from(x as f32),
        DType::Bf16 => to_bf16(x).to_f64(),
        DType::F16 => f16::from_f64(x).to_f64(),
        DType::F64 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => x,
    }
}

/// By way of `f32`, as every engine has it: they compute in `f32` and round once more when they
/// store.
fn to_bf16(x: f64) -> bf16 {
    bf16::from_f32(x as f32)
}

/// The value of `dtype` congruent to `x` modulo its range.
pub(super) fn wrap(dtype: DType, x: i64) -> i64 {
    match dtype {
        DType::I32 => i64::from(x as i32),
        DType::U8 => i64::from(x as u8),
        DType::I64 | DType::F32 | DType::F64 | DType::Bf16 | DType::F16 | DType::Bool => x,
    }
}
