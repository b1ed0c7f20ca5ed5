//! Which calls of cuBLAS a matrix product becomes.
//!
//! Guarantees: the calls together compute every element of the result once, on the operands as they
//! lie; batches that one right side serves become rows of one product, and batches whose strides
//! allow it one batch. It computes nothing itself and knows no device.

use gt_ir::DType;
use smallvec::SmallVec;

use super::ffi::Product;
use crate::{
    device::{Activation, Added},
    schedule::MatMul,
};

/// The number by which the shim knows a dtype that libtorch multiplies; with `tf32` the operands of
/// `f32` may be rounded.
pub(super) fn number(dtype: DType, tf32: bool) -> Option<i32> {
    match dtype {
        DType::F32 => Some(if tf32 { 4 } else { 0 }),
        DType::F64 => Some(1),
        DType::F16 => Some(2),
        DType::Bf16 => Some(3),
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => None,
    }
}

/// The number by which the shim knows an activation.
fn activation(added: Option<Added>) -> i32 {
    match added.and_then(|added| added.activation) {
        None => 0,
        Some(Activation::Relu) => 1,
        Some(Activation::Gelu) => 2,
    }
}

/// A product of one element by one element.
pub(super) fn smallest([lhs, rhs, out]: [u64; 3]) -> Product {
    let strides = [0, 1, 1];
    let (lhs_strides, rhs_strides) = (strides, strides);
    let one = Product { batch: 1, m: 1, n: 1, k: 1, ..Product::default() };
    Product { lhs, rhs, out, lhs_strides, rhs_strides, ..one }
}

/// A batch dimension: its size, and the strides of both operands and of the result along it, in
/// elements.
#[derive(Clone, Copy)]
struct Batch {
    size: i64,
    strides: [i64; 3],
}

/// The calls, for operands and a result that begin at these addresses; none where the result is
/// empty. `dtype` is by [`number`].
pub(super) fn calls(
    work: &MatMul,
    dtype: i32,
    added: Option<Added>,
    [lhs, rhs, out]: [u64; 3],
) -> SmallVec<[Product; 1]> {
    let bytes = work.dtype.size() as i64;
    let rank = work.batch.len();
    let (l, r) = (&work.lhs.access, &work.rhs.access);
    let [m, n, k] = [work.m, work.n, work.k].map(|size| size as i64);
    let mut product = Product {
        lhs: moved(lhs, l.offset * bytes),
        rhs: moved(rhs, r.offset * bytes),
        out,
        batch: 1,
        m,
        n,
        k,
        lhs_strides: [0, l.strides[rank], l.strides[rank + 1]],
        rhs_strides: [0, r.strides[rank], r.strides[rank + 1]],
        dtype,
        bias: added.map_or(0, |added| added.bias),
        activation: activation(added),
    };
    let mut batches = batches(work);
    rows_of_one(&mut product, &mut batches);
    merge(&mut batches);
    if let Some(inner) = batches.pop() {
        product.batch = inner.size;
        [product.lhs_strides[0], product.rhs_strides[0], _] = inner.strides;
    }
    each(product, &batches, bytes)
}

pub(super) fn moved(address: u64, bytes: i64) -> u64 {
    address.wrapping_add_signed(bytes)
}

/// The batch dimensions of more than one element, outermost first.
fn batches(work: &MatMul) -> SmallVec<[Batch; 6]> {
    let mut step = (work.m * work.n) as i64;
    let mut batches: SmallVec<[Batch; 6]> = SmallVec::new();
    for (d, &size) in work.batch.iter().enumerate().rev() {
        let strides = [work.lhs.access.strides[d], work.rhs.access.strides[d], step];
        step *= size as i64;
        batches.push(Batch { size: size as i64, strides });
    }
    batches.retain(|batch| batch.size != 1);
    batches.reverse();
    batches
}

/// Batches that meet the same right side are more rows of the left, where they follow its rows.
fn rows_of_one(product: &mut Product, batches: &mut SmallVec<[Batch; 6]>) {
    while let Some(&Batch { size, strides: [l, 0, _] }) = batches.last() {
        if product.m == 1 {
            product.lhs_strides[1] = l;
        }
        if l != product.m * product.lhs_strides[1] {
            return;
        }
        product.m *= size;
        batches.pop();
    }
}

/// Neighbors that both operands walk as one dimension become one. The result, being contiguous,
/// always does.
fn merge(batches: &mut SmallVec<[Batch; 6]>) {
    for d in (1..batches.len()).rev() {
        let (outer, inner) = (batches[d - 1], batches[d]);
        if (0..2).all(|i| outer.strides[i] == inner.strides[i] * inner.size) {
            batches[d - 1] = Batch { size: outer.size * inner.size, strides: inner.strides };
            batches.remove(d);
        }
    }
}

