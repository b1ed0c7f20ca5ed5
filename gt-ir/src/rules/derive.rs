//! Expansions: what each derived op is in terms of other ops. They are the definition the
//! interpreter and every engine run.

use std::f64::consts::FRAC_1_SQRT_2;

use smallvec::SmallVec;

use crate::{
    attr::{AxisSet, Keep, Perm},
    dtype::DType,
    emit::{Build, Emit, Emitted},
    error::OpError,
    op::{Op, Operand, OperandType, infer},
    shape::{Dim, Shape, Type},
    tape::ValueId,
};

/// sqrt(2 / pi).
pub(crate) const GELU_SCALE: f64 = 0.797_884_560_802_865_4;
/// Weight of the cubic term in the tanh approximation.
pub(crate) const GELU_CUBIC: f64 = 0.044_715;

/// The error of an expansion that the table names for another op: a defect of the table.
pub(super) fn misplaced(op: &Op) -> OpError {
    OpError::new(format!("{}: the op table names an expansion that does not fit it", op.name()))
}

/// The operand as a value; type rules have seen to it that it is one.
pub(super) fn value(op: &Op, ins: &[Operand], i: usize) -> Result<ValueId, OpError> {
    match ins.get(i) {
        Some(Operand::Value(v)) => Ok(*v),
        Some(Operand::Scalar(_)) | None => Err(misplaced(op)),
    }
}

/// The axis of an op that normalizes along one.
fn axis_of(op: &Op) -> Result<AxisSet, OpError> {
    match op {
        Op::Softmax(a) | Op::LogSoftmax(a) => Ok(AxisSet::from_iter([a.0 as usize])),
        _ => Err(misplaced(op)),
    }
}

/// The dtype sums and exponentials of this dtype are computed in.
///
/// Narrow floats are widened to `f32` before a sum or an exponential and rounded once at the end.
/// PyTorch calls it the accumulation type.
pub(crate) fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// The literal cast to the dtype, then expanded to the shape.
pub(crate) fn full(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::Full(ty) = op else { return Err(misplaced(op)) };
    let scalar = e.emit(Op::Cast(ty.dtype), ins)?;
    e.expand(scalar, ty.shape)
}

/// Floats are computed in f64 and rounded once, as PyTorch does.
///
/// An `f32` holds integers up to 2^24 only, so the index of a longer range would be rounded.
pub(crate) fn arange(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::Arange(ty) = *op else { return Err(misplaced(op)) };
    let dtype = if ty.dtype.is_float() { DType::F64 } else { DType::I64 };
    let index = e.emit(Op::Iota(ty.with_dtype(DType::I64)), &[])?;
    let index = e.cast(index, dtype)?;
    let start = e.emit(Op::Cast(dtype), &ins[..1])?;
    let step = e.emit(Op::Cast(dtype), &ins[1..2])?;
    let scaled = e.mul(index, step)?;
    let shifted = e.add(scaled, start)?;
    e.cast(shifted, ty.dtype)
}

/// not (x = y): true where either is NaN.
pub(crate) fn ne(e: &mut dyn Emit, _: &Op, ins: &[Operand]) -> Emitted {
    let equal = e.eq(ins[0], ins[1])?;
    e.logical_not(equal)
}

/// y < x, so that engines implement one comparison less.
pub(crate) fn gt(e: &mut dyn Emit, _: &Op, ins: &[Operand]) -> Emitted {
    e.lt(ins[1], ins[0])
}

/// Not `not lt`: comparisons with NaN are false.
///
/// The opposite of `x < y` would be true beside NaN.
pub(crate) fn ge(e: &mut dyn Emit, _: &Op, ins: &[Operand]) -> Emitted {
    let (greater, equal) = (e.lt(ins[1], ins[0])?, e.eq(ins[0], ins[1])?);
    e.logical_or(greater, equal)
}

/// As [`ge`], the other way round.
pub(crate) fn le(e: &mut dyn Emit, _: &Op, ins: &[Operand]) -> Emitted {
    let (less, equal) = (e.lt(ins[0], ins[1])?, e.eq(ins[0], ins[1])?);
    e.logical_or(less, equal)
}

/// 1 / sqrt(x).
pub(crate) fn rsqrt(e: &mut dyn Emit, _: &Op, ins: &[Operand]) -> Emitted {
    let (x, dtype) = float(e, ins[0])?;
    let root = e.sqrt(x)?;
    let y = e.div(1, root)?;
    e.cast(y, dtype)
}

