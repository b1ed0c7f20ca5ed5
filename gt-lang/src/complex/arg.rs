//! What stands beside a complex tensor: another one, a real tensor, or a number.

use super::{Complex, ComplexTensor};
use crate::core::{Arg, DynTensor, Number};

/// One operand of an operation on complex numbers.
///
/// A number never widens: `c64` times a `Complex<f64>` is `c64`. A real tensor takes part by its
/// dtype: `c64` times `f64` is `c128`. Real factors and divisors scale both parts, so they do not
/// make NaN of infinities.
#[derive(Clone, Copy)]
pub enum ComplexArg<'a> {
    /// A complex tensor.
    Complex(&'a ComplexTensor),
    /// A real tensor or a real number.
    Real(Arg<'a>),
    /// A complex number.
    Number(Complex<f64>),
}

impl<'a> From<&'a ComplexTensor> for ComplexArg<'a> {
    fn from(tensor: &'a ComplexTensor) -> Self {
        ComplexArg::Complex(tensor)
    }
}

impl<'a> From<&'a DynTensor> for ComplexArg<'a> {
    fn from(tensor: &'a DynTensor) -> Self {
        ComplexArg::Real(Arg::Tensor(tensor))
    }
}

impl<N: Number> From<N> for ComplexArg<'_> {
    fn from(number: N) -> Self {
        ComplexArg::Real(Arg::Scalar(number.scalar()))
    }
}

impl From<Complex<f64>> for ComplexArg<'_> {
    fn from(number: Complex<f64>) -> Self {
        ComplexArg::Number(number)
    }
}

/// An operand as sums take it.
pub(super) enum Term {
    /// Pairs, and as many as there are complex numbers.
    Pairs(DynTensor),
    /// The same number everywhere.
    Number(Complex<f64>),
}

impl ComplexArg<'_> {
    /// The operand in pairs: a real tensor gets imaginary parts of 0.
    #[track_caller]
    pub(super) fn term(self) -> Term {
        match self {
            ComplexArg::Complex(z) => Term::Pairs(z.pairs.clone()),
            ComplexArg::Real(Arg::Tensor(x)) => Term::Pairs(ComplexTensor::from_real(x).pairs),
            ComplexArg::Real(Arg::Scalar(number)) => {
                Term::Number(Complex::new(number.as_f64(), 0.0))
            }
            ComplexArg::Number(number) => Term::Number(number),
        }
    }
}
