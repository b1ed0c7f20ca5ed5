//! Products and running products along axes, part by part, so that their gradients follow from
//! those of products; running extrema; the type rule and the gradient of running sums.

use super::{
    derive::{misplaced, value, wide},
    grad::{Out, one},
    infer::{Result, tensor},
    statistic::{attains, ruler, squeeze},
};
use crate::{
    attr::{Axes, Axis, AxisSet, Keep, Pad, Reduce, Slice},
    dtype::DType,
    emit::{Build, Emit, Emitted},
    grad::Vjp,
    op::{Op, Operand, OperandType},
    shape::{Dim, Shape, Type},
    tape::ValueId,
};

/// The dtype that sums and products of this dtype have.
fn total(dtype: DType) -> DType {
    if dtype.is_float() { dtype } else { DType::I64 }
}

/// The shape of the operand; integers and `bool` give `i64`.
pub(crate) fn infer(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (Op::CumSum(axis) | Op::CumProd(axis)) = op else { return Err(misplaced(op)) };
    let x = tensor(op, ins, 0)?;
    x.shape.axis(op.name(), axis.0.into())?;
    Ok(x.with_dtype(total(x.dtype)))
}

/// The type of the operand.
pub(crate) fn infer_extremum(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (Op::CumMax(axis) | Op::CumMin(axis)) = op else { return Err(misplaced(op)) };
    let x = tensor(op, ins, 0)?;
    x.shape.axis(op.name(), axis.0.into())?;
    Ok(x)
}

/// The same op in the dtype to compute in, if the operand has another: an engine may have a kernel
/// for it.
fn widened(e: &mut dyn Emit, op: &Op, x: ValueId) -> Result<Option<ValueId>> {
    let dtype = e.ty(x).dtype;
    let computed = if dtype.is_float() { wide(dtype) } else { DType::I64 };
    if dtype == computed {
        return Ok(None);
    }
    let x = e.cast(x, computed)?;
    let y = e.emit(*op, &[x.into()])?;
    e.cast(y, total(dtype)).map(Some)
}

/// The product over each axis in turn.
pub(crate) fn prod(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::Prod(r) = *op else { return Err(misplaced(op)) };
    let x = value(op, ins, 0)?;
    if let Some(y) = widened(e, op, x)? {
        return Ok(y);
    }
    let shape = e.ty(x).shape;
    let y = r.axes.iter().try_fold(x, |y, axis| divided(e, y, axis))?;
    squeeze(e, y, &shape, r)
}

/// The most parts that are multiplied at once: in one pass over memory, and in so few instructions
/// that a kernel takes them all.
const PARTS: u64 = 8;

/// The product along one axis, which stays with size 1: parts of it times each other, until one
/// element is left.
///
/// A chain would have n instructions for n elements; this has 8 log8(n), and their gradients are
/// those of products. A slice is a view, so nothing is moved.
fn divided(e: &mut dyn Emit, mut x: ValueId, axis: usize) -> Emitted {
    let mut n = e.ty(x).shape.sizes()[axis] as u64;
    if n == 0 {
        let kept = Reduce { axes: AxisSet::from_iter([axis]), keep: Keep::Yes };
        let none = e.sum(x, kept.axes, kept.keep)?;
        return e.full(e.ty(none), 1);
    }
    let part = |start, stop| Slice { axis: axis as u8, start, stop, step: 1 };
    while n > 1 {
        // If the size is no multiple of a number of parts, an end is left over.
        let n_parts = (2..=PARTS).rev().find(|parts| n.is_multiple_of(*parts));
        let n_parts = n_parts.unwrap_or(PARTS.min(n));
        let size = n / n_parts;
        let mut product = e.slice(x, part(0, size))?;
        for i in 1..n_parts {
            let next = e.slice(x, part(i * size, (i + 1) * size))?;
            product = e.mul(product, next)?;
        }
        let left = n - n_parts * size;
        x = if left == 0 {
            product
        } else {
            let end = e.slice(x, part(n - left, n))?;
            e.emit(Op::Cat(Axis(axis as u8)), &[product.into(), end.into()])?
        };
        n = size + left;
    }
    Ok(x)
}

/// The products of pairs have running products, which every other element has; what stands before a
/// pair times its first element is the rest (Ladner and Fischer 1980).
pub(crate) fn cumprod(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::CumProd(axis) = *op else { return Err(misplaced(op)) };
    let x = value(op, ins, 0)?;
    match widened(e, op, x)? {
        Some(y) => Ok(y),
        None => running(e, x, axis),
    }
}

