//! Casts between dtypes: to integers floats truncate and saturate, and NaN gives 0.

use cranelift_codegen::ir::{
    InstBuilder, Value,
    condcodes::{FloatCC, IntCC},
    types,
};
use gt_ir::DType;

use super::{Lanes, scalar_type};
use crate::kernel::formulas::Formulas;

impl Lanes<'_, '_> {
    /// A value in another dtype: floats truncate towards zero and saturate, NaN becomes 0, integers
    /// wrap, nonzero is true.
    pub(in crate::kernel) fn cast(&mut self, from: DType, to: DType, v: Value) -> Value {
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
}
