//! Elementary functions on registers.
//!
//! `f32` functions are polynomials in line, within 2 units in the last place over the whole range, infinities, NaN and subnormals included
//! (measured in the tests); sine and cosine of arguments beyond 70,000 and everything in `f64` call the platform's scalar function for each
//! element, as `pow` does. `bf16` and `f16` go through `f32` and round once.

use cranelift_codegen::ir::{
    BlockArg, InstBuilder, Value,
    condcodes::{FloatCC, IntCC},
    types,
};
use gt_ir::DType;

use super::{
    lanes::{Lanes, scalar_type},
    spec::{Binary, Unary},
};

/// Arguments up to here keep their precision in the three-step reduction by multiples of pi/2.
const TRIG_LIMIT: f32 = 70_000.0;
/// Adding it rounds an `f32` below 2^22 to an integer, which then stands in the low bits.
const ROUND: f32 = 12_582_912.0;

/// Whether sine or cosine is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trig {
    Sin,
    Cos,
}

impl Lanes<'_, '_> {
    pub(super) fn unary(&mut self, op: Unary, dtype: DType, a: Value) -> Option<Value> {
        let float = dtype.is_float();
        let v = match op {
            Unary::Not if dtype == DType::Bool => self.not(a),
            Unary::Neg if float => self.b.ins().fneg(a),
            Unary::Abs if float => self.b.ins().fabs(a),
            Unary::Neg => self.b.ins().ineg(a),
            Unary::Abs => self.b.ins().iabs(a),
            Unary::Sqrt if float => self.b.ins().sqrt(a),
            Unary::Exp | Unary::Log | Unary::Sin | Unary::Cos | Unary::Tanh | Unary::Erf
                if float =>
            {
                match scalar_type(dtype) {
                    types::F64 => self.call(DType::F64, host::f64_function(op)?, [a]),
                    _ => self.elementary(op, a)?,
                }
            }
            Unary::Exp
            | Unary::Log
            | Unary::Sqrt
            | Unary::Sin
            | Unary::Cos
            | Unary::Tanh
            | Unary::Erf
            | Unary::Not => return None,
        };
        Some(self.normalize(dtype, v))
    }

    fn elementary(&mut self, op: Unary, a: Value) -> Option<Value> {
        Some(match op {
            Unary::Exp => self.exp(a),
            Unary::Log => self.log(a),
            Unary::Tanh => self.tanh(a),
            Unary::Erf => self.erf(a),
            Unary::Sin => self.trig(Trig::Sin, a),
            Unary::Cos => self.trig(Trig::Cos, a),
            Unary::Neg | Unary::Abs | Unary::Sqrt | Unary::Not => return None,
        })
    }

    /// The binary operations that need calls as well as those that do not.
    pub(super) fn binary_or_call(
        &mut self,
        op: Binary,
        dtype: DType,
        a: Value,
        b: Value,
    ) -> Option<Value> {
        if op != Binary::Pow || dtype == DType::Bool {
            return self.binary(op, dtype, a, b);
        }
        let v = match scalar_type(dtype) {
            types::F32 => self.call(DType::F32, host::pow_f32 as *const () as usize, [a, b]),
            types::F64 => self.call(DType::F64, host::pow_f64 as *const () as usize, [a, b]),
            types::I64 => self.call(DType::I64, host::pow_i64 as *const () as usize, [a, b]),
            _ => self.call(DType::I32, host::pow_i32 as *const () as usize, [a, b]),
        };
        Some(self.normalize(dtype, v))
    }

    /// `c[0] * x^n + .. + c[n]`.
    fn poly(&mut self, x: Value, coefficients: &[f32]) -> Value {
        let mut acc = self.f32(coefficients[0]);
        for &c in &coefficients[1..] {
            let c = self.f32(c);
            acc = self.fma(acc, x, c);
        }
        acc
    }

    fn clamp(&mut self, x: Value, low: f32, high: f32) -> Value {
        let (low, high) = (self.f32(low), self.f32(high));
        // In this order of operands the comparisons keep NaN.
        let above = self.b.ins().fcmp(FloatCC::LessThan, high, x);
        let x = self.select(above, high, x);
        let below = self.b.ins().fcmp(FloatCC::LessThan, x, low);
        self.select(below, low, x)
    }

