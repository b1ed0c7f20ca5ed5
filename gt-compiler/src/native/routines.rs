//! Steps in plain Rust: folding partial results and random numbers; `scan`, `sort` and `indexing`
//! have the longer ones. Results do not depend on the number of threads.

use bytemuck::Pod;
use gt_ir::{
    Class, DType, Op,
    attr::Axis,
    philox::{self, Distribution},
};
use half::{bf16, f16};
use smallvec::SmallVec;

use super::{
    context::{Context, Memory},
    indexing::{Indexed, Meet},
    matrices, scan,
    slices::parallel_chunks,
    sort, update,
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
    // SAFETY: this job is the one that writes its result, which is none of the operands it reads.
    let to = unsafe { memory.bytes_mut(step.out) };
    let bytes = |i: usize| step.inputs.get(i).map_or(&[][..], |(b, _)| memory.bytes(*b));
    let ty = |i: usize| step.inputs.get(i).map_or(step.out_ty, |(_, ty)| *ty);
    let indexed = |axis: Axis| Indexed {
        context,
        step,
        axis: usize::from(axis.0),
        ty: ty(0),
        index: bytes(1),
    };
    let base = || {
        let moved = step.inputs.first().filter(|(b, _)| !memory.is_in_place(*b, step.out));
        moved.map(|(b, _)| memory.bytes(*b))
    };
    if step.op.spec().class == Class::Matrix {
        return matrices::run(context, step, &bytes, to);
    }
    if let (Some(kind), Op::IndexAdd(axis)) = (step.update, step.op) {
        return update::run(&indexed(axis), kind, base(), bytes(2), scalars, to);
    }
    match step.op {
        Op::ArgSort(order) => {
            let (read, to) = (step.read.clone(), bytemuck::cast_slice_mut(to));
            sort::argsort(context, order, read, &ty(0), bytes(0), to);
        }
        op @ (Op::CumSum(axis) | Op::CumProd(axis) | Op::CumMax(axis) | Op::CumMin(axis)) => {
            scan::run(context, &op, &ty(0), usize::from(axis.0), bytes(0), to)?;
        }
        Op::Gather(axis) => indexed(axis).gather(bytes(0), to)?,
        Op::IndexSelect(axis) => indexed(axis).select(bytes(0), to)?,
        Op::ScatterAdd(axis) => indexed(axis).meet(base(), bytes(2), (false, Meet::Add), to)?,
        Op::Scatter(axis) => indexed(axis).meet(base(), bytes(2), (false, Meet::Replace), to)?,
        Op::ScatterMax(axis) => indexed(axis).meet(base(), bytes(2), (false, Meet::Max), to)?,
        Op::ScatterMin(axis) => indexed(axis).meet(base(), bytes(2), (false, Meet::Min), to)?,
        Op::ScatterMul(axis) => {
            indexed(axis).meet(base(), bytes(2), (false, Meet::Multiply), to)?
        }
        Op::IndexAdd(axis) => indexed(axis).meet(base(), bytes(2), (true, Meet::Add), to)?,
        Op::IndexCopy(axis) => indexed(axis).meet(base(), bytes(2), (true, Meet::Replace), to)?,
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
    let size = ty.dtype.size();
    let row = ty.shape.sizes().iter().skip(1).product::<usize>();
    let (first, end) = (step.read.start * row, step.read.end * row);
    let out = &mut out[first * size..end * size];
    parallel_chunks(context, out, RANDOM_GRAIN * size, &|i, chunk| {
        philox::fill(distribution, ty.dtype, seed, (first + i * RANDOM_GRAIN) as u64, chunk);
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
        DType::I64 => {
            fold_int::<i64>(context, partials, from, to, [i64::wrapping_add, i64::wrapping_mul])
        }
        DType::I32 => {
            fold_int::<i32>(context, partials, from, to, [i32::wrapping_add, i32::wrapping_mul])
        }
        DType::U8 | DType::Bool | DType::Bf16 | DType::F16 => {
            fold_int::<u8>(context, partials, from, to, [u8::wrapping_add, u8::wrapping_mul])
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "`action` folds by `+`, `*`, max and min only")]
fn fold_float(op: Binary, len: usize, j: usize, at: impl Fn(usize) -> f64, n: usize) -> f64 {
    let values = (0..n).map(|c| at(c * len + j));
    let larger = |a: f64, b: f64| if a.is_nan() || a > b { a } else { b };
    match op {
        Binary::Maximum => values.fold(f64::NEG_INFINITY, larger),
        Binary::Minimum => -values.fold(f64::NEG_INFINITY, |a, b| larger(a, -b)),
        Binary::Mul => values.product(),
        _ => values.sum(),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "`action` folds by `+`, `*`, max and min only")]
fn fold_int<T: Pod + Ord + Send + Sync>(
    context: &Context<'_>,
    partials: &Fold,
    from: &[u8],
    to: &mut [u8],
    [add, multiply]: [fn(T, T) -> T; 2],
) {
    let from: &[T] = bytemuck::cast_slice(from);
    let combine = |a: T, b: T| match partials.op {
        Binary::Maximum => a.max(b),
        Binary::Minimum => a.min(b),
        Binary::Mul => multiply(a, b),
        _ => add(a, b),
    };
    write::<T>(context, to, &|j| {
        (1..partials.n_chunks).fold(from[j], |a, c| combine(a, from[c * partials.len + j]))
    });
}

fn write<T: Pod>(context: &Context<'_>, to: &mut [u8], f: &(dyn Fn(usize) -> T + Sync)) {
    const GRAIN: usize = 1 << 10;
    parallel_chunks(context, to, GRAIN * size_of::<T>(), &|i, chunk| {
        let chunk: &mut [T] = bytemuck::cast_slice_mut(chunk);
        chunk.iter_mut().enumerate().for_each(|(j, t)| *t = f(i * GRAIN + j));
    });
}
