//! Ops that follow indices. They are checked here: on a device libtorch itself would answer a wrong
//! one by killing the process.
//!
//! Sums at equal positions are taken by `index_put`, which on every device adds in one order;
//! narrow floats are added in `f32`.

use gt_ir::{DType, Op, Type, attr::Axis};
use tch::{Kind, Tensor};

use super::{
    Made, Sizes,
    host::{dtype_of, kind_of, sizes_of},
    sizes,
};
use crate::error::EngineError;

/// `out[.., i, ..] = x[.., index[.., i, ..], ..]` along an axis.
pub(super) fn gather(op: &Op, x: &Tensor, index: &Tensor, axis: Axis) -> Made {
    check(op, index, axis, x)?;
    Ok(x.f_gather(i64::from(axis.0), index, false)?)
}

/// `out[a, i.., b] = x[a, index[i..], b]`.
pub(super) fn index_select(op: &Op, x: &Tensor, index: &Tensor, axis: Axis, out: Type) -> Made {
    check(op, index, axis, x)?;
    let rows = x.f_index_select(i64::from(axis.0), &index.f_reshape([-1])?)?;
    Ok(rows.f_reshape(sizes(&out.shape).as_slice())?)
}

/// `base` with `src[.., i, ..]` added at `index[.., i, ..]` along an axis.
pub(super) fn scatter_add(
    op: &Op,
    base: &Tensor,
    index: &Tensor,
    src: &Tensor,
    axis: Axis,
) -> Made {
    check(op, index, axis, base)?;
    let shape = sizes_of(index);
    let positions = (0..shape.len()).map(|i| {
        let own = i == usize::from(axis.0);
        if own { Ok(Some(index.f_alias()?)) } else { ramp(index, &shape, i).map(Some) }
    });
    add_at(base, &positions.collect::<Result<Vec<_>, _>>()?, src)
}

/// `base` with `src[a, i.., b]` added at `[a, index[i..], b]`.
pub(super) fn index_add(op: &Op, base: &Tensor, index: &Tensor, src: &Tensor, axis: Axis) -> Made {
    check(op, index, axis, base)?;
    let mut positions: Vec<Option<Tensor>> = (0..axis.0).map(|_| None).collect();
    positions.push(Some(index.f_alias()?));
    add_at(base, &positions, src)
}

/// 0, 1, .. along axis `i` of a shape, broadcasting over the others.
fn ramp(like: &Tensor, shape: &Sizes, i: usize) -> Made {
    let mut dims: Sizes = shape.iter().map(|_| 1).collect();
    dims[i] = shape[i];
    Ok(Tensor::f_arange(shape[i], (Kind::Int64, like.device()))?.f_reshape(dims.as_slice())?)
}

fn add_at(base: &Tensor, positions: &[Option<Tensor>], src: &Tensor) -> Made {
    let dtype = dtype_of(base)?;
    if src.size().contains(&0) {
        return Ok(base.f_alias()?);
    }
    if !matches!(dtype, DType::F16 | DType::Bf16) {
        return Ok(base.f_index_put(positions, src, true)?);
    }
    let (base, src) = (base.f_to_kind(Kind::Float)?, src.f_to_kind(Kind::Float)?);
    Ok(base.f_index_put(positions, &src, true)?.f_to_kind(kind_of(dtype))?)
}

/// The first index that lies outside the axis of `x` is an error that names it.
fn check(op: &Op, index: &Tensor, axis: Axis, x: &Tensor) -> Result<(), EngineError> {
    let size = sizes_of(x)[usize::from(axis.0)];
    let wrong = index.f_lt(0)?.f_logical_or(&index.f_ge(size)?)?;
    if wrong.f_any()?.f_int64_value(&[])? == 0 {
        return Ok(());
    }
    Err(EngineError::Index {
        op: op.to_string(),
        index: index.f_masked_select(&wrong)?.f_int64_value(&[0])?,
        axis: axis.0.into(),
        size: size as usize,
    })
}