/// Running products along an axis, by halves: the depth is 2 log2(n) and the work about 2 n
/// products.
fn running(e: &mut dyn Emit, x: ValueId, axis: Axis) -> Emitted {
    let shape = e.ty(x).shape;
    let n = shape.sizes()[usize::from(axis.0)] as u64;
    if n < 2 {
        return Ok(x);
    }
    let part = |start, stop, step| Slice { axis: axis.0, start, stop, step };
    let (first, second) = (e.slice(x, part(0, n, 2))?, e.slice(x, part(1, n, 2))?);
    let whole = e.slice(first, part(0, n / 2, 1))?;
    let pairs = e.mul(whole, second)?;
    let ends = running(e, pairs, axis)?;
    // Before the first element stands nothing, before each other one the end of a pair.
    let before = e.slice(ends, part(0, n.div_ceil(2) - 1, 1))?;
    let pad = Pad { axis: axis.0, lo: 1, hi: 0, interior: 0 };
    let before = e.emit(Op::Pad(pad), &[before.into(), 1.into()])?;
    let starts = e.mul(first, before)?;
    // An odd one left over has no partner, but a place for one.
    let ends = match n % 2 {
        0 => ends,
        _ => e.emit(Op::Pad(Pad { lo: 0, hi: 1, ..pad }), &[ends.into(), 1.into()])?,
    };
    let y = interleaved(e, starts, ends, axis)?;
    e.slice(y, part(0, n, 1)).and_then(|y| e.reshape(y, shape))
}

/// One of the first, one of the second, and so on.
fn interleaved(e: &mut dyn Emit, x: ValueId, y: ValueId, axis: Axis) -> Emitted {
    let (shape, at) = (e.ty(x).shape, usize::from(axis.0));
    let n = shape.sizes()[at];
    // Beside what follows the axis, not behind it, so that no rank is too large for it.
    let inner: usize = shape.sizes()[at + 1..].iter().product();
    let outer: usize = shape.sizes()[..at].iter().product();
    let apart = Shape::new(&[outer, n, 1, inner])?;
    let (x, y) = (e.reshape(x, apart)?, e.reshape(y, apart)?);
    let both = e.emit(Op::Cat(Axis(2)), &[x.into(), y.into()])?;
    let double = shape.dims().enumerate().map(|(a, d)| if a == at { Dim::new(2 * n) } else { d });
    e.reshape(both, Shape::collect(double)?)
}

/// Each element, or one before it that it does not replace, by distances that double (Hillis and
/// Steele 1986).
pub(crate) fn extremum(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let (axis, is_no_less) = match *op {
        Op::CumMax(axis) => (axis, Op::Ge),
        Op::CumMin(axis) => (axis, Op::Le),
        _ => return Err(misplaced(op)),
    };
    let mut y = value(op, ins, 0)?;
    let n = e.ty(y).shape.sizes()[usize::from(axis.0)] as u64;
    let mut apart = 1;
    while apart < n {
        let mut part = |start, stop| e.slice(y, Slice { axis: axis.0, start, stop, step: 1 });
        let (first, early, late) = (part(0, apart)?, part(0, n - apart)?, part(apart, n)?);
        // NaN replaces all, and no number replaces it.
        let replaces = e.emit(is_no_less, &[late.into(), early.into()])?;
        let is_nan = e.emit(Op::Ne, &[late.into(), late.into()])?;
        let replaces = e.logical_or(replaces, is_nan)?;
        let later = e.select(replaces, late, early)?;
        y = e.emit(Op::Cat(axis), &[first.into(), later.into()])?;
        apart *= 2;
    }
    Ok(y)
}

/// The gradient goes to the place of each extremum: the last place up to there whose element is the
/// extremum of its own place.
pub(crate) fn extremum_grad(cx: &mut Vjp<'_>) -> Out {
    let (Op::CumMax(axis) | Op::CumMin(axis)) = *cx.op else { return Err(misplaced(cx.op)) };
    one(cx, |cx, x| {
        let (ty, n) = (cx.e.ty(x), usize::from(axis.0));
        let found = attains(cx.e, x, cx.output)?;
        let positions = ruler(cx.e, &ty.shape, n, DType::I64)?;
        let found = cx.e.select(found, positions, 0_i64)?;
        let places = cx.e.emit(Op::CumMax(axis), &[found.into()])?;
        let none = cx.e.full(ty, 0)?;
        cx.e.emit(Op::ScatterAdd(axis), &[none.into(), places.into(), cx.grad.into()])
    })
}

/// The sums of g from the end.
///
/// Element i is a summand of every later sum, so its gradient is g_i + g_(i+1) + .. to the end.
pub(crate) fn cumsum_grad(cx: &mut Vjp<'_>) -> Out {
    let Op::CumSum(axis) = *cx.op else { return Err(misplaced(cx.op)) };
    let turn = Op::Flip(Axes(AxisSet::from_iter([usize::from(axis.0)])));
    one(cx, |cx, _| {
        let turned = cx.e.emit(turn, &[cx.grad.into()])?;
        let sums = cx.e.emit(*cx.op, &[turned.into()])?;
        cx.e.emit(turn, &[sums.into()])
    })
}
