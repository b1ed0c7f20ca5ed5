//! The rows of subjects as libtorch's own operators: activations, statistics, normalizations,
//! attention, parts.

use gt_compiler::torch::ops::{Arg, kind_of};
use gt_ir::{
    DType, Op, Type,
    attr::{Attention, AttentionGrad, Axis},
};
use tch::{Device, Kind, TchError, Tensor};

use crate::own::{Made, at, dims, finite, given, index, keep, narrow, number};

/// What libtorch gives for `op`; `None` where it has no such operator or refuses operands that GT
/// takes.
#[expect(clippy::too_many_lines, reason = "a line for each row")]
pub(crate) fn own(
    op: &Op,
    args: &[Arg<'_>],
    tensors: &[Tensor],
    ty: Type,
) -> Result<Option<Tensor>, TchError> {
    let (x, kind) = (&tensors[0], kind_of(ty.dtype));
    let y = tensors.get(1).unwrap_or(x);
    let none = |axes: gt_ir::attr::AxisSet| axes.is_empty(); // No axes are all axes there.
    Ok(Some(match *op {
        Op::Prod(r) if r.axes.len() != 1 => return Ok(None), // One axis there.
        Op::Prod(r) => {
            let axis = r.axes.iter().next().unwrap_or(0) as i64;
            wide_or(x, kind)?.f_prod_dim_int(axis, keep(r.keep), None::<Kind>)?.f_to_kind(kind)?
        }
        Op::CumSum(axis) => {
            wide_or(x, kind)?.f_cumsum(i64::from(axis.0), None::<Kind>)?.f_to_kind(kind)?
        }
        Op::CumProd(axis) => {
            wide_or(x, kind)?.f_cumprod(i64::from(axis.0), None::<Kind>)?.f_to_kind(kind)?
        }
        Op::CumMax(axis) => x.f_cummax(i64::from(axis.0))?.0,
        Op::CumMin(axis) => x.f_cummin(i64::from(axis.0))?.0,
        Op::ArgSort(order) => x.f_argsort_stable(true, i64::from(order.axis), order.descending)?,
        Op::Unfold(w) if w.dilation != 1 => return Ok(None), // Neighbours alone there.
        Op::Unfold(w) => x.f_unfold(i64::from(w.axis), w.size as i64, w.step as i64)?,
        // Only as the gradient of its own windows there.
        Op::Fold(f) if f.window.dilation != 1 || x.numel() == 0 => return Ok(None),
        Op::Fold(f) => {
            let shape: Vec<i64> = ty.shape.sizes().iter().map(|n| *n as i64).collect();
            let (x, w) = (wide_or(x, kind)?, f.window);
            let [axis, size, step] = [i64::from(w.axis), w.size as i64, w.step as i64];
            Tensor::f_unfold_backward(&x, shape, axis, size, step)?.f_to_kind(kind)?
        }
        Op::MaxPool2d(_) if x.numel() == 0 || x.dim() > 4 => return Ok(None),
        Op::MaxPool2d(p) => {
            let [size, stride, padding, dilation] =
                [p.size, p.stride, p.padding, p.dilation].map(|p| p.map(i64::from));
            wide_or(x, kind)?
                .f_max_pool2d(size, stride, padding, dilation, false)?
                .f_to_kind(kind)?
        }
        Op::Conv2d(_) if x.numel() == 0 || y.numel() == 0 => return Ok(None),
        Op::Conv2d(c) => {
            let [stride, padding, dilation] =
                [c.stride, c.padding, c.dilation].map(|p| p.map(i64::from));
            let [x, w] = [x, y].map(|t| wide_or(t, kind));
            x?.f_conv2d(&w?, None::<Tensor>, stride, padding, dilation, i64::from(c.groups))?
                .f_to_kind(kind)?
        }
        Op::Sign => x.f_sign()?,
        Op::Log2 => wide(x, ty)?.f_log2()?.f_to_kind(kind)?,
        Op::Log10 => wide(x, ty)?.f_log10()?.f_to_kind(kind)?,
        Op::Log1p => wide(x, ty)?.f_log1p()?.f_to_kind(kind)?,
        Op::Expm1 => wide(x, ty)?.f_expm1()?.f_to_kind(kind)?,
        Op::Atan => wide(x, ty)?.f_atan()?.f_to_kind(kind)?,
        // Zeros have signs there, and squares of tiny numbers are zero here.
        Op::Atan2 if !finite(x)? || !finite(y)? || tiny(x)? || tiny(y)? => return Ok(None),
        Op::Atan2 => wide(x, ty)?.f_atan2(&wide(y, ty)?)?.f_to_kind(kind)?,
        // A divisor that is not finite, or a quotient with few exact digits, is NaN or rounded
        // here.
        Op::Remainder | Op::Fmod
            if !finite(x)? || x.f_div(y)?.f_abs()?.f_lt(1e3)?.f_all()?.f_int64_value(&[])? == 0 =>
        {
            return Ok(None);
        }
        Op::Remainder | Op::Fmod if !ty.dtype.is_float() || narrow(x) || narrow(y) => {
            return Ok(None);
        }
        Op::Remainder => x.f_remainder_tensor(y)?,
        Op::Fmod => x.f_fmod_tensor(y)?,
        Op::Silu => wide(x, ty)?.f_silu()?.f_to_kind(kind)?,
        Op::Softplus => softplus(&wide(x, ty)?)?.f_to_kind(kind)?,
        Op::LeakyRelu => prelu(&wide(x, ty)?, &wide(y, ty)?)?.f_to_kind(kind)?,
        Op::Elu => elu(&wide(x, ty)?, &wide(y, ty)?)?.f_to_kind(kind)?,
        // It forgets to broadcast.
        Op::Clamp if tensors.iter().any(|t| t.size() != x.size() || t.numel() == 0) => {
            return Ok(None);
        }
        Op::Clamp => {
            let z = tensors.get(2).unwrap_or(x);
            if y.f_isnan()?.f_any()?.f_int64_value(&[])?
                + z.f_isnan()?.f_any()?.f_int64_value(&[])?
                > 0
            {
                return Ok(None); // A bound that is NaN makes everything NaN there.
            }
            x.f_to_kind(kind)?
                .f_clamp_tensor(Some(&y.f_to_kind(kind)?), Some(&z.f_to_kind(kind)?))?
        }
        Op::Dropout => dropped(x, args, kind)?,
        Op::Tril(k) => x.f_tril(k.0)?,
        Op::Triu(k) => x.f_triu(k.0)?,
        Op::Argmin(r) => number(x)?.f_argmin(i64::from(r.axis), keep(r.keep))?,
        Op::Any(r) | Op::All(r) | Op::LogSumExp(r) | Op::Var(r) | Op::Norm(r) if none(r.axes) => {
            return Ok(None);
        }
        Op::Any(r) => x.f_to_kind(Kind::Bool)?.f_any_dims(dims(r.axes), keep(r.keep))?,
        Op::All(r) => x.f_to_kind(Kind::Bool)?.f_all_dims(dims(r.axes), keep(r.keep))?,
        Op::LogSumExp(r) => x.f_logsumexp(dims(r.axes), keep(r.keep))?,
        Op::Var(r) => x.f_var_correction(dims(r.axes), given(args, 1).as_f64(), keep(r.keep))?,
        Op::Norm(r) => x.f_norm_scalaropt_dim(2.0, dims(r.axes), keep(r.keep))?,
        Op::RmsNorm(n) => {
            rms_norm(x, y, usize::from(n.0), given(args, 2).as_f64())?.f_to_kind(kind)?
        }
        Op::GroupNorm(n) => {
            let wide = if narrow(x) { Kind::Float } else { kind };
            let [x, w, b] = [x, y, &tensors[2]].map(|t| t.to_kind(wide));
            // It takes the mean times the weight from the bias first.
            // The only element of a group differs from its mean by a rounding.
            let groups = x.size().first().copied().unwrap_or(0) * n.0 as i64;
            if x.numel() as i64 <= groups || !finite(&w)? {
                return Ok(None);
            }
            let eps = given(args, 3).as_f64();
            x.f_group_norm(n.0 as i64, Some(w), Some(b), eps, false)?.f_to_kind(kind)?
        }
        Op::BatchNorm => return batch_norm(x, args, tensors, kind),
        Op::ScaledDotProductAttention(how) => return attention(how, args, tensors, kind),
        Op::ScaledDotProductAttentionGrad(how) => {
            return attention_grad(how, args, tensors, kind);
        }
        Op::Flip(axes) => x.f_flip(dims(axes.0))?,
        Op::SliceAssign(s) => {
            let (axis, start, stop) = (i64::from(s.axis), s.start as i64, s.stop as i64);
            x.f_slice_scatter(y, axis, start, stop, s.step as i64)?
        }
        Op::IndexCopy(axis) => {
            if twice(&index(y)?.f_reshape([-1])?)? {
                return Ok(None); // Which of them stays is left open there.
            }
            x.f_index_put(&at(axis, y)?, &tensors[2], false)?
        }
        Op::Scatter(axis) => {
            let axis = i64::from(axis.0);
            let hits = x.f_zeros_like()?.f_to_kind(Kind::Int64)?;
            let ones = index(y)?.f_ones_like()?;
            let hits = hits.f_scatter_add(axis, &index(y)?, &ones)?;
            if hits.f_gt(1)?.f_any()?.f_int64_value(&[])? == 1 {
                return Ok(None);
            }
            x.f_scatter(axis, &index(y)?, &tensors[2])?
        }
        Op::ScatterMax(axis) => return met(axis, x, y, &tensors[2], "amax"),
        Op::ScatterMin(axis) => return met(axis, x, y, &tensors[2], "amin"),
        Op::ScatterMul(axis) => return met(axis, x, y, &tensors[2], "prod"),
        // Loops and choices are no operators there.
        Op::Scan(_) | Op::Cond(_) => return Ok(None),
        _ => return Ok(None),
    }))
}

/// In `f32` if the result is narrow, else in its dtype.
fn wide_or(x: &Tensor, kind: Kind) -> Made {
    let narrow = matches!(kind, Kind::Half | Kind::BFloat16);
    x.f_to_kind(if narrow { Kind::Float } else { kind })
}

/// In the dtype to compute in: libtorch rounds narrow floats after each of its operators.
pub(crate) fn wide(x: &Tensor, ty: Type) -> Made {
    x.f_to_kind(if ty.dtype == DType::F64 { Kind::Double } else { Kind::Float })
}

/// Whether an element is 0, or nearly.
fn tiny(x: &Tensor) -> Result<bool, TchError> {
    Ok(x.f_to_kind(Kind::Double)?.f_abs()?.f_lt(1e-15)?.f_any()?.f_int64_value(&[])? == 1)
}

/// Without the threshold beyond which libtorch's own is x itself.
fn softplus(x: &Tensor) -> Made {
    let far = x.f_abs()?.f_neg()?.f_exp()?;
    x.f_maximum(&x.f_zeros_like()?)?.f_add(&far.f_log1p()?)
}

fn prelu(x: &Tensor, slope: &Tensor) -> Made {
    x.f_mul(slope)?.f_where_self(&x.f_gt(0)?.f_logical_not()?, &x.f_add(&slope.f_zeros_like()?)?)
}

fn elu(x: &Tensor, alpha: &Tensor) -> Made {
    let below = x.f_gt(0)?.f_logical_not()?;
    let exp = x.f_masked_fill(&x.f_gt(0)?, 0)?.f_expm1()?;
    exp.f_mul(alpha)?.f_where_self(&below, &x.f_add(&alpha.f_zeros_like()?)?)
}

/// GT's mask, libtorch's arithmetic.
fn dropped(x: &Tensor, args: &[Arg<'_>], kind: Kind) -> Made {
    let (p, seed) = (given(args, 1).as_f64(), args[2]);
    let wide = Type { dtype: DType::F32, ..gt_compiler::torch::ops::type_of(x).unwrap() };
    let noise = gt_compiler::torch::ops::eval(&Op::Rand(wide), &[seed], Device::Cpu).unwrap();
    let wide = if narrow(x) { x.f_to_kind(Kind::Float)? } else { x.f_alias()? };
    let scaled = wide.f_div_scalar(1.0 - p)?;
    scaled.f_where_self(&noise.f_ge(p)?, &wide.f_zeros_like()?)?.f_to_kind(kind)
}

fn rms_norm(x: &Tensor, weight: &Tensor, n: usize, eps: f64) -> Made {
    let wide = if narrow(x) { Kind::Float } else { x.kind() };
    let (x, weight, size) = (x.f_to_kind(wide)?, weight.f_to_kind(wide)?, x.size());
    let axes: Vec<i64> = (size.len() - n..size.len()).map(|a| a as i64).collect();
    let mean = x.f_square()?.f_mean_dim(axes, true, None::<Kind>)?;
    x.f_mul(&mean.f_add_scalar(eps)?.f_rsqrt()?)?.f_mul(&weight)
}

fn batch_norm(
    x: &Tensor,
    args: &[Arg<'_>],
    tensors: &[Tensor],
    kind: Kind,
) -> Result<Option<Tensor>, TchError> {
    let wide = if narrow(x) { Kind::Float } else { kind };
    let mut shape = vec![1; x.dim()];
    shape[1] = -1;
    let channel = |i: usize| tensors[i].f_to_kind(wide)?.f_reshape(&shape);
    let eps = given(args, 5).as_f64();
    // Its own gives no gradient to the statistics.
    let inverse = channel(2)?.f_add_scalar(eps)?.f_rsqrt()?;
    let normal = x.f_to_kind(wide)?.f_sub(&channel(1)?)?.f_mul(&inverse)?;
    Ok(Some(normal.f_mul(&channel(3)?)?.f_add(&channel(4)?)?.f_to_kind(kind)?))
}

fn attention(
    how: Attention,
    args: &[Arg<'_>],
    tensors: &[Tensor],
    kind: Kind,
) -> Result<Option<Tensor>, TchError> {
    let wide = if narrow(&tensors[0]) { return Ok(None) } else { kind };
    let [q, k, v] = [0, 1, 2].map(|i| tensors[i].to_kind(wide));
    let (causal, rank) = (how == Attention::Causal, q.dim());
    let mask = tensors.get(4).filter(|_| args.len() > 4);
    if causal && mask.is_some() || rank < 3 || q.numel() == 0 || k.numel() == 0 || v.numel() == 0 {
        return Ok(None); // One mask at most there.
    }
    // Of infinities it makes zeros in some rows, as if nothing were seen.
    if !finite(&q)? || !finite(&k)? {
        return Ok(None);
    }
    let scale = given(args, 3).as_f64();
    let made = Tensor::f_scaled_dot_product_attention(&q, &k, &v, mask, 0.0, causal, scale, true)?;
    Ok(Some(made.f_to_kind(kind)?))
}

/// By way of its autograd, on operands that are others to it wherever they stand. Its plain
/// attention has a gradient of its gradient.
fn attention_grad(
    AttentionGrad { kind: how, of }: AttentionGrad,
    args: &[Arg<'_>],
    tensors: &[Tensor],
    kind: Kind,
) -> Result<Option<Tensor>, TchError> {
    if narrow(&tensors[0]) || tensors[1].dim() < 3 || tensors[..4].iter().any(|t| t.numel() == 0) {
        return Ok(None);
    }
    // It spreads what is no number over positions that are not seen.
    if !tensors[..4].iter().map(finite).collect::<Result<Vec<_>, _>>()?.iter().all(|f| *f) {
        return Ok(None);
    }
    let (causal, mask) = (how == Attention::Causal, tensors.get(5).filter(|_| args.len() > 5));
    if causal && mask.is_some() {
        return Ok(None); // One mask at most there.
    }
    // It adds what it is given, as its other attention does where a mask is no `bool`.
    let hide = |mask: &Tensor| match mask.kind() {
        Kind::Bool => mask
            .zeros_like()
            .f_to_kind(kind)?
            .f_masked_fill(&mask.f_logical_not()?, f64::NEG_INFINITY),
        _ => mask.f_alias(),
    };
    let (mask, scale) = (mask.map(hide).transpose()?, given(args, 4).as_f64());
    let [q, k, v] = [1, 2, 3].map(|i| tensors[i].alias().set_requires_grad(true));
    let (made, _) = Tensor::f_internal_scaled_dot_product_attention_math(
        &q, &k, &v, mask, 0.0, causal, None, scale, true,
    )?;
    let sum = made.f_mul(&tensors[0])?.f_sum(kind)?;
    let wanted = [&q, &k, &v][of as usize];
    let mut grads = Tensor::f_run_backward(&[sum], &[wanted], true, true)?;
    Ok(grads.pop())
}

/// What meets at places along an axis, by a function of PyTorch's.
fn met(
    axis: Axis,
    x: &Tensor,
    index_of: &Tensor,
    src: &Tensor,
    how: &str,
) -> Result<Option<Tensor>, TchError> {
    // It has no extrema of `bool`, and rounds narrow products in an order of its own.
    if x.kind() == Kind::Bool || (narrow(x) && how == "prod") {
        return Ok(None);
    }
    Ok(Some(x.f_internal_scatter_reduce(i64::from(axis.0), &index(index_of)?, src, how, true)?))
}

/// Whether a position stands twice in an index.
fn twice(index: &Tensor) -> Result<bool, TchError> {
    let n = index.numel();
    let equal = index.f_unsqueeze(0)?.f_eq_tensor(&index.f_unsqueeze(1)?)?;
    Ok(equal.f_sum(Kind::Int64)?.f_int64_value(&[])? > n as i64)
}
