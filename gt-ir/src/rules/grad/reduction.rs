//! Gradients of what folds axes away: the result's is spread back over them. And of what normalizes
//! along them.

use smallvec::smallvec;

use super::{Out, one, operand, wide, wide_ends};
use crate::{
    attr::{AxisSet, Keep},
    emit::{Build, Emitted},
    grad::Vjp,
    op::Op,
    shape::Type,
    tape::ValueId,
};

/// A reduced value spread back over the operand's shape.
fn spread(cx: &mut Vjp<'_>, v: ValueId, over: Type) -> Emitted {
    let kept = cx.e.unreduce(v, over.shape, cx.op.axes())?;
    cx.e.expand(kept, over.shape)
}

/// Every element that was summed gets g.
pub(crate) fn sum(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| spread(cx, cx.grad, cx.e.ty(x)))
}

/// Every element gets g / n, n the number of elements folded into one.
pub(crate) fn mean(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| {
        let ty = cx.e.ty(x);
        let n: usize = cx.op.axes().iter().map(|a| ty.shape.sizes()[a]).product();
        let share = cx.e.div(cx.grad, n as f64)?;
        spread(cx, share, ty)
    })
}

/// `max` and `min` over axes: the gradient is shared equally among the elements that attain the
/// extremum.
pub(crate) fn extremum_over(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| {
        let ty = cx.e.ty(x);
        let y = cx.e.unreduce(cx.output, ty.shape, cx.op.axes())?;
        let g = cx.e.unreduce(cx.grad, ty.shape, cx.op.axes())?;
        let hit = cx.e.eq(x, y)?;
        let mask = cx.e.cast(hit, ty.dtype)?;
        let count = cx.e.sum(mask, cx.op.axes(), Keep::Yes)?;
        let share = cx.e.div(g, count)?;
        cx.e.mul(mask, share)
    })
}

/// y (g - sum(g y)).
///
/// With the Jacobian dy_i / dx_j = y_i (1 - y_j) for i = j and -y_i y_j elsewhere, which is never
/// built.
pub(crate) fn softmax(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, _| {
        let (g, y) = wide_ends(cx)?;
        let weighted = cx.e.mul(g, y)?;
        let total = cx.e.sum(weighted, cx.op.axes(), Keep::Yes)?;
        let centered = cx.e.sub(g, total)?;
        cx.e.mul(y, centered)
    })
}

/// g - exp(y) sum(g).
pub(crate) fn log_softmax(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, _| {
        let (g, y) = wide_ends(cx)?;
        let total = cx.e.sum(g, cx.op.axes(), Keep::Yes)?;
        let soft = cx.e.exp(y)?;
        let share = cx.e.mul(soft, total)?;
        cx.e.sub(g, share)
    })
}

/// With n the normalized x: by weight g n, by bias g, by x (h - mean(h) - n mean(h n)) / deviation
/// where h = g weight.
pub(crate) fn layer_norm(cx: &mut Vjp<'_>) -> Out {
    let Op::LayerNorm(dims) = *cx.op else { return Ok(smallvec![None; 4]) };
    let (x, w) = (cx.tensor(0)?, cx.tensor(1)?);
    let rank = cx.e.ty(x).shape.rank();
    let axes: AxisSet = (rank - dims.0 as usize..rank).collect();
    let (normal, inverse) = crate::rules::derive::normalize(cx.e, x, axes, cx.inputs[3])?;
    let gx = operand(cx, 0, |cx, _| {
        let (g, w) = (wide(cx, cx.grad)?, wide(cx, w)?);
        let h = cx.e.mul(g, w)?;
        let h_mean = cx.e.mean(h, axes, Keep::Yes)?;
        let hn = cx.e.mul(h, normal)?;
        let hn_mean = cx.e.mean(hn, axes, Keep::Yes)?;
        let along = cx.e.mul(normal, hn_mean)?;
        let centered = cx.e.sub(h, h_mean)?;
        let rest = cx.e.sub(centered, along)?;
        cx.e.mul(rest, inverse)
    })?;
    let gw = operand(cx, 1, |cx, _| {
        let g = wide(cx, cx.grad)?;
        cx.e.mul(g, normal)
    })?;
    let gb = operand(cx, 2, |cx, _| Ok(cx.grad))?;
    Ok(smallvec![gx, gw, gb, None])
}
