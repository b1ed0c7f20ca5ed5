//! Matrix products by the `gemm` crate, on strided operands as they lie.
//!
//! `f32` and `f64` go straight through. `bf16` is multiplied by the processor's instruction, if it
//! has one; else it is widened to `f32` first, as `f16` is. Integers are multiplied in `integers`.
//! Work is cut by rows or columns and batches; an element's sum is formed within one task. Products
//! of which [`has_rows`] are stages of tiles ([`rows`]), the others jobs of their own ([`run`]).
#![expect(unsafe_code, reason = "hands raw matrices to the gemm crate")]

use bytemuck::Pod;
use gt_ir::DType;
use half::{bf16, f16, slice::HalfFloatSliceExt};
use smallvec::SmallVec;

use super::{
    context::{Context, Memory, Target},
    integers::{self, Ring},
    multiply::{Multiply, Strided, by_pairs, multiply, multiply_vector},
    plan::Product,
};
use crate::{
    error::EngineError,
    kernel::{Access, Range},
    schedule::{BufferId, MatMul, Matrix, Multiplier},
};

/// Multiply-adds worth a task of their own.
const GRAIN: usize = 1 << 18;

/// Row and column strides of an operand at one batch index.
#[derive(Clone, Copy)]
struct View {
    offset: i64,
    row: i64,
    column: i64,
}

/// Computes rows of a product: `args` are the addresses of both operands and of the result at row
/// 0.
///
/// # Safety
/// The addresses and strides are valid for these rows, and nobody else touches these rows of the
/// result.
pub(super) unsafe fn rows(product: &Product, args: [u64; 3], rows: Range) {
    match (product.dtype, by_pairs()) {
        // SAFETY: as the caller promises.
        (DType::Bf16, Some(by_pairs)) => unsafe { rows_of(product, args, rows, by_pairs) },
        // SAFETY: as the caller promises.
        (DType::F64, _) => unsafe { rows_of::<f64>(product, args, rows, multiply) },
        // SAFETY: as the caller promises.
        _ => unsafe { rows_of::<f32>(product, args, rows, multiply) },
    }
}

/// Whether [`rows`] computes products of a dtype.
pub(super) fn has_rows(dtype: DType) -> bool {
    match dtype {
        DType::F32 | DType::F64 => true,
        DType::Bf16 => by_pairs().is_some(),
        DType::F16 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => false,
    }
}

/// # Safety
/// As of [`rows`], for elements of `T`.
unsafe fn rows_of<T: Pod>(
    product: &Product,
    [a, b, out]: [u64; 3],
    rows: Range,
    multiply: Multiply<T, T>,
) {
    let first = rows.start as i64;
    let at = |address: u64, offset: i64| (address as *mut T).wrapping_offset(offset as isize);
    let strided = |at: *mut T, [row, column]: [i64; 2]| Strided {
        at: at.cast_const(),
        row: row as isize,
        column: column as isize,
    };
    let lhs = strided(at(a, first * product.lhs[0]), product.lhs);
    let rhs = strided(at(b, 0), product.rhs);
    let size = [rows.end - rows.start, product.n, product.k];
    let (out, row) = (at(out, first * product.out_row), product.out_row as isize);
    // SAFETY: as the caller promises.
    unsafe { multiply(size, &lhs, &rhs, out, row) };
}

pub(crate) fn run(
    context: &Context<'_>,
    work: &MatMul,
    memory: &Memory<'_>,
) -> Result<(), EngineError> {
    if let Some(library) = context.products.filter(|_| work.by == Multiplier::Library) {
        let memory = [work.lhs.buffer, work.rhs.buffer, work.out].map(|b| memory.address(b));
        // SAFETY: the plan sized the buffers for the product, and this job is the one that writes
        // its result.
        return unsafe { library.run(work, memory) };
    }
    let (lhs, rhs) = (memory.bytes(work.lhs.buffer), memory.bytes(work.rhs.buffer));
    // SAFETY: this job is the one that writes its result, which is neither of its operands.
    let bytes = unsafe { memory.bytes_mut(work.out) };
    match work.dtype {
        DType::F32 => floats::<f32, f32>(context, work, lhs, rhs, bytes, multiply),
        DType::F64 => floats::<f64, f64>(context, work, lhs, rhs, bytes, multiply),
        DType::F16 => widened::<f16>(context, work, lhs, rhs, bytes)?,
        DType::Bf16 => match by_pairs() {
            Some(multiply) => floats::<bf16, bf16>(context, work, lhs, rhs, bytes, multiply),
            None => widened::<bf16>(context, work, lhs, rhs, bytes)?,
        },
        DType::I64 => integers::<i64>(context, work, lhs, rhs, bytes),
        DType::I32 => integers::<i32>(context, work, lhs, rhs, bytes),
        DType::U8 => integers::<u8>(context, work, lhs, rhs, bytes),
        DType::Bool => return Err(EngineError::Codegen("a product of booleans".into())),
    }
    Ok(())
}

