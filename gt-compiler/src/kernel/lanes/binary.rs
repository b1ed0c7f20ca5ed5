//! Operations on two registers.

use cranelift_codegen::ir::{
    InstBuilder, Value,
    condcodes::{FloatCC, IntCC},
    types,
};
use gt_ir::DType;

use super::Lanes;
use crate::kernel::{formulas::Formulas, spec::Binary};

impl Lanes<'_, '_> {
    /// The operations that need no function call; `None` for the others.
    pub(in crate::kernel) fn binary(
        &mut self,
        op: Binary,
        dtype: DType,
        a: Value,
        b: Value,
    ) -> Option<Value> {
        if dtype == DType::Bool {
            return self.binary_bool(op, a, b);
        }
        let v = if dtype.is_float() {
            self.binary_float(op, a, b)?
        } else {
            self.binary_int(op, dtype, a, b)?
        };
        let plain = matches!(op, Binary::Eq | Binary::Lt | Binary::Maximum | Binary::Minimum);
        Some(if plain { v } else { self.normalize(dtype, v) })
    }

    /// The larger or smaller of two; NaN (of all ones) if either is, and of two zeros the positive
    /// is the larger: the bits do not depend on the order of operands, so that a maximum may be
    /// taken in any order.
    fn extremum(&mut self, op: Binary, a: Value, b: Value) -> Value {
        let (low, high) = if op == Binary::Maximum { (b, a) } else { (a, b) };
        // A comparison and a choice are one instruction on most processors. They differ where both
        // are zeros, or one is NaN.
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
        let both = if op == Binary::Maximum {
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
        if matches!(op, Binary::Maximum | Binary::Minimum) {
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
            Binary::Maximum
            | Binary::Minimum
            | Binary::Pow
            | Binary::Fmod
            | Binary::LogicalAnd
            | Binary::LogicalOr
            | Binary::LogicalXor
            | Binary::BitwiseAnd
            | Binary::LeftShift
            | Binary::RightShift => return None,
        })
    }

    fn binary_int(&mut self, op: Binary, dtype: DType, a: Value, b: Value) -> Option<Value> {
        let wide_vector = self.lanes > 1 && dtype == DType::I64;
        if matches!(op, Binary::LeftShift | Binary::RightShift) {
            return Some(self.shift(op, dtype, a, b));
        }
        let i = self.b.ins();
        Some(match op {
            Binary::Add => i.iadd(a, b),
            Binary::Sub => i.isub(a, b),
            Binary::Mul => i.imul(a, b),
            Binary::Eq => i.icmp(IntCC::Equal, a, b),
            Binary::Lt => i.icmp(IntCC::SignedLessThan, a, b),
            Binary::Maximum | Binary::Minimum if wide_vector => {
                let less = i.icmp(IntCC::SignedLessThan, a, b);
                if op == Binary::Maximum {
                    self.select(less, b, a)
                } else {
                    self.select(less, a, b)
                }
            }
            Binary::Maximum => i.smax(a, b),
            Binary::Minimum => i.smin(a, b),
            Binary::BitwiseAnd => i.band(a, b),
            Binary::Div
            | Binary::Pow
            | Binary::Fmod
            | Binary::LogicalAnd
            | Binary::LogicalOr
            | Binary::LogicalXor
            | Binary::LeftShift
            | Binary::RightShift => {
                return None;
            }
        })
    }

    /// Shifts lane by lane: the target's own take one count for all lanes, without its upper bits.
    fn shift(&mut self, op: Binary, dtype: DType, a: Value, b: Value) -> Value {
        self.per_lane(dtype, dtype, [a, b], |l, [a, count]| {
            let ty = l.b.func.dfg.value_type(a);
            let bits = i64::from(ty.bits());
            let limit = l.b.ins().iconst(ty, bits);
            let fits = l.b.ins().icmp(IntCC::UnsignedLessThan, count, limit);
            if op == Binary::LeftShift {
                let (moved, zero) = (l.b.ins().ishl(a, count), l.b.ins().iconst(ty, 0));
                return l.b.ins().select(fits, moved, zero);
            }
            let most = l.b.ins().iconst(ty, bits - 1);
            let count = l.b.ins().select(fits, count, most);
            l.b.ins().sshr(a, count)
        })
    }

    fn binary_bool(&mut self, op: Binary, a: Value, b: Value) -> Option<Value> {
        Some(match op {
            Binary::Add | Binary::LogicalOr | Binary::Maximum => self.b.ins().bor(a, b),
            Binary::Mul | Binary::LogicalAnd | Binary::Minimum => self.b.ins().band(a, b),
            Binary::LogicalXor => self.b.ins().bxor(a, b),
            Binary::Eq => {
                let differ = self.b.ins().bxor(a, b);
                self.not(differ)
            }
            Binary::Lt => {
                let not_a = self.not(a);
                self.b.ins().band(not_a, b)
            }
            Binary::BitwiseAnd => self.b.ins().band(a, b),
            Binary::Sub
            | Binary::Div
            | Binary::Pow
            | Binary::Fmod
            | Binary::LeftShift
            | Binary::RightShift => return None,
        })
    }
}
