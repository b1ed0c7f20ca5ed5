//! Elementary functions on registers of Cranelift.
//!
//! They are the [`Formulas`] and [`powers`](super::powers) in line. Sine and cosine of large
//! arguments and remainders of large quotients call the platform's scalar function for each
//! element, and so does all of `f64` where the processor does not round `a * b + c` once.
//! `bf16` and `f16` go through `f32` and round once.

use cranelift_codegen::ir::{
    BlockArg, InstBuilder, Value,
    condcodes::{FloatCC, IntCC},
    types,
};
use gt_ir::DType;

use super::{
    formulas::{Compare, F32, F64, Format, Formulas},
    host,
    lanes::{Lanes, scalar_type},
    powers::Powers as _,
    spec::{Binary, Unary},
};

/// Lanes of 64 bits, for the formulas of `f64`.
struct Doubles<'l, 'a, 'f>(&'l mut Lanes<'a, 'f>);

/// What [`Formulas`] need that is the same in each format.
macro_rules! arithmetic {
    ($dtype:expr) => {
        type V = Value;
        type M = Value;

        fn fadd(&mut self, a: Value, b: Value) -> Value {
            self.emitter().b.ins().fadd(a, b)
        }
        fn fsub(&mut self, a: Value, b: Value) -> Value {
            self.emitter().b.ins().fsub(a, b)
        }
        fn fmul(&mut self, a: Value, b: Value) -> Value {
            self.emitter().b.ins().fmul(a, b)
        }
        fn fdiv(&mut self, a: Value, b: Value) -> Value {
            self.emitter().b.ins().fdiv(a, b)
        }
        fn fabs(&mut self, v: Value) -> Value {
            self.emitter().b.ins().fabs(v)
        }
        fn fma(&mut self, a: Value, b: Value, c: Value) -> Value {
            self.emitter().multiply_add(a, b, c)
        }
        fn iadd(&mut self, a: Value, b: Value) -> Value {
            self.emitter().b.ins().iadd(a, b)
        }
        fn isub(&mut self, a: Value, b: Value) -> Value {
            self.emitter().b.ins().isub(a, b)
        }
        fn and(&mut self, a: Value, b: Value) -> Value {
            self.emitter().b.ins().band(a, b)
        }
        fn or(&mut self, a: Value, b: Value) -> Value {
            self.emitter().b.ins().bor(a, b)
        }
        fn xor(&mut self, a: Value, b: Value) -> Value {
            self.emitter().b.ins().bxor(a, b)
        }
        fn shl(&mut self, v: Value, n: u8) -> Value {
            let n = self.emitter().b.ins().iconst(types::I32, i64::from(n));
            self.emitter().b.ins().ishl(v, n)
        }
        fn shr(&mut self, v: Value, n: u8) -> Value {
            let n = self.emitter().b.ins().iconst(types::I32, i64::from(n));
            self.emitter().b.ins().ushr(v, n)
        }
        fn fcmp(&mut self, how: Compare, a: Value, b: Value) -> Value {
            self.emitter().b.ins().fcmp(condition(how), a, b)
        }
        fn icmp_ne(&mut self, a: Value, b: Value) -> Value {
            self.emitter().b.ins().icmp(IntCC::NotEqual, a, b)
        }
        fn select(&mut self, m: Value, a: Value, b: Value) -> Value {
            self.emitter().choose(m, a, b)
        }
        fn unless<const N: usize>(
            &mut self,
            of: Value,
            limit: f64,
            fast: Value,
            (function, args): (host::Function, [Value; N]),
        ) -> Value {
            if !self.emitter().target.fma {
                return self.emitter().call($dtype, function, args);
            }
            let limit = self.float(limit);
            self.emitter().fast_unless(of, limit, fast, |l| l.call($dtype, function, args))
        }
    };
}

fn condition(how: Compare) -> FloatCC {
    match how {
        Compare::Equal => FloatCC::Equal,
        Compare::LessThan => FloatCC::LessThan,
        Compare::GreaterThan => FloatCC::GreaterThan,
        Compare::GreaterThanOrEqual => FloatCC::GreaterThanOrEqual,
        Compare::Unordered => FloatCC::Unordered,
    }
}

impl<'a, 'f> Formulas for Lanes<'a, 'f> {
    const FORMAT: &'static Format = &F32;

