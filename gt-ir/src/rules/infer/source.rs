//! Type rules of what makes tensors from no tensor: the type is the attribute, if the op can make
//! its dtype.

use super::{Result, literal, misplaced};
use crate::{
    dtype::DType,
    error::OpError,
    op::{Op, OperandType},
    shape::Type,
};

/// The type that the attribute of a source op asks for.
fn source(op: &Op) -> Result<Type> {
    let (Op::Iota(t) | Op::Rand(t) | Op::Randn(t) | Op::Randint(t) | Op::Full(t) | Op::Arange(t)) =
        op
    else {
        return Err(misplaced(op));
    };
    Ok(*t)
}

/// The type, if the op makes elements of its dtype.
fn of_category(op: &Op, t: Type, fits: bool, wants: &str) -> Result<Type> {
    if fits {
        Ok(t)
    } else {
        Err(OpError::new(format!("{}: makes {wants}, but {t} is asked for", op.name())))
    }
}

/// An integer type, of any shape.
pub(crate) fn iota(op: &Op, _: &[OperandType]) -> Result<Type> {
    let t = source(op)?;
    of_category(op, t, t.dtype.is_int(), "integers")
}

/// The type asked for; all operands are literals or zero-dimensional tensors.
pub(crate) fn literals(op: &Op, ins: &[OperandType]) -> Result<Type> {
    (0..ins.len()).try_for_each(|i| literal(op, ins, i))?;
    source(op)
}

/// A float type; the operand is the seed.
pub(crate) fn random(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let t = literals(op, ins)?;
    of_category(op, t, t.dtype.is_float(), "floats")
}

/// Any type but `bool`; of literal bounds the lower is below the upper.
pub(crate) fn randint(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let t = literals(op, ins)?;
    if let (OperandType::Scalar(low), OperandType::Scalar(high)) = (ins[0], ins[1])
        && low.as_i64() >= high.as_i64()
    {
        return Err(OpError::new(format!("randint: the range {low}..{high} is empty")));
    }
    of_category(op, t, t.dtype != DType::Bool, "numbers")
}

/// One dimension of numbers; the operands are start and step.
pub(crate) fn arange(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let t = literals(op, ins)?;
    of_category(op, t, t.dtype != DType::Bool && t.shape.rank() == 1, "one dimension of numbers")
}
