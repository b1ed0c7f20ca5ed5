//! Elementary functions of floats, written once for every code generator and both formats.
//!
//! A generator says how its registers add, compare and choose ([`Formulas`]'s required methods);
//! the functions follow, and give the same bits with all of them. Where a processor has an
//! instruction for a whole step, its generator overrides the step, under the condition that no bit
//! of the result changes. Accuracy: within 2 units in the last place over the whole range, save 2.1
//! for the hyperbolic tangent of `f64`; infinities, NaN and subnormals included. The formulas of
//! `f64` need a processor that rounds `a * b + c` once.

mod format;

pub(super) use format::{F32, F64, Format};

use super::{host, spec::Unary};

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

/// Registers whose lanes are floats of a format, and functions of them.
pub(super) trait Formulas {
    /// A register of floats or of integers of as many bits.
    type V: Copy;
    /// The outcome of a comparison.
    type M: Copy;

    const FORMAT: &'static Format;

    /// A float in each lane, rounded to the format.
    fn float(&mut self, v: f64) -> Self::V;
    /// An integer in each lane, of which the format may take the low half.
    fn word(&mut self, bits: u64) -> Self::V;
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
    fn fcmp(&mut self, how: Compare, a: Self::V, b: Self::V) -> Self::M;
    fn icmp_ne(&mut self, a: Self::V, b: Self::V) -> Self::M;
    /// `a` where the comparison holds, else `b`.
    fn select(&mut self, m: Self::M, a: Self::V, b: Self::V) -> Self::V;
    /// The same bits as integers.
    fn as_int(&mut self, v: Self::V) -> Self::V;
    /// The same bits as floats.
    fn as_float(&mut self, v: Self::V) -> Self::V;
    /// `fast` where the size of `of` is at most `limit`, else what the host's function gives.
    fn unless<const N: usize>(
        &mut self,
        of: Self::V,
        limit: f64,
        fast: Self::V,
        host: (host::Function, [Self::V; N]),
    ) -> Self::V;

    fn f32(&mut self, v: f32) -> Self::V {
        self.float(f64::from(v))
    }

    fn i32(&mut self, v: i32) -> Self::V {
        self.word(u64::from(v as u32))
    }

    /// A function with a formula.
    fn elementary(&mut self, op: Unary, x: Self::V) -> Option<Self::V> {
        Some(match op {
            Unary::Exp => self.exp(x),
            Unary::Exp2 => self.exp2(x),
            Unary::Log => self.log(x),
            Unary::Tanh => self.tanh(x),
            Unary::Erf => self.erf(x),
            Unary::Sin => self.trig(Trig::Sin, x),
            Unary::Cos => self.trig(Trig::Cos, x),
            Unary::Neg
            | Unary::Abs
            | Unary::Sqrt
            | Unary::Floor
            | Unary::Ceil
            | Unary::Trunc
            | Unary::Round
            | Unary::LogicalNot => return None,
        })
    }

    /// `c[0] * x^n + .. + c[n]`.
    fn poly(&mut self, x: Self::V, coefficients: &[f64]) -> Self::V {
        let mut acc = self.float(coefficients[0]);
        for &c in &coefficients[1..] {
            let c = self.float(c);
            acc = self.fma(acc, x, c);
        }
        acc
    }

    fn clamp(&mut self, x: Self::V, [low, high]: [f64; 2]) -> Self::V {
        let (low, high) = (self.float(low), self.float(high));
        // In this order of operands the comparisons keep NaN.
        let above = self.fcmp(Compare::LessThan, high, x);
        let x = self.select(above, high, x);
        let below = self.fcmp(Compare::LessThan, x, low);
        self.select(below, low, x)
    }

    /// The integer `n` nearest to `x * scale`: in the low bits of a word, of which the others
    /// matter to nobody, and as a float.
    fn nearest_multiple(&mut self, x: Self::V, scale: f64) -> (Self::V, Self::V) {
        let (scale, round) = (self.float(scale), self.float(Self::FORMAT.round()));
        let shifted = self.fma(x, scale, round);
        let n = self.fsub(shifted, round);
        (self.as_int(shifted), n)
    }

    /// `x - n ln 2`, exact to well below the precision.
    fn reduce_ln2(&mut self, x: Self::V, n: Self::V) -> Self::V {
        let [high, low] = Self::FORMAT.minus_ln_2.map(|v| self.float(v));
        let r = self.fma(n, high, x);
        self.fma(n, low, r)
    }

    /// `p * 2^n` for `p` around 1, rounded once; `n` in a word and as a float.
    fn scale(&mut self, p: Self::V, n: Self::V, _: Self::V) -> Self::V {
        self.scale_in_steps(p, n)
    }

    /// `p * 2^n` for `p` around 1, rounded once.
    fn scale_in_steps(&mut self, p: Self::V, n: Self::V) -> Self::V {
        // In two steps, so that overflow and subnormal results come out right.
        let half = self.shr(n, 1);
        let rest = self.isub(n, half);
        let (first, second) = (self.exp2_int(half), self.exp2_int(rest));
        let p = self.fmul(p, first);
        self.fmul(p, second)
    }

