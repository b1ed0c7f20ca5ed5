//! Real and imaginary parts, and what is made of both: conjugates, absolute values, angles.

use super::ComplexTensor;
use crate::core::{Arg, DynTensor};
use crate::fft;

impl ComplexTensor {
    /// The real parts.
    #[must_use]
    #[track_caller]
    pub fn real(&self) -> DynTensor {
        fft::real(&self.pairs)
    }

    /// The imaginary parts.
    #[must_use]
    #[track_caller]
    pub fn imag(&self) -> DynTensor {
        fft::imag(&self.pairs)
    }

    /// The numbers with the opposite imaginary parts.
    #[must_use]
    #[track_caller]
    pub fn conj(&self) -> ComplexTensor {
        ComplexTensor::of(fft::conj(&self.pairs))
    }

    /// The absolute values, without overflow. The gradient at 0 is 0, as PyTorch's is.
    #[must_use]
    #[track_caller]
    pub fn abs(&self) -> DynTensor {
        fft::abs(&self.pairs)
    }

    /// The angles, from -pi to pi. The gradient at 0 is 0.
    #[doc(alias = "arg")]
    #[must_use]
    #[track_caller]
    pub fn angle(&self) -> DynTensor {
        fft::angle(&self.pairs)
    }

    /// Both parts.
    #[track_caller]
    pub(super) fn parts(&self) -> [DynTensor; 2] {
        [self.real(), self.imag()]
    }

    /// The numbers with these parts, of equal shapes.
    #[track_caller]
    pub(super) fn joined(real: &DynTensor, imag: &DynTensor) -> ComplexTensor {
        match [real, imag].into_iter().find_map(|part| Some((part.error()?, part.ty()))) {
            Some((error, ty)) => ComplexTensor::failed(error, &ty),
            None => ComplexTensor::of(fft::complex(real, imag)),
        }
    }
}

/// -1 where the number has the sign of negative ones, -0 too, else 1; without a gradient.
#[track_caller]
pub(super) fn side(x: &DynTensor) -> DynTensor {
    let x = x.detach();
    let is_negative_zero = x.eq(0.0).logical_and(&x.reciprocal().lt(0.0));
    let (one, is_negative) = (x.ones_like(), x.lt(0.0).logical_or(&is_negative_zero));
    is_negative.where_(&one.neg(), &one)
}

/// The tensor, with 1 where it is 0: what may be divided by.
#[track_caller]
pub(super) fn nonzero(x: &DynTensor) -> DynTensor {
    x.eq(0.0).where_(Arg::Tensor(&x.detach().ones_like()), x)
}
