//! Positions that are data: elements and slices that are taken from them, and that meet what is
//! there: they are added or multiplied, or the largest or smallest stays.
//!
//! Guarantees: an index outside its axis is an error that names it, found before anything that was
//! there is written over; the order in which floats are added at one place depends on the index and
//! the sizes, so results do not depend on the number of threads. `add` says how threads share it.

mod add;
mod extrema;

use std::{
    borrow::Cow,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use bytemuck::Pod;
use gt_ir::{DType, MAX_RANK, Op, Shape, Type, attr::Axis};
use half::{bf16, f16, slice::HalfFloatSliceExt as _};
use pulp::{Arch, NullaryFnOnce};

use super::{
    context::Context,
    number::Number,
    slices::{Cut, cut, parallel_chunks},
    stream,
};
use crate::{error::EngineError, schedule::Routine};
use add::{Add, Order};

/// What elements that come to a place do with what is there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Meet {
    Add,
    /// What was there goes; several that come are added up all the same.
    Replace,
    Max,
    Min,
    Multiply,
}

/// Elements of one task.
const GRAIN: usize = 1 << 14;
/// Bytes that one task copies.
const COPIED: usize = 1 << 20;
/// Elements from which on wide vectors pay for the choice among them.
const BF16_VECTOR: usize = 16;
/// Elements from which on several `f16` are converted at once, and how many are at most.
const F16_VECTOR: usize = 8;
const F16_PIECE: usize = 128;
/// Bytes of a short slice at most.
const SHORT: usize = 128;

/// A step on indices: its operands after the base, and the axis.
pub(super) struct Indexed<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) step: &'a Routine,
    pub(super) axis: usize,
    /// Of the value that the positions are of.
    pub(super) ty: Type,
    pub(super) index: &'a [u8],
}

