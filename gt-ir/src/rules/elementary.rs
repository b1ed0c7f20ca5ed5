//! Elementary functions made of others: remainders, logarithm and exponential near 0, arc tangents.
//!
//! They are precise to a few units of the last place where each step is rounded as written; a
//! policy that lets sums be taken in another order may cost `log1p` its precision near 0.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

use super::{
    derive::{float, floats, number, wide},
    grad::{Out, one, two},
};
use crate::{
    dtype::DType,
    emit::{Build, Emit, Emitted},
    grad::Vjp,
    op::{Op, Operand, OperandType},
    tape::ValueId,
};

/// What [`Op::Fmod`] leaves, moved by y where that has the other sign.
pub(crate) fn remainder(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let (ins, dtype) = floats(e, op, ins)?;
    let left = e.emit(Op::Fmod, &ins)?;
    let computed = e.ty(left).dtype;
    let y = tensor(e, ins[1], computed)?;
    let (below, left_below) = (e.lt(y, 0)?, e.lt(left, 0)?);
    let differ = e.emit(Op::LogicalXor, &[below.into(), left_below.into()])?;
    let some = e.emit(Op::Ne, &[left.into(), 0.into()])?;
    let moves = e.logical_and(some, differ)?;
    let moved = e.add(left, y)?;
    let left = e.select(moves, moved, left)?;
    e.cast(left, dtype)
}

/// By x: g; by y: minus the quotient times g.
///
/// These are the derivatives of x - q y for the integer q = floor(x / y), or trunc(x / y) for
/// `fmod`. It is constant between its jumps.
pub(crate) fn remainder_grad(cx: &mut Vjp<'_>) -> Out {
    two(
        cx,
        |cx, _| Ok(cx.grad),
        |cx, _| {
            let quotient = quotient(cx)?;
            let product = cx.e.mul(cx.grad, quotient)?;
            cx.e.neg(product)
        },
    )
}

/// x / y rounded to the integer that the remainder belongs to: what is left of x is a multiple of y
/// but for rounding.
fn quotient(cx: &mut Vjp<'_>) -> Emitted {
    let whole = cx.e.sub(cx.inputs[0], cx.output)?;
    let ratio = cx.e.div(whole, cx.inputs[1])?;
    cx.e.emit(Op::Round, &[ratio.into()])
}

/// With u = 1 + x rounded: log(u) x / (u - 1), whose two errors cancel (Kahan, as told by Higham
/// 2002, section 1.14.1).
///
/// Adding 1 rounds x. The quotient log(u) / (u - 1) has nearly the same error in numerator and
/// denominator, and its product with the unrounded x has none of it. Where u = 1, x is so small
/// that log(1 + x) rounds to x.
pub(crate) fn log1p(e: &mut dyn Emit, _: &Op, ins: &[Operand]) -> Emitted {
    let (x, dtype) = float(e, ins[0])?;
    let u = e.add(x, 1)?;
    let log = e.log(u)?;
    let less = e.sub(u, 1)?;
    let unchanged = e.eq(less, 0)?;
    let ratio = e.div(x, less)?;
    let mended = e.mul(log, ratio)?;
    // Infinity over infinity would be NaN.
    let endless = e.eq(u, f64::INFINITY)?;
    let y = e.select(endless, u, mended)?;
    let y = e.select(unchanged, x, y)?;
    e.cast(y, dtype)
}

/// g / (1 + x).
pub(crate) fn log1p_grad(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| {
        let u = cx.e.add(x, 1)?;
        cx.e.div(cx.grad, u)
    })
}

