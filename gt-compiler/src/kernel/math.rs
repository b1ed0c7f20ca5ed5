//! Elementary functions on registers of Cranelift.
//!
//! `f32` functions are the [`Formulas`] in line; sine and cosine of arguments beyond 70,000 and everything in `f64` call the platform's scalar
//! function for each element, as `pow` does. `bf16` and `f16` go through `f32` and round once.

use cranelift_codegen::ir::{
    BlockArg, InstBuilder, Value,
    condcodes::{FloatCC, IntCC},
    types,
};
use gt_ir::DType;

use super::{
    formulas::{Compare, Formulas, TRIG_LIMIT, Trig},
    lanes::{Lanes, scalar_type},
    spec::{Binary, Unary},
};

impl Formulas for Lanes<'_, '_> {
    type V = Value;
    type M = Value;

    fn f32(&mut self, v: f32) -> Value {
        let c = self.b.ins().f32const(v);
        if self.lanes == 1 { c } else { self.b.ins().splat(types::F32X4, c) }
    }
    fn i32(&mut self, v: i32) -> Value {
        let c = self.b.ins().iconst(types::I32, i64::from(v));
        if self.lanes == 1 { c } else { self.b.ins().splat(types::I32X4, c) }
    }
    fn fadd(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().fadd(a, b)
    }
    fn fsub(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().fsub(a, b)
    }
    fn fmul(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().fmul(a, b)
    }
    fn fdiv(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().fdiv(a, b)
    }
    fn fabs(&mut self, v: Value) -> Value {
        self.b.ins().fabs(v)
    }
    fn fma(&mut self, a: Value, b: Value, c: Value) -> Value {
        if self.target.fma {
            self.b.ins().fma(a, b, c)
        } else {
            let product = self.b.ins().fmul(a, b);
            self.b.ins().fadd(product, c)
        }
    }
    fn iadd(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().iadd(a, b)
    }
    fn isub(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().isub(a, b)
    }
    fn and(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().band(a, b)
    }
    fn or(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().bor(a, b)
    }
    fn xor(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().bxor(a, b)
    }
    fn shl(&mut self, v: Value, n: u8) -> Value {
        let n = self.b.ins().iconst(types::I32, i64::from(n));
        self.b.ins().ishl(v, n)
    }
    fn shr(&mut self, v: Value, n: u8) -> Value {
        let n = self.b.ins().iconst(types::I32, i64::from(n));
        self.b.ins().ushr(v, n)
    }
    fn sar(&mut self, v: Value, n: u8) -> Value {
        let n = self.b.ins().iconst(types::I32, i64::from(n));
        self.b.ins().sshr(v, n)
    }
    fn fcmp(&mut self, how: Compare, a: Value, b: Value) -> Value {
        let how = match how {
            Compare::Equal => FloatCC::Equal,
            Compare::LessThan => FloatCC::LessThan,
            Compare::LessThanOrEqual => FloatCC::LessThanOrEqual,
            Compare::GreaterThan => FloatCC::GreaterThan,
            Compare::GreaterThanOrEqual => FloatCC::GreaterThanOrEqual,
            Compare::Unordered => FloatCC::Unordered,
        };
        self.b.ins().fcmp(how, a, b)
    }
    fn icmp_ne(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().icmp(IntCC::NotEqual, a, b)
    }
    fn select(&mut self, m: Value, a: Value, b: Value) -> Value {
        if self.lanes == 1 {
            return self.b.ins().select(m, a, b);
        }
        let ty = self.b.func.dfg.value_type(a);
        let m = self.bits(ty, m);
        self.b.ins().bitselect(m, a, b)
    }
    fn to_float(&mut self, v: Value) -> Value {
        let float = self.reg(DType::F32);
        self.b.ins().fcvt_from_sint(float, v)
    }
    fn as_int(&mut self, v: Value) -> Value {
        let ty = if self.lanes == 1 { types::I32 } else { types::I32X4 };
        self.bits(ty, v)
    }
    fn as_f32(&mut self, v: Value) -> Value {
        let ty = self.reg(DType::F32);
        self.bits(ty, v)
    }
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
