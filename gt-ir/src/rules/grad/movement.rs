//! Gradients of what moves elements: the way back.

use smallvec::smallvec;

use super::{Out, one, operand};
use crate::{
    attr::{Pad, Slice},
    emit::Build,
    grad::{Grads, Vjp},
    op::Op,
};

/// g under the shape of the operand.
pub(crate) fn reshape(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| cx.e.reshape(cx.grad, cx.e.ty(x).shape))
}

/// g with its axes in the inverse order.
pub(crate) fn permute(cx: &mut Vjp<'_>) -> Out {
    let Op::Permute(perm) = *cx.op else { return Ok(smallvec![None]) };
    one(cx, |cx, _| cx.e.permute(cx.grad, perm.inverse()))
}

/// g with the same two axes exchanged again.
pub(crate) fn transpose(cx: &mut Vjp<'_>) -> Out {
    let op = *cx.op;
    one(cx, |cx, _| cx.e.emit(op, &[cx.grad.into()]))
}

/// `sum_to`, which every operand's gradient passes through, is all there is to it.
pub(crate) fn expand(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, _| Ok(cx.grad))
}

/// g padded to the size of the operand.
pub(crate) fn slice(cx: &mut Vjp<'_>) -> Out {
    let Op::Slice(s) = *cx.op else { return Ok(smallvec![None]) };
    one(cx, |cx, x| {
        let size = cx.e.ty(x).shape.sizes()[s.axis as usize] as u64;
        cx.e.pad(cx.grad, padding(&s, size))
    })
}

/// What was left out of an axis of this size: `start` zeros in front, `step - 1` between, the rest
/// behind. The gradient of an empty slice is zeros alone.
pub(crate) fn padding(s: &Slice, size: u64) -> Pad {
    match s.len() {
        0 => Pad { axis: s.axis, lo: 0, hi: size, interior: 0 },
        n => Pad {
            axis: s.axis,
            lo: s.start,
            hi: size - (s.start + (n - 1) * s.step + 1),
            interior: s.step - 1,
        },
    }
}

/// The elements of g that were not padding: a slice with the padding's interior as its step.
pub(crate) fn pad(cx: &mut Vjp<'_>) -> Out {
    let Op::Pad(p) = *cx.op else { return Ok(smallvec![None, None]) };
    let g = operand(cx, 0, |cx, x| {
        let (axis, size) = (p.axis, cx.e.ty(x).shape.sizes()[p.axis as usize] as u64);
        let stop = if size == 0 { p.lo } else { p.lo + (size - 1) * (p.interior + 1) + 1 };
        cx.e.slice(cx.grad, Slice { axis, start: p.lo, stop, step: p.interior + 1 })
    })?;
    Ok(smallvec![g, None])
}

/// For each operand its own range of g along the axis.
pub(crate) fn cat(cx: &mut Vjp<'_>) -> Out {
    let Op::Cat(axis) = *cx.op else { return Ok(smallvec![None]) };
    let mut start = 0;
    let mut grads = Grads::new();
    for i in 0..cx.inputs.len() {
        let stop = start + cx.ty(i)?.shape.sizes()[axis.0 as usize] as u64;
        grads.push(operand(cx, i, |cx, _| {
            cx.e.slice(cx.grad, Slice { axis: axis.0, start, stop, step: 1 })
        })?);
        start = stop;
    }
    Ok(grads)
}
