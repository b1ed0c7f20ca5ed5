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
/// No row, and no position of the index.
const NONE: u32 = u32::MAX;

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
        let chains = Chains::of(self.index, self.of.ty.shape.sizes()[0]);
        let keeps = keeps(&apply, scaled(number));
        let per_task = (GRAIN / width.max(1)).max(1);
        let bytes = per_task * width * size_of::<T>();
        parallel_chunks(self.of.context, bytemuck::cast_slice_mut(to), bytes, &|task, part| {
            let mut sums = vec![number; width];
            let table = bytemuck::cast_slice_mut::<u8, T>(part).chunks_mut(width);
            for (row, chain) in table.zip(&chains.of_row[task * per_task..]) {
                if *chain == NONE && keeps {
                    continue;
                }
                sums.fill(number);
                for at in chains.positions(*chain) {
                    let added = &rows[at * width..][..width];
                    sums.iter_mut().zip(added).for_each(|(s, a)| *s = s.add(*a));
                }
                row.iter_mut().zip(&sums).for_each(|(t, s)| *t = apply(*t, scaled(*s)));
            }
        });
    }
}

/// Whether `x + step`, or `x - step`, has the bits of `x` for every `x`, negative zero included.
fn keeps<T: Number>(apply: impl Fn(T, T) -> T, step: T) -> bool {
    let (zero, bits) = (T::zeroed(), |x: &T| bytemuck::bytes_of(x).to_vec());
    step == zero && [zero, T::MINUS_ZERO].iter().all(|x| bits(&apply(*x, step)) == bits(x))
}

/// The positions of the index that name the same row, in order, one chain for each row named.
struct Chains {
    /// The chain of each row.
    of_row: Vec<u32>,
    /// The first and the last position of each chain.
    ends: Vec<(u32, u32)>,
    /// The position after each position.
    next: Vec<u32>,
}

impl Chains {
    fn of(index: &[i64], n_rows: usize) -> Chains {
        let mut chains =
            Chains { of_row: vec![NONE; n_rows], ends: vec![], next: vec![NONE; index.len()] };
        for (at, row) in (0..).zip(index) {
            let chain = &mut chains.of_row[*row as usize];
            if *chain == NONE {
                *chain = chains.ends.len() as u32;
                chains.ends.push((at, at));
            } else {
                let (_, last) = &mut chains.ends[*chain as usize];
                chains.next[*last as usize] = at;
                *last = at;
            }
        }
        chains
    }

    fn positions(&self, chain: u32) -> impl Iterator<Item = usize> + '_ {
        let next = |at: &u32| Some(self.next[*at as usize]).filter(|next| *next != NONE);
        let first = self.ends.get(chain as usize).map(|(first, _)| *first);
        std::iter::successors(first, next).map(|at| at as usize)
    }
}
