//! Arithmetic on registers that hold one element or a vector of them.
//!
//! How a dtype lies in a register: `f32`, `f64`, `i32`, `i64` as themselves; `bf16` and `f16` as an `f32` that is exactly representable in
//! them (each operation rounds); `u8` as an `i32` in 0..=255 (each operation wraps); `bool` as 0 or 1 in an `i8`, in vectors as an all-zeros or
//! all-ones lane. One lane and many go through the same formulas, so an element's value does not depend on its position.

use cranelift_codegen::ir::{
    AbiParam, InstBuilder, MemFlagsData, Signature, Type as Clif, Value,
    condcodes::{FloatCC, IntCC},
    immediates::Offset32,
    types,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;
use gt_ir::DType;
use smallvec::SmallVec;

use super::{formulas::Formulas, host, spec::Binary};

/// Accesses do not trap and may be unaligned for vectors.
pub(super) const MEMORY: MemFlagsData = MemFlagsData::new().with_notrap();

/// Facts about the target the arithmetic depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) fma: bool,
    pub(super) call_conv: CallConv,
    /// Where the code being written finds the host's functions.
    pub(super) host: Option<Value>,
}

/// Emits arithmetic over `lanes` elements at a time.
pub(super) struct Lanes<'a, 'f> {
    pub(super) b: &'a mut FunctionBuilder<'f>,
    pub(super) lanes: usize,
    pub(super) target: Target,
}

/// The register type of one element.
pub(super) fn scalar_type(dtype: DType) -> Clif {
    match dtype {
        DType::F32 | DType::Bf16 | DType::F16 => types::F32,
        DType::F64 => types::F64,
        DType::I64 => types::I64,
        DType::I32 | DType::U8 => types::I32,
        DType::Bool => types::I8,
    }
}

impl Lanes<'_, '_> {
    /// The register type of `lanes` elements.
    pub(super) fn reg(&self, dtype: DType) -> Clif {
        match (self.lanes, dtype) {
            (1, _) => scalar_type(dtype),
            (4, DType::Bool) => types::I32X4,
            (_, DType::Bool) => types::I64X2,
            (n, _) => scalar_type(dtype)
                .by(n as u32)
                .expect("f32 and i32 have four lanes, f64 and i64 two"),
        }
    }

    fn int(&mut self, dtype: DType, v: i64) -> Value {
        let c = self.b.ins().iconst(scalar_type(dtype), v);
        self.splat(dtype, c)
    }

    /// The same bits as another register type of the same size.
    pub(super) fn bits(&mut self, ty: Clif, v: Value) -> Value {
        if self.b.func.dfg.value_type(v) == ty {
            return v;
        }
        let flags = MemFlagsData::new().with_endianness(cranelift_codegen::ir::Endianness::Little);
        self.b.ins().bitcast(ty, flags, v)
    }

    /// One element into every lane.
    pub(super) fn splat(&mut self, dtype: DType, v: Value) -> Value {
        if self.lanes == 1 {
            return v;
        }
        let v = self.lane_value(dtype, v);
        let ty = self.reg(dtype);
        self.b.ins().splat(ty, v)
    }

    /// A scalar as it lies in a lane.
    fn lane_value(&mut self, dtype: DType, v: Value) -> Value {
        if dtype != DType::Bool {
            return v;
        }
        let wide = self.reg(DType::Bool).lane_type();
        let v = self.b.ins().uextend(wide, v);
        self.b.ins().ineg(v)
    }

    /// A vector from one scalar for each lane.
    pub(super) fn pack(&mut self, dtype: DType, values: &[Value]) -> Value {
        let mut out = self.splat(dtype, values[0]);
        for (lane, &v) in values.iter().enumerate().skip(1) {
            let v = self.lane_value(dtype, v);
            out = self.b.ins().insertlane(out, v, lane as u8);
        }
        out
    }

    /// The scalar in a lane.
    pub(super) fn extract(&mut self, dtype: DType, v: Value, lane: usize) -> Value {
        if self.lanes == 1 {
            return v;
        }
        let v = self.b.ins().extractlane(v, lane as u8);
        if dtype != DType::Bool {
            return v;
        }
        self.b.ins().icmp_imm_s(IntCC::NotEqual, v, 0)
    }

