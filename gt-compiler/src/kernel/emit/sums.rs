//! Accumulators of a nest: those of rows on the stack, where blocks and single elements find them
//! by position; those of columns in registers.

use cranelift_codegen::ir::{
    InstBuilder, StackSlotData, StackSlotKind, Type as Clif, Value, types,
};
use cranelift_frontend::Variable;
use gt_ir::DType;
use smallvec::SmallVec;

use super::{Emitter, Mode, Unsupported};
use crate::kernel::{
    lanes::{Lanes, scalar_type},
    spec::{Binary, FoldOrder, Store, accumulated},
};

/// The accumulators of one store.
#[derive(Clone)]
pub(super) enum Sum {
    /// It keeps every value.
    None,
    /// One for each result: of a block or of a single element.
    Registers(SmallVec<[Variable; 4]>),
    /// Several for each result, where the address says; those of a block lie together.
    Stack(Value),
}

impl Emitter<'_, '_> {
    pub(super) fn start_sums(&mut self, mode: Mode) {
        let nest = self.nest;
        self.sums.clear();
        for store in &nest.spec.stores {
            let Some(op) = store.fold else {
                self.sums.push(Sum::None);
                continue;
            };
            let dtype = accumulated(nest.spec.node(store.value).dtype);
            let initial = self.identity(op, dtype);
            let sum = match nest.spec.fold_order {
                FoldOrder::Rows => self.start_stack(dtype, initial, mode),
                FoldOrder::Columns => {
                    let initial = self.lanes(mode).splat(dtype, initial);
                    let ty = self.lanes(mode).reg(dtype);
                    let n = self.unroll(mode);
                    Sum::Registers((0..n).map(|_| self.variable(ty, initial)).collect())
                }
            };
            self.sums.push(sum);
        }
    }

    pub(super) fn accumulate(
        &mut self,
        op: Binary,
        i: usize,
        store: &Store,
        value: Value,
        u: usize,
        mode: Mode,
    ) -> Result<(), Unsupported> {
        let dtype = accumulated(self.nest.spec.node(store.value).dtype);
        match self.sums[i] {
            Sum::None => (),
            Sum::Registers(ref variables) => {
                let variable = variables[u];
                let before = self.b.use_var(variable);
                let after = self.combine(op, dtype, before, value, mode)?;
                self.b.def_var(variable, after);
            }
            Sum::Stack(base) => {
                let at = self.accumulator(base, dtype, mode);
                let offset = (u * self.block_lanes(mode) * dtype.size()) as i32;
                let before = self.lanes(mode).load(dtype, at, offset);
                let after = self.combine(op, dtype, before, value, mode)?;
                self.lanes(mode).store(dtype, after, at, offset);
            }
        }
        Ok(())
    }

    /// The place of the accumulators for the elements at this position of the row.
    fn accumulator(&mut self, base: Value, dtype: DType, mode: Mode) -> Value {
        let Some(index) = self.along_row else { return base };
        let n = self.nest.accumulators(dtype) as i64;
        let position = self.b.ins().band_imm_s(index, n - 1);
        self.advance(base, position, (self.width(mode) * dtype.size()) as i64)
    }

    fn block_lanes(&self, mode: Mode) -> usize {
        if mode == Mode::Block { self.nest.lanes } else { 1 }
    }

    /// How many rows are summed together.
    fn width(&self, mode: Mode) -> usize {
        if self.nest.gathers_rows() && mode == Mode::Block { self.block_len() } else { 1 }
    }

    fn combine(
        &mut self,
        op: Binary,
        dtype: DType,
        a: Value,
        b: Value,
        mode: Mode,
    ) -> Result<Value, Unsupported> {
        self.lanes(mode)
            .binary(op, dtype, a, b)
            .ok_or_else(|| Unsupported(format!("reduction by {op:?} of {dtype}")))
    }

