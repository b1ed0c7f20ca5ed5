//! Several results of one op: a line of the elements of all of them that have one dtype.
//!
//! An op has one result. One with several gives those of each dtype as an instruction of its own,
//! one after the other, and slices take the line apart.

use super::infer::Result;
use crate::{
    attr::{Axis, Slice},
    dtype::DType,
    emit::{Build, Emit, Emitted},
    error::OpError,
    op::Op,
    operand::{MAX_OPERANDS, Operand, OperandType, ValueId},
    shape::{Shape, Type},
};

/// Where each of the results of a loop or of a choice begins in the result of the op that gives
/// those of a dtype, in elements; `None` for results of another dtype.
pub fn places(dtype: DType, results: &[Type]) -> Vec<Option<u64>> {
    let mut next = 0;
    let place = |ty: &Type| {
        (ty.dtype == dtype).then(|| {
            next += ty.shape.numel() as u64;
            next - ty.shape.numel() as u64
        })
    };
    results.iter().map(place).collect()
}

/// The type of the line of a dtype.
pub(super) fn ty(op: &Op, dtype: DType, results: &[Type]) -> Result<Type> {
    let given = results.iter().filter(|ty| ty.dtype == dtype);
    let total = given.map(|ty| ty.shape.numel()).try_fold(0, usize::checked_add);
    let total = total.ok_or_else(|| {
        OpError::new(format!("{}: the results have too many elements", op.name()))
    })?;
    Ok(Type::new(dtype, Shape::new(&[total])?))
}

/// The types of operands, all of which are tensors.
pub(super) fn tensors(op: &Op, ins: &[OperandType]) -> Result<Vec<Type>> {
    let tensor = |(i, ty): (usize, &OperandType)| match ty {
        OperandType::Tensor(ty) => Ok(*ty),
        OperandType::Scalar(scalar) => Err(OpError::new(format!(
            "{}: operand {i} is the literal {scalar}, not a tensor",
            op.name()
        ))),
    };
    ins.iter().enumerate().map(tensor).collect()
}

/// The elements of all values of a dtype, in a line.
pub(crate) fn joined(e: &mut dyn Emit, dtype: DType, values: &[ValueId]) -> Emitted {
    let mut lines: Vec<Operand> = Vec::new();
    for value in values {
        let ty = e.ty(*value);
        if ty.dtype == dtype && ty.shape.numel() > 0 {
            lines.push(e.reshape(*value, Shape::new(&[ty.shape.numel()])?)?.into());
        }
    }
    while lines.len() > 1 {
        let some = lines.chunks(MAX_OPERANDS);
        lines = some
            .map(|some| e.emit(Op::Cat(Axis(0)), some).map(Operand::from))
            .collect::<Result<_>>()?;
    }
    match lines.first() {
        Some(Operand::Value(line)) => Ok(*line),
        _ => e.full(Type::new(dtype, Shape::new(&[0])?), 0),
    }
}

/// A value that lies in a line from an element on.
pub(super) fn part(e: &mut dyn Emit, line: ValueId, start: u64, shape: Shape) -> Emitted {
    let stop = start + shape.numel() as u64;
    let part = e.slice(line, Slice { axis: 0, start, stop, step: 1 })?;
    e.reshape(part, shape)
}

/// The results that are wanted of an op on these operands: one instruction for each dtype that they
/// have. `op` is the one that gives those of a dtype.
pub(super) fn emitted(
    e: &mut dyn Emit,
    op: impl Fn(DType) -> Op,
    operands: &[ValueId],
    results: &[Type],
    wanted: impl Fn(usize) -> bool,
) -> Result<Vec<Option<ValueId>>> {
    let inputs: Vec<Operand> = operands.iter().map(|value| (*value).into()).collect();
    let mut found = vec![None; results.len()];
    for dtype in DType::ALL {
        let given = |i: &usize| results[*i].dtype == dtype && wanted(*i);
        if !(0..results.len()).any(|i| given(&i)) {
            continue;
        }
        let line = e.emit(op(dtype), &inputs)?;
        let places = places(dtype, results);
        for i in (0..results.len()).filter(given) {
            found[i] = places[i].map(|at| part(e, line, at, results[i].shape)).transpose()?;
        }
    }
    Ok(found)
}

/// The gradients of the results, of which a line holds those of one dtype.
pub(super) fn gradients(
    e: &mut dyn Emit,
    line: ValueId,
    results: &[Type],
) -> Result<Vec<Option<ValueId>>> {
    let places = places(e.ty(line).dtype, results);
    let part =
        |(at, ty): (Option<u64>, &Type)| at.map(|at| part(e, line, at, ty.shape)).transpose();
    places.into_iter().zip(results).map(part).collect()
}

/// The gradient of a value, or zeros of its type.
pub(super) fn given(e: &mut dyn Emit, grad: Option<ValueId>, of: Operand) -> Emitted {
    match (grad, of) {
        (Some(grad), _) => Ok(grad),
        (None, Operand::Value(value)) => e.full(e.ty(value), 0),
        (None, Operand::Scalar(_)) => Err(OpError::new("a literal has no gradient")),
    }
}
