//! Gradient rules, one for each differentiable row of the op table: given `g`, the gradient of the result, emit those of the operands.
//!
//! Rules use the result where it saves recomputation, sum over broadcast axes, and return gradients of the operands' own types.

use smallvec::smallvec;

use crate::{
    attr::{AxisSet, Keep, Pad, Slice},
    emit::{Build, Emitted},
    error::OpError,
    grad::{Grads, Vjp},
    op::{Op, Operand},
    shape::Type,
    tape::ValueId,
};

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

pub(crate) fn neg(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, _| cx.e.neg(cx.grad))
}

pub(crate) fn abs(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| {
        let (positive, negative) = (cx.e.gt(x, 0)?, cx.e.lt(x, 0)?);
        let minus = cx.e.neg(cx.grad)?;
        let below = cx.e.select(negative, minus, 0)?;
        cx.e.select(positive, cx.grad, below)
    })
}

pub(crate) fn exp(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, _| cx.e.mul(cx.grad, cx.output))
}

pub(crate) fn log(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| cx.e.div(cx.grad, x))
}

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

pub(crate) fn sin(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| {
        let cos = cx.e.cos(x)?;
        cx.e.mul(cx.grad, cos)
    })
}

pub(crate) fn cos(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| {
        let sin = cx.e.sin(x)?;
        let minus = cx.e.neg(sin)?;
        cx.e.mul(cx.grad, minus)
    })
}

pub(crate) fn tanh(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, _| {
        let (g, y) = wide_ends(cx)?;
        let square = cx.e.mul(y, y)?;
        let slope = cx.e.sub(1, square)?;
        cx.e.mul(g, slope)
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

pub(crate) fn sigmoid(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, _| {
        let (g, y) = wide_ends(cx)?;
        let rest = cx.e.sub(1, y)?;
        let slope = cx.e.mul(y, rest)?;
        cx.e.mul(g, slope)
    })
}

pub(crate) fn relu(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, _| {
        let on = cx.e.gt(cx.output, 0)?;
        cx.e.select(on, cx.grad, 0)
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

pub(crate) fn gelu_tanh(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| {
        let (x, g) = (wide(cx, x)?, wide(cx, cx.grad)?);
        let (square, t) = super::derive::gelu_tanh_parts(cx.e, x)?;
        let one_plus = cx.e.add(t, 1)?;
        let first = cx.e.mul(one_plus, 0.5)?;
        let t_square = cx.e.mul(t, t)?;
        let sech = cx.e.sub(1, t_square)?;
        let cubic = cx.e.mul(square, 3.0 * super::derive::GELU_CUBIC)?;
        let inner = cx.e.add(cubic, 1)?;
        let inner = cx.e.mul(inner, super::derive::GELU_SCALE * 0.5)?;
        let steep = cx.e.mul(sech, inner)?;
        let second = cx.e.mul(x, steep)?;
        let slope = cx.e.add(first, second)?;
        cx.e.mul(g, slope)
    })
}

pub(crate) fn add(cx: &mut Vjp<'_>) -> Out {
    two(cx, |cx, _| Ok(cx.grad), |cx, _| Ok(cx.grad))
}

pub(crate) fn sub(cx: &mut Vjp<'_>) -> Out {
    two(cx, |cx, _| Ok(cx.grad), |cx, _| cx.e.neg(cx.grad))
}

pub(crate) fn mul(cx: &mut Vjp<'_>) -> Out {
    two(cx, |cx, _| cx.e.mul(cx.grad, cx.inputs[1]), |cx, _| cx.e.mul(cx.grad, cx.inputs[0]))
}

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

/// By the base: g y x^(y-1), 0 where y is 0. By the exponent: g x^y log x, 0 where x is 0 and y is not negative.
pub(crate) fn pow(cx: &mut Vjp<'_>) -> Out {
    two(cx, pow_by_base, pow_by_exponent)
}

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

/// `maximum` and `minimum`: all to the side the result equals, half to each where both do.
pub(crate) fn extremum(cx: &mut Vjp<'_>) -> Out {
    fn side(cx: &mut Vjp<'_>, mine: usize) -> Emitted {
        let (x, y) = (cx.inputs[mine], cx.inputs[1 - mine]);
        let (won, tied) = (cx.e.eq(cx.output, x)?, cx.e.eq(x, y)?);
        let half = cx.e.mul(cx.grad, 0.5)?;
        let share = cx.e.select(tied, half, cx.grad)?;
        cx.e.select(won, share, 0)
    }
    two(cx, |cx, _| side(cx, 0), |cx, _| side(cx, 1))
}

pub(crate) fn select(cx: &mut Vjp<'_>) -> Out {
    let c = cx.tensor(0)?;
    let x = operand(cx, 1, |cx, _| cx.e.select(c, cx.grad, 0))?;
    let y = operand(cx, 2, |cx, _| cx.e.select(c, 0, cx.grad))?;
    Ok(smallvec![None, x, y])
}

pub(crate) fn cast(cx: &mut Vjp<'_>) -> Out {
    if !cx.e.ty(cx.output).dtype.is_float() {
        return Ok(smallvec![None]);
    }
    one(cx, |cx, _| Ok(cx.grad))
}

pub(super) fn axes(op: &Op) -> AxisSet {
    match op {
        Op::Sum(r) | Op::Max(r) | Op::Min(r) | Op::Mean(r) => r.axes,
        Op::Var(r) | Op::LogSumExp(r) | Op::Norm(r) => r.axes,
        Op::Softmax(a) | Op::LogSoftmax(a) => AxisSet::from_iter([a.0 as usize]),
        _ => AxisSet::default(),
    }
}

/// A reduced value spread back over the operand's shape.
fn spread(cx: &mut Vjp<'_>, v: ValueId, over: Type) -> Emitted {
    let kept = cx.e.unreduce(v, over.shape, axes(cx.op))?;
    cx.e.expand(kept, over.shape)
}

pub(crate) fn sum(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| spread(cx, cx.grad, cx.e.ty(x)))
}

pub(crate) fn mean(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| {
        let ty = cx.e.ty(x);
        let n: usize = axes(cx.op).iter().map(|a| ty.shape.sizes()[a]).product();
        let share = cx.e.div(cx.grad, n as f64)?;
        spread(cx, share, ty)
    })
}

