//! Products and running sums along axes, by logarithmically many steps.

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
    shape::Type,
    tape::ValueId,
};

/// The dtype that sums and products of this dtype have.
fn total(dtype: DType) -> DType {
    if dtype.is_float() { dtype } else { DType::I64 }
}

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

pub(crate) fn prod(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::Prod(r) = *op else { return Err(misplaced(op)) };
    let x = value(op, ins, 0)?;
    let ty = e.ty(x);
    let mut y = computed(e, x)?;
    for axis in r.axes.iter() {
        y = halved(e, y, axis)?;
    }
    let y = squeeze(e, y, &ty.shape, r)?;
    e.cast(y, total(ty.dtype))
}

/// The product along one axis, which stays with size 1: the front half times the back half, until one is left.
fn halved(e: &mut dyn Emit, mut x: ValueId, axis: usize) -> Emitted {
    let mut n = e.ty(x).shape.sizes()[axis] as u64;
    if n == 0 {
        let kept = Reduce { axes: AxisSet::from_iter([axis]), keep: Keep::Yes };
        let none = e.sum(x, kept.axes, kept.keep)?;
        return e.full(e.ty(none), 1);
    }
    let part = |start, stop| Slice { axis: axis as u8, start, stop, step: 1 };
    while n > 1 {
        let half = n / 2;
        let (front, back) = (e.slice(x, part(0, half))?, e.slice(x, part(half, 2 * half))?);
        let product = e.mul(front, back)?;
        x = if n.is_multiple_of(2) {
            product
        } else {
            let odd = e.slice(x, part(n - 1, n))?;
            e.emit(Op::Cat(Axis(axis as u8)), &[product.into(), odd.into()])?
        };
        n = half + n % 2;
    }
    Ok(x)
}

pub(crate) fn cumsum(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::CumSum(axis) = *op else { return Err(misplaced(op)) };
    running(e, value(op, ins, 0)?, axis, 0, |e, x, y| e.add(x, y))
}

pub(crate) fn cumprod(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::CumProd(axis) = *op else { return Err(misplaced(op)) };
    running(e, value(op, ins, 0)?, axis, 1, |e, x, y| e.mul(x, y))
}

/// Each step joins every element with the one 1, 2, 4, .. before it, which stands for as many.
fn running(
    e: &mut dyn Emit,
    x: ValueId,
    axis: Axis,
    nothing: i64,
    join: impl Fn(&mut dyn Emit, ValueId, ValueId) -> Emitted,
) -> Emitted {
    let ty = e.ty(x);
    let n = ty.shape.sizes()[usize::from(axis.0)] as u64;
    let mut y = computed(e, x)?;
    let mut shift = 1;
    while shift < n {
        let before = e.slice(y, Slice { axis: axis.0, start: 0, stop: n - shift, step: 1 })?;
        let pad = Pad { axis: axis.0, lo: shift, hi: 0, interior: 0 };
        let before = e.emit(Op::Pad(pad), &[before.into(), nothing.into()])?;
        y = join(e, y, before)?;
        shift *= 2;
    }
    e.cast(y, total(ty.dtype))
}

/// The sums of g from the end.
pub(crate) fn cumsum_grad(cx: &mut Vjp<'_>) -> Out {
    let Op::CumSum(axis) = *cx.op else { return Err(misplaced(cx.op)) };
    let turn = Op::Flip(Axes(AxisSet::from_iter([usize::from(axis.0)])));
    one(cx, |cx, _| {
        let turned = cx.e.emit(turn, &[cx.grad.into()])?;
        let sums = cx.e.emit(*cx.op, &[turned.into()])?;
        cx.e.emit(turn, &[sums.into()])
    })
}
