//! Functions by exponentials: `exp`, `log`, and the circular and hyperbolic ones.
//!
//! Guarantees: results at finite numbers are as exact as those of the functions of their parts.
//! `tanh` neither overflows nor loses digits near its poles. Logarithms have imaginary parts from
//! -pi to pi, by the sign of a zero on the negative axis.
//!
//! Does not: treat infinite parts as C's functions do. Where a formula multiplies an infinity with
//! 0, the result is NaN.

use super::ComplexTensor;
use super::parts::side;

impl ComplexTensor {
    /// e to the power of each number.
    #[must_use]
    #[track_caller]
    pub fn exp(&self) -> ComplexTensor {
        let [x, y] = self.parts();
        ComplexTensor::polar(&x.exp(), &y)
    }

    /// The natural logarithm with imaginary parts from -pi to pi.
    #[must_use]
    #[track_caller]
    pub fn log(&self) -> ComplexTensor {
        ComplexTensor::joined(&self.abs().log(), &self.angle())
    }

    /// The sine.
    #[must_use]
    #[track_caller]
    pub fn sin(&self) -> ComplexTensor {
        let [x, y] = self.parts();
        ComplexTensor::joined(&(x.sin() * y.cosh()), &(x.cos() * y.sinh()))
    }

    /// The cosine.
    #[must_use]
    #[track_caller]
    pub fn cos(&self) -> ComplexTensor {
        let [x, y] = self.parts();
        ComplexTensor::joined(&(x.cos() * y.cosh()), &(x.sin() * y.sinh()).neg())
    }

    /// The hyperbolic sine.
    #[must_use]
    #[track_caller]
    pub fn sinh(&self) -> ComplexTensor {
        let [x, y] = self.parts();
        ComplexTensor::joined(&(x.sinh() * y.cos()), &(x.cosh() * y.sin()))
    }

    /// The hyperbolic cosine.
    #[must_use]
    #[track_caller]
    pub fn cosh(&self) -> ComplexTensor {
        let [x, y] = self.parts();
        ComplexTensor::joined(&(x.cosh() * y.cos()), &(x.sinh() * y.sin()))
    }

    /// The hyperbolic tangent.
    ///
    /// For x >= 0 and u = exp(-2 x) it is (1 - u^2 + 4i u sin y cos y) / ((1 - u)^2 + 4 u cos^2 y):
    /// (sinh 2x + i sin 2y) / (cosh 2x + cos 2y), both times 2 u. There are no large terms and no
    /// differences of nearly equal ones.
    #[must_use]
    #[track_caller]
    pub fn tanh(&self) -> ComplexTensor {
        let [x, y] = self.parts();
        let side = side(&x);
        let x = x * &side;
        let (sin, cos) = (y.sin(), y.cos());
        let four = (&x * -2.0).exp() * 4.0;
        let under = (&x * -2.0).expm1().square() + &four * cos.square();
        let (re, im) = ((x * -4.0).expm1().neg() * side, four * sin * cos);
        ComplexTensor::joined(&(re / &under), &(im / under))
    }
}
