//! Matrices whose largest element has a square that neither overflows nor vanishes.

use faer::Mat;

use super::number::Real;

/// A matrix divided by a power of two. The power is 1 but for very large and very small numbers.
/// Then elements that are smaller than the largest by nearly the whole range of the type vanish.
pub(super) struct Scaled<T> {
    pub(super) matrix: Mat<T>,
    pub(super) scale: T,
}

impl<T: Real> Scaled<T> {
    /// Of `m` rows and `n` columns. A matrix of zeros, and one with NaN or an infinity, is taken as
    /// it is.
    pub(super) fn new(m: usize, n: usize, a: &[T]) -> Scaled<T> {
        let largest =
            a.iter().fold(
                0.0,
                |m: f64, x| if x.widen().is_nan() { f64::NAN } else { m.max(x.widen().abs()) },
            );
        let is_extreme = largest < 1.0 / T::SAFE || largest > T::SAFE;
        let divides = is_extreme && largest > 0.0 && largest.is_finite();
        let scale = T::narrow(if divides { power_near(largest) } else { 1.0 });
        Scaled { matrix: Mat::from_fn(m, n, |i, j| a[i * n + j] / scale), scale }
    }
}

/// The power of two at or below a positive number.
fn power_near(x: f64) -> f64 {
    let (_, exponent) = libm::frexp(x);
    libm::ldexp(1.0, (exponent - 1).clamp(-1021, 1023))
}
