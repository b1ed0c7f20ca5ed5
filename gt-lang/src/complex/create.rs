//! New tensors of complex numbers: of parts, of absolute values and angles, constants and random
//! numbers.

use gt_ir::{DType, OpError, Shape};

use super::{Complex, ComplexDType, ComplexTensor};
use crate::core::{DynTensor, Size, Sizes};

/// The sizes of pairs.
fn of_pairs(sizes: impl Into<Sizes>) -> Sizes {
    let mut sizes: Sizes = sizes.into();
    sizes.0.push(Size::Plain(2));
    sizes
}

/// A part in the shape that both have together.
#[track_caller]
fn expanded(part: &DynTensor, shape: Shape) -> DynTensor {
    if part.shape().same_sizes(&shape) { part.clone() } else { part.expand(shape) }
}

impl ComplexTensor {
    /// The complex numbers of real and imaginary parts, which broadcast: PyTorch's `torch.complex`.
    /// Both are `f32`, or both `f64`.
    ///
    /// ```no_run
    /// # extern crate gt_lang as gt;
    /// # use gt::prelude::*;
    /// let x = DynTensor::randn([3, 1], DType::F32);
    /// let z = ComplexTensor::new(&x, &DynTensor::ones([4], DType::F32));
    /// assert_eq!((z.sizes(), z.dtype()), (vec![3, 4], ComplexDType::C64));
    /// ```
    #[doc(alias = "complex")]
    #[must_use]
    #[track_caller]
    pub fn new(real: &DynTensor, imag: &DynTensor) -> ComplexTensor {
        let (a, b) = (real.ty(), imag.ty());
        if real.error().is_some() || imag.error().is_some() {
            return ComplexTensor::joined(real, imag);
        }
        let is_part = |dtype| matches!(dtype, DType::F32 | DType::F64);
        let shape = a.shape.broadcast(&b.shape);
        let (message, hint) = match shape {
            Some(shape) if a.dtype == b.dtype && is_part(a.dtype) => {
                let (a, b) = (expanded(real, shape), expanded(imag, shape));
                return ComplexTensor::joined(&a, &b);
            }
            Some(_) => ("takes two parts of f32 or two of f64", "cast a part with `to_dtype`"),
            None => ("takes parts whose shapes broadcast", "sizes are equal, or one of them is 1"),
        };
        let error = OpError::new(format!("complex: {message}, but got {a} and {b}")).hint(hint);
        let fault = real.record_with(|_| Err(error));
        ComplexTensor::joined(&fault, imag)
    }

    /// The complex numbers of absolute values and angles, which broadcast: PyTorch's `torch.polar`.
    #[must_use]
    #[track_caller]
    pub fn polar(abs: &DynTensor, angle: &DynTensor) -> ComplexTensor {
        ComplexTensor::new(&(abs * angle.cos()), &(abs * angle.sin()))
    }

    /// Real numbers as complex ones: `c128` of `f64`, and `c64` of all other dtypes.
    #[must_use]
    #[track_caller]
    pub fn from_real(real: &DynTensor) -> ComplexTensor {
        let real = real.to_dtype(ComplexDType::of(real.dtype()).part());
        ComplexTensor::joined(&real, &real.detach().zeros_like())
    }

    /// All zeros.
    #[must_use]
    #[track_caller]
    pub fn zeros(sizes: impl Into<Sizes>, dtype: ComplexDType) -> ComplexTensor {
        ComplexTensor::of(DynTensor::zeros(of_pairs(sizes), dtype.part()))
    }

    /// All ones.
    #[must_use]
    #[track_caller]
    pub fn ones(sizes: impl Into<Sizes>, dtype: ComplexDType) -> ComplexTensor {
        ComplexTensor::full(sizes, Complex::new(1.0, 0.0), dtype)
    }

    /// All `value`.
    #[must_use]
    #[track_caller]
    pub fn full(
        sizes: impl Into<Sizes>,
        value: impl Into<Complex<f64>>,
        dtype: ComplexDType,
    ) -> ComplexTensor {
        let (sizes, value): (Sizes, Complex<f64>) = (sizes.into(), value.into());
        let re = DynTensor::full(sizes.clone(), value.re, dtype.part());
        ComplexTensor::joined(&re, &DynTensor::full(sizes, value.im, dtype.part()))
    }

    /// Zeros of this tensor's shape and dtype, in its session.
    #[must_use]
    #[track_caller]
    pub fn zeros_like(&self) -> ComplexTensor {
        ComplexTensor::of(self.pairs.zeros_like())
    }

    /// Ones of this tensor's shape and dtype, in its session.
    #[must_use]
    #[track_caller]
    pub fn ones_like(&self) -> ComplexTensor {
        let real = self.real();
        ComplexTensor::joined(&real.ones_like(), &real.zeros_like())
    }

    /// Both parts uniform in `[0, 1)`.
    #[must_use]
    #[track_caller]
    pub fn rand(sizes: impl Into<Sizes>, dtype: ComplexDType) -> ComplexTensor {
        ComplexTensor::of(DynTensor::rand(of_pairs(sizes), dtype.part()))
    }

    /// Normal with mean 0 and variance 1, of which each part has half, as PyTorch's are.
    #[must_use]
    #[track_caller]
    pub fn randn(sizes: impl Into<Sizes>, dtype: ComplexDType) -> ComplexTensor {
        let parts = DynTensor::randn(of_pairs(sizes), dtype.part());
        ComplexTensor::of(parts * std::f64::consts::FRAC_1_SQRT_2)
    }
}
