//! Random sources: the bits of `philox`, made on the host and brought to the device.

use gt_ir::{
    HostTensor, Type,
    philox::{self, Distribution},
};
use tch::{Device, Tensor};

use super::{Made, host::upload};
use crate::error::EngineError;

/// Uniform numbers in [0, 1).
pub(super) fn rand(out: Type, seed: &Tensor, device: Device) -> Made {
    drawn(out, Distribution::Uniform, seed, device)
}

/// Standard normal numbers.
pub(super) fn randn(out: Type, seed: &Tensor, device: Device) -> Made {
    drawn(out, Distribution::Normal, seed, device)
}

/// Uniform integers in [low, high).
pub(super) fn randint(
    out: Type,
    low: &Tensor,
    high: &Tensor,
    seed: &Tensor,
    device: Device,
) -> Made {
    let range = Distribution::Integers { low: number(low)?, high: number(high)? };
    drawn(out, range, seed, device)
}

fn drawn(out: Type, distribution: Distribution, seed: &Tensor, device: Device) -> Made {
    let mut bytes = vec![0; out.bytes()];
    philox::fill(distribution, out.dtype, number(seed)? as u64, 0, &mut bytes);
    upload(&HostTensor::new(out, bytes.into())?, device)
}

fn number(x: &Tensor) -> Result<i64, EngineError> {
    Ok(x.f_int64_value(&[])?)
}
