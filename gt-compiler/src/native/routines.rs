//! Steps in plain Rust: folding partial results, argmax, the gather family, random numbers; `scan`
//! and `sort` have the longer ones.
//!
//! Guarantees: an index outside its axis is an error that names it, found before anything is
//! written; results do not depend on the number of threads.

use bytemuck::Pod;
use gt_ir::{
    DType, Op, Shape, Type,
    philox::{self, Distribution},
};
use half::{bf16, f16};
use smallvec::SmallVec;

use super::{
    context::{Context, Memory},
    scan,
    slices::{Cut, cut, parallel_chunks},
    sort,
};
use crate::{
    error::EngineError,
    kernel::Binary,
    schedule::{Fold, Routine},
};

/// Random numbers drawn by one task; a multiple of every Philox block.
const RANDOM_GRAIN: usize = 1 << 14;

/// Runs a routine; `scalars` are the bits of its numbers, if those are literals.
#[expect(unsafe_code, reason = "writes a buffer of the plan")]
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "an op without an arm is an error that names it"
)]
pub(crate) fn run(
    context: &Context<'_>,
    step: &Routine,
    memory: &Memory<'_>,
    scalars: &[u64],
) -> Result<(), EngineError> {
    // SAFETY: this job is the one that writes its result, which is none of its operands.
    let to = unsafe { memory.bytes_mut(step.out) };
    let bytes = |i: usize| step.inputs.get(i).map_or(&[][..], |(b, _)| memory.bytes(*b));
    let ty = |i: usize| step.inputs.get(i).map_or(step.out_ty, |(_, ty)| *ty);
    match step.op {
        Op::Argmax(a) => {
            let cut = cut(&ty(0).shape, usize::from(a.axis));
            argmax_any(&ty(0), cut, bytes(0), bytemuck::cast_slice_mut(to));
        }
        Op::ArgSort(order) => {
            sort::argsort(context, order, &ty(0), bytes(0), bytemuck::cast_slice_mut(to));
        }
        Op::CumSum(axis) => {
            scan::cumsum(context, &ty(0), usize::from(axis.0), bytes(0), to)?;
        }
        Op::Gather(axis) => {
            gather(step, usize::from(axis.0), [&ty(0), &ty(1)], [bytes(0), bytes(1)], to)?;
        }
        Op::IndexSelect(axis) => {
            index_select(context, step, usize::from(axis.0), &ty(0), [bytes(0), bytes(1)], to)?;
        }
        Op::ScatterAdd(axis) => {
            to.copy_from_slice(bytes(0));
            scatter_add(step, usize::from(axis.0), [&ty(0), &ty(1)], [bytes(1), bytes(2)], to)?;
        }
        Op::IndexAdd(axis) => {
            to.copy_from_slice(bytes(0));
            index_add(step, usize::from(axis.0), &ty(0), [bytes(1), bytes(2)], to)?;
        }
        Op::Rand(_) | Op::Randn(_) | Op::Randint(_) => {
            let element = |i: usize| bytemuck::pod_read_unaligned::<u64>(bytes(i));
            let computed = (0..step.inputs.len()).map(element);
            let numbers: SmallVec<[u64; 3]> = scalars.iter().copied().chain(computed).collect();
            random(context, step, &numbers, to)?;
        }
        op => return Err(EngineError::Codegen(format!("{op} is no routine"))),
    }
    Ok(())
}

/// The numbers are the seed, after the bounds where there are some.
fn random(
    context: &Context<'_>,
    step: &Routine,
    numbers: &[u64],
    out: &mut [u8],
) -> Result<(), EngineError> {
    let ty = &step.out_ty;
    let (distribution, seed) = match (step.op, numbers) {
        (Op::Rand(_), &[seed]) => (Distribution::Uniform, seed),
        (Op::Randn(_), &[seed]) => (Distribution::Normal, seed),
        (Op::Randint(_), &[low, high, seed]) => {
            (Distribution::Integers { low: low as i64, high: high as i64 }, seed)
        }
        (op, _) => return Err(EngineError::Codegen(format!("{op} of other numbers"))),
    };
    let grain = RANDOM_GRAIN * ty.dtype.size();
    parallel_chunks(context, out, grain, &|i, chunk| {
        philox::fill(distribution, ty.dtype, seed, (i * RANDOM_GRAIN) as u64, chunk);
    });
    Ok(())
}

