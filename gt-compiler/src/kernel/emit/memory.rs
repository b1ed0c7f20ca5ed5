//! Where a nest's elements lie: addresses as the loops go on, loads and stores of vectors.

use cranelift_codegen::ir::{InstBuilder, Value, types};
use gt_ir::DType;

use super::{Emitter, Mode, Regs};
use crate::kernel::spec::{Access, Expr, Store};

impl Emitter<'_, '_> {
    /// Moves every address along the walk at position `at`.
    pub(super) fn step_into(&mut self, at: usize, index: Value) {
        let walk = &self.nest.order[at];
        let mut rest = index;
        for (i, &l) in walk.iter().enumerate() {
            let inner: usize =
                walk[i + 1..].iter().map(|&l| self.nest.spec.loops[l].extent).product();
            if inner <= 1 {
                self.step_along(l, rest); // also of an empty walk, which takes no steps
                continue;
            }
            let own = self.b.ins().udiv_imm_u(rest, inner as i64);
            self.step_along(l, own);
            let before = self.b.ins().imul_imm_s(own, inner as i64);
            rest = self.b.ins().isub(rest, before);
        }
    }

    /// Moves every address along loop `l`.
    fn step_along(&mut self, l: usize, index: Value) {
        let nest = self.nest;
        for (id, node) in nest.spec.nodes.iter().enumerate() {
            let (access, size) = match &node.expr {
                Expr::Load { buffer, access } => {
                    (access, nest.spec.buffers[usize::from(*buffer)].size())
                }
                Expr::Index(access) => (access, 1),
                Expr::Scalar(_)
                | Expr::Unary(..)
                | Expr::Binary(..)
                | Expr::Select(..)
                | Expr::Cast(_) => continue,
            };
            if let Some(base) = self.load_at[id] {
                self.load_at[id] = Some(self.advance(base, index, access.strides[l] * size as i64));
            }
        }
        for (i, store) in nest.spec.stores.iter().enumerate() {
            let size = nest.spec.buffers[usize::from(store.buffer)].size() as i64;
            self.store_at[i] =
                self.advance(self.store_at[i], index, store.access.strides[l] * size);
        }
    }

    pub(super) fn advance(&mut self, base: Value, index: Value, stride: i64) -> Value {
        if stride == 0 {
            return base;
        }
        let distance = match stride.unsigned_abs().is_power_of_two() && stride > 0 {
            true => self.b.ins().ishl_imm_s(index, i64::from(stride.trailing_zeros())),
            false => self.b.ins().imul_imm_s(index, stride),
        };
        self.b.ins().iadd(base, distance)
    }

    fn vector_stride(&self, access: &Access) -> i64 {
        self.nest.vector.map_or(0, |v| self.nest.stride(access, v))
    }

    pub(super) fn load(
        &mut self,
        dtype: DType,
        access: &Access,
        at: Value,
        u: usize,
        mode: Mode,
    ) -> Value {
        let (lanes, size) = (self.nest.lanes, dtype.size() as i64);
        if mode == Mode::Single {
            return self.lanes(mode).load(dtype, at, 0);
        }
        let stride = self.vector_stride(access) * size;
        let (at, offset) = self.displace(at, stride * (u * lanes) as i64);
        if stride == size {
            return self.lanes(mode).load(dtype, at, offset);
        }
        let elements: Regs = (0..lanes)
            .map(|lane| {
                let (at, offset) = self.displace(at, i64::from(offset) + stride * lane as i64);
                self.lanes(Mode::Single).load(dtype, at, offset)
            })
            .collect();
        self.lanes(mode).pack(dtype, &elements)
    }

    /// An address and an offset that fits an instruction.
    fn displace(&mut self, at: Value, bytes: i64) -> (Value, i32) {
        match i32::try_from(bytes) {
            Ok(offset) if offset.unsigned_abs() < 1 << 30 => (at, offset),
            _ => (self.b.ins().iadd_imm_s(at, bytes), 0),
        }
    }

    pub(super) fn index(
        &mut self,
        dtype: DType,
        access: &Access,
        at: Value,
        u: usize,
        mode: Mode,
    ) -> Value {
        let at = if dtype == DType::I64 { at } else { self.b.ins().ireduce(types::I32, at) };
        if mode == Mode::Single {
            return at;
        }
        let (lanes, stride) = (self.nest.lanes, self.vector_stride(access));
        let far = |lane: usize| stride * (u * lanes + lane) as i64;
        // In 32 bits a distance wraps as the sum does.
        let near = |n: i64| if dtype == DType::I64 { n } else { i64::from(n as i32) };
        let elements: Regs =
            (0..lanes).map(|lane| self.b.ins().iadd_imm_s(at, near(far(lane)))).collect();
        self.lanes(mode).pack(dtype, &elements)
    }

    pub(super) fn store(&mut self, i: usize, store: &Store, value: Value, u: usize, mode: Mode) {
        let dtype = self.nest.spec.buffers[usize::from(store.buffer)];
        let at = self.store_at[i];
        if mode == Mode::Single {
            return self.lanes(mode).store(dtype, value, at, 0);
        }
        let (lanes, size) = (self.nest.lanes, dtype.size() as i64);
        let stride = self.vector_stride(&store.access) * size;
        let (at, offset) = self.displace(at, stride * (u * lanes) as i64);
        if stride == size {
            return self.lanes(mode).store(dtype, value, at, offset);
        }
        for lane in 0..lanes {
            let element = self.lanes(mode).extract(dtype, value, lane);
            let (at, offset) = self.displace(at, i64::from(offset) + stride * lane as i64);
            self.lanes(Mode::Single).store(dtype, element, at, offset);
        }
    }
}