    /// The integer `n` nearest to `x * scale` (as integer and as float).
    fn nearest_multiple(&mut self, x: Value, scale: f32) -> (Value, Value) {
        let (scale, round) = (self.f32(scale), self.f32(ROUND));
        let shifted = self.fma(x, scale, round);
        let n = self.b.ins().fsub(shifted, round);
        let (bits, base) = (self.as_int(shifted), self.i32(ROUND.to_bits() as i32));
        let int = self.b.ins().isub(bits, base);
        (int, n)
    }

    /// `x - n ln 2`, exact to well below the precision.
    fn reduce_ln2(&mut self, x: Value, n: Value) -> Value {
        let (high, low) = (self.f32(-0.693_145_75), self.f32(-1.428_606_8e-6));
        let r = self.fma(n, high, x);
        self.fma(n, low, r)
    }

    /// 2 to the `n`, for -126 <= n <= 127.
    fn exp2_int(&mut self, n: Value) -> Value {
        let bias = self.i32(127);
        let e = self.b.ins().iadd(n, bias);
        let bits = self.shl(e, 23);
        self.as_f32(bits)
    }

    fn exp(&mut self, x: Value) -> Value {
        let x = self.clamp(x, -104.5, 89.0);
        let (n, nf) = self.nearest_multiple(x, std::f32::consts::LOG2_E);
        let r = self.reduce_ln2(x, nf);
        let p = self.poly(
            r,
            &[1.985_276_2e-4, 1.393_043_6e-3, 8.333_361e-3, 4.166_648_5e-2, 0.166_666_67, 0.5],
        );
        let square = self.b.ins().fmul(r, r);
        let p = self.fma(p, square, r);
        let one = self.f32(1.0);
        let p = self.b.ins().fadd(p, one);
        // In two steps, so that overflow and subnormal results come out right.
        let half = self.sar(n, 1);
        let rest = self.b.ins().isub(n, half);
        let (first, second) = (self.exp2_int(half), self.exp2_int(rest));
        let p = self.b.ins().fmul(p, first);
        self.b.ins().fmul(p, second)
    }

    /// `m` in [sqrt(1/2), sqrt(2)) and `e` with `x = m * 2^e`, then Cephes' polynomial.
    fn log(&mut self, x: Value) -> Value {
        let (tiny, scale) = (self.f32(f32::MIN_POSITIVE), self.f32(8_388_608.0));
        let is_tiny = self.b.ins().fcmp(FloatCC::LessThan, x, tiny);
        let scaled = self.b.ins().fmul(x, scale);
        let normal = self.select(is_tiny, scaled, x);
        let (zero, less) = (self.f32(0.0), self.f32(-23.0));
        let e_base = self.select(is_tiny, less, zero);

        let bits = self.as_int(normal);
        let root_half = self.i32(0x3f35_04f3);
        let relative = self.b.ins().isub(bits, root_half);
        let e = self.sar(relative, 23);
        let e_bits = self.shl(e, 23);
        let m_bits = self.b.ins().isub(bits, e_bits);
        let m = self.as_f32(m_bits);
        let float = self.reg(DType::F32);
        let e = self.b.ins().fcvt_from_sint(float, e);
        let e = self.b.ins().fadd(e, e_base);

        let one = self.f32(1.0);
        let m = self.b.ins().fsub(m, one);
        let square = self.b.ins().fmul(m, m);
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
        let p = self.b.ins().fmul(p, m);
        let p = self.b.ins().fmul(p, square);
        let (low, half, high) = (self.f32(-2.121_944_4e-4), self.f32(-0.5), self.f32(0.693_359_4));
        let p = self.fma(e, low, p);
        let p = self.fma(square, half, p);
        let out = self.b.ins().fadd(m, p);
        let out = self.fma(e, high, out);

        let (infinity, minus_infinity, nan) =
            (self.f32(f32::INFINITY), self.f32(f32::NEG_INFINITY), self.f32(f32::NAN));
        let is_large = self.b.ins().fcmp(FloatCC::Equal, x, infinity);
        let out = self.select(is_large, infinity, out);
        let is_zero = self.b.ins().fcmp(FloatCC::Equal, x, zero);
        let out = self.select(is_zero, minus_infinity, out);
        let valid = self.b.ins().fcmp(FloatCC::GreaterThanOrEqual, x, zero);
        self.select(valid, out, nan)
    }

