//! Type rules: the result's type from the operands', with PyTorch's broadcasting and promotion.
//! Names of dimensions travel along.
//!
//! Here are what all rules share, the pointwise ones and `matmul`; the others stand by what they do
//! to a shape: `reduction` drops axes, `movement` rearranges elements, `indexing` picks them,
//! `source` makes them. The op table reaches all of them through here. The arity has been checked
//! by [`infer`](crate::op::infer), so indexing operands by position is in range.

mod indexing;
mod movement;
mod reduction;
mod source;

use smallvec::SmallVec;

pub(crate) use indexing::{argsort, gather, index_add, index_select, one_hot, scatter_add};
pub(super) use movement::replace;
pub(crate) use movement::{cat, expand, pad, permute, reshape, slice, transpose};
pub(crate) use reduction::{
    argmax, extremum, float_over, layer_norm, mean, softmax, sum, truth, var,
};
pub(crate) use source::{arange, iota, literals, randint, random};

use super::promote::promote;
use crate::{
    dtype::DType,
    error::OpError,
    op::{Op, OperandType},
    shape::{Dim, MAX_RANK, Shape, Type},
};

/// A type, or why there is none.
pub(super) type Result<T> = std::result::Result<T, OpError>;
/// The dimensions of a result in the making.
pub(super) type Dims = SmallVec<[Dim; MAX_RANK]>;

/// Operands as messages list them: `f32[2,3] and f32[4]`.
fn list(ins: &[OperandType]) -> String {
    ins.iter().map(|t| t.to_string()).collect::<Vec<_>>().join(" and ")
}

/// Operand `i`, which must be a tensor.
pub(super) fn tensor(op: &Op, ins: &[OperandType], i: usize) -> Result<Type> {
    match ins[i] {
        OperandType::Tensor(t) => Ok(t),
        OperandType::Scalar(s) => Err(OpError::new(format!(
            "{}: operand {i} must be a tensor, but is the literal {s}",
            op.name()
        ))),
    }
}

/// Whether operand `i` is a number: a literal, or a tensor without axes.
pub(super) fn literal(op: &Op, ins: &[OperandType], i: usize) -> Result<()> {
    match ins[i] {
        OperandType::Tensor(t) if t.shape.rank() > 0 => Err(OpError::new(format!(
            "{}: operand {i} must be a literal or a zero-dimensional tensor, but is {t}",
            op.name()
        ))),
        OperandType::Tensor(_) | OperandType::Scalar(_) => Ok(()),
    }
}

/// Common shape of pointwise operands; at least one must be a tensor.
///
/// Literals have no shape and broadcast with everything.
pub(super) fn broadcast(op: &Op, ins: &[OperandType]) -> Result<Shape> {
    let mut shape: Option<Shape> = None;
    for operand in ins {
        let OperandType::Tensor(t) = operand else { continue };
        let joined = match &shape {
            None => Some(t.shape),
            Some(s) => s.broadcast(&t.shape),
        };
        shape = Some(joined.ok_or_else(|| {
            OpError::new(format!("{}: shapes of {} do not broadcast", op.name(), list(ins)))
                .hint("shapes align from the right; sizes must be equal or 1")
        })?);
    }
    shape.ok_or_else(|| {
        OpError::new(format!(
            "{}: at least one operand must be a tensor, but got {}",
            op.name(),
            list(ins)
        ))
    })
}

/// Dtype an arithmetic op computes in and returns.
pub(crate) fn arithmetic(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let ty = arithmetic_or_bool(op, ins)?;
    if ty.dtype == DType::Bool {
        return Err(OpError::new(format!("{}: not defined on bool, got {}", op.name(), list(ins)))
            .hint("cast to an integer or float first"));
    }
    Ok(ty)
}

/// Dtypes promote, shapes broadcast.
pub(crate) fn arithmetic_or_bool(op: &Op, ins: &[OperandType]) -> Result<Type> {
    Ok(Type::new(promote(ins), broadcast(op, ins)?))
}