impl Indexed<'_> {
    /// Every index inside the axis, or the first that is not.
    pub(super) fn checked(&self) -> Result<&[i64], EngineError> {
        self.check(self.positions())?;
        Ok(self.positions())
    }

    fn positions(&self) -> &[i64] {
        bytemuck::cast_slice(self.index)
    }

    /// Elements of the axis.
    fn size(&self) -> usize {
        self.ty.shape.sizes()[self.axis]
    }

    fn check(&self, index: &[i64]) -> Result<(), EngineError> {
        let (last, found) = (self.size() as i64 - 1, AtomicBool::new(false));
        self.context.threads.run(index.len().div_ceil(GRAIN), &|task, _| {
            let part = &index[task * GRAIN..index.len().min((task + 1) * GRAIN)];
            // Negative if a position or what is left of the axis behind it is, without a comparison
            // of each, for which the oldest processors have no vectors.
            if part.iter().fold(0, |any, i| any | i | last.wrapping_sub(*i)) < 0 {
                found.store(true, Relaxed);
            }
        });
        self.unless_outside(index, found.into_inner())
    }

    /// An error that names the first index outside of the axis, if there is one. The index is
    /// looked at if `any` may be outside.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all other ops are called what they are")]
    fn unless_outside(&self, index: &[i64], any: bool) -> Result<(), EngineError> {
        if !any {
            return Ok(());
        }
        let size = self.size();
        match index.iter().find(|i| **i as u64 >= size as u64) {
            None => Ok(()),
            Some(&index) => {
                // As engines that expand them say it.
                let (op, axis) = match self.step.op {
                    Op::Scatter(axis)
                    | Op::ScatterMax(axis)
                    | Op::ScatterMin(axis)
                    | Op::ScatterMul(axis) => (Op::ScatterAdd(axis), self.axis),
                    Op::IndexCopy(_) => (Op::IndexAdd(Axis(0)), 0),
                    op => (op, self.axis),
                };
                Err(EngineError::Index { op: op.to_string(), index, axis, size })
            }
        }
    }

    fn cut(&self) -> Cut {
        cut(&self.ty.shape, self.axis)
    }

    /// One index for each slice, if an index of elements is the same all over each slice: such
    /// elements are moved as slices.
    fn slicewise(&self, index: &Shape) -> Option<Vec<i64>> {
        let (cut, behind) = (self.cut(), self.axis + 1);
        let sizes = [index, &self.ty.shape].map(|shape| &shape.sizes()[behind..]);
        if cut.outer != 1 || cut.inner < 2 || sizes[0] != sizes[1] {
            return None;
        }
        let index: &[i64] = bytemuck::cast_slice(self.index);
        let mut firsts = vec![0_i64; index.len() / cut.inner];
        let (per_task, differs) = (GRAIN.div_ceil(cut.inner), AtomicBool::new(false));
        let bytes = bytemuck::cast_slice_mut(&mut firsts);
        parallel_chunks(self.context, bytes, per_task * size_of::<i64>(), &|task, firsts| {
            let firsts: &mut [i64] = bytemuck::cast_slice_mut(firsts);
            let slices = index[task * per_task * cut.inner..].chunks_exact(cut.inner);
            for (first, slice) in firsts.iter_mut().zip(slices) {
                *first = slice[0];
                if differs.load(Relaxed) {
                    return;
                }
                if slice.iter().fold(false, |any, i| any | (i != first)) {
                    differs.store(true, Relaxed);
                }
            }
        });
        (!differs.load(Relaxed)).then_some(firsts)
    }

    /// The element at each index.
    pub(super) fn gather(&self, x: &[u8], to: &mut [u8]) -> Result<(), EngineError> {
        if let Some(index) = self.slicewise(&self.step.out_ty.shape) {
            let any = self.copy(&index, x, self.cut().inner * self.ty.dtype.size(), to);
            return self.unless_outside(&index, any);
        }
        let any = match self.ty.dtype.size() {
            1 => self.take::<u8>(x, to),
            2 => self.take::<u16>(x, to),
            4 => self.take::<u32>(x, to),
            _ => self.take::<u64>(x, to),
        };
        self.unless_outside(self.positions(), any)
    }

    /// Whether an index may be outside of the axis; its element stays as it was.
    fn take<T: Pod + Sync>(&self, x: &[u8], to: &mut [u8]) -> bool {
        let (x, size, found): (&[T], _, _) =
            (bytemuck::cast_slice(x), self.size(), AtomicBool::new(false));
        if size == 0 {
            return true;
        }
        let rows = Rows::new(&self.ty.shape, &self.step.out_ty.shape, self.axis);
        let per_task = rows.len * GRAIN.div_ceil(rows.len.max(1));
        parallel_chunks(self.context, to, per_task * size_of::<T>(), &|task, to| {
            let index = &self.positions()[task * per_task..];
            let to: &mut [T] = bytemuck::cast_slice_mut(to);
            let lines = to.chunks_mut(rows.len).zip(index.chunks(rows.len));
            for ((to, index), base) in lines.zip(rows.from(task * per_task / rows.len)) {
                let all_inside = match rows.is_along() {
                    true => pick(&x[base..][..size], index, to),
                    false => {
                        to.iter_mut().zip(index).zip(0..).fold(true, |inside, ((to, i), j)| {
                            let is_inside = (*i as u64) < size as u64;
                            if is_inside {
                                *to = x[rows.at(base, *i, j)];
                            }
                            inside & is_inside
                        })
                    }
                };
                if !all_inside {
                    found.store(true, Relaxed);
                }
            }
        });
        found.into_inner()
    }

    /// The slice at each index.
    pub(super) fn select(&self, x: &[u8], to: &mut [u8]) -> Result<(), EngineError> {
        let any = match (self.ty.dtype.size(), self.cut().inner) {
            (4, 1) => self.pick::<u32>(x, to),
            (8, 1) => self.pick::<u64>(x, to),
            (2, 1) => self.pick::<u16>(x, to),
            (size, inner) => self.copy(self.positions(), x, inner * size, to),
        };
        self.unless_outside(self.positions(), any)
    }

    /// Slices of one element; whether an index may be outside of the axis.
    fn pick<T: Pod + Sync>(&self, x: &[u8], to: &mut [u8]) -> bool {
        let (index, size, found) = (self.positions(), self.size(), AtomicBool::new(false));
        if size == 0 || to.is_empty() {
            return true;
        }
        let (x, len): (&[T], _) = (bytemuck::cast_slice(x), index.len());
        // A long index is cut, and short ones go together.
        let (part, n_lines) = (len.min(GRAIN), (GRAIN / len).max(1));
        let parts = len.div_ceil(part);
        let target: &mut [T] = bytemuck::cast_slice_mut(to);
        if parts == 1 {
            let bytes = n_lines * len * size_of::<T>();
            parallel_chunks(self.context, bytemuck::cast_slice_mut(target), bytes, &|task, to| {
                let to: &mut [T] = bytemuck::cast_slice_mut(to);
                let lines = to.chunks_mut(len).zip(x[task * n_lines * size..].chunks(size));
                if !lines.fold(true, |inside, (to, x)| inside & pick(x, index, to)) {
                    found.store(true, Relaxed);
                }
            });
            return found.into_inner();
        }
        for (to, x) in target.chunks_mut(len).zip(x.chunks(size)) {
            let bytes = part * size_of::<T>();
            parallel_chunks(self.context, bytemuck::cast_slice_mut(to), bytes, &|task, to| {
                let to: &mut [T] = bytemuck::cast_slice_mut(to);
                if !pick(x, &index[task * part..][..to.len()], to) {
                    found.store(true, Relaxed);
                }
            });
        }
        found.into_inner()
    }

    /// Whether an index may be outside of the axis; its slice stays as it was.
    fn copy(&self, index: &[i64], x: &[u8], slice: usize, to: &mut [u8]) -> bool {
        if slice == 0 || index.is_empty() {
            // There is nothing that would tell.
            return true;
        }
        let (per_task, n) = (((64 << 10) / slice).max(1), self.size());
        let found = AtomicBool::new(false);
        parallel_chunks(self.context, to, per_task * slice, &|i, chunk| {
            for (row, t) in chunk.chunks_exact_mut(slice).enumerate() {
                let row = i * per_task + row;
                let at = index[row % index.len()] as usize;
                if at < n {
                    copy(&x[(row / index.len() * n + at) * slice..][..slice], t);
                } else {
                    found.store(true, Relaxed);
                }
            }
        });
        found.into_inner()
    }

    /// Copies what is added to, unless the result lies where it lay.
    pub(super) fn copy_base(&self, base: Option<&[u8]>, to: &mut [u8]) {
        let Some(base) = base else { return };
        // The base takes as much of the caches as its copy.
        let is_large = 2 * to.len() >= stream::LEAST;
        parallel_chunks(self.context, to, COPIED, &|i, to| {
            let base = &base[i * COPIED..][..to.len()];
            match is_large {
                true => stream::copy(base, to),
                false => to.copy_from_slice(base),
            }
        });
    }

    /// The base, with elements or slices of `src` that meet what is there; without a base, what the
    /// result holds.
    pub(super) fn meet(
        &self,
        base: Option<&[u8]>,
        src: &[u8],
        (slices, meet): (bool, Meet),
        to: &mut [u8],
    ) -> Result<(), EngineError> {
        let by_slices = if slices { None } else { self.slicewise(&self.step.inputs[1].1.shape) };
        // An element of a single axis is a slice.
        let slices = slices || by_slices.is_some() || self.ty.shape.rank() == 1;
        let index: Cow<'_, [i64]> = match by_slices {
            Some(index) => index.into(),
            None => bytemuck::cast_slice(self.index).into(),
        };
        self.check(&index)?;
        let replaces = meet == Meet::Replace;
        let work = Add { of: self, index: &index, src, slices, replaces };
        match meet {
            Meet::Add | Meet::Replace => self.sums(&work, base, to),
            Meet::Max => extrema::largest(&work, self.ty.dtype, base, to),
            Meet::Min => extrema::smallest(&work, self.ty.dtype, base, to),
            Meet::Multiply => self.products(&work, base, to)?,
        }
        Ok(())
    }

    fn sums(&self, work: &Add<'_>, base: Option<&[u8]>, to: &mut [u8]) {
        let (kept, free) = (Order::Kept, Order::Free);
        match self.ty.dtype {
            DType::F32 => work.typed(base, to, kept, -0.0, one_by_one(f32::add)),
            DType::F64 => work.typed(base, to, kept, -0.0, one_by_one(f64::add)),
            DType::Bf16 => work.typed(base, to, kept, bf16::NEG_ZERO, add_bf16),
            DType::F16 => work.typed(base, to, kept, f16::NEG_ZERO, add_f16),
            DType::I64 => work.typed(base, to, free, 0, one_by_one(i64::wrapping_add)),
            DType::I32 => work.typed(base, to, free, 0, one_by_one(i32::wrapping_add)),
            DType::U8 => work.typed(base, to, free, 0, one_by_one(u8::wrapping_add)),
            DType::Bool => work.typed(base, to, free, 0, one_by_one(|a: u8, b| a | b)),
        }
    }

    /// Of integers, whose products have the same bits in any order.
    fn products(
        &self,
        work: &Add<'_>,
        base: Option<&[u8]>,
        to: &mut [u8],
    ) -> Result<(), EngineError> {
        let free = Order::Free;
        match self.ty.dtype {
            DType::I64 => work.typed(base, to, free, 1, one_by_one(i64::wrapping_mul)),
            DType::I32 => work.typed(base, to, free, 1, one_by_one(i32::wrapping_mul)),
            DType::U8 => work.typed(base, to, free, 1, one_by_one(u8::wrapping_mul)),
            dtype @ (DType::F32 | DType::F64 | DType::Bf16 | DType::F16 | DType::Bool) => {
                return Err(EngineError::Codegen(format!("{} of {dtype}", self.step.op)));
            }
        }
        Ok(())
    }
}

