//! Reductions made of others: positions of the smallest, truth over axes, variance, norm, logarithm
//! of a sum of exponentials.

use smallvec::smallvec;

use super::{
    derive::{misplaced, number, value, wide},
    grad::{Out, one},
};
use crate::{
    attr::{AxisSet, Keep, Reduce},
    dtype::DType,
    emit::{Build, Emit, Emitted},
    error::OpError,
    grad::Vjp,
    op::{Op, Operand},
    shape::{Shape, Type},
    tape::ValueId,
};

/// How many elements are reduced to one.
fn count(shape: &Shape, axes: AxisSet) -> usize {
    axes.iter().map(|a| shape.sizes()[a]).product()
}

/// Where an element is the extremum or NaN, which makes the extremum NaN.
pub(super) fn attains(e: &mut dyn Emit, x: ValueId, extremum: ValueId) -> Emitted {
    let found = e.eq(x, extremum)?;
    if !e.ty(x).dtype.is_float() {
        return Ok(found);
    }
    let nan = e.emit(Op::Ne, &[x.into(), x.into()])?;
    e.logical_or(found, nan)
}

/// The smallest position whose element is the extremum or NaN.
///
/// The extremum of a row with NaN is NaN, which equals no element. The positions therefore count in
/// `i32`, as wide as most elements, where they fit.
pub(crate) fn place(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let (r, extremum): (_, fn(Reduce) -> Op) = match *op {
        Op::Argmax(r) => (r, Op::Max),
        Op::Argmin(r) => (r, Op::Min),
        _ => return Err(misplaced(op)),
    };
    let x = value(op, ins, 0)?;
    let (ty, axis) = (e.ty(x), usize::from(r.axis));
    let n = ty.shape.sizes()[axis];
    let narrow = i32::try_from(n).is_ok();
    let (counted, none) =
        if narrow { (DType::I32, i64::from(i32::MAX)) } else { (DType::I64, i64::MAX) };
    let kept = Reduce { axes: AxisSet::from_iter([axis]), keep: Keep::Yes };
    let best = e.emit(extremum(kept), &[x.into()])?;
    let found = attains(e, x, best)?;
    let positions = ruler(e, &ty.shape, axis, counted)?;
    let positions = e.select(found, positions, none)?;
    let first = e.emit(Op::Min(Reduce { keep: r.keep, ..kept }), &[positions.into()])?;
    e.cast(first, DType::I64)
}

/// The largest of `x != 0` over the axes; false over none.
pub(crate) fn any(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::Any(r) = *op else { return Err(misplaced(op)) };
    let x = value(op, ins, 0)?;
    let truth = e.cast(x, DType::Bool)?;
    reduce_bool(e, truth, r, Op::Max, false)
}

/// The smallest of `x != 0` over the axes; true over none.
pub(crate) fn all(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::All(r) = *op else { return Err(misplaced(op)) };
    let x = value(op, ins, 0)?;
    let truth = e.cast(x, DType::Bool)?;
    reduce_bool(e, truth, r, Op::Min, true)
}

/// The extremum; of no elements, which have none, `empty`.
fn reduce_bool(
    e: &mut dyn Emit,
    x: ValueId,
    r: Reduce,
    extremum: fn(Reduce) -> Op,
    empty: bool,
) -> Emitted {
    if count(&e.ty(x).shape, r.axes) > 0 {
        return e.emit(extremum(r), &[x.into()]);
    }
    let zeros = e.sum(x, r.axes, r.keep)?;
    e.full(e.ty(zeros).with_dtype(DType::Bool), empty)
}

/// Shifted by the maximum where that is finite: an infinite one needs no shift, and would make a
/// NaN of one.
///
/// The identity is log(sum(exp(x))) = m + log(sum(exp(x - m))) for any m. With the maximum as m, no
/// exponential is larger than 1, and at least one equals 1.
pub(crate) fn logsumexp(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::LogSumExp(r) = *op else { return Err(misplaced(op)) };
    let x = value(op, ins, 0)?;
    let ty = e.ty(x);
    let x = e.cast(x, wide(ty.dtype))?;
    let y = if count(&ty.shape, r.axes) == 0 {
        let sum = e.sum(x, r.axes, r.keep)?; // Of no elements: 0, whose logarithm is -inf.
        e.log(sum)?
    } else {
        let max = e.max(x, r.axes, Keep::Yes)?;
        let size = e.abs(max)?;
        let infinite = e.eq(size, f64::INFINITY)?;
        let shift = e.select(infinite, 0, max)?;
        let shifted = e.sub(x, shift)?;
        let exp = e.exp(shifted)?;
        let sum = e.sum(exp, r.axes, Keep::Yes)?;
        let log = e.log(sum)?;
        let y = e.add(log, shift)?;
        squeeze(e, y, &ty.shape, r)?
    };
    e.cast(y, ty.dtype.or_default_float())
}

