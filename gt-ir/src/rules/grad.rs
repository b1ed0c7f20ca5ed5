//! Gradient rules, one for each differentiable row of the op table: given `g`, the gradient of the
//! result, emit those of the operands.
//!
//! Rules use the result where it saves recomputation, sum over broadcast axes, and return gradients
//! of the operands' own types. Here is what they share; the rules stand by kind of op, and the op
//! table reaches all of them through here: `pointwise` (of one operand), `operators` (of several),
//! `reduction`, `product`, `movement`, `indexing`.

mod indexing;
mod movement;
mod operators;
mod pointwise;
mod product;
mod reduction;

use smallvec::smallvec;

pub(crate) use {indexing::*, movement::*, operators::*, pointwise::*, product::*, reduction::*};

use crate::{
    emit::{Build, Emitted},
    error::OpError,
    grad::{Grads, Vjp},
    tape::ValueId,
};

/// The gradients of all operands, in their order; `None` where an operand has none.
pub(super) type Out = Result<Grads, OpError>;

/// One gradient, for the only operand that has one.
pub(super) fn one(cx: &mut Vjp<'_>, f: impl FnOnce(&mut Vjp<'_>, ValueId) -> Emitted) -> Out {
    operand(cx, 0, f).map(|g| smallvec![g])
}

/// Gradient of operand `i` if wanted, summed and cast back to the operand's type.
pub(super) fn operand(
    cx: &mut Vjp<'_>,
    i: usize,
    f: impl FnOnce(&mut Vjp<'_>, ValueId) -> Emitted,
) -> Result<Option<ValueId>, OpError> {
    if !cx.wants(i) {
        return Ok(None);
    }
    let (x, to) = (cx.tensor(i)?, cx.ty(i)?);
    let g = f(cx, x)?;
    cx.e.sum_to(g, to).map(Some)
}

/// The gradients of both operands of a binary op, each computed only if it is wanted.
pub(super) fn two(
    cx: &mut Vjp<'_>,
    f: impl FnOnce(&mut Vjp<'_>, ValueId) -> Emitted,
    g: impl FnOnce(&mut Vjp<'_>, ValueId) -> Emitted,
) -> Out {
    Ok(smallvec![operand(cx, 0, f)?, operand(cx, 1, g)?])
}

/// A narrow float in `f32`: what is composed of several steps is rounded once, as in the op itself.
fn wide(cx: &mut Vjp<'_>, v: ValueId) -> Emitted {
    let dtype = super::derive::wide(cx.e.ty(v).dtype);
    cx.e.cast(v, dtype)
}

/// Gradient and result, both wide.
fn wide_ends(cx: &mut Vjp<'_>) -> Result<(ValueId, ValueId), OpError> {
    Ok((wide(cx, cx.grad)?, wide(cx, cx.output)?))
}
