//! Operators on single elements. ONNX broadcasts as GT does, so operands are cast and no more.
//!
//! Integer powers, remainders and shifts are written out where ONNX says nothing of their results:
//! for negative exponents, for a divisor of 0, for signed integers and for distances out of range.

use gt_ir::op::{Binary, Unary};
use gt_ir::{DType, Emit, Op, OpError, Operand, Scalar, ValueId, infer, promote};

use super::{Graph, Node, Row, taken};
use crate::io::onnx::graph::Emitted;
use crate::io::onnx::proto::AttributeProto;

/// A primitive of one operand.
pub(super) fn unary(g: &mut Graph, row: &Row<'_>, op: Unary) -> Emitted {
    let name = match op {
        Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round if row.ty.dtype.is_int() => {
            return row.cast(g, 0, row.ty.dtype);
        }
        Unary::Floor => "Floor",
        Unary::Ceil => "Ceil",
        Unary::Round => "Round",
        Unary::Trunc => {
            let x = row.cast(g, 0, row.ty.dtype)?;
            let [up, down] = [Op::Ceil, Op::Floor].map(|op| g.emit(op, &[x.into()]));
            let is_negative = g.emit(Op::Lt, &[x.into(), 0.into()])?;
            return g.emit(Op::Where, &[is_negative.into(), up?.into(), down?.into()]);
        }
        Unary::Neg => "Neg",
        Unary::Abs => "Abs",
        Unary::Exp => "Exp",
        Unary::Exp2 => {
            let x = row.cast(g, 0, row.ty.dtype)?;
            return g.emit(Op::Pow, &[2.0.into(), x.into()]);
        }
        Unary::Log => "Log",
        Unary::Sqrt => "Sqrt",
        Unary::Sin => "Sin",
        Unary::Cos => "Cos",
        Unary::Tanh => "Tanh",
        Unary::Erf => "Erf",
        Unary::LogicalNot => "Not",
    };
    row.apply(g, name)
}

/// A primitive of two operands.
pub(super) fn binary(g: &mut Graph, row: &Row<'_>, op: Binary) -> Emitted {
    let is_bool = row.ty.dtype == DType::Bool;
    match op {
        Binary::Add => row.apply(g, if is_bool { "Or" } else { "Add" }),
        Binary::Sub => row.apply(g, "Sub"),
        Binary::Mul => row.apply(g, if is_bool { "And" } else { "Mul" }),
        Binary::Div => row.apply(g, "Div"),
        Binary::Pow => power(g, row),
        Binary::Fmod => fmod(g, row),
        Binary::Maximum => row.apply(g, if is_bool { "Or" } else { "Max" }),
        Binary::Minimum => row.apply(g, if is_bool { "And" } else { "Min" }),
        Binary::Eq => compare(g, row, "Equal"),
        Binary::Lt => compare(g, row, "Less"),
        Binary::LogicalAnd => row.apply(g, "And"),
        Binary::LogicalOr => row.apply(g, "Or"),
        Binary::LogicalXor => row.apply(g, "Xor"),
        Binary::BitwiseAnd => row.apply(g, if is_bool { "And" } else { "BitwiseAnd" }),
        Binary::LeftShift => shift_left(g, row),
        Binary::RightShift => shift_right(g, row),
    }
}