    fn start_stack(&mut self, dtype: DType, initial: Value, mode: Mode) -> Sum {
        let n = self.nest.accumulators(dtype) * self.width(mode);
        let bytes = (n * dtype.size()) as u32;
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 4);
        let slot = self.b.create_sized_stack_slot(slot);
        let base = self.b.ins().stack_addr(types::I64, slot, 0);
        let lanes = vector_lanes(dtype, n);
        let mut l = Lanes { b: self.b, lanes, target: self.target };
        let value = l.splat(dtype, initial);
        for i in (0..n).step_by(lanes) {
            l.store(dtype, value, base, (i * dtype.size()) as i32);
        }
        Sum::Stack(base)
    }

    fn variable(&mut self, ty: Clif, initial: Value) -> Variable {
        let variable = self.b.declare_var(ty);
        self.b.def_var(variable, initial);
        variable
    }

    /// The value that changes nothing when combined.
    fn identity(&mut self, op: Binary, dtype: DType) -> Value {
        let (float, int): (f64, i64) = match (op, dtype) {
            (Binary::Maximum, DType::I64) => (0.0, i64::MIN),
            (Binary::Minimum, DType::I64) => (0.0, i64::MAX),
            (Binary::Maximum, DType::I32) => (0.0, i64::from(i32::MIN)),
            (Binary::Minimum, DType::I32) => (0.0, i64::from(i32::MAX)),
            (Binary::Minimum, DType::U8) => (0.0, 255),
            (Binary::Minimum, DType::Bool) => (0.0, 1),
            (Binary::Maximum, _) => (f64::NEG_INFINITY, 0),
            (Binary::Minimum, _) => (f64::INFINITY, 0),
            (Binary::Mul, _) => (1.0, 1),
            _ => (0.0, 0),
        };
        match scalar_type(dtype) {
            types::F32 => self.b.ins().f32const(float as f32),
            types::F64 => self.b.ins().f64const(float),
            ty => self.b.ins().iconst(ty, int),
        }
    }

    /// Folds the accumulators and stores the results.
    pub(super) fn finish_sums(&mut self, mode: Mode) -> Result<(), Unsupported> {
        let nest = self.nest;
        for (i, store) in nest.spec.stores.iter().enumerate() {
            let Some(op) = store.fold else { continue };
            let from = nest.spec.node(store.value).dtype;
            let dtype = accumulated(from);
            let to = nest.spec.buffers[usize::from(store.buffer)];
            for u in 0..self.unroll(mode) {
                let value = match self.sums[i] {
                    Sum::None => continue,
                    Sum::Registers(ref variables) => self.b.use_var(variables[u]),
                    Sum::Stack(base) if self.width(mode) > 1 => {
                        self.fold_rows(op, dtype, base, u)?
                    }
                    Sum::Stack(base) => self.fold_row(op, dtype, base)?,
                };
                let value = self.lanes(mode).cast(dtype, to, value);
                self.store(i, store, value, u, mode);
            }
        }
        Ok(())
    }

    /// Folds the accumulators of a block of rows by halves, in place.
    fn fold_rows(
        &mut self,
        op: Binary,
        dtype: DType,
        base: Value,
        u: usize,
    ) -> Result<Value, Unsupported> {
        let (row, own) = (self.block_len() * dtype.size(), u * self.nest.lanes * dtype.size());
        let mut half = self.nest.accumulators(dtype) / 2;
        while half > 0 {
            for j in 0..half {
                let at = [j, j + half].map(|j| (j * row + own) as i32);
                let [a, b] = at.map(|at| self.lanes(Mode::Block).load(dtype, base, at));
                let sum = self.combine(op, dtype, a, b, Mode::Block)?;
                self.lanes(Mode::Block).store(dtype, sum, base, at[0]);
            }
            half /= 2;
        }
        Ok(self.lanes(Mode::Block).load(dtype, base, own as i32))
    }

    /// Folds the accumulators of one row by halves.
    fn fold_row(&mut self, op: Binary, dtype: DType, base: Value) -> Result<Value, Unsupported> {
        let n = self.nest.accumulators(dtype);
        let lanes = vector_lanes(dtype, n);
        let unsupported = || Unsupported(format!("reduction by {op:?} of {dtype}"));
        let mut l = Lanes { b: self.b, lanes, target: self.target };
        let load = |i: usize| l.load(dtype, base, (i * lanes * dtype.size()) as i32);
        let mut vectors: Vec<Value> = (0..n / lanes).map(load).collect();
        halve(&mut vectors, |a, b| l.binary(op, dtype, a, b)).ok_or_else(unsupported)?;
        let mut elements: Vec<Value> =
            (0..lanes).map(|i| l.extract(dtype, vectors[0], i)).collect();
        let mut l = Lanes { b: self.b, lanes: 1, target: self.target };
        halve(&mut elements, |a, b| l.binary(op, dtype, a, b)).ok_or_else(unsupported)?;
        Ok(elements[0])
    }
}

/// Lanes of the widest vector of a dtype, among `n` elements.
fn vector_lanes(dtype: DType, n: usize) -> usize {
    let lanes = if dtype.size() == 8 { 2 } else { 4 };
    if n < lanes { 1 } else { lanes }
}

/// Combines the upper half of a power of two of values with the lower until one is left.
fn halve(
    values: &mut Vec<Value>,
    mut combine: impl FnMut(Value, Value) -> Option<Value>,
) -> Option<()> {
    while values.len() > 1 {
        let upper = values.split_off(values.len() / 2);
        for (a, b) in values.iter_mut().zip(upper) {
            *a = combine(*a, b)?;
        }
    }
    Some(())
}
