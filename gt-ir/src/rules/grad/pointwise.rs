//! Gradients of functions of one operand.

use super::{Out, one, wide, wide_ends};
use crate::{emit::Build, grad::Vjp};

/// d(-x) = -g.
pub(crate) fn neg(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, _| cx.e.neg(cx.grad))
}

/// d|x| = g sign(x); 0 at x = 0, the subgradient PyTorch takes.
pub(crate) fn abs(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| {
        let (positive, negative) = (cx.e.gt(x, 0)?, cx.e.lt(x, 0)?);
        let minus = cx.e.neg(cx.grad)?;
        let below = cx.e.select(negative, minus, 0)?;
        cx.e.select(positive, cx.grad, below)
    })
}

/// d exp(x) = g y: the result is its own derivative.
pub(crate) fn exp(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, _| cx.e.mul(cx.grad, cx.output))
}

/// d log(x) = g / x.
pub(crate) fn log(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| cx.e.div(cx.grad, x))
}

/// d sqrt(x) = g / (2 y): infinite at x = 0, as in PyTorch.
pub(crate) fn sqrt(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, _| {
        let double = cx.e.mul(cx.output, 2)?;
        cx.e.div(cx.grad, double)
    })
}

/// d x^-1/2 = -y^3 / 2.
pub(crate) fn rsqrt(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, _| {
        let square = cx.e.mul(cx.output, cx.output)?;
        let cube = cx.e.mul(square, cx.output)?;
        let scaled = cx.e.mul(cube, -0.5)?;
        cx.e.mul(cx.grad, scaled)
    })
}

/// d sin(x) = g cos(x).
pub(crate) fn sin(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| {
        let cos = cx.e.cos(x)?;
        cx.e.mul(cx.grad, cos)
    })
}

/// d cos(x) = -g sin(x).
pub(crate) fn cos(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| {
        let sin = cx.e.sin(x)?;
        let minus = cx.e.neg(sin)?;
        cx.e.mul(cx.grad, minus)
    })
}

/// d tanh(x) = g (1 - y^2). Halves are widened: 1 - y^2 cancels where y is near 1.
pub(crate) fn tanh(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, _| {
        let (g, y) = wide_ends(cx)?;
        let square = cx.e.mul(y, y)?;
        let slope = cx.e.sub(1, square)?;
        cx.e.mul(g, slope)
    })
}

/// d 2^x = 2^x ln 2.
pub(crate) fn exp2(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, _| {
        let slope = cx.e.mul(cx.output, std::f64::consts::LN_2)?;
        cx.e.mul(cx.grad, slope)
    })
}

/// d erf = 2 / sqrt(pi) * exp(-x^2).
pub(crate) fn erf(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| {
        let square = cx.e.mul(x, x)?;
        let minus = cx.e.neg(square)?;
        let bell = cx.e.exp(minus)?;
        let slope = cx.e.mul(bell, std::f64::consts::FRAC_2_SQRT_PI)?;
        cx.e.mul(cx.grad, slope)
    })
}

/// d sigmoid(x) = g y (1 - y). Halves are widened, as for `tanh`.
pub(crate) fn sigmoid(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, _| {
        let (g, y) = wide_ends(cx)?;
        let rest = cx.e.sub(1, y)?;
        let slope = cx.e.mul(y, rest)?;
        cx.e.mul(g, slope)
    })
}

/// g where the result is positive, else 0. A NaN result compares unequal to 0 and lets the gradient
/// pass, as in PyTorch.
pub(crate) fn relu(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, _| {
        let off = cx.e.eq(cx.output, 0)?;
        cx.e.select(off, 0, cx.grad)
    })
}

/// d x Phi(x) = Phi(x) + x phi(x).
pub(crate) fn gelu(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| {
        let (x, g) = (wide(cx, x)?, wide(cx, cx.grad)?);
        let scaled = cx.e.mul(x, std::f64::consts::FRAC_1_SQRT_2)?;
        let erf = cx.e.erf(scaled)?;
        let one_plus = cx.e.add(erf, 1)?;
        let cdf = cx.e.mul(one_plus, 0.5)?;
        let square = cx.e.mul(x, x)?;
        let half = cx.e.mul(square, -0.5)?;
        let bell = cx.e.exp(half)?;
        let x_bell = cx.e.mul(x, bell)?;
        // 1 / sqrt(2 pi)
        let tail = cx.e.mul(
            x_bell,
            0.5 * std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2,
        )?;
        let slope = cx.e.add(cdf, tail)?;
        cx.e.mul(g, slope)
    })
}

/// With t = tanh(u) and u = sqrt(2 / pi) (x + 0.044715 x^3): d = (1 + t) / 2 + x (1 - t^2) u' / 2.
pub(crate) fn gelu_tanh(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| {
        let (x, g) = (wide(cx, x)?, wide(cx, cx.grad)?);
        let (square, t) = crate::rules::derive::gelu_tanh_parts(cx.e, x)?;
        let one_plus = cx.e.add(t, 1)?;
        let first = cx.e.mul(one_plus, 0.5)?;
        let t_square = cx.e.mul(t, t)?;
        let sech = cx.e.sub(1, t_square)?;
        let cubic = cx.e.mul(square, 3.0 * crate::rules::derive::GELU_CUBIC)?;
        let inner = cx.e.add(cubic, 1)?;
        let inner = cx.e.mul(inner, crate::rules::derive::GELU_SCALE * 0.5)?;
        let steep = cx.e.mul(sech, inner)?;
        let second = cx.e.mul(x, steep)?;
        let slope = cx.e.add(first, second)?;
        cx.e.mul(g, slope)
    })
}