/// The operator of a derived op that computes in the dtype of its result, without attributes.
pub(super) fn operator(row: &Row<'_>) -> Option<&'static str> {
    let dtype = row.ty.dtype;
    let is_bool = dtype == DType::Bool;
    Some(match row.op {
        Op::BitwiseOr => ["BitwiseOr", "Or"][usize::from(is_bool)],
        Op::BitwiseXor => ["BitwiseXor", "Xor"][usize::from(is_bool)],
        Op::BitwiseNot => ["BitwiseNot", "Not"][usize::from(is_bool)],
        Op::Sigmoid => "Sigmoid",
        Op::Softplus => "Softplus",
        Op::Atan => "Atan",
        Op::Relu if dtype != DType::U8 => "Relu",
        // NaN has a sign there.
        Op::Sign if !dtype.is_float() => "Sign",
        _ => return None,
    })
}

/// A comparison in the dtype that the operands promote to.
pub(super) fn compare(g: &mut Graph, row: &Row<'_>, name: &'static str) -> Emitted {
    let dtype = taken(name, promote(row.types));
    let ins = [row.cast(g, 0, dtype)?, row.cast(g, 1, dtype)?];
    Ok(g.add(Node::new(name, &ins), row.ty))
}

/// The elements of one of two values.
pub(super) fn choose(g: &mut Graph, row: &Row<'_>) -> Emitted {
    let condition = row.cast(g, 0, DType::Bool)?;
    let (x, y) = (row.cast(g, 1, row.ty.dtype)?, row.cast(g, 2, row.ty.dtype)?);
    Ok(g.add(Node::new("Where", &[condition, x, y]), row.ty))
}

/// `Gelu` by a hyperbolic tangent.
pub(super) fn gelu_tanh(g: &mut Graph, row: &Row<'_>) -> Emitted {
    row.apply_with(g, "Gelu", |node| node.with(AttributeProto::text("approximate", "tanh")))
}

/// An activation with one number, which is an attribute.
pub(super) fn with_slope(
    g: &mut Graph,
    row: &Row<'_>,
    name: &'static str,
) -> Result<Option<ValueId>, OpError> {
    let Some(slope) = row.attribute(1) else { return Ok(None) };
    let dtype = taken(name, row.ty.dtype);
    let x = row.cast(g, 0, dtype)?;
    let node = Node::new(name, &[x]).with(AttributeProto::float("alpha", slope));
    let y = g.add(node, row.ty.with_dtype(dtype));
    Ok(Some(g.cast(y, row.ty.dtype)))
}

/// `Clip`, whose bounds are numbers.
pub(super) fn clamp(g: &mut Graph, row: &Row<'_>) -> Result<Option<ValueId>, OpError> {
    let bound = |i: usize| row.number(i).filter(|bound| !bound.as_f64().is_nan());
    match (bound(1), bound(2)) {
        (Some(_), Some(_)) => row.apply(g, "Clip").map(Some),
        _ => Ok(None),
    }
}

/// An instruction between those of a row.
fn emit<const N: usize>(g: &mut Graph, op: Op, ins: [Operand; N]) -> Result<Operand, OpError> {
    g.emit(op, &ins).map(Operand::Value)
}

/// Integers get a power of 0 for a negative exponent, unless the base is 1 or -1.
fn power(g: &mut Graph, row: &Row<'_>) -> Emitted {
    let is_natural = row.number(1).is_some_and(|exponent| exponent.as_i64() >= 0);
    if row.ty.dtype.is_float() || is_natural {
        return row.apply(g, "Pow");
    }
    let dtype = row.ty.dtype;
    let (x, y) = (row.cast(g, 0, dtype)?, row.cast(g, 1, dtype)?);
    let size = emit(g, Op::Abs, [y.into()])?;
    let power = plain(g, "Pow", [x.into(), size], dtype)?;
    let negative = emit(g, Op::Lt, [y.into(), 0.into()])?;
    let base = emit(g, Op::Abs, [x.into()])?;
    let fraction = emit(g, Op::Ne, [base, 1.into()])?;
    let gone = emit(g, Op::LogicalAnd, [negative, fraction])?;
    g.emit(Op::Where, &[gone, 0.into(), power])
}

/// An integer without a divisor stays.
fn fmod(g: &mut Graph, row: &Row<'_>) -> Emitted {
    let is_safe = row.number(1).is_some_and(|divisor| divisor.as_i64() != 0);
    if row.ty.dtype.is_float() || is_safe {
        return row.apply_with(g, "Mod", |node| node.int("fmod", 1));
    }
    let dtype = row.ty.dtype;
    let (x, y) = (row.cast(g, 0, dtype)?, row.cast(g, 1, dtype)?);
    let zero = emit(g, Op::Eq, [y.into(), 0.into()])?;
    let divisor = g.emit(Op::Where, &[zero, 1.into(), y.into()])?;
    let rest = g.add(Node::new("Mod", &[x, divisor]).int("fmod", 1), row.ty);
    g.emit(Op::Where, &[zero, x.into(), rest.into()])
}

/// An operator on two operands in this dtype, of the shape that they broadcast to.
fn plain(
    g: &mut Graph,
    name: &'static str,
    ins: [Operand; 2],
    dtype: DType,
) -> Result<Operand, OpError> {
    let ty = infer(&Op::Add, &ins.map(|x| g.operand_type(x)))?.with_dtype(dtype);
    let wide = taken(name, dtype);
    let ins = [g.operand(ins[0], wide)?, g.operand(ins[1], wide)?];
    let y = g.add(Node::new(name, &ins), ty.with_dtype(wide));
    Ok(g.cast(y, dtype).into())
}

/// The operands of a shift in the dtype of its result, whether the distance is below a limit, and
/// two to the power of those that are.
fn distances(g: &mut Graph, row: &Row<'_>, limit: i64) -> Result<[Operand; 3], OpError> {
    let dtype = row.ty.dtype;
    let (x, y) = (row.cast(g, 0, dtype)?, row.cast(g, 1, dtype)?);
    let above = emit(g, Op::Ge, [y.into(), 0.into()])?;
    let below = emit(g, Op::Lt, [y.into(), limit.into()])?;
    let inside = emit(g, Op::LogicalAnd, [above, below])?;
    let distance = emit(g, Op::Where, [inside, y.into(), 0.into()])?;
    let factor = plain(g, "Pow", [Scalar::I64(2).into(), distance], dtype)?;
    Ok([x.into(), inside, factor])
}

/// ONNX shifts unsigned integers only: a product with a power of two.
fn shift_left(g: &mut Graph, row: &Row<'_>) -> Emitted {
    let bits = 8 * row.ty.dtype.size() as i64;
    let [x, inside, factor] = distances(g, row, bits)?;
    let moved = emit(g, Op::Mul, [x, factor])?;
    g.emit(Op::Where, &[inside, moved, 0.into()])
}

/// A quotient by a power of two, of the inverted bits of a negative number.
fn shift_right(g: &mut Graph, row: &Row<'_>) -> Emitted {
    let dtype = row.ty.dtype;
    let signs = i64::from(dtype != DType::U8);
    let [x, inside, factor] = distances(g, row, 8 * dtype.size() as i64 - signs)?;
    let negative = emit(g, Op::Lt, [x, 0.into()])?;
    let inverse = emit(g, Op::BitwiseNot, [x])?;
    let size = emit(g, Op::Where, [negative, inverse, x])?;
    let quotient = plain(g, "Div", [size, factor], dtype)?;
    let inverse = emit(g, Op::BitwiseNot, [quotient])?;
    let moved = emit(g, Op::Where, [negative, inverse, quotient])?;
    let none = emit(g, Op::Mul, [x, 0.into()])?;
    let sign = emit(g, Op::Where, [negative, (-signs).into(), none])?;
    g.emit(Op::Where, &[inside, moved, sign])
}