    /// `expm1(2x) / (expm1(2x) + 2)`, which needs no case for small arguments.
    fn tanh(&mut self, x: Value) -> Value {
        let y = self.clamp(x, -9.5, 9.5);
        let y = self.b.ins().fadd(y, y);
        let (n, nf) = self.nearest_multiple(y, std::f32::consts::LOG2_E);
        let r = self.reduce_ln2(y, nf);
        let p = self.poly(
            r,
            &[1.985_276_2e-4, 1.393_043_6e-3, 8.333_361e-3, 4.166_648_5e-2, 0.166_666_67, 0.5],
        );
        let square = self.b.ins().fmul(r, r);
        let p = self.fma(p, square, r);
        let power = self.exp2_int(n);
        let one = self.f32(1.0);
        let power_m1 = self.b.ins().fsub(power, one);
        let expm1 = self.fma(p, power, power_m1);
        let two = self.f32(2.0);
        let denominator = self.b.ins().fadd(expm1, two);
        let out = self.b.ins().fdiv(expm1, denominator);
        self.with_sign_of(out, x)
    }

    /// The magnitude of `v` with the sign of `x`; NaN stays NaN.
    fn with_sign_of(&mut self, v: Value, x: Value) -> Value {
        let (bits, x_bits, mask, rest) =
            (self.as_int(v), self.as_int(x), self.i32(i32::MIN), self.i32(i32::MAX));
        let sign = self.b.ins().band(x_bits, mask);
        let magnitude = self.b.ins().band(bits, rest);
        let out = self.b.ins().bor(magnitude, sign);
        self.as_f32(out)
    }

    /// A polynomial near 0, `1 - exp(polynomial)` elsewhere.
    fn erf(&mut self, x: Value) -> Value {
        let t = self.b.ins().fabs(x);
        let t = self.clamp(t, 0.0, 4.0);
        let s = self.b.ins().fmul(x, x);
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
        let far = self.b.ins().fmul(far, t);
        let far = self.b.ins().fsub(far, t);
        let e = self.exp(far);
        let one = self.f32(1.0);
        let far = self.b.ins().fsub(one, e);
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
        let is_far = self.b.ins().fcmp(FloatCC::GreaterThan, t, border);
        self.select(is_far, far, near)
    }

    fn trig(&mut self, which: Trig, x: Value) -> Value {
        let address = match which {
            Trig::Sin => host::sin_f32 as *const () as usize,
            Trig::Cos => host::cos_f32 as *const () as usize,
        };
        if !self.target.fma {
            return self.call(DType::F32, address, [x]);
        }
        let (magnitude, limit) = (self.b.ins().fabs(x), self.f32(TRIG_LIMIT));
        let fine = self.b.ins().fcmp(FloatCC::LessThanOrEqual, magnitude, limit);
        let unusual = if self.lanes == 1 {
            self.b.ins().bxor_imm_s(fine, 1)
        } else {
            let unusual = self.b.ins().bnot(fine);
            self.b.ins().vany_true(unusual)
        };
        let (slow, done) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(slow);
        let ty = self.reg(DType::F32);
        let result = self.b.append_block_param(done, ty);
        let fast = self.trig_reduced(which, x);
        self.b.ins().brif(unusual, slow, &[], done, &[BlockArg::Value(fast)]);
        self.b.switch_to_block(slow);
        self.b.seal_block(slow);
        // A lane keeps the value it would have had beside ordinary lanes.
        let called = self.call(DType::F32, address, [x]);
        let mixed = self.select(fine, fast, called);
        self.b.ins().jump(done, &[BlockArg::Value(mixed)]);
        self.b.switch_to_block(done);
        self.b.seal_block(done);
        result
    }