/// Between -1 and 1 by t = tanh(x / 2): 2 t / (1 - t), where nothing cancels.
///
/// The identity is exp(x) - 1 = 2 tanh(x / 2) / (1 - tanh(x / 2)). For larger |x| the subtraction
/// loses at most one bit, and the plain formula is used.
pub(crate) fn expm1(e: &mut dyn Emit, _: &Op, ins: &[Operand]) -> Emitted {
    let (x, dtype) = float(e, ins[0])?;
    let half = e.mul(x, 0.5)?;
    let t = e.tanh(half)?;
    let (double, rest) = (e.mul(t, 2)?, e.sub(1, t)?);
    let small = e.div(double, rest)?;
    let exp = e.exp(x)?;
    let large = e.sub(exp, 1)?;
    let size = e.abs(x)?;
    let near = e.lt(size, 1)?;
    let y = e.select(near, small, large)?;
    e.cast(y, dtype)
}

/// (y + 1) g.
pub(crate) fn expm1_grad(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, _| {
        let slope = cx.e.add(cx.output, 1)?;
        cx.e.mul(cx.grad, slope)
    })
}

/// Numerator and denominator of (atan(x) / x - 1) / x^2 by powers of x^2, from the highest, for |x|
/// <= 0.66 (Moshier's Cephes library, 1989).
const ATAN_P: [f64; 5] = [
    -0.875_060_860_003_190_4,
    -16.157_537_187_333_65,
    -75.008_557_923_147_05,
    -122.886_668_449_013_62,
    -64.850_219_049_420_25,
];
const ATAN_Q: [f64; 6] = [
    1.0,
    24.858_464_901_423_062,
    165.027_009_831_698_85,
    432.881_060_491_290_27,
    485.390_399_635_913_7,
    194.550_657_148_261_4,
];
/// tan(3 pi / 8): beyond it the arc tangent is pi / 2 less that of the inverse.
const TAN_3_PI_8: f64 = 2.414_213_562_373_095;

/// By the rational approximation of Cephes; see [`arc`].
pub(crate) fn atan(e: &mut dyn Emit, _: &Op, ins: &[Operand]) -> Emitted {
    let (x, dtype) = float(e, ins[0])?;
    let y = arc(e, x)?;
    e.cast(y, dtype)
}

/// The arc tangent of |x|, then with the sign of x.
///
/// Three ranges keep the argument of the approximation below 0.66: up to 0.66 as it is, up to tan(3
/// pi / 8) by atan(a) = pi/4 + atan((a - 1) / (a + 1)), and beyond by atan(a) = pi/2 + atan(-1 /
/// a).
fn arc(e: &mut dyn Emit, x: ValueId) -> Emitted {
    let a = e.abs(x)?;
    let (far, middle) = (e.gt(a, TAN_3_PI_8)?, e.gt(a, 0.66)?);
    let minus = e.div(-1, a)?;
    let (less, more) = (e.sub(a, 1)?, e.add(a, 1)?);
    let turned = e.div(less, more)?;
    let t = e.select(middle, turned, a)?;
    let t = e.select(far, minus, t)?;
    let z = e.mul(t, t)?;
    let (p, q) = (polynomial(e, z, &ATAN_P)?, polynomial(e, z, &ATAN_Q)?);
    let ratio = e.div(p, q)?;
    let ratio = e.mul(ratio, z)?;
    let tail = e.mul(ratio, t)?;
    let near = e.add(tail, t)?;
    let (eighth, quarter) = (e.add(near, FRAC_PI_4)?, e.add(near, FRAC_PI_2)?);
    let y = e.select(middle, eighth, near)?;
    let y = e.select(far, quarter, y)?;
    let negative = e.lt(x, 0)?;
    let minus = e.neg(y)?;
    let y = e.select(negative, minus, y)?;
    // Keeps the sign of a zero.
    let zero = e.eq(x, 0)?;
    e.select(zero, x, y)
}

/// Horner's rule, from the highest power.
fn polynomial(e: &mut dyn Emit, z: ValueId, coefficients: &[f64]) -> Emitted {
    let ty = e.ty(z);
    let Some((&first, rest)) = coefficients.split_first() else { return e.full(ty, 0) };
    let mut y = e.full(ty, first)?;
    for &c in rest {
        let product = e.mul(y, z)?;
        y = e.add(product, c)?;
    }
    Ok(y)
}

