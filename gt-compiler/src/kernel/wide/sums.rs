//! Accumulators: in rows, as many lanes as the order of folding says; in columns, one lane a
//! result.

use gt_ir::DType;
use smallvec::{SmallVec, smallvec};

use super::{
    Unsupported,
    emit::{Emitter, Part, Sum},
    ir::{Class, Inst, Op, Source},
    lanes::Value,
};
use crate::kernel::spec::{Binary, Store, accumulated};

impl Emitter<'_> {
    /// Whether vectors walk along what is reduced.
    pub(super) fn reduces_vectors(&self) -> bool {
        self.nest.vector.is_some_and(|v| self.nest.is_reduce(v))
    }

    /// A value as accumulators hold it.
    pub(super) fn summand(&mut self, value: Value) -> Value {
        match value {
            Value::Mask(m) => Value::Lanes(self.f.of_mask(m, 1)),
            lanes @ (Value::Lanes(_) | Value::Pair(_)) => lanes,
        }
    }

    pub(super) fn accumulate(
        &mut self,
        op: Binary,
        i: usize,
        store: &Store,
        value: Value,
        u: usize,
        part: Part,
    ) -> Result<(), Unsupported> {
        if self.nest.gathers_rows() {
            return self.accumulate_row(op, i, store, value, u);
        }
        let dtype = self.nest.spec.node(store.value).dtype;
        let value = self.summand(value);
        let masked = self.reduces_vectors() && matches!(part, Part::Tail(..));
        let at = match part {
            Part::Tail(at, _) if masked => at,
            Part::Tail(..) | Part::Block | Part::Outside => u,
        };
        let sums = self.sums[i][at % self.sums[i].len()];
        let after = self.combine(op, dtype, held_sum(sums, dtype), value)?;
        let (after, wide): (SmallVec<[Source; 2]>, bool) = match after {
            Value::Pair(pair) => (pair.into_iter().collect(), true),
            Value::Lanes(v) => (smallvec![v], false),
            Value::Mask(_) => return Err(Unsupported("a fold by comparison")),
        };
        for (half, after) in after.into_iter().enumerate() {
            let mask = if masked { self.half_mask(part, half) } else { None };
            let inst = Inst::new(Op::Move { wide }, Some(sums[half]), &[after]);
            self.f.push(Inst { mask, merge: mask.is_some(), ..inst });
        }
        Ok(())
    }

    pub(super) fn combine(
        &mut self,
        op: Binary,
        dtype: DType,
        a: Value,
        b: Value,
    ) -> Result<Value, Unsupported> {
        let (op, dtype) = match (op, accumulated(dtype)) {
            (Binary::Add, DType::Bool) => (Binary::Maximum, DType::I32),
            (op, DType::Bool) => (op, DType::I32),
            (op, dtype) => (op, dtype),
        };
        self.f.binary(op, dtype, a, b)
    }

    pub(super) fn start_sums(&mut self, part: Part) -> Result<(), Unsupported> {
        if self.nest.gathers_rows() {
            return self.start_rows(part);
        }
        let nest = self.nest;
        self.sums.clear();
        for store in &nest.spec.stores {
            let mut sums = SmallVec::new();
            if let Some(op) = store.fold {
                let dtype = accumulated(nest.spec.node(store.value).dtype);
                let (identity, wide) = (identity(op, dtype), dtype.size() == 8);
                let across = part == Part::Outside && self.reduces_vectors();
                let n = match across {
                    true => nest.accumulators(dtype).div_ceil(self.f.vectors.lanes()),
                    false => self.vectors(part).len(),
                };
                for _ in 0..n {
                    let sum = [0, 1].map(|_| self.f.reg(Class::Vector));
                    for &half in if wide { &sum[..] } else { &sum[..1] } {
                        self.f.push(Inst::new(Op::Move { wide }, Some(half), &[identity]));
                    }
                    sums.push(sum);
                }
            }
            self.sums.push(sums);
        }
        Ok(())
    }

    /// Folds the accumulators and stores the results.
    pub(super) fn finish_sums(&mut self, part: Part) -> Result<(), Unsupported> {
        let nest = self.nest;
        for (i, store) in nest.spec.stores.iter().enumerate() {
            let Some(op) = store.fold else { continue };
            let dtype = nest.spec.node(store.value).dtype;
            let to = nest.spec.buffers[usize::from(store.buffer)];
            let mut sums: SmallVec<[Value; 4]> = match self.nest.gathers_rows() {
                true => {
                    let rows = self.vectors(part).map(|u| self.fold_rows(op, i, dtype, u));
                    rows.collect::<Result<_, _>>()?
                }
                false => self.sums[i].iter().map(|&r| held_sum(r, dtype)).collect(),
            };
            if self.reduces_vectors() {
                sums = smallvec![self.fold(op, dtype, &sums)?];
            }
            for (u, sum) in sums.into_iter().enumerate() {
                let value = match (dtype, sum) {
                    (DType::Bool, Value::Lanes(v)) => Value::Mask(self.f.nonzero(v)),
                    _ => sum,
                };
                let value = self.f.cast(accumulated(dtype), to, value)?;
                self.store(i, store, value, u, part)?;
            }
        }
        Ok(())
    }

    /// By halves, down to the first lane.
    pub(super) fn fold(
        &mut self,
        op: Binary,
        dtype: DType,
        sums: &[Value],
    ) -> Result<Value, Unsupported> {
        let mut sums: SmallVec<[Value; 4]> = sums.into();
        while sums.len() > 1 {
            let upper: SmallVec<[Value; 4]> = sums.drain(sums.len() / 2..).collect();
            for (low, high) in sums.iter_mut().zip(upper) {
                *low = self.combine(op, dtype, *low, high)?;
            }
        }
        let mut total = sums[0];
        let (lanes, n) = (self.f.vectors.lanes(), self.nest.accumulators(accumulated(dtype)));
        if let Value::Pair([low, high]) = total {
            total = Value::Pair([low; 2]);
            if n >= lanes {
                total = self.combine(op, dtype, total, Value::Pair([high; 2]))?;
            }
        }
        // In lanes of four bytes.
        let (mut distance, last) = match total {
            Value::Pair(_) => (n.min(lanes / 2), 1),
            Value::Lanes(_) | Value::Mask(_) => (n.min(lanes) / 2, 0),
        };
        while distance > last {
            let other = match total {
                Value::Pair([v, _]) => Value::Pair([self.f.exchanged(v, distance); 2]),
                Value::Lanes(v) => Value::Lanes(self.f.exchanged(v, distance)),
                Value::Mask(_) => break,
            };
            total = self.combine(op, dtype, total, other)?;
            distance /= 2;
        }
        Ok(total)
    }
}

