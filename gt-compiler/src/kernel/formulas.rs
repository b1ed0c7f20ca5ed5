//! Elementary functions of `f32`, written once for every code generator.
//!
//! A generator says how its registers add, compare and choose ([`Formulas`]'s required methods);
//! the functions follow, and give the same bits with all of them. Where a processor has an
//! instruction for a whole step, its generator overrides the step, under the condition that no bit
//! of the result changes. Accuracy: within 2 units in the last place over the whole range,
//! infinities, NaN and subnormals included.

/// Adding it rounds an `f32` below 2^22 to an integer, which then stands in the low bits.
const ROUND: f32 = 12_582_912.0;
/// `-ln 2` in two steps, of which small multiples of the first are exact.
pub(super) const MINUS_LN_2: [f32; 2] = [-0.693_145_75, -1.428_606_8e-6];
/// Arguments of sine and cosine up to here keep their precision in the three-step reduction by
/// multiples of pi/2.
pub(super) const TRIG_LIMIT: f32 = 70_000.0;

/// The coefficients of `(2^r - 1) / r` for `r` within a half: those of `exp` times powers of ln 2.
const EXP2: [f32; 7] = [
    1.526_156_8e-5,
    1.544_960_8e-4,
    1.333_360_2e-3,
    9.618_087e-3,
    5.550_411e-2,
    0.240_226_5,
    std::f32::consts::LN_2,
];

/// Quotients up to here are found by [`Formulas::fmod_reduced`]; below 2^22, which is what rounding
/// by addition takes.
pub(super) const FMOD_LIMIT: f32 = 4_000_000.0;

/// How floats are compared; all but `Unordered` are false of NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compare {
    Equal,
    LessThan,
    GreaterThan,
    GreaterThanOrEqual,
    Unordered,
}

/// Whether sine or cosine is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Trig {
    Sin,
    Cos,
}

/// Registers of 32-bit lanes, and functions of them.
pub(super) trait Formulas {
    /// A register of floats or integers.
    type V: Copy;
    /// The outcome of a comparison.
    type M: Copy;