    /// Applies a scalar computation to each lane.
    pub(super) fn per_lane<const N: usize>(
        &mut self,
        from: DType,
        to: DType,
        args: [Value; N],
        mut f: impl FnMut(&mut Lanes<'_, '_>, [Value; N]) -> Value,
    ) -> Value {
        let lanes = self.lanes;
        let mut out: SmallVec<[Value; 4]> = SmallVec::new();
        for lane in 0..lanes {
            let scalars = args.map(|a| self.extract(from, a, lane));
            out.push(f(&mut Lanes { b: self.b, lanes: 1, target: self.target }, scalars));
        }
        self.pack(to, &out)
    }

    /// Calls a host function of scalars for each lane.
    pub(super) fn call<const N: usize>(
        &mut self,
        dtype: DType,
        function: host::Function,
        args: [Value; N],
    ) -> Value {
        let ty = scalar_type(dtype);
        let mut signature = Signature::new(self.target.call_conv);
        signature.params.extend([AbiParam::new(ty); N]);
        signature.returns.push(AbiParam::new(ty));
        let signature = self.b.import_signature(signature);
        self.per_lane(dtype, dtype, args, |l, args| {
            let table = match l.target.host {
                Some(table) => table,
                None => l.b.ins().iconst(types::I64, 0), // code outside of a kernel is never run
            };
            let address = l.b.ins().load(types::I64, MEMORY, table, function.offset());
            let call = l.b.ins().call_indirect(signature, address, &args);
            l.b.inst_results(call)[0]
        })
    }

    /// Brings a fresh result into the range or precision of its dtype.
    pub(super) fn normalize(&mut self, dtype: DType, v: Value) -> Value {
        match dtype {
            DType::Bf16 => self.round_bf16(v),
            DType::F16 => self.round_f16(v),
            DType::U8 => {
                let mask = self.i32(0xff);
                self.b.ins().band(v, mask)
            }
            DType::F32 | DType::F64 | DType::I64 | DType::I32 | DType::Bool => v,
        }
    }

    pub(super) fn is_nan(&mut self, v: Value) -> Value {
        self.b.ins().fcmp(FloatCC::Unordered, v, v)
    }

    fn round_bf16(&mut self, v: Value) -> Value {
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
        self.as_f32(out)
    }

    fn round_f16(&mut self, v: Value) -> Value {
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
        let float = self.as_f32(magnitude);
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
        self.as_f32(out)
    }