/// The operand's matrix of batch `b`.
fn view(matrix: &Matrix, batch: &[usize], mut b: usize) -> View {
    let strides = &matrix.access.strides;
    let mut offset = matrix.access.offset;
    for (d, &size) in batch.iter().enumerate().rev() {
        offset += (b % size) as i64 * strides[d];
        b /= size;
    }
    View { offset, row: strides[batch.len()], column: strides[batch.len() + 1] }
}

/// One task's part of the products of a batch.
struct Part {
    batch: usize,
    rows: Range,
    columns: Range,
}

/// Cuts a product into tasks, each of some rows or, where the result is wider than high, of some
/// columns: a task packs its part of the side that is cut and all of the other, which should be the
/// smaller one.
fn cut(context: &Context<'_>, work: &MatMul, f: &(dyn Fn(Part) + Sync)) {
    let batches: usize = work.batch.iter().product();
    let flops = work.m * work.n * work.k.max(1);
    // The operand that is not cut is packed once a task: no more tasks than threads.
    let per_batch = if batches >= 2 * context.threads.count() {
        1
    } else {
        (flops / GRAIN).clamp(1, context.threads.count())
    };
    let side = work.m.max(work.n);
    let step = side.div_ceil(per_batch).next_multiple_of(16).max(1);
    let per_batch = side.div_ceil(step).max(1);
    let part = |batch: usize, n: usize| {
        let (all_rows, all_columns) =
            (Range { start: 0, end: work.m }, Range { start: 0, end: work.n });
        let some = Range { start: n * step, end: ((n + 1) * step).min(side) };
        match work.n > work.m {
            true => Part { batch, rows: all_rows, columns: some },
            false => Part { batch, rows: some, columns: all_columns },
        }
    };
    if flops * batches < GRAIN {
        return (0..batches).for_each(|b| (0..per_batch).for_each(|n| f(part(b, n))));
    }
    // Small matrices go several to a task.
    let group = if per_batch == 1 { (GRAIN / flops.max(1)).clamp(1, batches.max(1)) } else { 1 };
    context.threads.run(batches.div_ceil(group) * per_batch, &|i, _| {
        let first = (i / per_batch) * group;
        for b in first..(first + group).min(batches) {
            f(part(b, i % per_batch));
        }
    });
}

fn floats<S: Pod + Sync, T: Pod + Send + Sync>(
    context: &Context<'_>,
    work: &MatMul,
    lhs: &[u8],
    rhs: &[u8],
    out: &mut [u8],
    multiply: Multiply<S, T>,
) {
    if work.k == 0 || out.is_empty() {
        return out.fill(0);
    }
    let (a, b): (&[S], &[S]) = (bytemuck::cast_slice(lhs), bytemuck::cast_slice(rhs));
    let target = Target(out.as_mut_ptr());
    let strided = |of: &[S], v: View, row: usize, column: usize| {
        let first = v.offset + row as i64 * v.row + column as i64 * v.column;
        let at = of.as_ptr().wrapping_offset(first as isize);
        Strided { at, row: v.row as isize, column: v.column as isize }
    };
    cut(context, work, &|Part { batch, rows, columns }| {
        let lhs = strided(a, view(&work.lhs, &work.batch, batch), rows.start, 0);
        let rhs = strided(b, view(&work.rhs, &work.batch, batch), 0, columns.start);
        let at = (batch * work.m + rows.start) * work.n + columns.start;
        let out = target.address().cast::<T>().wrapping_add(at);
        let size = [rows.end - rows.start, columns.end - columns.start, work.k];
        // SAFETY: the plan's accesses stay inside their buffers, and this task alone writes these
        // rows and columns of this batch.
        unsafe { multiply(size, &lhs, &rhs, out, work.n as isize) };
    });
}

/// A float of two bytes.
trait Half: Pod + Sync {
    /// How a matrix is multiplied with a vector, if not by way of copies.
    const BY_VECTOR: Option<Multiply<Self, f32>>;
    fn widen(from: &[Self], to: &mut [f32]);
    fn narrow(from: &[f32], to: &mut [Self]);
}

impl Half for f16 {
    const BY_VECTOR: Option<Multiply<f16, f32>> = None;
    fn widen(from: &[f16], to: &mut [f32]) {
        from.convert_to_f32_slice(to);
    }
    fn narrow(from: &[f32], to: &mut [f16]) {
        to.convert_from_f32_slice(from);
    }
}

impl Half for bf16 {
    const BY_VECTOR: Option<Multiply<bf16, f32>> = Some(multiply_vector);
    fn widen(from: &[bf16], to: &mut [f32]) {
        from.convert_to_f32_slice(to);
    }
    fn narrow(from: &[f32], to: &mut [bf16]) {
        to.convert_from_f32_slice(from);
    }
}