/// Dtypes promote, shapes broadcast; integers and `bool` only.
pub(crate) fn bits(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let ty = arithmetic_or_bool(op, ins)?;
    if ty.dtype.is_float() {
        let message = format!("{}: takes integers and bool, but got {}", op.name(), list(ins));
        return Err(OpError::new(message).hint("cast to an integer first"));
    }
    Ok(ty)
}

/// Dtypes promote, shapes broadcast; integers only.
pub(crate) fn shifted(op: &Op, ins: &[OperandType]) -> Result<Type> {
    bits(op, ins)?;
    arithmetic(op, ins)
}

/// As [`arithmetic_or_bool`]; integers and `bool` become the default float.
pub(crate) fn float(op: &Op, ins: &[OperandType]) -> Result<Type> {
    Ok(Type::new(promote(ins).or_default_float(), broadcast(op, ins)?))
}

/// Shapes broadcast; gives `bool`.
pub(crate) fn compare(op: &Op, ins: &[OperandType]) -> Result<Type> {
    Ok(Type::new(DType::Bool, broadcast(op, ins)?))
}

/// `where c, x, y`: c is `bool`, the dtypes of x and y promote, all three shapes broadcast.
pub(crate) fn select(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let condition = tensor(op, ins, 0)?;
    if condition.dtype != DType::Bool {
        return Err(OpError::new(format!("where: the condition must be bool, but is {condition}"))
            .hint("compare it, e.g. with `ne x, 0`"));
    }
    Ok(Type::new(promote(&ins[1..]), broadcast(op, ins)?))
}

/// The shape of the operand, in the dtype of the attribute.
pub(crate) fn cast(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Cast(dtype) = op else { return Err(misplaced(op)) };
    Ok(tensor(op, ins, 0)?.with_dtype(*dtype))
}

/// Reached only if a row names the rule of an op with another attribute; the table test would find
/// it first.
pub(super) fn misplaced(op: &Op) -> OpError {
    OpError::new(format!("{}: the op table names a rule that does not fit it", op.name()))
}

/// The type of a matrix product.
///
/// `[m, k] [k, n] -> [m, n]`, `[b.., m, k] [c.., k, n] -> [broadcast(b, c).., m, n]`,
/// `[k] [k, n] -> [n]`, `[m, k] [k] -> [m]`, `[k] [k] -> []`.
pub(crate) fn matmul(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (a, b) = (tensor(op, ins, 0)?, tensor(op, ins, 1)?);
    let mismatch =
        |hint: &str| OpError::new(format!("matmul: cannot multiply {a} by {b}")).hint(hint);
    let (ra, rb) = (a.shape.rank(), b.shape.rank());
    if ra == 0 || rb == 0 {
        return Err(mismatch("matmul takes at least one dimension; use `mul` for a number"));
    }
    let dtype = promote(ins);
    if dtype == DType::Bool {
        return Err(mismatch("matmul is not defined on bool; cast first"));
    }
    let (ka, kb) = (a.shape.sizes()[ra - 1], b.shape.sizes()[rb.saturating_sub(2)]);
    if ka != kb {
        return Err(mismatch(
            "the last dimension of the left must equal the second-to-last of the right",
        ));
    }
    let batch = |s: &Shape| Shape::collect(s.dims().take(s.rank().saturating_sub(2)));
    let mut dims = Dims::new();
    // The common case, on the way of every recorded instruction, has no leading dimensions.
    if ra > 2 || rb > 2 {
        let batch = batch(&a.shape)?
            .broadcast(&batch(&b.shape)?)
            .ok_or_else(|| mismatch("leading dimensions must broadcast"))?;
        dims.extend(batch.dims());
    }
    dims.extend((ra > 1).then(|| a.shape.dim(ra - 2)));
    dims.extend((rb > 1).then(|| b.shape.dim(rb - 1)));
    Ok(Type::new(dtype, Shape::from_dims(&dims)?))
}