/// One call for each index of `outer`.
fn each(product: Product, outer: &[Batch], bytes: i64) -> SmallVec<[Product; 1]> {
    let mut calls: SmallVec<[Product; 1]> = SmallVec::new();
    if product.batch * product.m * product.n == 0 {
        return calls;
    }
    calls.push(product);
    for Batch { size, strides } in outer {
        let so_far = std::mem::take(&mut calls);
        for call in so_far {
            calls.extend((0..*size).map(|i| {
                let [l, r, o] = strides.map(|stride| stride * i * bytes);
                let (lhs, rhs) = (moved(call.lhs, l), moved(call.rhs, r));
                Product { lhs, rhs, out: moved(call.out, o), ..call }
            }));
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        kernel::Access,
        schedule::{BufferId, Matrix, Multiplier},
    };

    fn matrix(offset: i64, strides: &[i64]) -> Matrix {
        let access = Access { offset, strides: strides.iter().copied().collect() };
        Matrix { buffer: BufferId(0), access }
    }

    fn work(batch: &[usize], [m, n, k]: [usize; 3], lhs: Matrix, rhs: Matrix) -> MatMul {
        let (batch, out) = (batch.iter().copied().collect(), BufferId(0));
        MatMul { dtype: DType::F64, batch, m, n, k, lhs, rhs, out, by: Multiplier::Rows }
    }

    /// Which elements (by their addresses over eight) each element of the result is the sum of, as
    /// the calls have it.
    fn sums(calls: &[Product]) -> Vec<(u64, Vec<(u64, u64)>)> {
        let mut sums = Vec::new();
        for p in calls {
            for i in 0..p.batch * p.m * p.n {
                let (b, row, column) = (i / (p.m * p.n), i / p.n % p.m, i % p.n);
                let at = |base: u64, s: [i64; 3], x: i64, y: i64| {
                    (base / 8).wrapping_add_signed(b * s[0] + x * s[1] + y * s[2])
                };
                let pair =
                    |j| (at(p.lhs, p.lhs_strides, row, j), at(p.rhs, p.rhs_strides, j, column));
                sums.push((p.out / 8 + i as u64, (0..p.k).map(pair).collect()));
            }
        }
        sums.sort();
        sums
    }

    /// The same, straight from the definition.
    fn wanted(w: &MatMul, [lhs, rhs, out]: [u64; 3]) -> Vec<(u64, Vec<(u64, u64)>)> {
        let total = w.batch.iter().product::<usize>() * w.m * w.n;
        let sum = |i: usize| {
            let (mut b, row, column) = (i / (w.m * w.n), i / w.n % w.m, i % w.n);
            let mut at = [w.lhs.access.offset, w.rhs.access.offset];
            for (d, size) in w.batch.iter().enumerate().rev() {
                at[0] += (b % size) as i64 * w.lhs.access.strides[d];
                at[1] += (b % size) as i64 * w.rhs.access.strides[d];
                b /= size;
            }
            let rank = w.batch.len();
            let of = |base: u64, at: i64, strides: &[i64], x: usize, y: usize| {
                (base / 8).wrapping_add_signed(
                    at + x as i64 * strides[rank] + y as i64 * strides[rank + 1],
                )
            };
            let pair = |j| {
                (
                    of(lhs, at[0], &w.lhs.access.strides, row, j),
                    of(rhs, at[1], &w.rhs.access.strides, j, column),
                )
            };
            (out / 8 + i as u64, (0..w.k).map(pair).collect())
        };
        (0..total).map(sum).collect()
    }

    #[test]
    fn the_calls_are_the_product() {
        let cases = [
            // Plain; a transposed right side; an offset.
            (work(&[], [3, 4, 5], matrix(0, &[5, 1]), matrix(0, &[4, 1])), 1),
            (work(&[], [3, 4, 5], matrix(2, &[5, 1]), matrix(1, &[1, 5])), 1),
            // One right side: rows of one product.
            (work(&[2, 3], [4, 5, 6], matrix(0, &[72, 24, 6, 1]), matrix(0, &[0, 0, 5, 1])), 1),
            // One row each, and the batch anywhere.
            (work(&[7], [1, 5, 6], matrix(0, &[11, 3, 1]), matrix(0, &[0, 5, 1])), 1),
            // One batch of two dimensions.
            (work(&[2, 3], [4, 5, 6], matrix(0, &[72, 24, 6, 1]), matrix(0, &[90, 30, 5, 1])), 1),
            // Heads side by side: a call for each of the outer dimension.
            (work(&[2, 3], [4, 4, 2], matrix(0, &[24, 2, 6, 1]), matrix(0, &[24, 2, 1, 6])), 2),
            // A left side for all.
            (work(&[3], [4, 5, 6], matrix(0, &[0, 6, 1]), matrix(0, &[30, 5, 1])), 1),
            // Nothing to sum, nothing at all.
            (work(&[2], [3, 4, 0], matrix(0, &[0, 0, 1]), matrix(0, &[0, 4, 1])), 1),
            (work(&[0], [3, 4, 5], matrix(0, &[15, 5, 1]), matrix(0, &[20, 4, 1])), 0),
        ];
        let at = [8 << 20, 16 << 20, 24 << 20];
        for (i, (work, n_calls)) in cases.iter().enumerate() {
            let calls = calls(work, 1, None, at);
            assert_eq!(calls.len(), *n_calls, "case {i}");
            assert_eq!(sums(&calls), wanted(work, at), "case {i}");
        }
    }
}