/// Drops the axes a reduction kept, unless it is to keep them.
pub(super) fn squeeze(e: &mut dyn Emit, y: ValueId, like: &Shape, r: Reduce) -> Emitted {
    if r.keep == Keep::Yes {
        return Ok(y);
    }
    let dims = like.dims().enumerate().filter(|(i, _)| !r.axes.contains(*i)).map(|(_, d)| d);
    e.reshape(y, Shape::collect(dims)?)
}

/// exp(x - y) g.
///
/// This is the softmax of x, computed from the result, so nothing is summed again.
pub(crate) fn logsumexp_grad(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| {
        let shape = cx.e.ty(x).shape;
        let y = cx.e.unreduce(cx.output, shape, cx.op.axes())?;
        let g = cx.e.unreduce(cx.grad, shape, cx.op.axes())?;
        let below = cx.e.sub(x, y)?;
        let share = cx.e.exp(below)?;
        cx.e.mul(share, g)
    })
}

/// x minus its mean, and the count less the correction, both in a wide dtype.
///
/// The count is clamped at 0: a correction above the count gives a division by 0, hence infinity or
/// NaN, as in PyTorch.
fn centered(
    e: &mut dyn Emit,
    x: ValueId,
    axes: AxisSet,
    correction: Operand,
) -> Result<(ValueId, ValueId), OpError> {
    let ty = e.ty(x);
    let dtype = wide(ty.dtype);
    let x = e.cast(x, dtype)?;
    let mean = e.mean(x, axes, Keep::Yes)?;
    let centered = e.sub(x, mean)?;
    let correction = number(e, correction, dtype)?;
    let left = e.sub(count(&ty.shape, axes) as f64, correction)?;
    Ok((centered, e.maximum(left, 0)?))
}

/// sum((x - mean(x))^2) / (n - correction): two passes, since the difference of mean squares
/// cancels.
pub(crate) fn var(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::Var(r) = *op else { return Err(misplaced(op)) };
    let x = value(op, ins, 0)?;
    let dtype = e.ty(x).dtype;
    let (centered, left) = centered(e, x, r.axes, ins[1])?;
    let square = e.mul(centered, centered)?;
    let sum = e.sum(square, r.axes, r.keep)?;
    let y = e.div(sum, left)?;
    e.cast(y, dtype)
}

/// 2 (x - mean) g / (n - correction): by way of the mean flows nothing, since x - mean sums to 0.
pub(crate) fn var_grad(cx: &mut Vjp<'_>) -> Out {
    let g = one(cx, |cx, x| {
        let (centered, left) = centered(cx.e, x, cx.op.axes(), cx.inputs[1])?;
        let g = cx.e.unreduce(cx.grad, cx.e.ty(x).shape, cx.op.axes())?;
        let double = cx.e.mul(g, 2)?;
        let share = cx.e.div(double, left)?;
        cx.e.mul(centered, share)
    })?;
    Ok(smallvec![g.first().copied().flatten(), None])
}

/// sqrt(sum(x^2)).
pub(crate) fn norm(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::Norm(r) = *op else { return Err(misplaced(op)) };
    let x = value(op, ins, 0)?;
    let dtype = e.ty(x).dtype;
    let x = e.cast(x, wide(dtype))?;
    let square = e.mul(x, x)?;
    let sum = e.sum(square, r.axes, r.keep)?;
    let y = e.sqrt(sum)?;
    e.cast(y, dtype)
}

/// x / y g, 0 where y is 0.
pub(crate) fn norm_grad(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| {
        let shape = cx.e.ty(x).shape;
        let y = cx.e.unreduce(cx.output, shape, cx.op.axes())?;
        let g = cx.e.unreduce(cx.grad, shape, cx.op.axes())?;
        let flat = cx.e.eq(y, 0)?;
        let direction = cx.e.div(x, y)?;
        let product = cx.e.mul(direction, g)?;
        cx.e.select(flat, 0, product)
    })
}

/// A value of this type that counts along one axis and has size 1 on the others.
pub(super) fn ruler(e: &mut dyn Emit, shape: &Shape, axis: usize, dtype: DType) -> Emitted {
    let line = Type::new(dtype, Shape::from_dims(&[shape.dim(axis)])?);
    let counted = e.emit(Op::Iota(line), &[])?;
    along(e, counted, shape, axis)
}

/// A line of values laid along one axis of a shape, with size 1 on the others.
pub(super) fn along(e: &mut dyn Emit, line: ValueId, shape: &Shape, axis: usize) -> Emitted {
    let dim = e.ty(line).shape.dim(0);
    let one = crate::shape::Dim::new(1);
    e.reshape(line, Shape::collect((0..shape.rank()).map(|a| if a == axis { dim } else { one }))?)
}