    /// The bits of an `f16` (in an `i32`) as an `f32`.
    fn f16_to_f32(&mut self, h: Value) -> Value {
        let (magnitude_mask, sign_mask, top) =
            (self.i32(0x7fff), self.i32(0x8000), self.i32(0x0f80_0000));
        let sign = self.b.ins().band(h, sign_mask);
        let sign = self.shl(sign, 16);
        let magnitude = self.b.ins().band(h, magnitude_mask);
        let magnitude = self.shl(magnitude, 13);
        let small = self.as_f32(magnitude);
        let scale = self.f32(f32::from_bits(0x7780_0000)); // 2^112, the distance of the exponent biases
        let scaled = self.b.ins().fmul(small, scale);
        let scaled = self.as_int(scaled);
        let infinity = self.i32(0x7f80_0000);
        let special = self.b.ins().bor(magnitude, infinity);
        let is_special = self.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, magnitude, top);
        let out = self.select(is_special, special, scaled);
        let out = self.b.ins().bor(out, sign);
        self.as_f32(out)
    }

    /// An `f32` that is exactly an `f16`, as its bits in an `i32`.
    fn f32_to_f16(&mut self, v: Value) -> Value {
        let bits = self.as_int(v);
        let (sign_mask, infinity) = (self.i32(i32::MIN), self.i32(0x7f80_0000));
        let sign = self.b.ins().band(bits, sign_mask);
        let magnitude = self.b.ins().bxor(bits, sign);
        let sign = self.shr(sign, 16);
        let float = self.as_f32(magnitude);
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

    /// `lanes` consecutive elements from memory.
    pub(super) fn load(&mut self, dtype: DType, at: Value, offset: impl Into<Offset32>) -> Value {
        let offset: Offset32 = offset.into();
        match (dtype, self.lanes) {
            (DType::F32 | DType::F64 | DType::I64 | DType::I32, _) => {
                let ty = self.reg(dtype);
                self.b.ins().load(ty, MEMORY, at, offset)
            }
            (DType::U8, 1) => self.b.ins().uload8(types::I32, MEMORY, at, offset),
            (DType::Bool, 1) => {
                let v = self.b.ins().load(types::I8, MEMORY, at, offset);
                self.b.ins().icmp_imm_s(IntCC::NotEqual, v, 0)
            }
            (DType::Bf16 | DType::F16, 1) => {
                let v = self.b.ins().uload16(types::I32, MEMORY, at, offset);
                self.widen_half(dtype, v)
            }
            (DType::Bool, 2) => {
                let pair: [Value; 2] = [0, 1].map(|lane: i32| {
                    let at_lane: i32 = i32::from(offset) + lane;
                    let v = self.b.ins().load(types::I8, MEMORY, at, at_lane);
                    self.b.ins().icmp_imm_s(IntCC::NotEqual, v, 0)
                });
                self.pack(dtype, &pair)
            }
            (DType::U8 | DType::Bool, _) => {
                let v = self.b.ins().load(types::I32, MEMORY, at, offset);
                let v = self.b.ins().scalar_to_vector(types::I32X4, v);
                let v = self.bits(types::I8X16, v);
                let v = self.b.ins().uwiden_low(v);
                let v = self.b.ins().uwiden_low(v);
                if dtype == DType::U8 {
                    return v;
                }
                let zero = self.i32(0);
                self.b.ins().icmp(IntCC::NotEqual, v, zero)
            }
            (DType::Bf16 | DType::F16, _) => {
                let v = self.b.ins().load(types::I64, MEMORY, at, offset);
                let v = self.b.ins().scalar_to_vector(types::I64X2, v);
                let v = self.bits(types::I16X8, v);
                let v = self.b.ins().uwiden_low(v);
                self.widen_half(dtype, v)
            }
        }
    }

    fn widen_half(&mut self, dtype: DType, v: Value) -> Value {
        if dtype == DType::F16 {
            return self.f16_to_f32(v);
        }
        let v = self.shl(v, 16);
        self.as_f32(v)
    }

    fn narrow_half(&mut self, dtype: DType, v: Value) -> Value {
        if dtype == DType::F16 {
            return self.f32_to_f16(v);
        }
        let v = self.as_int(v);
        self.shr(v, 16)
    }

    /// `lanes` consecutive elements to memory.
    pub(super) fn store(&mut self, dtype: DType, v: Value, at: Value, offset: i32) {
        match (dtype, self.lanes) {
            (DType::F32 | DType::F64 | DType::I64 | DType::I32, _) | (DType::Bool, 1) => {
                self.b.ins().store(MEMORY, v, at, offset);
            }
            (DType::U8, 1) => {
                self.b.ins().istore8(MEMORY, v, at, offset);
            }
            (DType::Bf16 | DType::F16, 1) => {
                let v = self.narrow_half(dtype, v);
                self.b.ins().istore16(MEMORY, v, at, offset);
            }
            (DType::Bool, 2) => {
                for lane in 0..2 {
                    let bit = self.extract(dtype, v, lane);
                    self.b.ins().store(MEMORY, bit, at, offset + lane as i32);
                }
            }
            (DType::U8 | DType::Bool, _) => {
                let one = self.i32(1);
                let v = if dtype == DType::Bool { self.b.ins().band(v, one) } else { v };
                let v = self.b.ins().snarrow(v, v);
                let v = self.b.ins().unarrow(v, v);
                let v = self.bits(types::I32X4, v);
                let v = self.b.ins().extractlane(v, 0);
                self.b.ins().store(MEMORY, v, at, offset);
            }
            (DType::Bf16 | DType::F16, _) => {
                let v = self.narrow_half(dtype, v);
                let v = self.b.ins().unarrow(v, v);
                let v = self.bits(types::I64X2, v);
                let v = self.b.ins().extractlane(v, 0);
                self.b.ins().store(MEMORY, v, at, offset);
            }
        }
    }

    /// A value in another dtype: floats truncate towards zero and saturate, NaN becomes 0, integers wrap, nonzero is true.
    pub(super) fn cast(&mut self, from: DType, to: DType, v: Value) -> Value {
        if from == to {
            return v;
        }
        if self.lanes == 2 && from != DType::Bool && to != DType::Bool {
            return self.per_lane(from, to, [v], |l, [v]| l.cast(from, to, v));
        }
        if to == DType::Bool {
            return self.nonzero(from, v);
        }
        let out = match (scalar_type(from), scalar_type(to)) {
            (types::I8, _) => self.from_bool(to, v),
            (types::F32, types::F64) => self.b.ins().fpromote(types::F64, v),
            (types::F64, types::F32) => self.b.ins().fdemote(types::F32, v),
            (types::F32 | types::F64, types::I64) => self.b.ins().fcvt_to_sint_sat(types::I64, v),
            (types::F32 | types::F64, types::I32) => {
                let ty = self.reg(DType::I32);
                let v = self.b.ins().fcvt_to_sint_sat(ty, v);
                return if to == DType::U8 { self.clamp_u8(v) } else { v };
            }
            (types::I32, types::I64) => self.b.ins().sextend(types::I64, v),
            (types::I64, types::I32) => self.b.ins().ireduce(types::I32, v),
            (types::I32 | types::I64, types::F32 | types::F64) => {
                let ty = self.reg(to);
                self.b.ins().fcvt_from_sint(ty, v)
            }
            _ => v, // between dtypes that share a register type: only rounding or wrapping is left
        };
        self.normalize(to, out)
    }

    fn nonzero(&mut self, from: DType, v: Value) -> Value {
        if from.is_float() {
            let c = if from == DType::F64 {
                self.b.ins().f64const(0.0)
            } else {
                self.b.ins().f32const(0.0)
            };
            let zero = self.splat(from, c);
            return self.b.ins().fcmp(FloatCC::NotEqual, v, zero);
        }
        let zero = self.int(from, 0);
        self.b.ins().icmp(IntCC::NotEqual, v, zero)
    }

    #[expect(clippy::wrong_self_convention, reason = "`self` is the emitter, not the value")]
    fn from_bool(&mut self, to: DType, v: Value) -> Value {
        if self.lanes > 1 {
            let one = match to {
                DType::F64 => self.b.ins().f64const(1.0),
                DType::F32 | DType::Bf16 | DType::F16 => self.b.ins().f32const(1.0),
                DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
                    self.b.ins().iconst(scalar_type(to), 1)
                }
            };
            let one = self.splat(to, one);
            let ty = self.reg(to);
            let mask = self.bits(ty, v);
            return self.b.ins().band(mask, one);
        }
        match scalar_type(to) {
            types::I64 => self.b.ins().uextend(types::I64, v),
            types::I32 => self.b.ins().uextend(types::I32, v),
            float => {
                let v = self.b.ins().uextend(types::I32, v);
                self.b.ins().fcvt_from_sint(float, v)
            }
        }
    }

    fn clamp_u8(&mut self, v: Value) -> Value {
        let (low, high) = (self.i32(0), self.i32(255));
        let v = self.b.ins().smax(v, low);
        self.b.ins().smin(v, high)
    }

    /// `not` of a `bool`.
    pub(super) fn not(&mut self, v: Value) -> Value {
        if self.lanes > 1 { self.b.ins().bnot(v) } else { self.b.ins().bxor_imm_s(v, 1) }
    }

    /// The operations that need no function call; `None` for the others.
    pub(super) fn binary(&mut self, op: Binary, dtype: DType, a: Value, b: Value) -> Option<Value> {
        if dtype == DType::Bool {
            return self.binary_bool(op, a, b);
        }
        let v = if dtype.is_float() {
            self.binary_float(op, a, b)?
        } else {
            self.binary_int(op, dtype, a, b)?
        };
        let plain = matches!(op, Binary::Eq | Binary::Lt | Binary::Max | Binary::Min);
        Some(if plain { v } else { self.normalize(dtype, v) })
    }

    /// The larger or smaller of two; NaN (of all ones) if either is, and of two zeros the positive is the larger: the bits do not depend on
    /// the order of operands, so that a maximum may be taken in any order.
    fn extremum(&mut self, op: Binary, a: Value, b: Value) -> Value {
        let (low, high) = if op == Binary::Max { (b, a) } else { (a, b) };
        // A comparison and a choice are one instruction on most processors. They differ where both are zeros, or one is NaN.
        let wins = self.b.ins().fcmp(FloatCC::LessThan, low, high);
        let first = self.select(wins, a, b);
        let wins = self.b.ins().fcmp(FloatCC::LessThan, high, low);
        let second = self.select(wins, b, a);
        let float = self.b.func.dfg.value_type(a);
        let (integer, nan) = match (self.lanes, float.lane_type()) {
            (1, types::F64) => (types::I64, self.b.ins().f64const(f64::from_bits(u64::MAX))),
            (1, _) => (types::I32, self.b.ins().f32const(f32::from_bits(u32::MAX))),
            (_, types::F64) => (types::I64X2, first),
            _ => (types::I32X4, first),
        };
        let [first, second] = [first, second].map(|v| self.bits(integer, v));
        let both = if op == Binary::Max {
            self.b.ins().band(first, second)
        } else {
            self.b.ins().bor(first, second)
        };
        let unordered = self.b.ins().fcmp(FloatCC::Unordered, a, b);
        if self.lanes == 1 {
            let both = self.bits(float, both);
            return self.b.ins().select(unordered, nan, both);
        }
        let unordered = self.bits(integer, unordered);
        let out = self.b.ins().bor(both, unordered);
        self.bits(float, out)
    }

    fn binary_float(&mut self, op: Binary, a: Value, b: Value) -> Option<Value> {
        if matches!(op, Binary::Max | Binary::Min) {
            return Some(self.extremum(op, a, b));
        }
        let i = self.b.ins();
        Some(match op {
            Binary::Add => i.fadd(a, b),
            Binary::Sub => i.fsub(a, b),
            Binary::Mul => i.fmul(a, b),
            Binary::Div => i.fdiv(a, b),
            Binary::Eq => i.fcmp(FloatCC::Equal, a, b),
            Binary::Lt => i.fcmp(FloatCC::LessThan, a, b),
            Binary::Max | Binary::Min | Binary::Pow | Binary::And | Binary::Or | Binary::Xor => {
                return None;
            }
        })
    }

    fn binary_int(&mut self, op: Binary, dtype: DType, a: Value, b: Value) -> Option<Value> {
        let wide_vector = self.lanes > 1 && dtype == DType::I64;
        let i = self.b.ins();
        Some(match op {
            Binary::Add => i.iadd(a, b),
            Binary::Sub => i.isub(a, b),
            Binary::Mul => i.imul(a, b),
            Binary::Eq => i.icmp(IntCC::Equal, a, b),
            Binary::Lt => i.icmp(IntCC::SignedLessThan, a, b),
            Binary::Max | Binary::Min if wide_vector => {
                let less = i.icmp(IntCC::SignedLessThan, a, b);
                if op == Binary::Max { self.select(less, b, a) } else { self.select(less, a, b) }
            }
            Binary::Max => i.smax(a, b),
            Binary::Min => i.smin(a, b),
            Binary::Div | Binary::Pow | Binary::And | Binary::Or | Binary::Xor => return None,
        })
    }

    fn binary_bool(&mut self, op: Binary, a: Value, b: Value) -> Option<Value> {
        Some(match op {
            Binary::Add | Binary::Or | Binary::Max => self.b.ins().bor(a, b),
            Binary::Mul | Binary::And | Binary::Min => self.b.ins().band(a, b),
            Binary::Xor => self.b.ins().bxor(a, b),
            Binary::Eq => {
                let differ = self.b.ins().bxor(a, b);
                self.not(differ)
            }
            Binary::Lt => {
                let not_a = self.not(a);
                self.b.ins().band(not_a, b)
            }
            Binary::Sub | Binary::Div | Binary::Pow => return None,
        })
    }
}
