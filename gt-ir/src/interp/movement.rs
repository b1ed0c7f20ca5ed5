//! Kernels that move elements without computing: each is a walk.
//!
//! A walk visits offsets of one array in the order of the elements of another. Moving elements is
//! then a choice of strides: 0 repeats an axis, exchanged strides exchange axes, and a larger
//! stride leaves elements out.

use super::{
    EvalError,
    array::{Array, Data},
    walk::{Strides, Walk, row_major},
};
use crate::Type;

/// The same elements in the same order under another shape.
pub(super) fn reshape(out: Type, x: &Array) -> Array {
    Array { ty: out, data: x.data.clone() }
}

/// Axis `i` of the result is axis `order[i]` of `x`.
pub(super) fn permute(out: Type, x: &Array, order: &[usize]) -> Array {
    let strides = row_major(x.sizes());
    let strides: Strides = order.iter().map(|axis| strides[*axis]).collect();
    Array::pick(out, x, Walk::new(out.shape.sizes(), &strides, 0))
}

/// Repeats axes of size one, and adds axes in front, to reach the shape of `out`.
pub(super) fn expand(out: Type, x: &Array) -> Array {
    let sizes = out.shape.sizes();
    let new = sizes.len() - x.sizes().len();
    let own = row_major(x.sizes());
    let strides: Strides =
        (0..sizes.len())
            .map(|i| {
                if i < new || (x.sizes()[i - new] == 1 && sizes[i] != 1) { 0 } else { own[i - new] }
            })
            .collect();
    Array::pick(out, x, Walk::new(sizes, &strides, 0))
}

/// Every `step`-th element from `start` along `axis`, as many as `out` has.
pub(super) fn slice(out: Type, x: &Array, axis: usize, start: usize, step: usize) -> Array {
    let mut strides = row_major(x.sizes());
    let first = strides[axis] * start as isize;
    strides[axis] = strides[axis].wrapping_mul(step as isize);
    Array::pick(out, x, Walk::new(out.shape.sizes(), &strides, first))
}

/// Windows along `axis`, one every `step`, the elements of each `dilation` apart along a new last
/// axis.
pub(super) fn unfold(out: Type, x: &Array, axis: usize, step: usize, dilation: usize) -> Array {
    let mut strides = row_major(x.sizes());
    strides.push(strides[axis].wrapping_mul(dilation as isize));
    strides[axis] = strides[axis].wrapping_mul(step as isize);
    Array::pick(out, x, Walk::new(out.shape.sizes(), &strides, 0))
}

/// One after another along `axis`.
pub(super) fn cat(out: Type, parts: &[&Array], axis: usize) -> Result<Array, EvalError> {
    let strides = row_major(out.shape.sizes());
    let mut result = filled(out);
    let mut start = 0;
    for part in parts {
        place(&mut result, part, Walk::new(part.sizes(), &strides, start))?;
        start += strides[axis] * part.sizes()[axis] as isize;
    }
    Ok(Array { ty: out, data: result })
}

/// `low` copies of `value` before, `interior` between neighbors along `axis`, and as many behind as
/// `out` has room for.
pub(super) fn pad(
    out: Type,
    x: &Array,
    value: &Array,
    axis: usize,
    low: usize,
    interior: usize,
) -> Result<Array, EvalError> {
    let mut strides = row_major(out.shape.sizes());
    let first = strides[axis].wrapping_mul(low as isize);
    strides[axis] = strides[axis].wrapping_mul(interior as isize + 1);
    let offsets = Walk::new(x.sizes(), &strides, first);
    let n = out.shape.numel();
    let mut data = match &value.data {
        Data::Float(v) => Data::Float(vec![v.first().copied().unwrap_or_default(); n]),
        Data::Int(v) => Data::Int(vec![v.first().copied().unwrap_or_default(); n]),
        Data::Bool(v) => Data::Bool(vec![v.first().copied().unwrap_or_default(); n]),
    };
    place(&mut data, x, offsets)?;
    Ok(Array { ty: out, data })
}

/// An array to be written to, zeros until then.
fn filled(out: Type) -> Data {
    let n = out.shape.numel();
    if out.dtype.is_float() {
        Data::Float(vec![0.0; n])
    } else if out.dtype.is_int() {
        Data::Int(vec![0; n])
    } else {
        Data::Bool(vec![false; n])
    }
}

/// Copies elements to where a walk says.
fn place(to: &mut Data, from: &Array, offsets: Walk) -> Result<(), EvalError> {
    match to {
        Data::Float(to) => from.floats()?.iter().zip(offsets).for_each(|(x, o)| to[o] = *x),
        Data::Int(to) => from.ints()?.iter().zip(offsets).for_each(|(x, o)| to[o] = *x),
        Data::Bool(to) => from.bools()?.iter().zip(offsets).for_each(|(x, o)| to[o] = *x),
    }
    Ok(())
}
