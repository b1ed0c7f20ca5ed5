//! Kernels that follow indices. An index outside its axis is an error naming both.

use super::{
    EvalError,
    array::{Array, Data},
    walk::{Walk, row_major},
};
use crate::Type;

/// `out[.., i, ..] = x[.., index[.., i, ..], ..]` along `axis`.
pub(super) fn gather(out: Type, x: &Array, index: &Array, axis: usize) -> Result<Array, EvalError> {
    let offsets = along(x.sizes(), index, axis)?;
    Ok(Array::pick(out, x, offsets.into_iter()))
}

/// A copy of `base` with `base[.., index[.., i, ..], ..] += src[.., i, ..]` along `axis`.
pub(super) fn scatter_add(
    out: Type,
    base: &Array,
    index: &Array,
    src: &Array,
    axis: usize,
) -> Result<Array, EvalError> {
    let to = along(base.sizes(), index, axis)?;
    let from = Walk::new(index.sizes(), &row_major(src.sizes()), 0);
    add_at(out, base, src, to.into_iter().zip(from))
}

/// `out[a, i.., b] = x[a, index[i..], b]`, with `index` standing in the place of `axis`.
pub(super) fn index_select(
    out: Type,
    x: &Array,
    index: &Array,
    axis: usize,
) -> Result<Array, EvalError> {
    let offsets = rows(x.sizes(), index, axis)?;
    Ok(Array::pick(out, x, offsets))
}

/// A copy of `base` with `base[a, index[i..], b] += src[a, i.., b]`.
pub(super) fn index_add(
    out: Type,
    base: &Array,
    index: &Array,
    src: &Array,
    axis: usize,
) -> Result<Array, EvalError> {
    let to = rows(base.sizes(), index, axis)?;
    add_at(out, base, src, to.enumerate().map(|(from, to)| (to, from)))
}

/// For each position of `index`, the offset in an array of `sizes` with that position's index along
/// `axis`.
fn along(sizes: &[usize], index: &Array, axis: usize) -> Result<Vec<usize>, EvalError> {
    let mut strides = row_major(sizes);
    let step = std::mem::take(&mut strides[axis]) as usize;
    let rest = Walk::new(index.sizes(), &strides, 0);
    index
        .ints()?
        .iter()
        .zip(rest)
        .map(|(i, rest)| Ok(rest + checked(*i, sizes[axis])? * step))
        .collect()
}

/// For each position of `sizes` with `axis` replaced by the shape of `index`, its offset in an
/// array of `sizes`.
fn rows<'a>(
    sizes: &[usize],
    index: &'a Array,
    axis: usize,
) -> Result<impl Iterator<Item = usize> + 'a, EvalError> {
    let outer: usize = sizes[..axis].iter().product();
    let inner: usize = sizes[axis + 1..].iter().product();
    let size = sizes[axis];
    let index = index.ints()?;
    index.iter().try_for_each(|i| checked(*i, size).map(drop))?;
    Ok((0..outer).flat_map(move |a| {
        index
            .iter()
            .flat_map(move |i| (0..inner).map(move |b| (a * size + *i as usize) * inner + b))
    }))
}

/// The index as a position, if it lies in the axis.
fn checked(index: i64, size: usize) -> Result<usize, EvalError> {
    usize::try_from(index).ok().filter(|i| *i < size).ok_or(EvalError::Index { index, size })
}

fn add_at(
    out: Type,
    base: &Array,
    src: &Array,
    pairs: impl Iterator<Item = (usize, usize)>,
) -> Result<Array, EvalError> {
    let data = match &base.data {
        Data::Float(v) => Data::Float(accumulate(v, src.floats()?, pairs, |a, b| a + b)),
        Data::Int(v) => Data::Int(accumulate(v, src.ints()?, pairs, i64::wrapping_add)),
        Data::Bool(v) => Data::Bool(accumulate(v, src.bools()?, pairs, |a, b| a | b)),
    };
    Ok(Array::new(out, data))
}

fn accumulate<T: Copy>(
    base: &[T],
    src: &[T],
    pairs: impl Iterator<Item = (usize, usize)>,
    f: impl Fn(T, T) -> T,
) -> Vec<T> {
    let mut result = base.to_vec();
    for (to, from) in pairs {
        result[to] = f(result[to], src[from]);
    }
    result
}
