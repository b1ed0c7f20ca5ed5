//! Positions that are data: elements and slices that are taken from them, and added at them.
//!
//! Guarantees: an index outside its axis is an error that names it, found before anything is
//! written; what is added at one place is added in the order of the index, so results do not depend
//! on the number of threads. Threads share what cannot meet: the slices of an outer dimension, or
//! columns.
#![expect(unsafe_code, reason = "hands disjoint columns of a result to several threads")]

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use bytemuck::Pod;
use gt_ir::{DType, MAX_RANK, Shape, Type};
use half::{bf16, f16};

use super::{
    context::{Context, Target},
    slices::{Cut, cut, parallel_chunks},
};
use crate::{error::EngineError, schedule::Routine};

/// Elements of one task.
const GRAIN: usize = 1 << 14;
/// Columns of one task at least: several lines of the cache.
const COLUMNS: usize = 64;
/// Bytes that one task copies.
const COPIED: usize = 1 << 20;

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
        let index: &[i64] = bytemuck::cast_slice(self.index);
        let size = self.ty.shape.sizes()[self.axis];
        let outside = |i: &i64| *i as u64 >= size as u64;
        let found = AtomicBool::new(false);
        self.context.threads.run(index.len().div_ceil(GRAIN), &|task, _| {
            let part = &index[task * GRAIN..index.len().min((task + 1) * GRAIN)];
            if part.iter().fold(false, |any, i| any | outside(i)) {
                found.store(true, Relaxed);
            }
        });
        match index.iter().find(|i| found.load(Relaxed) && outside(i)) {
            None => Ok(index),
            Some(&index) => {
                let op = self.step.op.to_string();
                Err(EngineError::Index { op, index, axis: self.axis, size })
            }
        }
    }

    fn cut(&self) -> Cut {
        cut(&self.ty.shape, self.axis)
    }

    /// The element at each index.
    pub(super) fn gather(&self, x: &[u8], to: &mut [u8]) -> Result<(), EngineError> {
        let index = self.checked()?;
        match self.ty.dtype.size() {
            1 => self.take::<u8>(index, x, to),
            2 => self.take::<u16>(index, x, to),
            4 => self.take::<u32>(index, x, to),
            _ => self.take::<u64>(index, x, to),
        }
        Ok(())
    }

    fn take<T: Pod + Sync>(&self, index: &[i64], x: &[u8], to: &mut [u8]) {
        let x: &[T] = bytemuck::cast_slice(x);
        let rows = Rows::new(&self.ty.shape, &self.step.out_ty.shape, self.axis);
        let per_task = rows.len * GRAIN.div_ceil(rows.len.max(1));
        parallel_chunks(self.context, to, per_task * size_of::<T>(), &|task, to| {
            let index = &index[task * per_task..];
            let to: &mut [T] = bytemuck::cast_slice_mut(to);
            let lines = to.chunks_mut(rows.len).zip(index.chunks(rows.len));
            for ((to, index), base) in lines.zip(rows.from(task * per_task / rows.len)) {
                for ((to, i), j) in to.iter_mut().zip(index).zip(0..) {
                    *to = x[rows.at(base, *i, j)];
                }
            }
        });
    }

    /// The slice at each index.
    pub(super) fn select(&self, x: &[u8], to: &mut [u8]) -> Result<(), EngineError> {
        let (cut, index) = (self.cut(), self.checked()?);
        match (self.ty.dtype.size(), cut.inner) {
            (4, 1) => self.pick::<u32>(index, x, to),
            (8, 1) => self.pick::<u64>(index, x, to),
            (2, 1) => self.pick::<u16>(index, x, to),
            (size, inner) => self.copy(index, x, inner * size, to),
        }
        Ok(())
    }

    /// Slices of one element.
    fn pick<T: Pod + Sync>(&self, index: &[i64], x: &[u8], to: &mut [u8]) {
        let (x, n): (&[T], usize) = (bytemuck::cast_slice(x), self.cut().axis);
        let rows = GRAIN.div_ceil(index.len().max(1));
        parallel_chunks(self.context, to, rows * index.len() * size_of::<T>(), &|task, to| {
            let to: &mut [T] = bytemuck::cast_slice_mut(to);
            for (to, x) in to.chunks_mut(index.len()).zip(x[task * rows * n..].chunks(n)) {
                to.iter_mut().zip(index).for_each(|(to, i)| *to = x[*i as usize]);
            }
        });
    }

    fn copy(&self, index: &[i64], x: &[u8], slice: usize, to: &mut [u8]) {
        if slice == 0 || index.is_empty() {
            return;
        }
        let (per_task, n) = (((64 << 10) / slice).max(1), self.cut().axis);
        parallel_chunks(self.context, to, per_task * slice, &|i, chunk| {
            for (row, t) in chunk.chunks_exact_mut(slice).enumerate() {
                let row = i * per_task + row;
                let at = (row / index.len() * n + index[row % index.len()] as usize) * slice;
                t.copy_from_slice(&x[at..at + slice]);
            }
        });
    }

    /// The base, with elements or slices of `src` added; without a base, what the result holds.
    pub(super) fn add(
        &self,
        base: Option<&[u8]>,
        src: &[u8],
        slices: bool,
        to: &mut [u8],
    ) -> Result<(), EngineError> {
        let index = self.checked()?;
        if let Some(base) = base {
            parallel_chunks(self.context, to, COPIED, &|i, to| {
                to.copy_from_slice(&base[i * COPIED..][..to.len()]);
            });
        }
        let work = Add { of: self, index, src, slices };
        match self.ty.dtype {
            DType::F32 => work.typed(to, |a: f32, b| a + b),
            DType::F64 => work.typed(to, |a: f64, b| a + b),
            DType::Bf16 => work.typed(to, |a: bf16, b| bf16::from_f32(a.to_f32() + b.to_f32())),
            DType::F16 => work.typed(to, |a: f16, b| f16::from_f32(a.to_f32() + b.to_f32())),
            DType::I64 => work.typed(to, i64::wrapping_add),
            DType::I32 => work.typed(to, i32::wrapping_add),
            DType::U8 => work.typed(to, u8::wrapping_add),
            DType::Bool => work.typed(to, |a: u8, b| a | b),
        }
        Ok(())
    }
}