/// Folds the rows of partial results of a reduction. Floats add up in `f64`.
#[expect(unsafe_code, reason = "writes a buffer of the plan")]
pub(crate) fn fold(context: &Context<'_>, partials: &Fold, memory: &Memory<'_>) {
    let (len, from) = (partials.len, memory.bytes(partials.from));
    // SAFETY: this job is the one that writes its result, which is another buffer than the partial
    // results.
    let to = unsafe { memory.bytes_mut(partials.out) };
    match partials.dtype {
        DType::F32 => {
            let from: &[f32] = bytemuck::cast_slice(from);
            let at = |j: usize| {
                fold_float(partials.op, len, j, |i| f64::from(from[i]), partials.n_chunks)
            };
            match partials.out_dtype {
                DType::Bf16 => write::<bf16>(context, to, &|j| bf16::from_f32(at(j) as f32)),
                DType::F16 => write::<f16>(context, to, &|j| f16::from_f32(at(j) as f32)),
                DType::F32 | DType::F64 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
                    write::<f32>(context, to, &|j| at(j) as f32)
                }
            }
        }
        DType::F64 => {
            let from: &[f64] = bytemuck::cast_slice(from);
            write::<f64>(context, to, &|j| {
                fold_float(partials.op, len, j, |i| from[i], partials.n_chunks)
            });
        }
        DType::I64 => fold_int::<i64>(context, partials, len, from, to, i64::wrapping_add),
        DType::I32 => fold_int::<i32>(context, partials, len, from, to, i32::wrapping_add),
        DType::U8 | DType::Bool | DType::Bf16 | DType::F16 => {
            fold_int::<u8>(context, partials, len, from, to, u8::wrapping_add)
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "`action` folds by `+`, max and min only")]
fn fold_float(op: Binary, len: usize, j: usize, at: impl Fn(usize) -> f64, n: usize) -> f64 {
    let values = (0..n).map(|c| at(c * len + j));
    let larger = |a: f64, b: f64| if a.is_nan() || a > b { a } else { b };
    match op {
        Binary::Maximum => values.fold(f64::NEG_INFINITY, larger),
        Binary::Minimum => -values.fold(f64::NEG_INFINITY, |a, b| larger(a, -b)),
        _ => values.sum(),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "`action` folds by `+`, max and min only")]
fn fold_int<T: Pod + Ord + Send + Sync>(
    context: &Context<'_>,
    partials: &Fold,
    len: usize,
    from: &[u8],
    to: &mut [u8],
    add: fn(T, T) -> T,
) {
    let from: &[T] = bytemuck::cast_slice(from);
    let combine = |a: T, b: T| match partials.op {
        Binary::Maximum => a.max(b),
        Binary::Minimum => a.min(b),
        _ => add(a, b),
    };
    write::<T>(context, to, &|j| {
        (1..partials.n_chunks).fold(from[j], |a, c| combine(a, from[c * len + j]))
    });
}

fn write<T: Pod>(context: &Context<'_>, to: &mut [u8], f: &(dyn Fn(usize) -> T + Sync)) {
    const GRAIN: usize = 1 << 10;
    parallel_chunks(context, to, GRAIN * size_of::<T>(), &|i, chunk| {
        let chunk: &mut [T] = bytemuck::cast_slice_mut(chunk);
        chunk.iter_mut().enumerate().for_each(|(j, t)| *t = f(i * GRAIN + j));
    });
}

fn argmax_any(ty: &Type, cut: Cut, x: &[u8], out: &mut [i64]) {
    match ty.dtype {
        DType::F32 => argmax(cut, x, out, |v: f32| (v.is_nan(), f64::from(v))),
        DType::F64 => argmax(cut, x, out, |v: f64| (v.is_nan(), v)),
        DType::Bf16 => argmax(cut, x, out, |v: bf16| (v.is_nan(), f64::from(v))),
        DType::F16 => argmax(cut, x, out, |v: f16| (v.is_nan(), f64::from(v))),
        DType::I64 => argmax(cut, x, out, |v: i64| (false, v)),
        DType::I32 => argmax(cut, x, out, |v: i32| (false, v)),
        DType::U8 | DType::Bool => argmax(cut, x, out, |v: u8| (false, v)),
    }
}

/// The first position of the largest key; NaN (the first part of a key) is larger than everything.
fn argmax<T: Pod, K: PartialOrd>(
    cut: Cut,
    x: &[u8],
    out: &mut [i64],
    key: impl Fn(T) -> (bool, K),
) {
    let x: &[T] = bytemuck::cast_slice(x);
    for o in 0..cut.outer {
        for i in 0..cut.inner {
            let at = |a: usize| key(x[(o * cut.axis + a) * cut.inner + i]);
            let mut best = 0;
            for a in 1..cut.axis {
                let ((nan, v), (best_nan, best_v)) = (at(a), at(best));
                if !best_nan && (nan || v > best_v) {
                    best = a;
                }
            }
            out[o * cut.inner + i] = best as i64;
        }
    }
}

/// Every index inside `0..size`, or the first that is not.
fn check<'a>(
    step: &Routine,
    axis: usize,
    size: usize,
    index: &'a [u8],
) -> Result<&'a [i64], EngineError> {
    let index: &[i64] = bytemuck::cast_slice(index);
    match index.iter().find(|i| **i < 0 || **i >= size as i64) {
        None => Ok(index),
        Some(&index) => Err(EngineError::Index { op: step.op.to_string(), index, axis, size }),
    }
}

