//! Complex numbers of the host in and out.

use std::panic::Location;

use gt_ir::{DType, Element, HostTensor};

use super::{Complex, ComplexDType, ComplexTensor};
use crate::core::{DynTensor, Size, Sizes};
use crate::error::{Error, ErrorKind, Result};

/// The parts of complex numbers on the host: `f32` and `f64`.
pub trait ComplexPart: Element {
    /// The dtype of complex numbers with such parts.
    const COMPLEX: ComplexDType;
}

impl ComplexPart for f32 {
    const COMPLEX: ComplexDType = ComplexDType::C64;
}

impl ComplexPart for f64 {
    const COMPLEX: ComplexDType = ComplexDType::C128;
}

impl ComplexTensor {
    /// A tensor of these numbers in row-major order, copied.
    #[doc(alias("tensor", "from_numpy"))]
    #[must_use]
    #[track_caller]
    pub fn from_slice<T: ComplexPart>(
        data: &[Complex<T>],
        sizes: impl Into<Sizes>,
    ) -> ComplexTensor {
        let mut sizes: Sizes = sizes.into();
        sizes.0.push(Size::Plain(2));
        let parts: Vec<T> = data.iter().flat_map(|z| [z.re, z.im]).collect();
        ComplexTensor::of(DynTensor::from_vec(parts, sizes))
    }

    /// [`ComplexTensor::from_slice`] of a vector.
    #[must_use]
    #[track_caller]
    pub fn from_vec<T: ComplexPart>(
        data: Vec<Complex<T>>,
        sizes: impl Into<Sizes>,
    ) -> ComplexTensor {
        ComplexTensor::from_slice(&data, sizes)
    }

    /// One number as a tensor without axes.
    #[must_use]
    #[track_caller]
    pub fn scalar<T: ComplexPart>(value: Complex<T>) -> ComplexTensor {
        ComplexTensor::from_slice(&[value], ())
    }

    /// The pairs of parts, `[.., 2]`, when everything they depend on has run.
    ///
    /// # Errors
    /// As [`DynTensor::to_host`].
    #[track_caller]
    pub fn to_host(&self) -> Result<HostTensor> {
        self.pairs.to_host()
    }

    /// The numbers in row-major order.
    ///
    /// ```no_run
    /// # extern crate gt_lang as gt;
    /// # use gt::prelude::*;
    /// let z = ComplexTensor::from([Complex::new(1.0f32, 2.0), Complex::new(0.0, 1.0)]);
    /// assert_eq!((&z * &z).to_vec::<f32>()?, [Complex::new(-3.0, 4.0), Complex::new(-1.0, 0.0)]);
    /// # Ok::<(), gt::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`DynTensor::to_host`]; also when the parts are not of this type.
    #[doc(alias("tolist", "numpy"))]
    #[track_caller]
    pub fn to_vec<T: ComplexPart>(&self) -> Result<Vec<Complex<T>>> {
        if self.dtype() != T::COMPLEX && self.error().is_none() {
            let (told, asked) = (self.told(), T::COMPLEX);
            let message = format!("to_vec: the tensor is {told}, but {asked} was asked for");
            let error = Error::new(ErrorKind::Data, message, Location::caller());
            let part: DType = self.dtype().part();
            return Err(error.hint(format!("read it as `Complex<{part}>`, or cast it first")));
        }
        let parts = self.pairs.to_vec::<T>()?;
        Ok(parts.chunks_exact(2).map(|pair| Complex::new(pair[0], pair[1])).collect())
    }

    /// The only number.
    ///
    /// # Errors
    /// As [`DynTensor::to_host`]; also when there is not exactly one number.
    #[track_caller]
    pub fn item(&self) -> Result<Complex<f64>> {
        let at = Location::caller();
        if self.numel() != 1 && self.error().is_none() {
            let told = self.told();
            let message = format!("item: needs exactly one element, but the tensor is {told}");
            let error = Error::new(ErrorKind::Data, message, at);
            return Err(error.hint("use `to_vec` to read them all"));
        }
        match self.to_host()?.to_f64()[..] {
            [re, im] => Ok(Complex::new(re, im)),
            _ => Err(Error::new(ErrorKind::Data, "item: got no pair of parts", at)),
        }
    }
}

impl<T: ComplexPart, const N: usize> From<[Complex<T>; N]> for ComplexTensor {
    #[track_caller]
    fn from(numbers: [Complex<T>; N]) -> ComplexTensor {
        ComplexTensor::from_slice(&numbers, [N])
    }
}