/// Halves by way of `f32` copies without gaps, unless there is a vector, rounded once at the end.
fn widened<T: Half>(
    context: &Context<'_>,
    work: &MatMul,
    lhs: &[u8],
    rhs: &[u8],
    out: &mut [u8],
) -> Result<(), EngineError> {
    let batches: usize = work.batch.iter().product();
    let mut product = context.pool.alloc(batches * work.m * work.n * 4)?;
    let Some(bytes) = product.as_mut_slice() else { return Ok(()) };
    if let Some(multiply) = T::BY_VECTOR.filter(|_| work.m == 1 || work.n == 1) {
        floats::<T, f32>(context, work, lhs, rhs, bytes, multiply);
    } else {
        let (a, lhs) = widen::<T>(context, &work.lhs, &work.batch, [work.m, work.k], lhs)?;
        let (b, rhs) = widen::<T>(context, &work.rhs, &work.batch, [work.k, work.n], rhs)?;
        let plain = MatMul { dtype: DType::F32, batch: work.batch.clone(), lhs, rhs, ..*work };
        floats::<f32, f32>(context, &plain, a.as_slice(), b.as_slice(), bytes, multiply);
    }
    T::narrow(bytemuck::cast_slice(bytes), bytemuck::cast_slice_mut(out));
    Ok(())
}

/// An operand in `f32`, its matrices one after the other: column after column where that is how
/// they lie, else row after row.
fn widen<T: Half>(
    context: &Context<'_>,
    matrix: &Matrix,
    batch: &[usize],
    [rows, columns]: [usize; 2],
    from: &[u8],
) -> Result<(crate::buffer::Storage, Matrix), EngineError> {
    let strides = &matrix.access.strides[batch.len()..];
    let by_columns = strides[0] == 1 && strides[1] != 1;
    let (len, strides) = if by_columns { (rows, [1, rows]) } else { (columns, [columns, 1]) };
    let batches: usize = batch.iter().product();
    let mut storage = context.pool.alloc(batches * rows * columns * 4)?;
    let from: &[T] = bytemuck::cast_slice(from);
    if let Some(bytes) = storage.as_mut_slice() {
        let to: &mut [f32] = bytemuck::cast_slice_mut(bytes);
        for (b, to) in to.chunks_exact_mut((rows * columns).max(1)).enumerate() {
            let v = view(matrix, batch, b);
            let (line, step) = if by_columns { (v.column, 1) } else { (v.row, v.column) };
            for (i, to) in to.chunks_exact_mut(len).enumerate() {
                widen_line(from, v.offset + i as i64 * line, step, to);
            }
        }
    }
    Ok((storage, dense(matrix.buffer, batch, rows * columns, strides)))
}

/// Widens elements from `at` on that lie `step` apart.
fn widen_line<T: Half>(from: &[T], at: i64, step: i64, to: &mut [f32]) {
    if step == 1 {
        return T::widen(&from[at as usize..][..to.len()], to);
    }
    for (i, to) in to.iter_mut().enumerate() {
        let one = from[(at + i as i64 * step) as usize];
        T::widen(&[one], std::slice::from_mut(to));
    }
}

/// Matrices of so many elements one after the other, with these strides of rows and columns.
fn dense(buffer: BufferId, batch: &[usize], each: usize, strides: [usize; 2]) -> Matrix {
    let mut all: SmallVec<[i64; 8]> = strides.iter().map(|&s| s as i64).collect();
    let mut step = each as i64;
    for &size in batch.iter().rev() {
        all.insert(0, step);
        step *= size as i64;
    }
    Matrix { buffer, access: Access { offset: 0, strides: all } }
}

fn integers<T: Ring>(context: &Context<'_>, work: &MatMul, lhs: &[u8], rhs: &[u8], out: &mut [u8]) {
    out.fill(0);
    let (a, b): (&[T], &[T]) = (bytemuck::cast_slice(lhs), bytemuck::cast_slice(rhs));
    let target = Target(out.as_mut_ptr());
    let matrix = |elements, View { offset, row, column }| integers::Matrix {
        elements,
        first: offset,
        row,
        column,
    };
    cut(context, work, &|Part { batch, rows, columns }| {
        let first = batch * work.m * work.n * size_of::<T>();
        let product = integers::Product {
            lhs: matrix(a, view(&work.lhs, &work.batch, batch)),
            rhs: matrix(b, view(&work.rhs, &work.batch, batch)),
            rows,
            columns,
            k: work.k,
            out: integers::Out {
                at: Target(target.address().wrapping_add(first)),
                strides: [work.n, 1],
            },
        };
        // SAFETY: this task alone touches these rows and columns of this batch.
        unsafe { product.add() };
    });
}