/// For each element of `index` in order, the offset into `x` it addresses along `axis`.
fn addressed<'a>(
    x: &'a Shape,
    index_shape: &'a Shape,
    axis: usize,
    index: &'a [i64],
) -> impl Iterator<Item = usize> + 'a {
    let (strides, sizes) = (x.strides(), index_shape.sizes());
    let mut position = [0usize; gt_ir::MAX_RANK];
    index.iter().map(move |&i| {
        let at = (0..sizes.len())
            .map(|d| strides[d] * if d == axis { i as usize } else { position[d] })
            .sum();
        for d in (0..sizes.len()).rev() {
            position[d] += 1;
            if position[d] < sizes[d] {
                break;
            }
            position[d] = 0;
        }
        at
    })
}

fn gather(
    step: &Routine,
    axis: usize,
    [x_ty, index_ty]: [&Type; 2],
    [x, index]: [&[u8]; 2],
    to: &mut [u8],
) -> Result<(), EngineError> {
    let index = check(step, axis, x_ty.shape.sizes()[axis], index)?;
    let size = x_ty.dtype.size();
    let from = addressed(&x_ty.shape, &index_ty.shape, axis, index);
    to.chunks_exact_mut(size)
        .zip(from)
        .for_each(|(t, at)| t.copy_from_slice(&x[at * size..(at + 1) * size]));
    Ok(())
}

fn index_select(
    context: &Context<'_>,
    step: &Routine,
    axis: usize,
    x_ty: &Type,
    [x, index]: [&[u8]; 2],
    to: &mut [u8],
) -> Result<(), EngineError> {
    let cut = cut(&x_ty.shape, axis);
    let index = check(step, axis, cut.axis, index)?;
    let slice = cut.inner * x_ty.dtype.size();
    if slice == 0 || index.is_empty() {
        return Ok(());
    }
    let per_task = ((64 << 10) / slice).max(1);
    parallel_chunks(context, to, per_task * slice, &|i, chunk| {
        for (row, t) in chunk.chunks_exact_mut(slice).enumerate() {
            let row = i * per_task + row;
            let at = (row / index.len() * cut.axis + index[row % index.len()] as usize) * slice;
            t.copy_from_slice(&x[at..at + slice]);
        }
    });
    Ok(())
}

/// Addition in a dtype, by bytes.
fn add_into(dtype: DType, to: &mut [u8], from: &[u8]) {
    fn each<T: Pod>(to: &mut [u8], from: &[u8], add: impl Fn(T, T) -> T) {
        let (to, from): (&mut [T], &[T]) =
            (bytemuck::cast_slice_mut(to), bytemuck::cast_slice(from));
        to.iter_mut().zip(from).for_each(|(t, f)| *t = add(*t, *f));
    }
    match dtype {
        DType::F32 => each(to, from, |a: f32, b| a + b),
        DType::F64 => each(to, from, |a: f64, b| a + b),
        DType::Bf16 => each(to, from, |a: bf16, b| bf16::from_f32(a.to_f32() + b.to_f32())),
        DType::F16 => each(to, from, |a: f16, b| f16::from_f32(a.to_f32() + b.to_f32())),
        DType::I64 => each(to, from, i64::wrapping_add),
        DType::I32 => each(to, from, i32::wrapping_add),
        DType::U8 => each(to, from, u8::wrapping_add),
        DType::Bool => each(to, from, |a: u8, b| a | b),
    }
}

fn scatter_add(
    step: &Routine,
    axis: usize,
    [base_ty, index_ty]: [&Type; 2],
    [index, src]: [&[u8]; 2],
    to: &mut [u8],
) -> Result<(), EngineError> {
    let index = check(step, axis, base_ty.shape.sizes()[axis], index)?;
    let size = base_ty.dtype.size();
    for (at, from) in
        addressed(&base_ty.shape, &index_ty.shape, axis, index).zip(src.chunks_exact(size))
    {
        add_into(base_ty.dtype, &mut to[at * size..(at + 1) * size], from);
    }
    Ok(())
}

fn index_add(
    step: &Routine,
    axis: usize,
    base_ty: &Type,
    [index, src]: [&[u8]; 2],
    to: &mut [u8],
) -> Result<(), EngineError> {
    let cut = cut(&base_ty.shape, axis);
    let index = check(step, axis, cut.axis, index)?;
    let slice = cut.inner * base_ty.dtype.size();
    if slice == 0 || index.is_empty() {
        return Ok(());
    }
    for (row, from) in src.chunks_exact(slice).enumerate() {
        let at = (row / index.len() * cut.axis + index[row % index.len()] as usize) * slice;
        add_into(base_ty.dtype, &mut to[at..at + slice], from);
    }
    Ok(())
}
