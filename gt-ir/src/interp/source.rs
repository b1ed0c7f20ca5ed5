//! Sources: values made from a type and a few numbers.

use super::{
    EvalError,
    array::{Array, Data},
};
use crate::{
    HostTensor, Type,
    philox::{self, Distribution},
};

/// 0, 1, 2, .. in row-major order.
pub(super) fn iota(out: Type) -> Array {
    Array::new(out, Data::Int((0..out.shape.numel() as i64).collect()))
}

/// Uniform numbers in [0, 1).
pub(super) fn rand(out: Type, seed: &Array) -> Result<Array, EvalError> {
    drawn(out, Distribution::Uniform, number(seed)?)
}

/// Standard normal numbers.
pub(super) fn randn(out: Type, seed: &Array) -> Result<Array, EvalError> {
    drawn(out, Distribution::Normal, number(seed)?)
}

/// Uniform integers in [low, high).
pub(super) fn randint(
    out: Type,
    low: &Array,
    high: &Array,
    seed: &Array,
) -> Result<Array, EvalError> {
    drawn(out, Distribution::Integers { low: number(low)?, high: number(high)? }, number(seed)?)
}

/// The one element of an integer array.
fn number(x: &Array) -> Result<i64, EvalError> {
    x.ints()?.first().copied().ok_or(EvalError::Kind { wanted: "one number", found: x.ty })
}

/// Random numbers of a seed in row-major order.
fn drawn(out: Type, distribution: Distribution, seed: i64) -> Result<Array, EvalError> {
    let mut bytes = vec![0; out.bytes()];
    philox::fill(distribution, out.dtype, seed as u64, 0, &mut bytes);
    Array::from_host(&HostTensor::new(out, bytes.into())?)
}