/// 1 / (1 + exp(-x)). exp(-x) may be infinite, and then the result is 0, as it should be.
pub(crate) fn sigmoid(e: &mut dyn Emit, _: &Op, ins: &[Operand]) -> Emitted {
    let (x, dtype) = float(e, ins[0])?;
    let minus = e.neg(x)?;
    let exp = e.exp(minus)?;
    let sum = e.add(exp, 1)?;
    let y = e.div(1, sum)?;
    e.cast(y, dtype)
}

/// The operand in the dtype to compute in, and the dtype of the result: integers become the default
/// float, halves are widened.
pub(super) fn float(e: &mut dyn Emit, x: Operand) -> Result<(ValueId, DType), OpError> {
    match (x, e.operand_type(x)) {
        (Operand::Value(v), OperandType::Tensor(t)) => {
            Ok((e.cast(v, wide(t.dtype))?, t.dtype.or_default_float()))
        }
        _ => Err(OpError::new("a derived op was given a literal for a tensor")),
    }
}

/// The tensors among the operands in the dtype to compute in, and the dtype of the result.
pub(super) fn floats(
    e: &mut dyn Emit,
    op: &Op,
    ins: &[Operand],
) -> Result<(SmallVec<[Operand; 4]>, DType), OpError> {
    let types: SmallVec<[OperandType; 4]> = ins.iter().map(|o| e.operand_type(*o)).collect();
    let dtype = infer(op, &types)?.dtype;
    let computed = if dtype.is_float() { wide(dtype) } else { dtype };
    let cast = |(o, ty): (&Operand, &OperandType)| match (o, ty) {
        (Operand::Value(v), OperandType::Tensor(_)) => e.cast(*v, computed).map(Operand::Value),
        _ => Ok(*o),
    };
    Ok((ins.iter().zip(&types).map(cast).collect::<Result<_, _>>()?, dtype))
}

/// A literal as a value of a dtype: what arithmetic between literals alone is done on.
pub(super) fn number(e: &mut dyn Emit, literal: Operand, dtype: DType) -> Emitted {
    e.full(Type::scalar(dtype), literal)
}

/// max(x, 0), which is NaN where x is.
pub(crate) fn relu(e: &mut dyn Emit, _: &Op, ins: &[Operand]) -> Emitted {
    e.maximum(ins[0], 0)
}

/// x / 2 (1 + erf(x / sqrt(2))).
pub(crate) fn gelu(e: &mut dyn Emit, _: &Op, ins: &[Operand]) -> Emitted {
    let (x, dtype) = float(e, ins[0])?;
    let scaled = e.mul(x, FRAC_1_SQRT_2)?;
    let erf = e.erf(scaled)?;
    let one_plus = e.add(erf, 1)?;
    let half = e.mul(x, 0.5)?;
    let y = e.mul(half, one_plus)?;
    e.cast(y, dtype)
}

/// x^2 and tanh(sqrt(2/pi) (x + 0.044715 x^3)), which the gradient needs as well.
pub(crate) fn gelu_tanh_parts(e: &mut dyn Emit, x: ValueId) -> Result<(ValueId, ValueId), OpError> {
    let square = e.mul(x, x)?;
    let cubic = e.mul(square, GELU_CUBIC)?;
    let factor = e.add(cubic, 1)?;
    let inner = e.mul(x, factor)?;
    let scaled = e.mul(inner, GELU_SCALE)?;
    Ok((square, e.tanh(scaled)?))
}

/// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
pub(crate) fn gelu_tanh(e: &mut dyn Emit, _: &Op, ins: &[Operand]) -> Emitted {
    let (x, dtype) = float(e, ins[0])?;
    let (_, t) = gelu_tanh_parts(e, x)?;
    let one_plus = e.add(t, 1)?;
    let half = e.mul(x, 0.5)?;
    let y = e.mul(half, one_plus)?;
    e.cast(y, dtype)
}

/// The sum in a wide dtype, divided by the number of elements; NaN of none.
pub(crate) fn mean(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::Mean(r) = op else { return Err(misplaced(op)) };
    let x = value(op, ins, 0)?;
    let ty = e.ty(x);
    let n: usize = r.axes.iter().map(|a| ty.shape.sizes()[a]).product();
    let x = e.cast(x, wide(ty.dtype))?;
    let sum = e.sum(x, r.axes, r.keep)?;
    let mean = e.div(sum, n as f64)?;
    e.cast(mean, ty.dtype)
}