/// The element at each index of a line. Whether all of them are inside of it; what is to go to the
/// others stays as it was.
fn pick<T: Copy>(line: &[T], index: &[i64], to: &mut [T]) -> bool {
    let mut all_inside = true;
    for (to, i) in to.iter_mut().zip(index) {
        match line.get(*i as usize) {
            Some(element) => *to = *element,
            None => all_inside = false,
        }
    }
    all_inside
}

/// Adds elements to as many others.
fn one_by_one<T: Copy>(add: impl Fn(T, T) -> T) -> impl Fn(&mut [T], &[T]) {
    move |to, from| to.iter_mut().zip(from).for_each(|(t, s)| *t = add(*t, *s))
}

/// As [`one_by_one`] does with the sum of two `bf16`, in the widest vectors of the processor.
fn add_bf16(to: &mut [bf16], from: &[bf16]) {
    match to.len() {
        0..BF16_VECTOR => one_by_one(sum_of_bf16)(to, from),
        _ => Arch::new().dispatch(AddBf16 { to, from }),
    }
}

struct AddBf16<'a> {
    to: &'a mut [bf16],
    from: &'a [bf16],
}

impl NullaryFnOnce for AddBf16<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (t, s) in self.to.iter_mut().zip(self.from) {
            *t = sum_of_bf16(*t, *s);
        }
    }
}

