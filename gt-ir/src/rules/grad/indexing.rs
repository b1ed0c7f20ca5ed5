//! Gradients of what picks elements by index, and of what adds into them: each is the other's.

use smallvec::smallvec;

use super::{Out, operand};
use crate::{emit::Build, grad::Vjp, op::Op};

/// g added into zeros at the indices: an element picked twice gets both gradients.
pub(crate) fn gather(cx: &mut Vjp<'_>) -> Out {
    let Op::Gather(axis) = *cx.op else { return Ok(smallvec![None, None]) };
    let g = operand(cx, 0, |cx, x| {
        let zeros = cx.e.full(cx.e.ty(x), 0)?;
        cx.e.emit(Op::ScatterAdd(axis), &[zeros.into(), cx.inputs[1], cx.grad.into()])
    })?;
    Ok(smallvec![g, None])
}

/// By the base g itself; by the source the elements of g at the indices.
pub(crate) fn scatter_add(cx: &mut Vjp<'_>) -> Out {
    let Op::ScatterAdd(axis) = *cx.op else { return Ok(smallvec![None; 3]) };
    let base = operand(cx, 0, |cx, _| Ok(cx.grad))?;
    let src = operand(cx, 2, |cx, _| cx.e.gather(cx.grad, axis, cx.inputs[1]))?;
    Ok(smallvec![base, None, src])
}

/// The slices of g added into zeros at the indices.
pub(crate) fn index_select(cx: &mut Vjp<'_>) -> Out {
    let Op::IndexSelect(axis) = *cx.op else { return Ok(smallvec![None, None]) };
    let g = operand(cx, 0, |cx, x| {
        let zeros = cx.e.full(cx.e.ty(x), 0)?;
        cx.e.emit(Op::IndexAdd(axis), &[zeros.into(), cx.inputs[1], cx.grad.into()])
    })?;
    Ok(smallvec![g, None])
}

/// By the base g itself; by the source the slices of g at the indices.
pub(crate) fn index_add(cx: &mut Vjp<'_>) -> Out {
    let Op::IndexAdd(axis) = *cx.op else { return Ok(smallvec![None; 3]) };
    let base = operand(cx, 0, |cx, _| Ok(cx.grad))?;
    let src =
        operand(cx, 2, |cx, _| cx.e.emit(Op::IndexSelect(axis), &[cx.grad.into(), cx.inputs[1]]))?;
    Ok(smallvec![base, None, src])
}
