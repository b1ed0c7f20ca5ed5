//! Rows summed where vectors walk across them: each lane of a block of vectors has all the
//! accumulators of its row, in the frame.

use gt_ir::DType;

use super::{
    Unsupported,
    emit::{Emitter, Part, bytes},
    ir::{Base, Class, Inst, Mem, Op, Reg, Source, Width},
    lanes::Value,
    sums::identity,
};
use crate::kernel::spec::{Binary, Store, accumulated};

impl Emitter<'_> {
    /// Room for the accumulators of every store, if they are to lie in the frame.
    pub(super) fn reserve_rows(&mut self) {
        let nest = self.nest;
        for store in &nest.spec.stores {
            let dtype = accumulated(nest.spec.node(store.value).dtype);
            let n = if store.fold.is_some() { nest.accumulators(dtype) as i32 } else { 0 };
            let at = self.f.reserve(n * bytes(dtype, self.f.vectors) * self.unroll as i32);
            self.rows_at.push(at);
        }
    }

    /// Accumulator `j` of vector `u` of a store, or the one the position along the row says.
    fn slot(&self, i: usize, dtype: DType, (u, j): (usize, usize), index: Option<Reg>) -> Mem {
        let at = u * self.nest.accumulators(dtype) + j;
        let disp = self.rows_at[i] + at as i32 * bytes(dtype, self.f.vectors);
        Mem { base: Base::Frame, index: index.map(|r| (r, 1)), disp }
    }

    fn load_slot(&mut self, mem: Mem, dtype: DType) -> Value {
        let (wide, half) = (dtype.size() == 8, self.f.vectors.bytes());
        let width = if wide { Width::Double } else { Width::Word };
        let mut load = |at: i32| {
            let dst = self.f.reg(Class::Vector);
            let mem = Some(Mem { disp: mem.disp + at, ..mem });
            self.f.push(Inst { mem, ..Inst::new(Op::Load(width), Some(dst), &[]) });
            Source::Reg(dst)
        };
        if wide { Value::Pair([load(0), load(half)]) } else { Value::Lanes(load(0)) }
    }

    fn store_slot(&mut self, mem: Mem, value: Value) -> Result<(), Unsupported> {
        let (halves, width) = match value {
            Value::Lanes(v) => ([Some(v), None], Width::Word),
            Value::Pair([a, b]) => ([Some(a), Some(b)], Width::Double),
            Value::Mask(_) => return Err(Unsupported("a fold by comparison")),
        };
        for (half, value) in halves.into_iter().flatten().enumerate() {
            let value = self.f.held(value);
            let mem = Some(Mem { disp: mem.disp + self.f.vectors.bytes() * half as i32, ..mem });
            self.f.push(Inst { mem, ..Inst::new(Op::Store(width), None, &[value]) });
        }
        Ok(())
    }

    pub(super) fn start_rows(&mut self, part: Part) -> Result<(), Unsupported> {
        let nest = self.nest;
        for (i, store) in nest.spec.stores.iter().enumerate() {
            let Some(op) = store.fold else { continue };
            let dtype = accumulated(nest.spec.node(store.value).dtype);
            let first = identity(op, dtype);
            let first =
                if dtype.size() == 8 { Value::Pair([first; 2]) } else { Value::Lanes(first) };
            for u in self.vectors(part) {
                for j in 0..nest.accumulators(dtype) {
                    self.store_slot(self.slot(i, dtype, (u, j), None), first)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn accumulate_row(
        &mut self,
        op: Binary,
        i: usize,
        store: &Store,
        value: Value,
        u: usize,
    ) -> Result<(), Unsupported> {
        let dtype = accumulated(self.nest.spec.node(store.value).dtype);
        let value = self.summand(value);
        let mask = self.nest.accumulators(dtype) as i32 - 1;
        let index = self.along_row.map(|row| {
            let position = self.general(Op::And(mask), &[row], None);
            self.general(Op::Multiply(bytes(dtype, self.f.vectors)), &[position], None)
        });
        let slot = self.slot(i, dtype, (u, 0), index);
        let before = self.load_slot(slot, dtype);
        let after = self.combine(op, dtype, before, value)?;
        self.store_slot(slot, after)
    }

    /// Folds those of a vector by halves, in place; gives the first.
    pub(super) fn fold_rows(
        &mut self,
        op: Binary,
        i: usize,
        dtype: DType,
        u: usize,
    ) -> Result<Value, Unsupported> {
        let dtype = accumulated(dtype);
        let mut half = self.nest.accumulators(dtype) / 2;
        while half > 0 {
            for j in 0..half {
                let low = self.slot(i, dtype, (u, j), None);
                let a = self.load_slot(low, dtype);
                let b = self.load_slot(self.slot(i, dtype, (u, j + half), None), dtype);
                let sum = self.combine(op, dtype, a, b)?;
                self.store_slot(low, sum)?;
            }
            half /= 2;
        }
        Ok(self.load_slot(self.slot(i, dtype, (u, 0), None), dtype))
    }
}
