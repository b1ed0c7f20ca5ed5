//! Products and running products along axes, part by part, so that their gradients follow from
//! those of products; the type rule and the gradient of running sums.

use super::{
    derive::{misplaced, value, wide},
    grad::{Out, one},
    infer::{Result, tensor},
    statistic::squeeze,
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

/// The operand in the dtype to compute in.
fn computed(e: &mut dyn Emit, x: ValueId) -> Emitted {
    let dtype = e.ty(x).dtype;
    e.cast(x, if dtype.is_float() { wide(dtype) } else { DType::I64 })
}

/// The product over each axis in turn.
pub(crate) fn prod(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::Prod(r) = *op else { return Err(misplaced(op)) };
    let x = value(op, ins, 0)?;
    let ty = e.ty(x);
    let mut y = computed(e, x)?;
    for axis in r.axes.iter() {
        y = divided(e, y, axis)?;
    }
    let y = squeeze(e, y, &ty.shape, r)?;
    e.cast(y, total(ty.dtype))
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
    let dtype = total(e.ty(x).dtype);
    let x = computed(e, x)?;
    let y = running(e, x, axis)?;
    e.cast(y, dtype)
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
