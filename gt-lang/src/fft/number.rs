//! Complex numbers as pairs in a last axis.

use crate::core::DynTensor;

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
    let ([a, b], [c, d]) = ([real(x), imag(x)], [real(y), imag(y)]);
    complex(&(&a * &c - &b * &d), &(a * d + b * c))
}

/// The absolute values, `[.., 2]` to `[..]`. The gradient at 0 is 0.
#[must_use]
#[track_caller]
pub fn abs(x: &DynTensor) -> DynTensor {
    x.norm(-1)
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