/// exp(x - max) / sum(exp(x - max)) along the axis.
pub(crate) fn softmax(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let (x, axes) = (value(op, ins, 0)?, axis_of(op)?);
    let dtype = e.ty(x).dtype;
    if e.ty(x).shape.numel() == 0 {
        return Ok(x); // An empty axis has no maximum to subtract.
    }
    let shifted = shift(e, x, axes)?;
    let exp = e.exp(shifted)?;
    let sum = e.sum(exp, axes, Keep::Yes)?;
    let y = e.div(exp, sum)?;
    e.cast(y, dtype)
}

/// (x - max) - log(sum(exp(x - max))) along the axis: the logarithm of softmax without its
/// underflow.
pub(crate) fn log_softmax(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let (x, axes) = (value(op, ins, 0)?, axis_of(op)?);
    let dtype = e.ty(x).dtype;
    if e.ty(x).shape.numel() == 0 {
        return Ok(x);
    }
    let shifted = shift(e, x, axes)?;
    let exp = e.exp(shifted)?;
    let sum = e.sum(exp, axes, Keep::Yes)?;
    let log = e.log(sum)?;
    let y = e.sub(shifted, log)?;
    e.cast(y, dtype)
}

/// x minus its maximum along the axes, in a wide dtype: exponentials of it cannot overflow.
fn shift(e: &mut dyn Emit, x: ValueId, axes: AxisSet) -> Emitted {
    let x = e.cast(x, wide(e.ty(x).dtype))?;
    let max = e.max(x, axes, Keep::Yes)?;
    e.sub(x, max)
}

/// (x - mean) / deviation and 1 / deviation, over the axes, in a wide dtype.
///
/// The variance is the mean of squared differences and not mean(x^2) - mean(x)^2, which cancels
/// where the mean is large beside the deviation.
pub(crate) fn normalize(
    e: &mut dyn Emit,
    x: ValueId,
    axes: AxisSet,
    eps: Operand,
) -> Result<(ValueId, ValueId), OpError> {
    let x = e.cast(x, wide(e.ty(x).dtype))?;
    let mean = e.mean(x, axes, Keep::Yes)?;
    let centered = e.sub(x, mean)?;
    let square = e.mul(centered, centered)?;
    let variance = e.mean(square, axes, Keep::Yes)?;
    let safe = e.add(variance, eps)?;
    let inverse = e.rsqrt(safe)?;
    Ok((e.mul(centered, inverse)?, inverse))
}

/// [`normalize`] over the last axes, times weight, plus bias, rounded once at the end.
pub(crate) fn layer_norm(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::LayerNorm(dims) = op else { return Err(misplaced(op)) };
    let (x, w, b) = (value(op, ins, 0)?, value(op, ins, 1)?, value(op, ins, 2)?);
    let ty = e.ty(x);
    let rank = ty.shape.rank();
    let (normal, _) = normalize(e, x, (rank - dims.0 as usize..rank).collect(), ins[3])?;
    let w = e.cast(w, wide(ty.dtype))?;
    let b = e.cast(b, wide(ty.dtype))?;
    let scaled = e.mul(normal, w)?;
    let shifted = e.add(scaled, b)?;
    e.cast(shifted, ty.dtype)
}

/// A permutation that exchanges two axes.
pub(crate) fn transpose(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::Transpose(swap) = op else { return Err(misplaced(op)) };
    let x = value(op, ins, 0)?;
    let perm = Perm::swap(e.ty(x).shape.rank(), swap.0.into(), swap.1.into());
    e.permute(x, perm.ok_or_else(|| misplaced(op))?)
}

/// The index beside 0, 1, .. along a new last axis: 1 where both are equal. An index that is no
/// class equals none of them.
///
/// Comparing takes `n * classes` operations, but they fuse with what follows, and no element is
/// scattered.
pub(crate) fn one_hot(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::OneHot(classes) = op else { return Err(misplaced(op)) };
    let index = value(op, ins, 0)?;
    let index = e.cast(index, DType::I64)?;
    let shape = e.ty(index).shape;
    let column = e.reshape(index, Shape::collect(shape.dims().chain([Dim::new(1)]))?)?;
    let labels =
        e.emit(Op::Iota(Type::new(DType::I64, Shape::new(&[classes.0 as usize])?)), &[])?;
    let hit = e.eq(column, labels)?;
    e.cast(hit, DType::I64)
}
