//! Arithmetic on registers that hold one element or a vector of them.
//!
//! How a dtype lies in a register: `f32`, `f64`, `i32`, `i64` as themselves; `bf16` and `f16` as an
//! `f32` that is exactly representable in them (each operation rounds); `u8` as an `i32` in 0..=255
//! (each operation wraps); `bool` as 0 or 1 in an `i8`, in vectors as an all-zeros or all-ones
//! lane. One lane and many go through the same formulas, so an element's value does not depend on
//! its position.

mod binary;
mod cast;
mod half;
mod memory;

use cranelift_codegen::ir::{
    AbiParam, InstBuilder, MemFlagsData, Signature, Type as Clif, Value,
    condcodes::{FloatCC, IntCC},
    types,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;
use gt_ir::DType;
use smallvec::SmallVec;

use super::{formulas::Formulas, host};

/// Accesses do not trap and may be unaligned for vectors.
pub(super) const MEMORY: MemFlagsData = MemFlagsData::new().with_notrap();

/// Facts about the target the arithmetic depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) fma: bool,
    /// Whether the processor rounds floats to integers in one instruction.
    pub(super) rounds: bool,
    pub(super) call_conv: CallConv,
    /// The place where the code being written finds the host's functions.
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

    pub(super) fn int(&mut self, dtype: DType, v: i64) -> Value {
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

    /// `not` of a `bool`.
    pub(super) fn not(&mut self, v: Value) -> Value {
        if self.lanes > 1 { self.b.ins().bnot(v) } else { self.b.ins().bxor_imm_s(v, 1) }
    }
}
