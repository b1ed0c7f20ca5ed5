//! Operations on the bits of integers, made of `bitwise_and` and sums that wrap.
//!
//! A sum adds the bits that both operands have one place higher, so it is the bits of either and
//! those of both. They are exact for every integer dtype; on `bool` they are the logical ones.

use smallvec::SmallVec;

use super::derive::value;
use crate::{
    dtype::DType,
    emit::{Build, Emit, Emitted},
    error::OpError,
    op::{Op, Operand, infer},
};

/// `x + y - (x & y)`.
pub(crate) fn or(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    if is_bool(e, op, ins)? {
        return e.emit(Op::LogicalOr, ins);
    }
    let (sum, both) = (e.emit(Op::Add, ins)?, e.emit(Op::BitwiseAnd, ins)?);
    e.sub(sum, both)
}

/// `x + y - 2 (x & y)`.
pub(crate) fn xor(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    if is_bool(e, op, ins)? {
        return e.emit(Op::LogicalXor, ins);
    }
    let either = or(e, op, ins)?;
    let both = e.emit(Op::BitwiseAnd, ins)?;
    e.sub(either, both)
}

/// `-x - 1`, which is the complement of a number in two's complement, and wraps to it for `u8`.
pub(crate) fn not(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let x = value(op, ins, 0)?;
    if e.ty(x).dtype == DType::Bool {
        return e.emit(Op::LogicalNot, &[x.into()]);
    }
    let minus = e.neg(x)?;
    e.sub(minus, 1)
}

/// Whether the operands promote to `bool`.
fn is_bool(e: &dyn Emit, op: &Op, ins: &[Operand]) -> Result<bool, OpError> {
    let types: SmallVec<[_; 2]> = ins.iter().map(|x| e.operand_type(*x)).collect();
    Ok(infer(op, &types)?.dtype == DType::Bool)
}