/// `max` and `min` over axes: the gradient is shared equally among the elements that attain the extremum.
pub(crate) fn extremum_over(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| {
        let ty = cx.e.ty(x);
        let y = cx.e.unreduce(cx.output, ty.shape, axes(cx.op))?;
        let g = cx.e.unreduce(cx.grad, ty.shape, axes(cx.op))?;
        let hit = cx.e.eq(x, y)?;
        let mask = cx.e.cast(hit, ty.dtype)?;
        let count = cx.e.sum(mask, axes(cx.op), Keep::Yes)?;
        let share = cx.e.div(g, count)?;
        cx.e.mul(mask, share)
    })
}

pub(crate) fn matmul(cx: &mut Vjp<'_>) -> Out {
    let (ta, tb, ty) = (cx.ty(0)?, cx.ty(1)?, cx.e.ty(cx.output));
    // Work on matrices: a row for a 1-D left operand, a column for a 1-D right one, and the same axes in g.
    let (row, column) = (ta.shape.rank() == 1, tb.shape.rank() == 1);
    let matrix = |cx: &mut Vjp<'_>, v: ValueId, at: Option<usize>| {
        at.map_or(Ok(v), |at| insert_axis(cx, v, at))
    };
    let a = matrix(cx, cx.tensor(0)?, row.then_some(0))?;
    let b = matrix(cx, cx.tensor(1)?, column.then_some(1))?;
    let g = matrix(cx, cx.grad, column.then_some(ty.shape.rank()))?;
    let g_rank = cx.e.ty(g).shape.rank();
    let g = matrix(cx, g, row.then(|| g_rank - 1))?;
    let ga = operand(cx, 0, |cx, _| {
        let bt = cx.e.transpose_last(b)?;
        let ga = cx.e.matmul(g, bt)?;
        fit(cx, ga, a, ta)
    })?;
    let gb = operand(cx, 1, |cx, _| {
        let at = cx.e.transpose_last(a)?;
        let gb = cx.e.matmul(at, g)?;
        fit(cx, gb, b, tb)
    })?;
    Ok(smallvec![ga, gb])
}

/// Sums a gradient over broadcast leading axes to its matrix's shape, then drops the axis a vector was given.
fn fit(cx: &mut Vjp<'_>, g: ValueId, matrix: ValueId, vector: Type) -> Emitted {
    let dtype = cx.e.ty(g).dtype;
    let summed = cx.e.sum_to(g, cx.e.ty(matrix).with_dtype(dtype))?;
    cx.e.reshape(summed, vector.shape)
}

fn insert_axis(cx: &mut Vjp<'_>, v: ValueId, at: usize) -> Emitted {
    let shape = cx.e.ty(v).shape;
    let dims =
        shape.dims().take(at).chain([crate::shape::Dim::new(1)]).chain(shape.dims().skip(at));
    cx.e.reshape(v, crate::shape::Shape::from_dims(&dims.collect::<Vec<_>>())?)
}

pub(crate) fn reshape(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, x| cx.e.reshape(cx.grad, cx.e.ty(x).shape))
}

pub(crate) fn permute(cx: &mut Vjp<'_>) -> Out {
    let Op::Permute(perm) = *cx.op else { return Ok(smallvec![None]) };
    one(cx, |cx, _| cx.e.permute(cx.grad, perm.inverse()))
}

