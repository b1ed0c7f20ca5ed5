//! Powers, `x^y`, by a logarithm and an exponential in sums of two floats (Dekker 1971),
//! in the way of SLEEF (Shibata and Petrogalli 2020).
//!
//! Guarantees: within 1 unit in the last place over the whole range; a power that is a float is
//! exact, such as the square of 3. Zeros, infinities, NaN and negative bases are as C's `pow`
//! (C17, F.10.4.4) has them. It needs a processor that rounds `a * b + c` once.

use super::formulas::{Compare, Formulas};

/// The sum of two floats, of which the second is below the precision of the first.
type Sum<V> = [V; 2];

/// Exponents are cut off here, where every power of a base other than 1 is 0 or infinite.
const LARGE: f64 = 1e30;

/// What [`Formulas`] have beside functions of one argument.
pub(super) trait Powers: Formulas {
    fn pow(&mut self, x: Self::V, y: Self::V) -> Self::V {
        let size = self.fabs(x);
        let [high, low] = self.log_sum(size);
        let exponent = self.clamp(y, [-LARGE, LARGE]);
        let [product, rest] = self.product(high, exponent);
        let rest = self.fma(low, exponent, rest);
        let power = self.exp_sum([product, rest]);
        let power = self.of_the_ends(size, y, power);
        let power = self.of_negatives(x, y, power);
        self.of_ones(x, y, power)
    }

    /// `a * b` exactly.
    fn product(&mut self, a: Self::V, b: Self::V) -> Sum<Self::V> {
        let high = self.fmul(a, b);
        let zero = self.float(0.0);
        let minus = self.fsub(zero, high);
        [high, self.fma(a, b, minus)]
    }

    /// `a + b` exactly, where `a` is the larger one or 0.
    fn total(&mut self, a: Self::V, b: Self::V) -> Sum<Self::V> {
        let high = self.fadd(a, b);
        let part = self.fsub(high, a);
        [high, self.fsub(b, part)]
    }

    /// The product of two sums.
    fn products(&mut self, a: Sum<Self::V>, b: Sum<Self::V>) -> Sum<Self::V> {
        let [high, low] = self.product(a[0], b[0]);
        let low = self.fma(a[0], b[1], low);
        [high, self.fma(a[1], b[0], low)]
    }

    /// `ln x` of a positive finite `x`, as `2 atanh(t)` with `t = (m - 1) / (m + 1)`.
    fn log_sum(&mut self, x: Self::V) -> Sum<Self::V> {
        let (m, e) = self.parts(x);
        let t = self.ratio(m);
        let square = self.products(t, t);
        let p = self.poly(square[0], Self::FORMAT.power_log);
        let [cube, cube_low] = Self::FORMAT.two_thirds.map(|v| self.float(v));
        let rest = self.fmul(square[0], p);
        let [factor, low] = self.total(cube, rest);
        let factor = [factor, self.fadd(low, cube_low)];
        let third = self.products(square, t);
        let series = self.products(third, factor);

        let [high, low] = Self::FORMAT.ln_2_sum.map(|v| self.float(v));
        let [whole, whole_low] = self.product(e, high);
        let whole_low = self.fma(e, low, whole_low);
        let [twice, twice_low] = t.map(|v| self.fadd(v, v));
        let [first, first_low] = self.total(whole, twice);
        let [second, second_low] = self.total(first, series[0]);
        let low = [whole_low, twice_low, second_low, series[1]];
        let low = low.into_iter().fold(first_low, |sum, v| self.fadd(sum, v));
        self.total(second, low)
    }

    /// `(m - 1) / (m + 1)` for `m` around 1.
    fn ratio(&mut self, m: Self::V) -> Sum<Self::V> {
        let (one, zero) = (self.float(1.0), self.float(0.0));
        let above = self.fsub(m, one);
        let [below, below_low] = self.total(one, m);
        let inverse = self.fdiv(one, below);
        let high = self.fmul(above, inverse);
        let minus = self.fsub(zero, high);
        let rest = self.fma(minus, below, above);
        let rest = self.fma(minus, below_low, rest);
        [high, self.fmul(rest, inverse)]
    }

