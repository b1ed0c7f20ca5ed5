//! Complex numbers as pairs in a last axis: the one definition of their parts, products, absolute
//! values and angles, which [`ComplexTensor`](crate::complex::ComplexTensor) uses too.

use crate::core::{Arg, DynTensor, keepdim};

/// Complex numbers of real and imaginary parts, which have the same shape: `[..]` and `[..]` to
/// `[.., 2]`. PyTorch's `torch.complex`.
#[must_use]
#[track_caller]
pub fn complex(real: &DynTensor, imag: &DynTensor) -> DynTensor {
    DynTensor::stack([real, imag], -1)
}

/// The real parts, `[.., 2]` to `[..]`.
#[must_use]
#[track_caller]
pub fn real(x: &DynTensor) -> DynTensor {
    part(x, 0)
}

/// The imaginary parts, `[.., 2]` to `[..]`.
#[must_use]
#[track_caller]
pub fn imag(x: &DynTensor) -> DynTensor {
    part(x, 1)
}

#[track_caller]
fn part(x: &DynTensor, i: i64) -> DynTensor {
    x.narrow(-1, i, 1).squeeze(-1)
}

/// The products of complex numbers; shapes broadcast.
#[must_use]
#[track_caller]
pub fn mul(x: &DynTensor, y: &DynTensor) -> DynTensor {
    let (c, d) = (real(y), imag(y));
    times([&real(x), &imag(x)], [Arg::Tensor(&c), Arg::Tensor(&d)])
}

/// The products of complex numbers by their parts.
#[track_caller]
pub(crate) fn times([a, b]: [&DynTensor; 2], [c, d]: [Arg<'_>; 2]) -> DynTensor {
    complex(&(a.mul(c) - b.mul(d)), &(a.mul(d) + b.mul(c)))
}

/// The absolute values, `[.., 2]` to `[..]`, without overflow: the norm of both parts, divided by
/// the larger one and multiplied with it again. The gradient at 0 is 0.
#[must_use]
#[track_caller]
pub fn abs(x: &DynTensor) -> DynTensor {
    let larger = x.detach().abs().max(keepdim(-1));
    let is_scale = larger.gt(0.0).logical_and(&larger.lt(f64::INFINITY));
    let scale = is_scale.where_(&larger, &larger.ones_like());
    (x / &scale).norm(-1) * scale.squeeze(-1)
}

/// The angles, `[.., 2]` to `[..]`, from -pi to pi.
#[must_use]
#[track_caller]
pub fn angle(x: &DynTensor) -> DynTensor {
    imag(x).atan2(&real(x))
}

/// The complex numbers with the opposite imaginary parts.
#[must_use]
#[track_caller]
pub fn conj(x: &DynTensor) -> DynTensor {
    complex(&real(x), &imag(x).neg())
}