    /// 2 to the `n`, where this is normal; `n` in a word and as a float.
    fn power(&mut self, n: Self::V, _: Self::V) -> Self::V {
        self.exp2_int(n)
    }

    /// 2 to the `n`, where this is normal; `n` in the low bits of a word.
    fn exp2_int(&mut self, n: Self::V) -> Self::V {
        let bias = self.word(Self::FORMAT.bias());
        let e = self.iadd(n, bias);
        let bits = self.shl(e, Self::FORMAT.mantissa);
        self.as_float(bits)
    }

    /// `e^r - 1` for `r` within `ln(2) / 2`.
    fn exp_m1_reduced(&mut self, r: Self::V) -> Self::V {
        let p = self.poly(r, Self::FORMAT.exp);
        let square = self.fmul(r, r);
        self.fma(p, square, r)
    }

    fn exp(&mut self, x: Self::V) -> Self::V {
        let x = self.clamp(x, Self::FORMAT.exp_range);
        let (n, nf) = self.nearest_multiple(x, std::f64::consts::LOG2_E);
        let r = self.reduce_ln2(x, nf);
        let p = self.exp_m1_reduced(r);
        let one = self.float(1.0);
        let p = self.fadd(p, one);
        self.scale(p, n, nf)
    }

    /// The powers of 2 are exact: the remainder after the nearest whole number is 0 for them.
    fn exp2(&mut self, x: Self::V) -> Self::V {
        let x = self.clamp(x, Self::FORMAT.exp2_range);
        let (n, nf) = self.nearest_multiple(x, 1.0);
        let r = self.fsub(x, nf);
        let p = self.poly(r, Self::FORMAT.exp2);
        let one = self.float(1.0);
        let p = self.fma(p, r, one);
        self.scale(p, n, nf)
    }

    /// `m` in [sqrt(1/2), sqrt(2)) and `e` with `x = m * 2^e`, of a positive finite `x`.
    fn parts(&mut self, x: Self::V) -> (Self::V, Self::V) {
        let format = Self::FORMAT;
        let (tiny, scale) = (self.float(format.tiny), self.float(format.whole()));
        let is_tiny = self.fcmp(Compare::LessThan, x, tiny);
        let scaled = self.fmul(x, scale);
        let normal = self.select(is_tiny, scaled, x);

        // As if each number from a root of 2 on, down to the next, had the exponent of 1.
        let bits = self.as_int(normal);
        let distance = self.word(format.root_half.wrapping_sub(format.one()));
        let relative = self.isub(bits, distance);
        let (fraction, root_half) =
            (self.word((1 << format.mantissa) - 1), self.word(format.root_half));
        let m_bits = self.and(relative, fraction);
        let m_bits = self.iadd(m_bits, root_half);
        let m = self.as_float(m_bits);

        // An integer in the low bits of a large power of 2 is added to it.
        let e = self.shr(relative, format.mantissa);
        let whole = self.word(format.whole_bits());
        let e = self.or(e, whole);
        let e = self.as_float(e);
        let less = -format.whole() - format.bias() as f64;
        let (less, much_less) = (self.float(less), self.float(less - f64::from(format.mantissa)));
        let less = self.select(is_tiny, much_less, less);
        (m, self.fadd(e, less))
    }

    fn log(&mut self, x: Self::V) -> Self::V {
        let (m, e) = self.parts(x);
        let one = self.float(1.0);
        let m = self.fsub(m, one);
        let square = self.fmul(m, m);
        let p = self.poly(m, Self::FORMAT.log);
        let p = self.fmul(p, m);
        let p = self.fmul(p, square);
        let [high, low] = Self::FORMAT.ln_2.map(|v| self.float(v));
        let half = self.float(-0.5);
        let p = self.fma(e, low, p);
        let p = self.fma(square, half, p);
        let out = self.fadd(m, p);
        let out = self.fma(e, high, out);

        let (infinity, minus_infinity, nan) =
            (self.float(f64::INFINITY), self.float(f64::NEG_INFINITY), self.float(f64::NAN));
        let zero = self.float(0.0);
        let is_large = self.fcmp(Compare::Equal, x, infinity);
        let out = self.select(is_large, infinity, out);
        let is_zero = self.fcmp(Compare::Equal, x, zero);
        let out = self.select(is_zero, minus_infinity, out);
        let valid = self.fcmp(Compare::GreaterThanOrEqual, x, zero);
        self.select(valid, out, nan)
    }

    /// `expm1(2x) / (expm1(2x) + 2)`, which needs no case for small arguments.
    fn tanh(&mut self, x: Self::V) -> Self::V {
        let limit = Self::FORMAT.tanh_limit;
        let y = self.clamp(x, [-limit, limit]);
        let y = self.fadd(y, y);
        let (n, nf) = self.nearest_multiple(y, std::f64::consts::LOG2_E);
        let r = self.reduce_ln2(y, nf);
        let p = self.exp_m1_reduced(r);
        let power = self.power(n, nf);
        let one = self.float(1.0);
        let power_m1 = self.fsub(power, one);
        let expm1 = self.fma(p, power, power_m1);
        let out = self.part_of_two_more(expm1);
        self.with_sign_of(out, x)
    }

