//! Floats of 16 bits: rounding to them, and their bits.

use cranelift_codegen::ir::{InstBuilder, Value, condcodes::IntCC};
use gt_ir::DType;

use super::Lanes;
use crate::kernel::formulas::Formulas;

impl Lanes<'_, '_> {
    pub(super) fn round_bf16(&mut self, v: Value) -> Value {
        let bits = self.as_int(v);
        let (one, half, keep, quiet) = (
            self.i32(1),
            self.i32(0x7fff),
            self.i32(0xffff_0000_u32 as i32),
            self.i32(0x0040_0000),
        );
        let odd = self.shr(bits, 16);
        let odd = self.b.ins().band(odd, one);
        let sum = self.b.ins().iadd(bits, half);
        let sum = self.b.ins().iadd(sum, odd);
        let nan = self.b.ins().bor(bits, quiet);
        let is_nan = self.is_nan(v);
        let out = self.select(is_nan, nan, sum);
        let out = self.b.ins().band(out, keep);
        self.as_float(out)
    }

    pub(super) fn round_f16(&mut self, v: Value) -> Value {
        let bits = self.as_int(v);
        let sign_mask = self.i32(i32::MIN);
        let sign = self.b.ins().band(bits, sign_mask);
        let magnitude = self.b.ins().bxor(bits, sign);
        // Normal results: round to 10 bits of fraction, half to even.
        let (one, half, keep) = (self.i32(1), self.i32(0xfff), self.i32(!0x1fff));
        let odd = self.shr(magnitude, 13);
        let odd = self.b.ins().band(odd, one);
        let normal = self.b.ins().iadd(magnitude, half);
        let normal = self.b.ins().iadd(normal, odd);
        let normal = self.b.ins().band(normal, keep);
        // Subnormal results: adding 0.5 leaves multiples of 2^-24.
        let float = self.as_float(magnitude);
        let shift = self.f32(0.5);
        let subnormal = self.b.ins().fadd(float, shift);
        let subnormal = self.b.ins().fsub(subnormal, shift);
        let subnormal = self.as_int(subnormal);
        let (smallest, overflow, infinity) =
            (self.i32(0x3880_0000), self.i32(0x477f_f000), self.i32(0x7f80_0000));
        let tiny = self.b.ins().icmp(IntCC::SignedLessThan, magnitude, smallest);
        let out = self.select(tiny, subnormal, normal);
        let huge = self.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, magnitude, overflow);
        let out = self.select(huge, infinity, out);
        let is_nan = self.is_nan(v);
        let quiet = self.i32(0x7fc0_0000);
        let out = self.select(is_nan, quiet, out);
        let out = self.b.ins().bor(out, sign);
        self.as_float(out)
    }

    /// The bits of an `f16` (in an `i32`) as an `f32`.
    fn f16_to_f32(&mut self, h: Value) -> Value {
        let (magnitude_mask, sign_mask, top) =
            (self.i32(0x7fff), self.i32(0x8000), self.i32(0x0f80_0000));
        let sign = self.b.ins().band(h, sign_mask);
        let sign = self.shl(sign, 16);
        let magnitude = self.b.ins().band(h, magnitude_mask);
        let magnitude = self.shl(magnitude, 13);
        let small = self.as_float(magnitude);
        // 2^112, the distance of the exponent biases.
        let scale = self.f32(f32::from_bits(0x7780_0000));
        let scaled = self.b.ins().fmul(small, scale);
        let scaled = self.as_int(scaled);
        let infinity = self.i32(0x7f80_0000);
        let special = self.b.ins().bor(magnitude, infinity);
        let is_special = self.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, magnitude, top);
        let out = self.select(is_special, special, scaled);
        let out = self.b.ins().bor(out, sign);
        self.as_float(out)
    }

    /// An `f32` that is exactly an `f16`, as its bits in an `i32`.
    fn f32_to_f16(&mut self, v: Value) -> Value {
        let bits = self.as_int(v);
        let (sign_mask, infinity) = (self.i32(i32::MIN), self.i32(0x7f80_0000));
        let sign = self.b.ins().band(bits, sign_mask);
        let magnitude = self.b.ins().bxor(bits, sign);
        let sign = self.shr(sign, 16);
        let float = self.as_float(magnitude);
        let scale = self.f32(f32::from_bits(0x0780_0000)); // 2^-112
        let small = self.b.ins().fmul(float, scale);
        let small = self.as_int(small);
        let small = self.shr(small, 13);
        let (half_infinity, half_quiet) = (self.i32(0x7c00), self.i32(0x7e00));
        let is_infinite = self.b.ins().icmp(IntCC::Equal, magnitude, infinity);
        let out = self.select(is_infinite, half_infinity, small);
        let is_nan = self.b.ins().icmp(IntCC::SignedGreaterThan, magnitude, infinity);
        let out = self.select(is_nan, half_quiet, out);
        self.b.ins().bor(out, sign)
    }

    pub(super) fn widen_half(&mut self, dtype: DType, v: Value) -> Value {
        if dtype == DType::F16 {
            return self.f16_to_f32(v);
        }
        let v = self.shl(v, 16);
        self.as_float(v)
    }

    pub(super) fn narrow_half(&mut self, dtype: DType, v: Value) -> Value {
        if dtype == DType::F16 {
            return self.f32_to_f16(v);
        }
        let v = self.as_int(v);
        self.shr(v, 16)
    }
}
