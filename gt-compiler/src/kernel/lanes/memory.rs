//! Loads and stores: an element of memory is widened to a register of its dtype, and narrowed on
//! the way back.

use cranelift_codegen::ir::{InstBuilder, Value, condcodes::IntCC, immediates::Offset32, types};
use gt_ir::DType;

use super::{Lanes, MEMORY};
use crate::kernel::formulas::Formulas;

impl Lanes<'_, '_> {
    /// `lanes` consecutive elements from memory.
    pub(in crate::kernel) fn load(
        &mut self,
        dtype: DType,
        at: Value,
        offset: impl Into<Offset32>,
    ) -> Value {
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

    /// `lanes` consecutive elements to memory.
    pub(in crate::kernel) fn store(&mut self, dtype: DType, v: Value, at: Value, offset: i32) {
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
}