/// g / (1 + x^2).
pub(crate) fn atan_grad(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| {
        let square = cx.e.mul(x, x)?;
        let sum = cx.e.add(square, 1)?;
        cx.e.div(cx.grad, sum)
    })
}

/// The arc tangent of |y| / |x|, or pi / 2 less that of the inverse, turned into the quadrant of
/// the point, on which the signs of zeros decide, too.
///
/// The results for zeros and infinities are those of C's `atan2` (C99, annex F.9.1.4): atan2(0, -0)
/// is pi, for example.
pub(crate) fn atan2(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let (ins, dtype) = floats(e, op, ins)?;
    let (y, x) = (tensor(e, ins[0], wide(dtype))?, tensor(e, ins[1], wide(dtype))?);
    let (height, width) = (e.abs(y)?, e.abs(x)?);
    let steep = e.gt(height, width)?;
    let (low, high) = (e.select(steep, width, height)?, e.select(steep, height, width)?);
    let ratio = e.div(low, high)?;
    // Both 0, both infinite: a ratio of 0 and of 1.
    let none = e.eq(high, 0)?;
    let (low_ends, high_ends) = (e.eq(low, f64::INFINITY)?, e.eq(high, f64::INFINITY)?);
    let equal = e.logical_and(low_ends, high_ends)?;
    let ratio = e.select(none, low, ratio)?;
    let ratio = e.select(equal, 1, ratio)?;
    let angle = arc(e, ratio)?;
    let rest = e.sub(FRAC_PI_2, angle)?;
    let angle = e.select(steep, rest, angle)?;
    let behind = is_negative(e, x)?;
    let other = e.sub(PI, angle)?;
    let angle = e.select(behind, other, angle)?;
    let below = is_negative(e, y)?;
    let minus = e.neg(angle)?;
    let angle = e.select(below, minus, angle)?;
    e.cast(angle, dtype)
}

/// Whether x has a minus sign, as the negative zero has.
///
/// A comparison does not see the sign of -0, but 1 / -0 is minus infinity.
fn is_negative(e: &mut dyn Emit, x: ValueId) -> Emitted {
    let inverse = e.div(1, x)?;
    let (below, inverse_below) = (e.lt(x, 0)?, e.lt(inverse, 0)?);
    e.logical_or(below, inverse_below)
}

/// A literal as a value of the dtype to compute in; a tensor as it is.
fn tensor(e: &mut dyn Emit, x: Operand, dtype: DType) -> Emitted {
    match (x, e.operand_type(x)) {
        (Operand::Value(v), OperandType::Tensor(_)) => Ok(v),
        _ => number(e, x, dtype),
    }
}

/// By y: x g / (x^2 + y^2), by x: -y g / (x^2 + y^2); 0 where both are 0.
pub(crate) fn atan2_grad(cx: &mut Vjp<'_>) -> Out {
    fn part(cx: &mut Vjp<'_>, of: usize) -> Emitted {
        let (y, x) = (cx.inputs[0], cx.inputs[1]);
        let ty = cx.e.ty(cx.output);
        let (y, x) = (tensor_like(cx, y, ty.dtype)?, tensor_like(cx, x, ty.dtype)?);
        let (yy, xx) = (cx.e.mul(y, y)?, cx.e.mul(x, x)?);
        let square = cx.e.add(yy, xx)?;
        let (share, nowhere) =
            (cx.e.div(if of == 0 { x } else { y }, square)?, cx.e.eq(square, 0)?);
        let share = cx.e.select(nowhere, 0, share)?;
        cx.e.mul(cx.grad, share)
    }
    two(
        cx,
        |cx, _| part(cx, 0),
        |cx, _| {
            let g = part(cx, 1)?;
            cx.e.neg(g)
        },
    )
}

/// An operand as a value of a dtype.
fn tensor_like(cx: &mut Vjp<'_>, x: Operand, dtype: DType) -> Emitted {
    match x {
        Operand::Value(v) => cx.e.cast(v, dtype),
        Operand::Scalar(_) => number(cx.e, x, dtype),
    }
}