    /// `exp x`, rounded once where the result is normal.
    fn exp_sum(&mut self, [x, low]: Sum<Self::V>) -> Self::V {
        let inside = self.clamp(x, Self::FORMAT.exp_range);
        let (is_inside, zero) = (self.fcmp(Compare::Equal, inside, x), self.float(0.0));
        let low = self.select(is_inside, low, zero);
        let (n, nf) = self.nearest_multiple(inside, std::f64::consts::LOG2_E);
        let [part, part_low] = Self::FORMAT.minus_ln_2.map(|v| self.float(v));
        let exact = self.fma(nf, part, inside);
        let low = self.fma(nf, part_low, low);
        let r = self.fadd(exact, low);
        let moved = self.fsub(r, exact);
        let low = self.fsub(low, moved);
        let p = self.poly(r, Self::FORMAT.power_exp);
        let square = self.fmul(r, r);
        let low = self.fma(p, square, low);
        let one = self.float(1.0);
        let [sum, rest] = self.total(one, r);
        let low = self.fadd(rest, low);
        let p = self.fadd(sum, low);
        self.scale(p, n, nf)
    }

    /// `power`, or the power of a `size` of 0 or infinity.
    fn of_the_ends(&mut self, size: Self::V, y: Self::V, power: Self::V) -> Self::V {
        let (zero, infinity) = (self.float(0.0), self.float(f64::INFINITY));
        let falls = self.fcmp(Compare::LessThan, y, zero);
        let of_zero = self.select(falls, infinity, zero);
        let of_infinity = self.select(falls, zero, infinity);
        let is_zero = self.fcmp(Compare::Equal, size, zero);
        let power = self.select(is_zero, of_zero, power);
        let is_infinite = self.fcmp(Compare::Equal, size, infinity);
        self.select(is_infinite, of_infinity, power)
    }

    /// `power` with the sign of an odd power of `x`; NaN where a negative number has no such power.
    fn of_negatives(&mut self, x: Self::V, y: Self::V, power: Self::V) -> Self::V {
        let (zero, nan, minus_infinity) =
            (self.float(0.0), self.float(f64::NAN), self.float(f64::NEG_INFINITY));
        let half = self.float(0.5);
        let half = self.fmul(y, half);
        let (whole, even) = (self.whole(y), self.whole(half));

        let odd = self.select(even, zero, x);
        let odd = self.select(whole, odd, zero);
        let signed = self.with_sign_of(power, odd);

        let finite = self.fcmp(Compare::GreaterThan, x, minus_infinity);
        let without = self.select(finite, nan, signed);
        let negative = self.fcmp(Compare::LessThan, x, zero);
        let without = self.select(negative, without, signed);
        self.select(whole, signed, without)
    }

    /// Whether `v` is an integer or infinite.
    fn whole(&mut self, v: Self::V) -> Self::M {
        let size = self.fabs(v);
        let shift = self.float(Self::FORMAT.whole());
        let shifted = self.fadd(size, shift);
        let rounded = self.fsub(shifted, shift);
        let is_large = self.fcmp(Compare::GreaterThanOrEqual, size, shift);
        let rounded = self.select(is_large, size, rounded);
        self.fcmp(Compare::Equal, rounded, size)
    }

    /// `power`, NaN where an operand is NaN, and 1 where `x` is 1 or `y` is 0.
    fn of_ones(&mut self, x: Self::V, y: Self::V, power: Self::V) -> Self::V {
        let (zero, one, nan) = (self.float(0.0), self.float(1.0), self.float(f64::NAN));
        let unordered = self.fcmp(Compare::Unordered, x, y);
        let power = self.select(unordered, nan, power);
        let is_one = self.fcmp(Compare::Equal, x, one);
        let power = self.select(is_one, one, power);
        let is_zero = self.fcmp(Compare::Equal, y, zero);
        self.select(is_zero, one, power)
    }
}

impl<F: Formulas> Powers for F {}

#[cfg(test)]
mod tests;
