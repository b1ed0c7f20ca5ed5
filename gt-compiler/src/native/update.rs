//! Updates of the rows of a table that an index names: `table - scale * index_add(number, ..)`
//! without the gradient of the whole table.
//!
//! Guarantees: the bits of the instructions one by one. What is added to a row is added in the
//! order of the index, the sum is scaled once, and the row is changed once. The rows without an
//! index stay as they are, and are computed only where the number or the scale changes them. An
//! index outside of the table is an error before anything is written. Results do not depend on the
//! number of threads, which have different rows.

use gt_ir::DType;
use half::{bf16, f16};

use super::{indexing::Indexed, number::Number, slices::parallel_chunks};
use crate::{
    error::EngineError,
    schedule::{RowUpdate, UpdateKind},
};

/// Elements of the table that one task has.
const GRAIN: usize = 1 << 18;

/// Changes the rows of a table; without `table` the result lies where the table lay. The literals
/// are the number and the scale.
pub(super) fn run(
    of: &Indexed<'_>,
    update: RowUpdate,
    table: Option<&[u8]>,
    rows: &[u8],
    literals: &[u64],
    to: &mut [u8],
) -> Result<(), EngineError> {
    let index = of.checked()?;
    of.copy_base(table, to);
    let work = Work { of, update, index, rows, literals };
    match of.ty.dtype {
        DType::F32 => work.typed::<f32>(to),
        DType::F64 => work.typed::<f64>(to),
        DType::Bf16 => work.typed::<bf16>(to),
        DType::F16 => work.typed::<f16>(to),
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
            return Err(EngineError::Codegen(format!("update of {}", of.ty)));
        }
    }
    Ok(())
}

/// An update whose index has been checked.
struct Work<'a> {
    of: &'a Indexed<'a>,
    update: RowUpdate,
    index: &'a [i64],
    rows: &'a [u8],
    literals: &'a [u64],
}

impl Work<'_> {
    fn typed<T: Number>(&self, to: &mut [u8]) {
        match self.update.kind {
            UpdateKind::Add => self.change(to, T::add),
            UpdateKind::Sub => self.change(to, T::sub),
        }
    }

    fn change<T: Number>(&self, to: &mut [u8], apply: impl Fn(T, T) -> T + Sync) {
        let (to, rows): (&mut [T], &[T]) =
            (bytemuck::cast_slice_mut(to), bytemuck::cast_slice(self.rows));
        let width = self.of.ty.shape.sizes()[1..].iter().product::<usize>();
        let number = self.literals.first().map_or_else(T::zeroed, |bits| T::of_bits(*bits));
        let scale = self.literals.get(1).map(|bits| T::of_bits(*bits));
        let scaled = |sum: T| scale.map_or(sum, |scale| sum.mul(scale));
        let order = order(self.index);
        let keeps = keeps(&apply, scaled(number));
        let per_task = (GRAIN / width.max(1)).max(1);
        let bytes = per_task * width * size_of::<T>();
        parallel_chunks(self.of.context, bytemuck::cast_slice_mut(to), bytes, &|task, part| {
            let part = bytemuck::cast_slice_mut::<u8, T>(part);
            let (first, mut sums) = (task * per_task, vec![number; width]);
            let mut change = |row: usize, places: &[u32]| {
                sums.fill(number);
                for at in places {
                    let added = &rows[*at as usize * width..][..width];
                    sums.iter_mut().zip(added).for_each(|(s, a)| *s = s.add(*a));
                }
                let row = &mut part[(row - first) * width..][..width];
                row.iter_mut().zip(&sums).for_each(|(t, s)| *t = apply(*t, scaled(*s)));
            };
            let row_of = |at: &u32| self.index[*at as usize] as usize;
            let end = first + per_task;
            let own = &order[order.partition_point(|at| row_of(at) < first)..];
            let own = &own[..own.partition_point(|at| row_of(at) < end)];
            let mut next = first;
            for places in own.chunk_by(|a, b| row_of(a) == row_of(b)) {
                let row = row_of(&places[0]);
                (next..row).filter(|_| !keeps).for_each(|row| change(row, &[]));
                change(row, places);
                next = row + 1;
            }
            let end = end.min(self.of.ty.shape.sizes()[0]);
            (next..end).filter(|_| !keeps).for_each(|row| change(row, &[]));
        });
    }
}

/// The places of an index, by the rows that they name; those of one row in their order.
fn order(index: &[i64]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..).take(index.len()).collect();
    order.sort_by_key(|at| index[*at as usize]);
    order
}

/// Whether `x + step`, or `x - step`, has the bits of `x` for every `x`, negative zero included.
fn keeps<T: Number>(apply: impl Fn(T, T) -> T, step: T) -> bool {
    let (zero, bits) = (T::zeroed(), |x: &T| bytemuck::bytes_of(x).to_vec());
    step == zero && [zero, T::MINUS_ZERO].iter().all(|x| bits(&apply(*x, step)) == bits(x))
}