/// The lanes of an accumulator.
fn held_sum(sum: Sum, dtype: DType) -> Value {
    match dtype.size() {
        8 => Value::Pair(sum.map(Source::Reg)),
        _ => Value::Lanes(Source::Reg(sum[0])),
    }
}

/// The element that changes nothing when combined.
pub(super) fn identity(op: Binary, dtype: DType) -> Source {
    let wide = |v: f64, i: i64| Source::Wide(if dtype.is_float() { v.to_bits() } else { i as u64 });
    match (op, dtype) {
        (Binary::Maximum, DType::F64 | DType::I64) => wide(f64::NEG_INFINITY, i64::MIN),
        (Binary::Minimum, DType::F64 | DType::I64) => wide(f64::INFINITY, i64::MAX),
        (Binary::Mul, DType::F64 | DType::I64) => wide(1.0, 1),
        (_, DType::F64 | DType::I64) => Source::Wide(0),
        (Binary::Maximum, DType::I32) => Source::Const(i32::MIN as u32),
        (Binary::Minimum, DType::I32) => Source::Const(i32::MAX as u32),
        (Binary::Minimum, DType::U8) => Source::Const(255),
        (Binary::Minimum, DType::Bool) => Source::Const(1),
        (Binary::Maximum, _) if dtype.is_float() => Source::Const(f32::NEG_INFINITY.to_bits()),
        (Binary::Minimum, _) if dtype.is_float() => Source::Const(f32::INFINITY.to_bits()),
        (Binary::Mul, _) if dtype.is_float() => Source::Const(1.0_f32.to_bits()),
        (Binary::Mul, _) => Source::Const(1),
        _ => Source::Const(0),
    }
}
