//! Reductions and the matrix product.
//!
//! Elements are folded one after the other in row-major order, in `f64` for floats. Engines fold in
//! other orders and narrower dtypes, so the comparison with them has a tolerance. Integers wrap,
//! and therefore agree in every order.

use super::{
    EvalError,
    array::{Array, Data},
    pointwise::{maximum, minimum},
    walk::{Walk, row_major},
};
use crate::Type;

/// The sum over `axes`; integers and bools are added as 64-bit integers.
///
/// The result of no elements is 0.
pub(super) fn sum(out: Type, x: &Array, axes: &[usize]) -> Array {
    let places = places(x, axes);
    let data = match &x.data {
        Data::Float(v) => Data::Float(fold(v, places, out, 0.0, |a, b| a + b)),
        Data::Int(v) => Data::Int(fold(v, places, out, 0, i64::wrapping_add)),
        Data::Bool(v) => {
            let v: Vec<i64> = v.iter().map(|x| i64::from(*x)).collect();
            Data::Int(fold(&v, places, out, 0, i64::wrapping_add))
        }
    };
    Array::new(out, data)
}

/// The maximum over `axes`; `nan` wins.
///
/// Type rules refuse an empty axis, so the first value of the fold never reaches a result.
pub(super) fn max(out: Type, x: &Array, axes: &[usize]) -> Array {
    let places = places(x, axes);
    let data = match &x.data {
        Data::Float(v) => Data::Float(fold(v, places, out, f64::NEG_INFINITY, maximum)),
        Data::Int(v) => Data::Int(fold(v, places, out, i64::MIN, i64::max)),
        Data::Bool(v) => Data::Bool(fold(v, places, out, false, |a, b| a | b)),
    };
    Array::new(out, data)
}

/// The minimum over `axes`; `nan` wins.
pub(super) fn min(out: Type, x: &Array, axes: &[usize]) -> Array {
    let places = places(x, axes);
    let data = match &x.data {
        Data::Float(v) => Data::Float(fold(v, places, out, f64::INFINITY, minimum)),
        Data::Int(v) => Data::Int(fold(v, places, out, i64::MAX, i64::min)),
        Data::Bool(v) => Data::Bool(fold(v, places, out, true, |a, b| a & b)),
    };
    Array::new(out, data)
}

/// The product of the last two axes of each; all axes before them agree.
pub(super) fn matmul(out: Type, a: &Array, b: &Array) -> Result<Array, EvalError> {
    let (&[.., m, k], &[.., _, n]) = (a.sizes(), b.sizes()) else {
        return Err(EvalError::Kind { wanted: "matrices", found: a.ty });
    };
    let batches = out.shape.numel().checked_div(m * n).unwrap_or(0);
    let sizes = [batches, m, k, n];
    let data = match &a.data {
        Data::Float(v) => {
            Data::Float(products(v, b.floats()?, sizes, 0.0, |acc, x, y| acc + x * y))
        }
        Data::Int(v) => Data::Int(products(v, b.ints()?, sizes, 0, |acc: i64, x, y| {
            acc.wrapping_add(x.wrapping_mul(y))
        })),
        Data::Bool(_) => return Err(EvalError::Kind { wanted: "numbers", found: a.ty }),
    };
    Ok(Array::new(out, data))
}

/// `batches` products of `[m, k]` by `[k, n]`, by rows: the inner loop walks along a row of `b` and
/// of the result, so even this reference reads memory in order.
fn products<T: Copy>(
    a: &[T],
    b: &[T],
    [batches, m, k, n]: [usize; 4],
    zero: T,
    mul_add: impl Fn(T, T, T) -> T,
) -> Vec<T> {
    let mut out = vec![zero; batches * m * n];
    for (row, out) in out.chunks_exact_mut(n.max(1)).enumerate() {
        let b = &b[row / m * k * n..][..k * n];
        for (x, b) in a[row * k..][..k].iter().zip(b.chunks_exact(n)) {
            for (out, y) in out.iter_mut().zip(b) {
                *out = mul_add(*out, *x, *y);
            }
        }
    }
    out
}

/// The positions along `axis` in the order of the elements there: a stable sort, NaN the largest.
pub(super) fn argsort(out: Type, x: &Array, axis: usize, descending: bool) -> Array {
    let number = |a: f64, b: f64| a.partial_cmp(&b).unwrap_or(a.is_nan().cmp(&b.is_nan()));
    let compare = |a: usize, b: usize| match &x.data {
        Data::Float(v) => number(v[a], v[b]),
        Data::Int(v) => v[a].cmp(&v[b]),
        Data::Bool(v) => v[a].cmp(&v[b]),
    };
    let (n, stride) = (x.sizes()[axis], row_major(x.sizes())[axis] as usize);
    let mut places = vec![0; x.ty.shape.numel()];
    let firsts = (0..places.len()).filter(|i| (i / stride).is_multiple_of(n));
    for first in firsts.collect::<Vec<_>>() {
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|a, b| {
            let ascending = compare(first + a * stride, first + b * stride);
            if descending { ascending.reverse() } else { ascending }
        });
        order.iter().enumerate().for_each(|(i, at)| places[first + i * stride] = *at as i64);
    }
    Array { ty: out, data: Data::Int(places) }
}

/// The sums of the elements up to each position of `axis`.
pub(super) fn cumsum(out: Type, x: &Array, axis: usize) -> Array {
    let (n, stride) = (x.sizes()[axis], row_major(x.sizes())[axis] as usize);
    let data = match &x.data {
        Data::Float(v) => Data::Float(running(v, n, stride, |a, b| a + b)),
        Data::Int(v) => Data::Int(running(v, n, stride, i64::wrapping_add)),
        Data::Bool(v) => {
            let v: Vec<i64> = v.iter().map(|x| i64::from(*x)).collect();
            Data::Int(running(&v, n, stride, i64::wrapping_add))
        }
    };
    Array::new(out, data)
}

/// Each element joined with the one before it on an axis of `n` elements that are `stride` apart.
fn running<T: Copy>(v: &[T], n: usize, stride: usize, join: impl Fn(T, T) -> T) -> Vec<T> {
    let mut out = v.to_vec();
    for at in (0..out.len()).filter(|at| !(at / stride).is_multiple_of(n)).collect::<Vec<_>>() {
        out[at] = join(out[at - stride], out[at]);
    }
    out
}

/// For each element of `x`, the offset in the result that it goes into: reduced axes have no stride
/// there.
///
/// Walking over an operand and this iterator together visits each element with its target, for any
/// set of axes, so that reductions need no nested loops.
fn places(x: &Array, axes: &[usize]) -> Walk {
    let kept: Vec<usize> =
        x.sizes().iter().enumerate().map(|(i, s)| if axes.contains(&i) { 1 } else { *s }).collect();
    let mut strides = row_major(&kept);
    axes.iter().for_each(|axis| strides[*axis] = 0);
    Walk::new(x.sizes(), &strides, 0)
}

/// Joins each element of `v` with what its place in the result holds so far.
fn fold<T: Copy>(v: &[T], places: Walk, out: Type, first: T, f: impl Fn(T, T) -> T) -> Vec<T> {
    let mut result = vec![first; out.shape.numel()];
    for (x, place) in v.iter().zip(places) {
        result[place] = f(result[place], *x);
    }
    result
}