    fn f32(&mut self, v: f32) -> Self::V;
    fn i32(&mut self, v: i32) -> Self::V;
    fn fadd(&mut self, a: Self::V, b: Self::V) -> Self::V;
    fn fsub(&mut self, a: Self::V, b: Self::V) -> Self::V;
    fn fmul(&mut self, a: Self::V, b: Self::V) -> Self::V;
    fn fdiv(&mut self, a: Self::V, b: Self::V) -> Self::V;
    fn fabs(&mut self, v: Self::V) -> Self::V;
    /// `a * b + c`, rounded once where the processor can.
    fn fma(&mut self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    fn iadd(&mut self, a: Self::V, b: Self::V) -> Self::V;
    fn isub(&mut self, a: Self::V, b: Self::V) -> Self::V;
    fn and(&mut self, a: Self::V, b: Self::V) -> Self::V;
    fn or(&mut self, a: Self::V, b: Self::V) -> Self::V;
    fn xor(&mut self, a: Self::V, b: Self::V) -> Self::V;
    fn shl(&mut self, v: Self::V, n: u8) -> Self::V;
    fn shr(&mut self, v: Self::V, n: u8) -> Self::V;
    fn sar(&mut self, v: Self::V, n: u8) -> Self::V;
    fn fcmp(&mut self, how: Compare, a: Self::V, b: Self::V) -> Self::M;
    fn icmp_ne(&mut self, a: Self::V, b: Self::V) -> Self::M;
    /// `a` where the comparison holds, else `b`.
    fn select(&mut self, m: Self::M, a: Self::V, b: Self::V) -> Self::V;
    fn to_float(&mut self, v: Self::V) -> Self::V;
    /// The same bits as integers.
    fn as_int(&mut self, v: Self::V) -> Self::V;
    /// The same bits as floats.
    fn as_f32(&mut self, v: Self::V) -> Self::V;

    /// `c[0] * x^n + .. + c[n]`.
    fn poly(&mut self, x: Self::V, coefficients: &[f32]) -> Self::V {
        let mut acc = self.f32(coefficients[0]);
        for &c in &coefficients[1..] {
            let c = self.f32(c);
            acc = self.fma(acc, x, c);
        }
        acc
    }

    fn clamp(&mut self, x: Self::V, low: f32, high: f32) -> Self::V {
        let (low, high) = (self.f32(low), self.f32(high));
        // In this order of operands the comparisons keep NaN.
        let above = self.fcmp(Compare::LessThan, high, x);
        let x = self.select(above, high, x);
        let below = self.fcmp(Compare::LessThan, x, low);
        self.select(below, low, x)
    }

    /// The integer `n` nearest to `x * scale` (as integer and as float).
    fn nearest_multiple(&mut self, x: Self::V, scale: f32) -> (Self::V, Self::V) {
        let (scale, round) = (self.f32(scale), self.f32(ROUND));
        let shifted = self.fma(x, scale, round);
        let n = self.fsub(shifted, round);
        let (bits, base) = (self.as_int(shifted), self.i32(ROUND.to_bits() as i32));
        let int = self.isub(bits, base);
        (int, n)
    }

    /// `x - n ln 2`, exact to well below the precision.
    fn reduce_ln2(&mut self, x: Self::V, n: Self::V) -> Self::V {
        let [high, low] = MINUS_LN_2.map(|v| self.f32(v));
        let r = self.fma(n, high, x);
        self.fma(n, low, r)
    }

    /// `p * 2^n` for `p` around 1, rounded once; `n` as integer and as float.
    fn scale(&mut self, p: Self::V, n: Self::V, _: Self::V) -> Self::V {
        self.scale_in_steps(p, n)
    }

    /// `p * 2^n` for `p` around 1, rounded once.
    fn scale_in_steps(&mut self, p: Self::V, n: Self::V) -> Self::V {
        // In two steps, so that overflow and subnormal results come out right.
        let half = self.sar(n, 1);
        let rest = self.isub(n, half);
        let (first, second) = (self.exp2_int(half), self.exp2_int(rest));
        let p = self.fmul(p, first);
        self.fmul(p, second)
    }

    /// 2 to the `n`, for -126 <= n <= 127; `n` as integer and as float.
    fn power(&mut self, n: Self::V, _: Self::V) -> Self::V {
        self.exp2_int(n)
    }

    /// 2 to the `n`, for -126 <= n <= 127.
    fn exp2_int(&mut self, n: Self::V) -> Self::V {
        let bias = self.i32(127);
        let e = self.iadd(n, bias);
        let bits = self.shl(e, 23);
        self.as_f32(bits)
    }

    fn exp(&mut self, x: Self::V) -> Self::V {
        let x = self.clamp(x, -104.5, 89.0);
        let (n, nf) = self.nearest_multiple(x, std::f32::consts::LOG2_E);
        let r = self.reduce_ln2(x, nf);
        let p = self.poly(
            r,
            &[1.985_276_2e-4, 1.393_043_6e-3, 8.333_361e-3, 4.166_648_5e-2, 0.166_666_67, 0.5],
        );
        let square = self.fmul(r, r);
        let p = self.fma(p, square, r);
        let one = self.f32(1.0);
        let p = self.fadd(p, one);
        self.scale(p, n, nf)
    }

    /// The powers of 2 are exact: the remainder after the nearest whole number is 0 for them.
    fn exp2(&mut self, x: Self::V) -> Self::V {
        let x = self.clamp(x, -151.0, 129.0);
        let (n, nf) = self.nearest_multiple(x, 1.0);
        let r = self.fsub(x, nf);
        let p = self.poly(r, &EXP2);
        let one = self.f32(1.0);
        let p = self.fma(p, r, one);
        self.scale(p, n, nf)
    }

    /// `m` in [sqrt(1/2), sqrt(2)) and `e` with `x = m * 2^e`, of a positive finite `x`.
    fn parts(&mut self, x: Self::V) -> (Self::V, Self::V) {
        let (tiny, scale) = (self.f32(f32::MIN_POSITIVE), self.f32(8_388_608.0));
        let is_tiny = self.fcmp(Compare::LessThan, x, tiny);
        let scaled = self.fmul(x, scale);
        let normal = self.select(is_tiny, scaled, x);
        let (zero, less) = (self.f32(0.0), self.f32(-23.0));
        let e_base = self.select(is_tiny, less, zero);

        let bits = self.as_int(normal);
        let root_half = self.i32(0x3f35_04f3);
        let relative = self.isub(bits, root_half);
        let e = self.sar(relative, 23);
        let e_bits = self.shl(e, 23);
        let m_bits = self.isub(bits, e_bits);
        let m = self.as_f32(m_bits);
        let e = self.to_float(e);
        (m, self.fadd(e, e_base))
    }

    /// Cephes' polynomial.
    fn log(&mut self, x: Self::V) -> Self::V {
        let (m, e) = self.parts(x);
        let one = self.f32(1.0);
        let m = self.fsub(m, one);
        let square = self.fmul(m, m);
        let p = self.poly(
            m,
            &[
                7.037_683_6e-2,
                -0.115_146_1,
                0.116_769_984,
                -0.124_201_41,
                0.142_493_23,
                -0.166_680_58,
                0.200_007_15,
                -0.249_999_94,
                0.333_333_3,
            ],
        );
        let p = self.fmul(p, m);
        let p = self.fmul(p, square);
        let (low, half, high) = (self.f32(-2.121_944_4e-4), self.f32(-0.5), self.f32(0.693_359_4));
        let p = self.fma(e, low, p);
        let p = self.fma(square, half, p);
        let out = self.fadd(m, p);
        let out = self.fma(e, high, out);

        let (infinity, minus_infinity, nan) =
            (self.f32(f32::INFINITY), self.f32(f32::NEG_INFINITY), self.f32(f32::NAN));
        let zero = self.f32(0.0);
        let is_large = self.fcmp(Compare::Equal, x, infinity);
        let out = self.select(is_large, infinity, out);
        let is_zero = self.fcmp(Compare::Equal, x, zero);
        let out = self.select(is_zero, minus_infinity, out);
        let valid = self.fcmp(Compare::GreaterThanOrEqual, x, zero);
        self.select(valid, out, nan)
    }

    /// `expm1(2x) / (expm1(2x) + 2)`, which needs no case for small arguments.
    fn tanh(&mut self, x: Self::V) -> Self::V {
        let y = self.clamp(x, -9.5, 9.5);
        let y = self.fadd(y, y);
        let (n, nf) = self.nearest_multiple(y, std::f32::consts::LOG2_E);
        let r = self.reduce_ln2(y, nf);
        let p = self.poly(
            r,
            &[1.985_276_2e-4, 1.393_043_6e-3, 8.333_361e-3, 4.166_648_5e-2, 0.166_666_67, 0.5],
        );
        let square = self.fmul(r, r);
        let p = self.fma(p, square, r);
        let power = self.power(n, nf);
        let one = self.f32(1.0);
        let power_m1 = self.fsub(power, one);
        let expm1 = self.fma(p, power, power_m1);
        let two = self.f32(2.0);
        let denominator = self.fadd(expm1, two);
        let out = self.fdiv(expm1, denominator);
        self.with_sign_of(out, x)
    }

    /// The magnitude of `v` with the sign of `x`; NaN stays NaN.
    fn with_sign_of(&mut self, v: Self::V, x: Self::V) -> Self::V {
        self.magnitude_and_sign(v, x)
    }

    /// The same, by the bits of each.
    fn magnitude_and_sign(&mut self, v: Self::V, x: Self::V) -> Self::V {
        let (bits, x_bits, mask, rest) =
            (self.as_int(v), self.as_int(x), self.i32(i32::MIN), self.i32(i32::MAX));
        let sign = self.and(x_bits, mask);
        let magnitude = self.and(bits, rest);
        let out = self.or(magnitude, sign);
        self.as_f32(out)
    }

    /// A polynomial near 0, `1 - exp(polynomial)` elsewhere.
    fn erf(&mut self, x: Self::V) -> Self::V {
        let t = self.fabs(x);
        let t = self.clamp(t, 0.0, 4.0);
        let s = self.fmul(x, x);
        let far = self.poly(
            t,
            &[
                -1.728_534_7e-5,
                3.831_974_6e-4,
                -3.883_965e-3,
                2.425_463e-2,
                -0.106_777_88,
                -0.634_846_7,
                -0.128_717_51,
            ],
        );
        let far = self.fmul(far, t);
        let far = self.fsub(far, t);
        let e = self.exp(far);
        let one = self.f32(1.0);
        let far = self.fsub(one, e);
        let far = self.with_sign_of(far, x);
        let near = self.poly(
            s,
            &[
                -5.967_617e-4,
                4.991_194_2e-3,
                -2.676_813_5e-2,
                0.112_819_925,
                -0.376_125_34,
                0.128_379_17,
            ],
        );
        let near = self.fma(near, x, x);
        let border = self.f32(0.927_734_4);
        let is_far = self.fcmp(Compare::GreaterThan, t, border);
        self.select(is_far, far, near)
    }

    /// The quotient, and what division towards 0 leaves where the quotient is at most `FMOD_LIMIT`:
    /// x less the nearest multiple of y, which a product rounded once gives exactly, and y more
    /// where that is on the other side of 0. Needs `fma` to round once.
    fn fmod_reduced(&mut self, x: Self::V, y: Self::V) -> (Self::V, Self::V) {
        let quotient = self.fdiv(x, y);
        let round = self.f32(ROUND);
        let shifted = self.fadd(quotient, round);
        let n = self.fsub(shifted, round);
        let zero = self.f32(0.0);
        let minus = self.fsub(zero, n);
        let near = self.fma(minus, y, x);
        let size = self.fabs(y);
        let step = self.with_sign_of(size, x);
        let moved = self.fadd(near, step);
        let (below, above) =
            (self.fcmp(Compare::LessThan, near, zero), self.fcmp(Compare::GreaterThan, near, zero));
        let (up, down) = (self.select(below, moved, near), self.select(above, moved, near));
        let negative = self.fcmp(Compare::LessThan, x, zero);
        let left = self.select(negative, down, up);
        let left = self.with_sign_of(left, x);
        // No multiple of an infinite y is subtracted.
        let infinity = self.f32(f32::INFINITY);
        let endless = self.fcmp(Compare::Equal, size, infinity);
        (quotient, self.select(endless, x, left))
    }

    /// Sine or cosine of arguments up to `TRIG_LIMIT`.
    fn trig_reduced(&mut self, which: Trig, x: Self::V) -> Self::V {
        let (quadrant, n) = self.nearest_multiple(x, std::f32::consts::FRAC_2_PI);
        let parts =
            [0xbfc9_0fd8, 0xb4a8_885a, 0xa7c2_34c4].map(|bits| self.f32(f32::from_bits(bits)));
        let r = parts.into_iter().fold(x, |r, part| self.fma(n, part, r));
        let one = self.i32(1);
        let quadrant = if which == Trig::Cos { self.iadd(quadrant, one) } else { quadrant };
        let s = self.fmul(r, r);
        let sin = self.poly(s, &[2.865_679_6e-6, -1.985_599_2e-4, 8.333_386e-3, -0.166_666_67]);
        let nothing = self.f32(0.0);
        // +0 for both zeros, so that the sign of r survives below.
        let cube = self.fma(r, s, nothing);
        let sin = self.fma(sin, cube, r);
        let cos = self.poly(s, &[2.446_770_7e-5, -1.388_773e-3, 4.166_665_7e-2, -0.5, 1.0]);
        let odd = self.and(quadrant, one);
        let zero = self.i32(0);
        let is_odd = self.icmp_ne(odd, zero);
        let out = self.select(is_odd, cos, sin);
        let two = self.i32(2);
        let flip = self.and(quadrant, two);
        let flip = self.shl(flip, 30);
        let out = self.as_int(out);
        let out = self.xor(out, flip);
        self.as_f32(out)
    }
}
