//! The gradient of `matmul`: two products with the other operand transposed, whatever the ranks.

use smallvec::smallvec;

use super::{Out, operand};
use crate::{
    emit::{Build, Emit, Emitted},
    error::OpError,
    grad::Vjp,
    shape::{Dim, Shape, Type},
    tape::ValueId,
};

/// With y = a b: by a it is g b^T, by b it is a^T g.
///
/// Vectors are made matrices of one row or column first. A gradient is summed over the leading axes
/// that its operand was broadcast along. An operand is read for the gradient of the other one only,
/// whatever its rank: values that no rule reads are not kept.
pub(crate) fn matmul(cx: &mut Vjp<'_>) -> Out {
    let (ta, tb, ty) = (cx.ty(0)?, cx.ty(1)?, cx.e.ty(cx.output));
    // Work on matrices: a row for a 1-D left operand, a column for a 1-D right one, and the same
    // axes in g.
    let (row, column) = (ta.shape.rank() == 1, tb.shape.rank() == 1);
    let matrix = |cx: &mut Vjp<'_>, v: ValueId, at: Option<usize>| {
        at.map_or(Ok(v), |at| insert_axis(cx, v, at))
    };
    let g = matrix(cx, cx.grad, column.then_some(ty.shape.rank()))?;
    let g_rank = cx.e.ty(g).shape.rank();
    let g = matrix(cx, g, row.then(|| g_rank - 1))?;
    let ga = operand(cx, 0, |cx, _| {
        let b = matrix(cx, cx.tensor(1)?, column.then_some(1))?;
        let bt = cx.e.transpose_last(b)?;
        let ga = cx.e.matmul(g, bt)?;
        fit(cx, ga, with_axis(ta.shape, row.then_some(0))?, ta)
    })?;
    let gb = operand(cx, 1, |cx, _| {
        let a = matrix(cx, cx.tensor(0)?, row.then_some(0))?;
        let of = with_axis(tb.shape, column.then_some(1))?;
        // One matrix that all rows met has one product for its gradient, not one for each batch and
        // a sum of them.
        let (a, g) = if of.rank() == 2 { (rows(cx.e, a)?, rows(cx.e, g)?) } else { (a, g) };
        let at = cx.e.transpose_last(a)?;
        let gb = cx.e.matmul(at, g)?;
        fit(cx, gb, of, tb)
    })?;
    Ok(smallvec![ga, gb])
}

/// Sums a gradient over broadcast leading axes to its matrix's shape, then drops the axis a vector
/// was given.
fn fit(cx: &mut Vjp<'_>, g: ValueId, matrix: Shape, vector: Type) -> Emitted {
    let summed = cx.e.sum_to(g, Type::new(cx.e.ty(g).dtype, matrix))?;
    cx.e.reshape(summed, vector.shape)
}

/// The rows of all batches, as one matrix.
pub(crate) fn rows(e: &mut dyn Emit, v: ValueId) -> Emitted {
    let shape = e.ty(v).shape;
    let last = shape.rank() - 1;
    let n = Dim::new(shape.sizes()[..last].iter().product());
    e.reshape(v, Shape::from_dims(&[n, shape.dim(last)])?)
}

/// The value with an axis of size 1 before axis `at`.
fn insert_axis(cx: &mut Vjp<'_>, v: ValueId, at: usize) -> Emitted {
    let shape = with_axis(cx.e.ty(v).shape, Some(at))?;
    cx.e.reshape(v, shape)
}

/// The shape with an axis of size 1 before axis `at`, if there is one.
fn with_axis(shape: Shape, at: Option<usize>) -> Result<Shape, OpError> {
    let Some(at) = at else { return Ok(shape) };
    Shape::collect(shape.dims().take(at).chain([Dim::new(1)]).chain(shape.dims().skip(at)))
}