/// The sum of two `bf16`, with the bits of their own addition. It has no branch, so that several
/// are added at once.
#[inline(always)]
fn sum_of_bf16(a: bf16, b: bf16) -> bf16 {
    let wide = |v: bf16| f32::from_bits(u32::from(v.to_bits()) << 16);
    let sum = wide(a) + wide(b);
    let bits = sum.to_bits();
    let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16;
    bf16::from_bits(if sum.is_nan() { bits >> 16 | 0x40 } else { rounded } as u16)
}

/// As [`one_by_one`] does with the sum of two `f16`, several of which are converted at once.
fn add_f16(to: &mut [f16], from: &[f16]) {
    if to.len() < F16_VECTOR {
        return one_by_one(f16::add)(to, from);
    }
    let [mut sums, mut added] = [[0.0; F16_PIECE]; 2];
    for (to, from) in to.chunks_mut(F16_PIECE).zip(from.chunks(F16_PIECE)) {
        let (sums, added) = (&mut sums[..to.len()], &mut added[..to.len()]);
        to.convert_to_f32_slice(sums);
        from.convert_to_f32_slice(added);
        one_by_one(f32::add)(sums, added);
        to.convert_from_f32_slice(sums);
    }
}

/// Copies a slice. Words of a short one take less time than a call.
fn copy(from: &[u8], to: &mut [u8]) {
    const WORD: usize = 4;
    if from.len() > SHORT || !from.len().is_multiple_of(WORD) {
        return to.copy_from_slice(from);
    }
    for (to, from) in to.chunks_exact_mut(WORD).zip(from.chunks_exact(WORD)) {
        to.copy_from_slice(from);
    }
}