/// An addition at positions that have been checked.
struct Add<'a> {
    of: &'a Indexed<'a>,
    index: &'a [i64],
    src: &'a [u8],
    /// Whether an index is of whole slices.
    slices: bool,
}

impl Add<'_> {
    fn typed<T: Pod + Send + Sync>(&self, to: &mut [u8], add: impl Fn(T, T) -> T + Sync) {
        let (src, to): (&[T], &mut [T]) =
            (bytemuck::cast_slice(self.src), bytemuck::cast_slice_mut(to));
        if !src.is_empty() && self.slices {
            self.slices(src, to, &add);
        } else if !src.is_empty() {
            self.elements(src, to, &add);
        }
    }

    /// Parts of `n` outer slices or columns, and how many one task has.
    fn tasks(&self, n: usize, least: usize) -> (usize, usize) {
        let each = n.div_ceil(2 * self.of.context.threads.count()).max(least);
        (n.div_ceil(each), each)
    }

    fn slices<T: Pod + Send + Sync>(
        &self,
        src: &[T],
        to: &mut [T],
        add: &(impl Fn(T, T) -> T + Sync),
    ) {
        let (cut, n) = (self.of.cut(), self.index.len());
        let (slab, from) = (cut.axis * cut.inner, n * cut.inner);
        let one = |src: &[T], to: Target, columns: Range<usize>| {
            for (row, &i) in src.chunks_exact(cut.inner).zip(self.index) {
                let at = i as usize * cut.inner + columns.start;
                let to = to.address().cast::<T>().wrapping_add(at);
                // SAFETY: the slice has been checked, and these columns of it are this task's.
                let to = unsafe { std::slice::from_raw_parts_mut(to, columns.len()) };
                to.iter_mut().zip(&row[columns.clone()]).for_each(|(t, s)| *t = add(*t, *s));
            }
        };
        let target = Target(to.as_mut_ptr().cast());
        let slab_at = |o: usize| Target(target.address().cast::<T>().wrapping_add(o * slab).cast());
        let work = |o: usize, columns| one(&src[o * from..][..from], slab_at(o), columns);
        let by_slabs = cut.outer > 1;
        let (n_tasks, each) = match by_slabs {
            true => self.tasks(cut.outer, GRAIN.div_ceil(from)),
            false => self.tasks(cut.inner, COLUMNS.max(GRAIN / n)),
        };
        self.of.context.threads.run(n_tasks, &|task, _| {
            let part = |all: usize| task * each..all.min((task + 1) * each);
            match by_slabs {
                true => part(cut.outer).for_each(|o| work(o, 0..cut.inner)),
                false => work(0, part(cut.inner)),
            }
        });
    }

    fn elements<T: Pod + Send + Sync>(
        &self,
        src: &[T],
        to: &mut [T],
        add: &(impl Fn(T, T) -> T + Sync),
    ) {
        let Indexed { ty, axis, step, .. } = self.of;
        let shape = &step.inputs[1].1.shape;
        let rows = Rows::new(&ty.shape, shape, *axis);
        let target = Target(to.as_mut_ptr().cast());
        let lines = |lines: Range<usize>, columns: Range<usize>| {
            for (row, base) in lines.clone().zip(rows.from(lines.start)) {
                let first = row * rows.len;
                for j in columns.clone() {
                    let at = rows.at(base, self.index[first + j], j);
                    let to = target.address().cast::<T>().wrapping_add(at);
                    // SAFETY: the position has been checked, and no other task has it: its outer
                    // position or its column is this task's.
                    let sum = unsafe { to.read() };
                    // SAFETY: as above.
                    unsafe { to.write(add(sum, src[first + j])) };
                }
            }
        };
        let sizes = shape.sizes();
        let (n_outer, columns) = (sizes[0], rows.len);
        let n_lines = self.index.len() / columns;
        let by_slabs = *axis > 0 && n_outer > 1;
        let by_columns = axis + 1 < sizes.len();
        let (n_tasks, each) = match (by_slabs, by_columns) {
            (true, _) => self.tasks(n_outer, GRAIN.div_ceil(self.index.len() / n_outer)),
            (false, true) => self.tasks(columns, COLUMNS.max(GRAIN / n_lines)),
            (false, false) => (1, columns),
        };
        self.of.context.threads.run(n_tasks, &|task, _| {
            let part = |all: usize| task * each..all.min((task + 1) * each);
            match by_slabs {
                true => {
                    let (per, outer) = (n_lines / n_outer, part(n_outer));
                    lines(outer.start * per..outer.end * per, 0..columns);
                }
                false => lines(0..n_lines, part(columns)),
            }
        });
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