    fn trig_reduced(&mut self, which: Trig, x: Value) -> Value {
        let (quadrant, n) = self.nearest_multiple(x, std::f32::consts::FRAC_2_PI);
        let parts =
            [0xbfc9_0fd8, 0xb4a8_885a, 0xa7c2_34c4].map(|bits| self.f32(f32::from_bits(bits)));
        let r = parts.into_iter().fold(x, |r, part| self.fma(n, part, r));
        let one = self.i32(1);
        let quadrant = if which == Trig::Cos { self.b.ins().iadd(quadrant, one) } else { quadrant };
        let s = self.b.ins().fmul(r, r);
        let sin = self.poly(s, &[2.865_679_6e-6, -1.985_599_2e-4, 8.333_386e-3, -0.166_666_67]);
        let nothing = self.f32(0.0);
        let cube = self.fma(r, s, nothing); // +0 for both zeros, so that the sign of r survives below
        let sin = self.fma(sin, cube, r);
        let cos = self.poly(s, &[2.446_770_7e-5, -1.388_773e-3, 4.166_665_7e-2, -0.5, 1.0]);
        let odd = self.b.ins().band(quadrant, one);
        let zero = self.i32(0);
        let is_odd = self.b.ins().icmp(IntCC::NotEqual, odd, zero);
        let out = self.select(is_odd, cos, sin);
        let two = self.i32(2);
        let flip = self.b.ins().band(quadrant, two);
        let flip = self.shl(flip, 30);
        let out = self.as_int(out);
        let out = self.b.ins().bxor(out, flip);
        self.as_f32(out)
    }
}

/// Scalar functions of the host that compiled code calls by address.
mod host {
    use super::Unary;

    pub(super) fn f64_function(op: Unary) -> Option<usize> {
        let f: extern "C" fn(f64) -> f64 = match op {
            Unary::Exp => exp,
            Unary::Log => log,
            Unary::Sin => sin,
            Unary::Cos => cos,
            Unary::Tanh => tanh,
            Unary::Erf => erf,
            Unary::Neg | Unary::Abs | Unary::Sqrt | Unary::Not => return None,
        };
        Some(f as *const () as usize)
    }

    extern "C" fn exp(x: f64) -> f64 {
        x.exp()
    }
    extern "C" fn log(x: f64) -> f64 {
        x.ln()
    }
    extern "C" fn sin(x: f64) -> f64 {
        x.sin()
    }
    extern "C" fn cos(x: f64) -> f64 {
        x.cos()
    }
    extern "C" fn tanh(x: f64) -> f64 {
        x.tanh()
    }
    extern "C" fn erf(x: f64) -> f64 {
        libm::erf(x)
    }
    pub(super) extern "C" fn sin_f32(x: f32) -> f32 {
        x.sin()
    }
    pub(super) extern "C" fn cos_f32(x: f32) -> f32 {
        x.cos()
    }
    pub(super) extern "C" fn pow_f32(x: f32, y: f32) -> f32 {
        x.powf(y)
    }
    pub(super) extern "C" fn pow_f64(x: f64, y: f64) -> f64 {
        x.powf(y)
    }

    /// Wraps; a negative exponent gives 0 except for the bases 1 and -1.
    pub(super) extern "C" fn pow_i64(x: i64, y: i64) -> i64 {
        if y < 0 {
            return match x {
                1 => 1,
                -1 => 1 - 2 * (y & 1),
                _ => 0,
            };
        }
        let (mut base, mut rest, mut out) = (x, y, 1i64);
        while rest > 0 {
            if rest & 1 == 1 {
                out = out.wrapping_mul(base);
            }
            base = base.wrapping_mul(base);
            rest >>= 1;
        }
        out
    }

    pub(super) extern "C" fn pow_i32(x: i32, y: i32) -> i32 {
        pow_i64(i64::from(x), i64::from(y)) as i32 // wrapping of the low bits is the same in any width
    }
}
