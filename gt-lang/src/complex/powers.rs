//! Roots and powers.
//!
//! Guarantees: the branch is the one whose angle lies nearest to 0, with the cut along the negative
//! axis, where the sign of a zero says from which side it is reached.

use super::parts::{nonzero, side};
use super::{ComplexArg, ComplexTensor};
use crate::core::{Arg, DynTensor};

/// The largest whole exponent that products are taken for.
const MOST_PRODUCTS: f64 = 1024.0;

impl ComplexTensor {
    /// The square root, whose real part is not negative.
    ///
    /// With t = sqrt((|z| + |x|) / 2), the root of z = x + iy is t + iy / 2t for x >= 0, else |y| /
    /// 2t + it with the sign of y: no difference of nearly equal numbers is taken.
    #[must_use]
    #[track_caller]
    pub fn sqrt(&self) -> ComplexTensor {
        let [x, y] = self.parts();
        // Absolute values as products with signs, which have gradients at 0 too.
        let (of_x, of_y) = (side(&x), side(&y));
        let t = ((self.abs() + x * &of_x) * 0.5).sqrt();
        let rest = y / nonzero(&(&t * 2.0));
        let is_right = of_x.gt(0.0);
        let re = is_right.where_(&t, &(&rest * &of_y));
        ComplexTensor::joined(&re, &is_right.where_(&rest, &(t * of_y)))
    }

    /// Each number to the power of a real or complex exponent; shapes broadcast. 0 to the power of
    /// 0 is 1.
    ///
    /// A whole number as exponent, up to 1024 either way, is as many products as its binary digits
    /// take, and so are its gradients. Any other power is `exp(exponent log z)`.
    #[must_use]
    #[track_caller]
    pub fn pow<'a>(&'a self, exponent: impl Into<ComplexArg<'a>>) -> ComplexTensor {
        match exponent.into() {
            ComplexArg::Real(Arg::Scalar(number)) => self.real_power(number.as_f64()),
            ComplexArg::Number(w) if w.im == 0.0 => self.real_power(w.re),
            ComplexArg::Real(exponent) => self.by_angle([exponent, Arg::from(0.0)]),
            ComplexArg::Number(w) => self.by_angle([Arg::from(w.re), Arg::from(w.im)]),
            ComplexArg::Complex(w) => {
                let [re, im] = w.parts();
                self.by_angle([Arg::Tensor(&re), Arg::Tensor(&im)])
            }
        }
    }

    #[track_caller]
    fn real_power(&self, exponent: f64) -> ComplexTensor {
        if exponent.fract() != 0.0 || exponent.abs() > MOST_PRODUCTS {
            return self.by_angle([Arg::from(exponent), Arg::from(0.0)]);
        }
        let power = self.products(exponent.abs() as u32);
        if exponent < 0.0 { power.reciprocal() } else { power }
    }

    /// The power by squaring, from the lowest binary digit of the exponent.
    #[track_caller]
    fn products(&self, mut exponent: u32) -> ComplexTensor {
        if exponent == 0 {
            return self.ones_like();
        }
        let (mut square, mut power): (_, Option<ComplexTensor>) = (self.clone(), None);
        loop {
            if exponent % 2 == 1 {
                power = match power {
                    Some(power) => Some(&power * &square),
                    None => Some(square.clone()),
                };
            }
            exponent /= 2;
            match (exponent, power) {
                (0, Some(power)) => return power,
                (_, found) => power = found,
            }
            square = square.square();
        }
    }

    /// `|z|^c exp(-d angle)` at the angle `c angle + d log|z|`, for the exponent c + di.
    #[track_caller]
    fn by_angle(&self, [c, d]: [Arg<'_>; 2]) -> ComplexTensor {
        let (abs, angle) = (self.abs(), self.angle());
        let size = abs.pow(c);
        if matches!(d, Arg::Scalar(number) if number.as_f64() == 0.0) {
            return ComplexTensor::polar(&size, &angle.mul(c));
        }
        let size = size * angle.mul(d).neg().exp();
        // The angle of a power of 0 does not matter.
        let log: DynTensor = nonzero(&abs).log();
        ComplexTensor::polar(&size, &(angle.mul(c) + log.mul(d)))
    }
}