    /// `v / (v + 2)`.
    fn part_of_two_more(&mut self, v: Self::V) -> Self::V {
        let two = self.float(2.0);
        let below = self.fadd(v, two);
        if !Self::FORMAT.tanh_rest {
            return self.fdiv(v, below);
        }
        let added = self.fsub(below, two);
        let below_low = self.fsub(v, added);
        let (zero, one) = (self.float(0.0), self.float(1.0));
        let inverse = self.fdiv(one, below);
        let out = self.fmul(v, inverse);
        let minus = self.fsub(zero, out);
        let rest = self.fma(minus, below, v);
        let rest = self.fma(minus, below_low, rest);
        self.fma(rest, inverse, out)
    }

    /// The magnitude of `v` with the sign of `x`; NaN stays NaN.
    fn with_sign_of(&mut self, v: Self::V, x: Self::V) -> Self::V {
        self.magnitude_and_sign(v, x)
    }

    /// The same, by the bits of each.
    fn magnitude_and_sign(&mut self, v: Self::V, x: Self::V) -> Self::V {
        let sign = Self::FORMAT.sign();
        let (bits, x_bits, mask, rest) =
            (self.as_int(v), self.as_int(x), self.word(sign), self.word(sign - 1));
        let sign = self.and(x_bits, mask);
        let magnitude = self.and(bits, rest);
        let out = self.or(magnitude, sign);
        self.as_float(out)
    }

    /// A polynomial near 0, `1 - exp(polynomial)` elsewhere.
    fn erf(&mut self, x: Self::V) -> Self::V {
        let t = self.fabs(x);
        let t = self.clamp(t, [0.0, Self::FORMAT.erf_limit]);
        let s = self.fmul(x, x);
        let far = self.poly(t, Self::FORMAT.erf_far);
        let far = self.fmul(far, t);
        let far = self.fsub(far, t);
        let e = self.exp(far);
        let one = self.float(1.0);
        let far = self.fsub(one, e);
        let far = self.with_sign_of(far, x);
        let near = self.poly(s, Self::FORMAT.erf_near);
        let near = self.fma(near, x, x);
        let border = self.float(Self::FORMAT.erf_border);
        let is_far = self.fcmp(Compare::GreaterThan, t, border);
        self.select(is_far, far, near)
    }

    /// What division towards 0 leaves.
    fn fmod(&mut self, x: Self::V, y: Self::V) -> Self::V {
        let (quotient, fast) = self.fmod_reduced(x, y);
        let function = Self::FORMAT.host_fmod;
        self.unless(quotient, Self::FORMAT.fmod_limit, fast, (function, [x, y]))
    }

    /// The quotient, and what division towards 0 leaves where the quotient is at most `fmod_limit`:
    /// x less the nearest multiple of y, which a product rounded once gives exactly, and y more
    /// where that is on the other side of 0. Needs `fma` to round once.
    fn fmod_reduced(&mut self, x: Self::V, y: Self::V) -> (Self::V, Self::V) {
        let quotient = self.fdiv(x, y);
        let round = self.float(Self::FORMAT.round());
        let shifted = self.fadd(quotient, round);
        let n = self.fsub(shifted, round);
        let zero = self.float(0.0);
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
        let infinity = self.float(f64::INFINITY);
        let endless = self.fcmp(Compare::Equal, size, infinity);
        (quotient, self.select(endless, x, left))
    }

    fn trig(&mut self, which: Trig, x: Self::V) -> Self::V {
        let fast = self.trig_reduced(which, x);
        let [sin, cos] = Self::FORMAT.host_trig;
        let function = if which == Trig::Sin { sin } else { cos };
        self.unless(x, Self::FORMAT.trig_limit, fast, (function, [x]))
    }

    /// Sine or cosine of arguments up to `trig_limit`.
    fn trig_reduced(&mut self, which: Trig, x: Self::V) -> Self::V {
        let (quadrant, n) = self.nearest_multiple(x, std::f64::consts::FRAC_2_PI);
        let parts = Self::FORMAT.minus_half_pi.map(|v| self.float(v));
        let r = parts.into_iter().fold(x, |r, part| self.fma(n, part, r));
        let one = self.word(1);
        let quadrant = if which == Trig::Cos { self.iadd(quadrant, one) } else { quadrant };
        let s = self.fmul(r, r);
        let sin = self.poly(s, Self::FORMAT.sin);
        let nothing = self.float(0.0);
        // +0 for both zeros, so that the sign of r survives below.
        let cube = self.fma(r, s, nothing);
        let sin = self.fma(sin, cube, r);
        let cos = self.poly(s, Self::FORMAT.cos);
        let odd = self.and(quadrant, one);
        let zero = self.word(0);
        let is_odd = self.icmp_ne(odd, zero);
        let out = self.select(is_odd, cos, sin);
        let two = self.word(2);
        let flip = self.and(quadrant, two);
        let flip = self.shl(flip, Self::FORMAT.bits - 2);
        let out = self.as_int(out);
        let out = self.xor(out, flip);
        self.as_float(out)
    }
}