    arithmetic!(DType::F32);

    fn float(&mut self, v: f64) -> Value {
        let c = self.b.ins().f32const(v as f32);
        self.splat(DType::F32, c)
    }
    fn word(&mut self, bits: u64) -> Value {
        self.int(DType::I32, i64::from(bits as i32))
    }
    fn as_int(&mut self, v: Value) -> Value {
        let ty = self.reg(DType::I32);
        self.bits(ty, v)
    }
    fn as_float(&mut self, v: Value) -> Value {
        let ty = self.reg(DType::F32);
        self.bits(ty, v)
    }
}

impl Formulas for Doubles<'_, '_, '_> {
    const FORMAT: &'static Format = &F64;

    arithmetic!(DType::F64);

    fn float(&mut self, v: f64) -> Value {
        let c = self.0.b.ins().f64const(v);
        self.0.splat(DType::F64, c)
    }
    fn word(&mut self, bits: u64) -> Value {
        self.0.int(DType::I64, bits.cast_signed())
    }
    fn as_int(&mut self, v: Value) -> Value {
        let ty = self.0.reg(DType::I64);
        self.0.bits(ty, v)
    }
    fn as_float(&mut self, v: Value) -> Value {
        let ty = self.0.reg(DType::F64);
        self.0.bits(ty, v)
    }
}

impl<'a, 'f> Doubles<'_, 'a, 'f> {
    fn emitter(&mut self) -> &mut Lanes<'a, 'f> {
        self.0
    }
}

impl<'a, 'f> Lanes<'a, 'f> {
    fn emitter(&mut self) -> &mut Lanes<'a, 'f> {
        self
    }

    /// `a * b + c`, rounded once where the processor can.
    fn multiply_add(&mut self, a: Value, b: Value, c: Value) -> Value {
        if self.target.fma {
            return self.b.ins().fma(a, b, c);
        }
        let product = self.b.ins().fmul(a, b);
        self.b.ins().fadd(product, c)
    }

    /// `a` where the mask holds, else `b`.
    fn choose(&mut self, m: Value, a: Value, b: Value) -> Value {
        if self.lanes == 1 {
            return self.b.ins().select(m, a, b);
        }
        let ty = self.b.func.dfg.value_type(a);
        let m = self.bits(ty, m);
        self.b.ins().bitselect(m, a, b)
    }

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
                    types::F64 if self.target.fma => Doubles(self).elementary(op, a)?,
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
            types::F64 if op == Binary::Fmod && self.target.fma => Doubles(self).fmod(a, b),
            types::F64 if op == Binary::Pow && self.target.fma => Doubles(self).pow(a, b),
            types::F64 => self.call(DType::F64, f64, [a, b]),
            types::I64 => self.call(DType::I64, i64, [a, b]),
            _ => self.call(DType::I32, i32, [a, b]),
        };
        Some(self.normalize(dtype, v))
    }

    /// `fast` where `size` is at most `limit`, else what `slow` computes, which runs only where
    /// there is one that is not.
    fn fast_unless(
        &mut self,
        size: Value,
        limit: Value,
        fast: Value,
        slow: impl FnOnce(&mut Self) -> Value,
    ) -> Value {
        let magnitude = self.b.ins().fabs(size);
        let fine = self.b.ins().fcmp(FloatCC::LessThanOrEqual, magnitude, limit);
        let unusual = if self.lanes == 1 {
            self.b.ins().bxor_imm_s(fine, 1)
        } else {
            let unusual = self.b.ins().bnot(fine);
            self.b.ins().vany_true(unusual)
        };
        let (rare, done) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(rare);
        let ty = self.b.func.dfg.value_type(fast);
        let result = self.b.append_block_param(done, ty);
        self.b.ins().brif(unusual, rare, &[], done, &[BlockArg::Value(fast)]);
        self.b.switch_to_block(rare);
        self.b.seal_block(rare);
        // A lane keeps the value it would have had beside ordinary lanes.
        let called = slow(self);
        let mixed = self.choose(fine, fast, called);
        self.b.ins().jump(done, &[BlockArg::Value(mixed)]);
        self.b.switch_to_block(done);
        self.b.seal_block(done);
        result
    }
}

/// The host's function of `f64`, for processors that do not round `a * b + c` once.
fn f64_function(op: Unary) -> Option<host::Function> {
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