/// The lines of an index along its last dimension, and where they begin in the value that the
/// positions are of.
struct Rows {
    sizes: [usize; MAX_RANK],
    /// Strides of the value, 0 along the axis.
    strides: [usize; MAX_RANK],
    n_dims: usize,
    /// Elements of a line.
    len: usize,
    /// Strides of the value along the axis and along a line.
    steps: [usize; 2],
}

impl Rows {
    fn new(of: &Shape, index: &Shape, axis: usize) -> Rows {
        let (mut sizes, mut strides) = ([1; MAX_RANK], [0; MAX_RANK]);
        for (d, (size, stride)) in index.sizes().iter().zip(of.strides()).enumerate() {
            (sizes[d], strides[d]) = (*size, if d == axis { 0 } else { stride });
        }
        let last = index.rank() - 1;
        let steps = [of.strides()[axis], strides[last]];
        Rows { sizes, strides, n_dims: last, len: sizes[last], steps }
    }

    /// Whether a line goes along the axis, so that a place is a base and an index.
    fn is_along(&self) -> bool {
        self.steps == [1, 0]
    }

    /// The place of the element that line `base` has at column `j` with this index.
    fn at(&self, base: usize, index: i64, j: usize) -> usize {
        base + index as usize * self.steps[0] + j * self.steps[1]
    }

    /// Where the lines from this one on begin.
    fn from(&self, line: usize) -> impl Iterator<Item = usize> + '_ {
        let (mut position, mut rest, mut base) = ([0; MAX_RANK], line, 0);
        for d in (0..self.n_dims).rev() {
            position[d] = rest % self.sizes[d].max(1);
            rest /= self.sizes[d].max(1);
            base += position[d] * self.strides[d];
        }
        std::iter::repeat_with(move || {
            let here = base;
            for d in (0..self.n_dims).rev() {
                position[d] += 1;
                base += self.strides[d];
                if position[d] < self.sizes[d] {
                    break;
                }
                base -= self.sizes[d] * self.strides[d];
                position[d] = 0;
            }
            here
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs of halves: all with special ones, and all with another one each.
    fn pairs(special: [u16; 10]) -> impl Iterator<Item = (u16, u16)> {
        let all = (0..=u16::MAX).flat_map(move |a| special.map(|b| (a, b)));
        all.chain((0..=u16::MAX).map(|a| (a, a.rotate_left(3) ^ 0x155)))
    }

    macro_rules! sums {
        ($test:ident: $half:ty, $add:ident, $special:expr) => {
            #[test]
            fn $test() {
                for (a, b) in pairs($special) {
                    let (a, b) = (<$half>::from_bits(a), <$half>::from_bits(b));
                    let wanted = std::ops::Add::add(a, b);
                    for n in [1, 137] {
                        let mut to = vec![a; n];
                        $add(&mut to, &vec![b; n]);
                        for got in to {
                            let same = got.to_bits() == wanted.to_bits();
                            assert!(same || got.is_nan() && wanted.is_nan(), "{a} + {b}: {got}");
                        }
                    }
                }
            }
        };
    }

    sums!(sums_of_bf16_have_the_bits_of_the_crate: bf16, add_bf16,
        [0, 0x8000, 1, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0, 0x7F81, 0x3F80, 0xBF80]);
    sums!(sums_of_f16_have_the_bits_of_the_crate: f16, add_f16,
        [0, 0x8000, 1, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x7C01, 0x3C00, 0xBC00]);
}
