//! The types of the numbers of a matrix.

use faer::traits::RealField;
use rustfft::FftNum;

/// What decompositions need of a number.
pub trait Real: FftNum + RealField {
    /// Not a number.
    const NAN: Self;
    /// A number up to which sums of squares do not overflow; those of its reciprocal do not vanish.
    const SAFE: f64;

    /// The number in `f64`.
    fn widen(self) -> f64;

    /// The nearest number to one in `f64`.
    fn narrow(x: f64) -> Self;
}

macro_rules! real {
    ($($ty:ty, $safe:expr;)*) => { $(
        impl Real for $ty {
            const NAN: Self = <$ty>::NAN;
            const SAFE: f64 = $safe;

            fn widen(self) -> f64 {
                f64::from(self)
            }

            fn narrow(x: f64) -> Self {
                x as $ty
            }
        }
    )* };
}

real! {
    f32, (1_u64 << 40) as f64;
    f64, (1_u128 << 100) as f64 * (1_u128 << 100) as f64 * (1_u128 << 100) as f64;
}
