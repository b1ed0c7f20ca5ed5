//! Elementary functions on registers of Cranelift.
//!
//! `f32` functions are the [`Formulas`] and [`powers`](super::powers) in line; sine and cosine of
//! arguments beyond 70,000, remainders of quotients beyond 4 million and everything in `f64` call
//! the platform's scalar function for each element. `bf16` and `f16` go through `f32` and round
//! once.

use cranelift_codegen::ir::{
    BlockArg, InstBuilder, Value,
    condcodes::{FloatCC, IntCC},
    types,
};
use gt_ir::DType;

use super::{
    formulas::{Compare, FMOD_LIMIT, Formulas, TRIG_LIMIT, Trig},
    host,
    lanes::{Lanes, scalar_type},
    powers::Powers as _,
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
            Unary::LogicalNot if dtype == DType::Bool => self.not(a),
            Unary::Neg if float => self.b.ins().fneg(a),
            Unary::Abs if float => self.b.ins().fabs(a),
            Unary::Neg => self.b.ins().ineg(a),
            Unary::Abs => self.b.ins().iabs(a),
            Unary::Sqrt if float => self.b.ins().sqrt(a),
            // Integers are whole already, and rounded narrow floats are narrow floats.
            Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round => {
                return if float { self.rounded(op, dtype, a) } else { Some(a) };
            }
            Unary::Exp
            | Unary::Exp2
            | Unary::Log
            | Unary::Sin
            | Unary::Cos
            | Unary::Tanh
            | Unary::Erf
                if float =>
            {
                match scalar_type(dtype) {
                    types::F64 => self.call(DType::F64, f64_function(op)?, [a]),
                    _ => self.elementary(op, a)?,
                }
            }
            Unary::Exp
            | Unary::Exp2
            | Unary::Log
            | Unary::Sqrt
            | Unary::Sin
            | Unary::Cos
            | Unary::Tanh
            | Unary::Erf
            | Unary::LogicalNot => return None,
        };
        Some(self.normalize(dtype, v))
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others do not round to integers")]
    fn rounded(&mut self, op: Unary, dtype: DType, a: Value) -> Option<Value> {
        if !self.target.rounds {
            let function = f64_function(op)?;
            if scalar_type(dtype) == types::F64 {
                return Some(self.call(DType::F64, function, [a]));
            }
            return Some(self.per_lane(DType::F32, DType::F32, [a], |l, [a]| {
                let wide = l.b.ins().fpromote(types::F64, a);
                let whole = l.call(DType::F64, function, [wide]);
                l.b.ins().fdemote(types::F32, whole)
            }));
        }
        Some(match op {
            Unary::Floor => self.b.ins().floor(a),
            Unary::Ceil => self.b.ins().ceil(a),
            Unary::Trunc => self.b.ins().trunc(a),
            Unary::Round => self.b.ins().nearest(a),
            _ => return None,
        })
    }

    fn elementary(&mut self, op: Unary, a: Value) -> Option<Value> {
        Some(match op {
            Unary::Exp => self.exp(a),
            Unary::Exp2 => self.exp2(a),
            Unary::Log => self.log(a),
            Unary::Tanh => self.tanh(a),
            Unary::Erf => self.erf(a),
            Unary::Sin => self.trig(Trig::Sin, a),
            Unary::Cos => self.trig(Trig::Cos, a),
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

    /// The binary operations that need calls as well as those that do not.
    pub(super) fn binary_or_call(
        &mut self,
        op: Binary,
        dtype: DType,
        a: Value,
        b: Value,
    ) -> Option<Value> {
        use host::Function as F;
        let functions = match op {
            Binary::Pow => [F::PowF32, F::PowF64, F::PowI64, F::PowI32],
            Binary::Fmod => [F::FmodF32, F::FmodF64, F::FmodI64, F::FmodI32],
            Binary::Add
            | Binary::Sub
            | Binary::Mul
            | Binary::Div
            | Binary::Maximum
            | Binary::Minimum
            | Binary::Eq
            | Binary::Lt
            | Binary::LogicalAnd
            | Binary::LogicalOr
            | Binary::LogicalXor
            | Binary::BitwiseAnd
            | Binary::LeftShift
            | Binary::RightShift => return self.binary(op, dtype, a, b),
        };
        let [f32, f64, i64, i32] = functions;
        let v = match scalar_type(dtype) {
            _ if dtype == DType::Bool => return None,
            types::F32 if op == Binary::Fmod && self.target.fma => self.fmod(a, b),
            types::F32 if op == Binary::Pow && self.target.fma => self.pow(a, b),
            types::F32 => self.call(DType::F32, f32, [a, b]),
            types::F64 => self.call(DType::F64, f64, [a, b]),
            types::I64 => self.call(DType::I64, i64, [a, b]),
            _ => self.call(DType::I32, i32, [a, b]),
        };
        Some(self.normalize(dtype, v))
    }

    fn trig(&mut self, which: Trig, x: Value) -> Value {
        let function = match which {
            Trig::Sin => host::Function::SinF32,
            Trig::Cos => host::Function::CosF32,
        };
        if !self.target.fma {
            return self.call(DType::F32, function, [x]);
        }
        let fast = self.trig_reduced(which, x);
        self.unless(x, TRIG_LIMIT, fast, |lanes| lanes.call(DType::F32, function, [x]))
    }

    fn fmod(&mut self, x: Value, y: Value) -> Value {
        let (quotient, fast) = self.fmod_reduced(x, y);
        let function = host::Function::FmodF32;
        self.unless(quotient, FMOD_LIMIT, fast, |lanes| lanes.call(DType::F32, function, [x, y]))
    }

    /// `fast` where `size` is at most `limit`, else what `slow` computes, which runs only where
    /// there is one that is not.
    fn unless(
        &mut self,
        size: Value,
        limit: f32,
        fast: Value,
        slow: impl FnOnce(&mut Self) -> Value,
    ) -> Value {
        let (magnitude, limit) = (self.b.ins().fabs(size), self.f32(limit));
        let fine = self.b.ins().fcmp(FloatCC::LessThanOrEqual, magnitude, limit);
        let unusual = if self.lanes == 1 {
            self.b.ins().bxor_imm_s(fine, 1)
        } else {
            let unusual = self.b.ins().bnot(fine);
            self.b.ins().vany_true(unusual)
        };
        let (rare, done) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(rare);
        let ty = self.reg(DType::F32);
        let result = self.b.append_block_param(done, ty);
        self.b.ins().brif(unusual, rare, &[], done, &[BlockArg::Value(fast)]);
        self.b.switch_to_block(rare);
        self.b.seal_block(rare);
        // A lane keeps the value it would have had beside ordinary lanes.
        let called = slow(self);
        let mixed = self.select(fine, fast, called);
        self.b.ins().jump(done, &[BlockArg::Value(mixed)]);
        self.b.switch_to_block(done);
        self.b.seal_block(done);
        result
    }
}

/// The host's function of `f64`, where there is one.
pub(super) fn f64_function(op: Unary) -> Option<host::Function> {
    Some(match op {
        Unary::Exp => host::Function::Exp,
        Unary::Exp2 => host::Function::Exp2,
        Unary::Log => host::Function::Log,
        Unary::Sin => host::Function::Sin,
        Unary::Cos => host::Function::Cos,
        Unary::Tanh => host::Function::Tanh,
        Unary::Erf => host::Function::Erf,
        Unary::Floor => host::Function::Floor,
        Unary::Ceil => host::Function::Ceil,
        Unary::Trunc => host::Function::Trunc,
        Unary::Round => host::Function::Round,
        Unary::Neg | Unary::Abs | Unary::Sqrt | Unary::LogicalNot => return None,
    })
}
