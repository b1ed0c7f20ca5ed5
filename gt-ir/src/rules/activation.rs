//! Functions of single elements: signs, logarithms and powers to other bases, activations,
//! clamping, dropout.
//!
//! Halves are computed in f32 and rounded once, as PyTorch does. What is not smooth says which side
//! its gradient takes.

use std::f64::consts::{LN_2, LN_10};

use smallvec::smallvec;

use super::{
    derive::{float, floats, misplaced, number, value},
    grad::{Out, one, operand},
    infer::{Result, arithmetic, literal, tensor},
};
use crate::{
    dtype::DType,
    emit::{Build, Emit, Emitted},
    error::OpError,
    grad::Vjp,
    op::{Op, Operand, OperandType},
    shape::Type,
};

/// A float function of a tensor and a parameter, which is a literal or broadcasts.
pub(crate) fn infer(op: &Op, ins: &[OperandType]) -> Result<Type> {
    tensor(op, ins, 0)?;
    super::infer::float(op, ins)
}

/// `x, low, high` to the promoted dtype and the broadcast shape.
pub(crate) fn infer_clamp(op: &Op, ins: &[OperandType]) -> Result<Type> {
    tensor(op, ins, 0)?;
    arithmetic(op, ins)
}

/// `x, p, seed` to the type of x, which is a float; p and seed are numbers.
pub(crate) fn infer_dropout(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let x = tensor(op, ins, 0)?;
    literal(op, ins, 1)?;
    literal(op, ins, 2)?;
    if !x.dtype.is_float() {
        return Err(
            OpError::new(format!("dropout: takes floats, but got {x}")).hint("cast to f32 first")
        );
    }
    Ok(x)
}

/// (x > 0) - (x < 0), which is 0 for NaN.
pub(crate) fn sign(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let x = value(op, ins, 0)?;
    let dtype = e.ty(x).dtype;
    let (positive, negative) = (e.gt(x, 0)?, e.lt(x, 0)?);
    let (positive, negative) = (e.cast(positive, dtype)?, e.cast(negative, dtype)?);
    e.sub(positive, negative)
}

/// log(x) / log(2).
pub(crate) fn log2(e: &mut dyn Emit, _: &Op, ins: &[Operand]) -> Emitted {
    log_to(e, ins, LN_2)
}

/// log(x) / log(10).
pub(crate) fn log10(e: &mut dyn Emit, _: &Op, ins: &[Operand]) -> Emitted {
    log_to(e, ins, LN_10)
}

/// Divided, not multiplied by the inverse: powers of the base then come out whole more often.
fn log_to(e: &mut dyn Emit, ins: &[Operand], ln_base: f64) -> Emitted {
    let (x, dtype) = float(e, ins[0])?;
    let log = e.log(x)?;
    let y = e.div(log, ln_base)?;
    e.cast(y, dtype)
}

/// x sigmoid(x).
pub(crate) fn silu(e: &mut dyn Emit, _: &Op, ins: &[Operand]) -> Emitted {
    let (x, dtype) = float(e, ins[0])?;
    let gate = e.sigmoid(x)?;
    let y = e.mul(x, gate)?;
    e.cast(y, dtype)
}

/// max(x, 0) + log(1 + exp(-|x|)).
pub(crate) fn softplus(e: &mut dyn Emit, _: &Op, ins: &[Operand]) -> Emitted {
    let (x, dtype) = float(e, ins[0])?;
    let size = e.abs(x)?;
    let minus = e.neg(size)?;
    let exp = e.exp(minus)?;
    let log = e.emit(Op::Log1p, &[exp.into()])?;
    let above = e.maximum(x, 0)?;
    let y = e.add(above, log)?;
    e.cast(y, dtype)
}

/// g sigmoid(x).
pub(crate) fn softplus_grad(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| {
        let slope = cx.e.sigmoid(x)?;
        cx.e.mul(cx.grad, slope)
    })
}

/// x where x > 0, else x times the slope.
pub(crate) fn leaky_relu(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let (ins, dtype) = floats(e, op, ins)?;
    let positive = e.gt(ins[0], 0)?;
    let scaled = e.mul(ins[0], ins[1])?;
    let y = e.select(positive, ins[0], scaled)?;
    e.cast(y, dtype)
}

/// The exponential sees no positive x, which could overflow it.
pub(crate) fn elu(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let (ins, dtype) = floats(e, op, ins)?;
    let positive = e.gt(ins[0], 0)?;
    let below = e.select(positive, 0, ins[0])?;
    let less = e.emit(Op::Expm1, &[below.into()])?;
    let scaled = e.mul(less, ins[1])?;
    let y = e.select(positive, ins[0], scaled)?;
    e.cast(y, dtype)
}

/// min(max(x, low), high).
pub(crate) fn clamp(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let (ins, dtype) = floats(e, op, ins)?;
    let raised = e.maximum(ins[0], ins[1])?;
    let y = e.minimum(raised, ins[2])?;
    e.cast(y, dtype)
}

/// By x: g from bound to bound; by a bound: g where it counts, of two in the wrong order the upper
/// one.
pub(crate) fn clamp_grad(cx: &mut Vjp<'_>) -> Out {
    let [x, low, high] = *cx.inputs else { return Err(misplaced(cx.op)) };
    let gx = operand(cx, 0, |cx, _| {
        let (above, below) = (cx.e.ge(x, low)?, cx.e.ge(high, x)?);
        let inside = cx.e.logical_and(above, below)?;
        cx.e.select(inside, cx.grad, 0)
    })?;
    let g_low = operand(cx, 1, |cx, _| {
        let (raised, ordered) = (cx.e.gt(low, x)?, cx.e.gt(high, low)?);
        let counts = cx.e.logical_and(raised, ordered)?;
        cx.e.select(counts, cx.grad, 0)
    })?;
    let g_high = operand(cx, 2, |cx, _| {
        let (cut, crossed) = (cx.e.gt(x, high)?, cx.e.gt(low, high)?);
        let counts = cx.e.logical_or(cut, crossed)?;
        cx.e.select(counts, cx.grad, 0)
    })?;
    Ok(smallvec![gx, g_low, g_high])
}

/// x / (1 - p) where a uniform number is at least p, else 0. The seed is an operand, so the
/// gradient draws the same numbers again.
pub(crate) fn dropout(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let x = value(op, ins, 0)?;
    let ty = e.ty(x);
    let (x, dtype) = float(e, ins[0])?;
    let wide = e.ty(x).dtype;
    let p = number(e, ins[1], wide)?;
    let noise = e.emit(Op::Rand(ty.with_dtype(DType::F32)), &ins[2..3])?;
    let dropped = e.lt(noise, p)?;
    let kept = e.sub(1, p)?;
    let scaled = e.div(x, kept)?;
    let y = e.select(dropped, 0, scaled)?;
    e.cast(y, dtype)
}

/// The gradient is dropped where x was: the same seed gives the same mask, so that none is kept.
pub(crate) fn dropout_grad(cx: &mut Vjp<'_>) -> Out {
    if cx.inputs.len() != 3 {
        return Err(misplaced(cx.op));
    }
    let g = one(cx, |cx, _| cx.e.emit(Op::Dropout, &[cx.grad.into(), cx.inputs[1], cx.inputs[2]]))?;
    Ok(smallvec![g.first().copied().flatten(), None, None])
}
