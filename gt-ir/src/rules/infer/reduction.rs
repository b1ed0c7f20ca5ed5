//! Type rules of what folds axes away, or normalizes along them.

use super::{Result, literal, misplaced, tensor};
use crate::{
    attr::{AxisSet, Keep},
    dtype::DType,
    error::OpError,
    op::{Op, OperandType},
    shape::{Dim, Shape, Type},
};

/// The shape with these axes dropped, or of size 1 where they are kept.
fn reduced(op: &Op, t: &Type, axes: AxisSet, keep: Keep) -> Result<Shape> {
    if let Some(axis) = axes.iter().find(|&a| a >= t.shape.rank()) {
        return Err(OpError::new(format!("{}: axis {axis} is out of range for {t}", op.name())));
    }
    let dims = t.shape.dims().enumerate().filter_map(|(i, dim)| match (axes.contains(i), keep) {
        (false, _) => Some(dim),
        (true, Keep::Yes) => Some(Dim::new(1)),
        (true, Keep::No) => None,
    });
    Shape::collect(dims)
}

/// The operand of a reduction, the shape of its result, and the axes it folds.
fn reduce(op: &Op, ins: &[OperandType]) -> Result<(Type, Shape, AxisSet)> {
    let (Op::Sum(r)
    | Op::Max(r)
    | Op::Min(r)
    | Op::Mean(r)
    | Op::Any(r)
    | Op::All(r)
    | Op::Var(r)
    | Op::LogSumExp(r)
    | Op::Prod(r)
    | Op::Norm(r)) = op
    else {
        return Err(misplaced(op));
    };
    let t = tensor(op, ins, 0)?;
    Ok((t, reduced(op, &t, r.axes, r.keep)?, r.axes))
}

/// `[.., n, ..]` to `[.., ..]`, or `[.., 1, ..]` with `keep`; integers and `bool` give `i64`.
pub(crate) fn sum(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (t, shape, _) = reduce(op, ins)?;
    Ok(Type::new(if t.dtype.is_float() { t.dtype } else { DType::I64 }, shape))
}

/// As [`sum`], of floats only: a mean of integers would have to round.
pub(crate) fn mean(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (t, shape, _) = reduce(op, ins)?;
    if !t.dtype.is_float() {
        return Err(OpError::new(format!("{}: takes floats, but got {t}", op.name()))
            .hint("cast to f32 first"));
    }
    Ok(Type::new(t.dtype, shape))
}

/// As [`mean`]; integers become the default float.
pub(crate) fn float_over(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (t, shape, _) = reduce(op, ins)?;
    Ok(Type::new(t.dtype.or_default_float(), shape))
}

/// As [`mean`], with a literal correction.
pub(crate) fn var(op: &Op, ins: &[OperandType]) -> Result<Type> {
    literal(op, ins, 1)?;
    mean(op, ins)
}

/// As [`sum`], of any dtype; gives `bool`.
pub(crate) fn truth(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (_, shape, _) = reduce(op, ins)?;
    Ok(Type::new(DType::Bool, shape))
}

/// As [`sum`], in the dtype of the operand; no axis that is folded may be empty.
pub(crate) fn extremum(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (t, shape, axes) = reduce(op, ins)?;
    nonempty(op, &t, axes)?;
    Ok(Type::new(t.dtype, shape))
}

/// The largest of no elements does not exist, unless the result is empty as well.
fn nonempty(op: &Op, t: &Type, axes: AxisSet) -> Result<()> {
    match axes.iter().find(|&a| t.shape.sizes()[a] == 0) {
        Some(axis) => Err(OpError::new(format!(
            "{}: axis {axis} of {t} is empty and has no extremum",
            op.name()
        ))),
        None => Ok(()),
    }
}

/// One axis folded; gives `i64`.
pub(crate) fn argmax(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (Op::Argmax(r) | Op::Argmin(r)) = op else { return Err(misplaced(op)) };
    let t = tensor(op, ins, 0)?;
    let axes = AxisSet::from_iter([t.shape.axis(op.name(), r.axis.into())?]);
    let shape = reduced(op, &t, axes, r.keep)?;
    nonempty(op, &t, axes)?;
    Ok(Type::new(DType::I64, shape))
}

/// The type of the operand, which must be a float and have the axis.
pub(crate) fn softmax(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (Op::Softmax(axis) | Op::LogSoftmax(axis)) = op else { return Err(misplaced(op)) };
    let t = tensor(op, ins, 0)?;
    t.shape.axis(op.name(), axis.0.into())?;
    if !t.dtype.is_float() {
        return Err(OpError::new(format!("{}: takes floats, but got {t}", op.name()))
            .hint("cast to f32 first"));
    }
    Ok(t)
}

/// `x, weight, bias, eps` to the type of x: weight and bias have the sizes of the last axes, and
/// all three one float dtype.
pub(crate) fn layer_norm(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::LayerNorm(n) = op else { return Err(misplaced(op)) };
    let (x, w, b) = (tensor(op, ins, 0)?, tensor(op, ins, 1)?, tensor(op, ins, 2)?);
    literal(op, ins, 3)?;
    let (n, rank) = (n.0 as usize, x.shape.rank());
    let normal = if n <= rank { &x.shape.sizes()[rank - n..] } else { &[] };
    if n == 0 || n > rank || w.shape.sizes() != normal || b.shape.sizes() != normal {
        let e = format!(
            "layer_norm: weight {w} and bias {b} do not match the last {n} dimensions of {x}"
        );
        return Err(OpError::new(e));
    }
    if !x.dtype.is_float() || w.dtype != x.dtype || b.dtype != x.dtype {
        return Err(OpError::new(format!(
            "layer_norm: {x}, weight {w} and bias {b} must share a float dtype"
        )));
    }
    Ok(x)
}
