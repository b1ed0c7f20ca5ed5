//! Gradients of pointwise operators of several operands, and of the cast. Where one is a literal,
//! it has none.

use smallvec::smallvec;

use super::{Out, one, operand, two};
use crate::{
    emit::{Build, Emitted},
    grad::Vjp,
    op::{Op, Operand},
    tape::ValueId,
};

/// g for both operands.
pub(crate) fn add(cx: &mut Vjp<'_>) -> Out {
    two(cx, |cx, _| Ok(cx.grad), |cx, _| Ok(cx.grad))
}

/// g by x, -g by y.
pub(crate) fn sub(cx: &mut Vjp<'_>) -> Out {
    two(cx, |cx, _| Ok(cx.grad), |cx, _| cx.e.neg(cx.grad))
}

/// g y by x, g x by y.
pub(crate) fn mul(cx: &mut Vjp<'_>) -> Out {
    two(cx, |cx, _| cx.e.mul(cx.grad, cx.inputs[1]), |cx, _| cx.e.mul(cx.grad, cx.inputs[0]))
}

/// g / y by x, -g (x / y) / y by y: the result is at hand, x / y^2 would be rounded twice more.
pub(crate) fn div(cx: &mut Vjp<'_>) -> Out {
    two(
        cx,
        |cx, _| cx.e.div(cx.grad, cx.inputs[1]),
        |cx, _| {
            let ratio = cx.e.div(cx.output, cx.inputs[1])?;
            let minus = cx.e.neg(ratio)?;
            cx.e.mul(cx.grad, minus)
        },
    )
}

/// By the base: g y x^(y-1), 0 where y is 0. By the exponent: g x^y log x, 0 where x is 0 and y is
/// not negative.
pub(crate) fn pow(cx: &mut Vjp<'_>) -> Out {
    two(cx, pow_by_base, pow_by_exponent)
}

/// A literal exponent of 0 gives zeros: y x^(y-1) would be 0 times infinity at x = 0.
fn pow_by_base(cx: &mut Vjp<'_>, x: ValueId) -> Emitted {
    let y = cx.inputs[1];
    if let Operand::Scalar(s) = y {
        if s.as_f64() == 0.0 {
            let ty = cx.e.ty(x);
            return cx.e.full(ty, 0);
        }
        let power = cx.e.pow(x, s.as_f64() - 1.0)?;
        let slope = cx.e.mul(power, s.as_f64())?;
        return cx.e.mul(cx.grad, slope);
    }
    let y = cx.tensor(1)?;
    let less = cx.e.sub(y, 1)?;
    let power = cx.e.pow(x, less)?;
    let slope = cx.e.mul(power, y)?;
    let product = cx.e.mul(cx.grad, slope)?;
    let flat = cx.e.eq(y, 0)?;
    cx.e.select(flat, 0, product)
}

/// x^y log x, where x^y is the result. The logarithm of a base 0 is minus infinity, and 0 times it
/// would be NaN, so these elements are replaced.
fn pow_by_exponent(cx: &mut Vjp<'_>, y: ValueId) -> Emitted {
    let (log, zero_base) = match cx.inputs[0] {
        Operand::Value(x) => {
            // In the result's dtype: the base may be a narrower float, or an integer.
            let wide = cx.e.cast(x, cx.e.ty(cx.output).dtype)?;
            (Operand::from(cx.e.log(wide)?), Some(cx.e.eq(x, 0)?))
        }
        Operand::Scalar(s) if s.as_f64() == 0.0 => {
            let ty = cx.e.ty(y);
            return cx.e.full(ty, 0);
        }
        Operand::Scalar(s) => (Operand::from(s.as_f64().ln()), None),
    };
    let slope = cx.e.mul(cx.output, log)?;
    let product = cx.e.mul(cx.grad, slope)?;
    let Some(zero_base) = zero_base else { return Ok(product) };
    let positive = cx.e.ge(y, 0)?;
    let flat = cx.e.logical_and(zero_base, positive)?;
    cx.e.select(flat, 0, product)
}

/// `maximum` and `minimum`: none to the side that is beaten, half to each where both are equal;
/// beside NaN neither is the larger.
pub(crate) fn extremum(cx: &mut Vjp<'_>) -> Out {
    fn side(cx: &mut Vjp<'_>, mine: usize) -> Emitted {
        let (x, y) = (cx.inputs[mine], cx.inputs[1 - mine]);
        let (less, more) = if matches!(cx.op, Op::Maximum) { (x, y) } else { (y, x) };
        let (beaten, tied) = (cx.e.lt(less, more)?, cx.e.eq(x, y)?);
        let half = cx.e.mul(cx.grad, 0.5)?;
        let share = cx.e.select(tied, half, cx.grad)?;
        cx.e.select(beaten, 0, share)
    }
    two(cx, |cx, _| side(cx, 0), |cx, _| side(cx, 1))
}

/// g where the condition chose the operand, 0 elsewhere; the condition has no gradient.
pub(crate) fn select(cx: &mut Vjp<'_>) -> Out {
    let c = cx.tensor(0)?;
    let x = operand(cx, 1, |cx, _| cx.e.select(c, cx.grad, 0))?;
    let y = operand(cx, 2, |cx, _| cx.e.select(c, 0, cx.grad))?;
    Ok(smallvec![None, x, y])
}

/// g cast back to the dtype of the operand; none for integers, which have no gradients.
pub(crate) fn cast(cx: &mut Vjp<'_>) -> Out {
    if !cx.e.ty(cx.output).dtype.is_float() {
        return Ok(smallvec![None]);
    }
    one(cx, |cx, _| Ok(cx.grad))
}