pub(crate) fn transpose(cx: &mut Vjp<'_>) -> Out {
    let op = *cx.op;
    one(cx, |cx, _| cx.e.emit(op, &[cx.grad.into()]))
}

/// `sum_to`, which every operand's gradient passes through, is all there is to it.
pub(crate) fn expand(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, _| Ok(cx.grad))
}

pub(crate) fn slice(cx: &mut Vjp<'_>) -> Out {
    let Op::Slice(s) = *cx.op else { return Ok(smallvec![None]) };
    one(cx, |cx, x| {
        let size = cx.e.ty(x).shape.sizes()[s.axis as usize] as u64;
        let pad = match s.len() {
            0 => Pad { axis: s.axis, lo: 0, hi: size, interior: 0 },
            n => Pad {
                axis: s.axis,
                lo: s.start,
                hi: size - (s.start + (n - 1) * s.step + 1),
                interior: s.step - 1,
            },
        };
        cx.e.pad(cx.grad, pad)
    })
}

pub(crate) fn pad(cx: &mut Vjp<'_>) -> Out {
    let Op::Pad(p) = *cx.op else { return Ok(smallvec![None, None]) };
    let g = operand(cx, 0, |cx, x| {
        let (axis, size) = (p.axis, cx.e.ty(x).shape.sizes()[p.axis as usize] as u64);
        let stop = if size == 0 { p.lo } else { p.lo + (size - 1) * (p.interior + 1) + 1 };
        cx.e.slice(cx.grad, Slice { axis, start: p.lo, stop, step: p.interior + 1 })
    })?;
    Ok(smallvec![g, None])
}

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

pub(crate) fn gather(cx: &mut Vjp<'_>) -> Out {
    let Op::Gather(axis) = *cx.op else { return Ok(smallvec![None, None]) };
    let g = operand(cx, 0, |cx, x| {
        let zeros = cx.e.full(cx.e.ty(x), 0)?;
        cx.e.emit(Op::ScatterAdd(axis), &[zeros.into(), cx.inputs[1], cx.grad.into()])
    })?;
    Ok(smallvec![g, None])
}

pub(crate) fn scatter_add(cx: &mut Vjp<'_>) -> Out {
    let Op::ScatterAdd(axis) = *cx.op else { return Ok(smallvec![None; 3]) };
    let base = operand(cx, 0, |cx, _| Ok(cx.grad))?;
    let src = operand(cx, 2, |cx, _| cx.e.gather(cx.grad, axis, cx.inputs[1]))?;
    Ok(smallvec![base, None, src])
}

pub(crate) fn index_select(cx: &mut Vjp<'_>) -> Out {
    let Op::IndexSelect(axis) = *cx.op else { return Ok(smallvec![None, None]) };
    let g = operand(cx, 0, |cx, x| {
        let zeros = cx.e.full(cx.e.ty(x), 0)?;
        cx.e.emit(Op::IndexAdd(axis), &[zeros.into(), cx.inputs[1], cx.grad.into()])
    })?;
    Ok(smallvec![g, None])
}

pub(crate) fn index_add(cx: &mut Vjp<'_>) -> Out {
    let Op::IndexAdd(axis) = *cx.op else { return Ok(smallvec![None; 3]) };
    let base = operand(cx, 0, |cx, _| Ok(cx.grad))?;
    let src =
        operand(cx, 2, |cx, _| cx.e.emit(Op::IndexSelect(axis), &[cx.grad.into(), cx.inputs[1]]))?;
    Ok(smallvec![base, None, src])
}

/// y (g - sum(g y)).
pub(crate) fn softmax(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, _| {
        let (g, y) = wide_ends(cx)?;
        let weighted = cx.e.mul(g, y)?;
        let total = cx.e.sum(weighted, axes(cx.op), Keep::Yes)?;
        let centered = cx.e.sub(g, total)?;
        cx.e.mul(y, centered)
    })
}

/// g - exp(y) sum(g).
pub(crate) fn log_softmax(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, _| {
        let (g, y) = wide_ends(cx)?;
        let total = cx.e.sum(g, axes(cx.op), Keep::Yes)?;
        let soft = cx.e.exp(y)?;
        let share = cx.e.mul(soft, total)?;
        cx.e.sub(g, share)
    })
}

/// With n the normalized x: by weight g n, by bias g, by x (h - mean(h) - n mean(h n)) / deviation where h = g weight.
pub(crate) fn layer_norm(cx: &mut Vjp<'_>) -> Out {
    let Op::LayerNorm(dims) = *cx.op else { return Ok(smallvec![None; 4]) };
    let (x, w) = (cx.tensor(0)?, cx.tensor(1)?);
    let rank = cx.e.ty(x).shape.rank();
    let axes: AxisSet = (rank - dims.0 as usize..rank).collect();
    let (normal, inverse) = super::derive::normalize(cx.e, x, axes, cx.inputs[3])?;
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
