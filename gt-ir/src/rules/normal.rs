//! Normalizations: by root mean square, by groups of channels, by given statistics. Computed in a
//! wide dtype, rounded once.

use super::{
    derive::{misplaced, normalize, value, wide},
    infer::{Result, literal, tensor},
    statistic::along,
};
use crate::{
    attr::Keep,
    emit::{Build, Emit, Emitted},
    error::OpError,
    op::{Op, Operand, OperandType},
    shape::{Dim, Shape, Type},
    tape::ValueId,
};

/// Operand `i` is a float tensor of these sizes.
fn fits(op: &Op, ins: &[OperandType], i: usize, sizes: &[usize], what: &str) -> Result<()> {
    let (x, t) = (tensor(op, ins, 0)?, tensor(op, ins, i)?);
    if t.dtype.is_float() && t.shape.sizes() == sizes {
        return Ok(());
    }
    let wanted = Shape::new(sizes)?;
    Err(OpError::new(format!("{}: {what} {t} does not fit {x}", op.name()))
        .hint(format!("{what} must be floats of shape {wanted}")))
}

/// The operand is a float tensor.
fn float(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let x = tensor(op, ins, 0)?;
    if x.dtype.is_float() {
        return Ok(x);
    }
    Err(OpError::new(format!("{}: takes floats, but got {x}", op.name())).hint("cast to f32 first"))
}

/// A float tensor with channels, and how many it has.
fn channels(op: &Op, ins: &[OperandType]) -> Result<(Type, usize)> {
    let x = float(op, ins)?;
    match x.shape.sizes() {
        [_, channels, ..] => Ok((x, *channels)),
        _ => Err(OpError::new(format!("{}: {x} has no axis 1, the channels", op.name()))),
    }
}

/// `x, weight, eps` to the type of x; the weight has the sizes of the last axes.
pub(crate) fn infer_rms(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::RmsNorm(n) = op else { return Err(misplaced(op)) };
    let x = float(op, ins)?;
    literal(op, ins, 2)?;
    let (n, sizes) = (usize::from(n.0), x.shape.sizes());
    if n == 0 || n > sizes.len() {
        return Err(OpError::new(format!("rms_norm: {x} has no last {n} dimensions to normalize")));
    }
    fits(op, ins, 1, &sizes[sizes.len() - n..], "weight")?;
    Ok(x)
}

/// x / sqrt(mean(x^2) + eps) * weight over the last axes.
pub(crate) fn rms_norm(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::RmsNorm(n) = op else { return Err(misplaced(op)) };
    let (x, w) = (value(op, ins, 0)?, value(op, ins, 1)?);
    let ty = e.ty(x);
    let rank = ty.shape.rank();
    let x = e.cast(x, wide(ty.dtype))?;
    let square = e.mul(x, x)?;
    let mean = e.mean(square, (rank - usize::from(n.0)..rank).collect(), Keep::Yes)?;
    let safe = e.add(mean, ins[2])?;
    let inverse = e.rsqrt(safe)?;
    let normal = e.mul(x, inverse)?;
    let w = e.cast(w, wide(ty.dtype))?;
    let y = e.mul(normal, w)?;
    e.cast(y, ty.dtype)
}

/// `x, weight, bias, eps` to the type of x; weight and bias are vectors over channels, whose number
/// the groups divide.
pub(crate) fn infer_group(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::GroupNorm(groups) = op else { return Err(misplaced(op)) };
    let (x, channels) = channels(op, ins)?;
    literal(op, ins, 3)?;
    let whole = usize::try_from(groups.0).is_ok_and(|g| g > 0 && channels.is_multiple_of(g));
    if !whole {
        let groups = groups.0;
        let e =
            format!("group_norm: the {channels} channels of {x} do not make {groups} equal groups");
        return Err(OpError::new(e));
    }
    fits(op, ins, 1, &[channels], "weight")?;
    fits(op, ins, 2, &[channels], "bias")?;
    Ok(x)
}

/// `[n, c, ..]` seen as `[n, groups, c / groups * ..]` and normalized over its last axis, then
/// scaled and shifted by channel.
pub(crate) fn group_norm(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::GroupNorm(groups) = op else { return Err(misplaced(op)) };
    let x = value(op, ins, 0)?;
    let ty = e.ty(x);
    let (batch, groups) = (ty.shape.sizes()[0], groups.0 as usize);
    let each = ty.shape.sizes()[1] / groups * ty.shape.sizes()[2..].iter().product::<usize>();
    let cut = e.reshape(x, Shape::from_dims(&[batch, groups, each].map(Dim::new))?)?;
    let (normal, _) = normalize(e, cut, [2].into_iter().collect(), ins[3])?;
    let normal = e.reshape(normal, ty.shape)?;
    let y = affine(e, op, normal, &ins[1..3], &ty.shape)?;
    e.cast(y, ty.dtype)
}

/// `x, mean, var, weight, bias, eps` to the type of x; the four in the middle are vectors over
/// channels.
pub(crate) fn infer_batch(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (x, channels) = channels(op, ins)?;
    for (i, what) in [(1, "mean"), (2, "variance"), (3, "weight"), (4, "bias")] {
        fits(op, ins, i, &[channels], what)?;
    }
    literal(op, ins, 5)?;
    Ok(x)
}

/// (x - mean) / sqrt(var + eps) * weight + bias, all by channel. The statistics are operands:
/// whether they are those of the batch or running ones is for the front end.
pub(crate) fn batch_norm(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let x = value(op, ins, 0)?;
    let ty = e.ty(x);
    let x = e.cast(x, wide(ty.dtype))?;
    let mean = channel(e, op, ins[1], &ty.shape, x)?;
    let variance = channel(e, op, ins[2], &ty.shape, x)?;
    let safe = e.add(variance, ins[5])?;
    let inverse = e.rsqrt(safe)?;
    let centered = e.sub(x, mean)?;
    let normal = e.mul(centered, inverse)?;
    let y = affine(e, op, normal, &ins[3..5], &ty.shape)?;
    e.cast(y, ty.dtype)
}

/// A vector over channels laid along axis 1, in the dtype of `like`.
fn channel(e: &mut dyn Emit, op: &Op, v: Operand, shape: &Shape, like: ValueId) -> Emitted {
    let v = value(op, &[v], 0)?;
    let v = e.cast(v, e.ty(like).dtype)?;
    along(e, v, shape, 1)
}

/// Scale and shift by channel.
fn affine(e: &mut dyn Emit, op: &Op, x: ValueId, by: &[Operand], shape: &Shape) -> Emitted {
    let weight = channel(e, op, by[0], shape, x)?;
    let bias = channel(e, op, by[1], shape, x)?;
    let scaled = e.mul(x, weight)?;
    e.add(scaled, bias)
}
