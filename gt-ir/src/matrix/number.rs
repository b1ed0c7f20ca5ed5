//! The types of the numbers of a matrix.

use faer::traits::RealField;
use rustfft::FftNum;

/// What decompositions need of a number.
pub trait Real: FftNum + RealField {
    /// Not a number.
    const NAN: Self;

    /// The number in `f64`.
    fn widen(self) -> f64;

    /// The nearest number to one in `f64`.
    fn narrow(x: f64) -> Self;
}

macro_rules! real {
    ($($ty:ty),*) => { $(
        impl Real for $ty {
            const NAN: Self = <$ty>::NAN;

            fn widen(self) -> f64 {
                f64::from(self)
            }

            fn narrow(x: f64) -> Self {
                x as $ty
            }
        }
    )* };
}

real!(f32, f64);
