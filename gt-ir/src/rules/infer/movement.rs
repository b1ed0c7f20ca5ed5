//! Type rules of what moves elements and computes none: the dtype stays, and names stay with
//! dimensions that are kept whole.

use super::{Dims, Result, literal, misplaced, tensor};
use crate::{
    error::OpError,
    op::{Op, OperandType},
    rules::promote::promote,
    shape::{Dim, Shape, Type},
};

/// The shape of the attribute; the number of elements stays.
pub(crate) fn reshape(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Reshape(shape) = op else { return Err(misplaced(op)) };
    let t = tensor(op, ins, 0)?;
    if t.shape.numel() != shape.numel() {
        let (from, to) = (t.shape.numel(), shape.numel());
        return Err(OpError::new(format!(
            "reshape: {t} has {from} elements, but {shape} has {to}"
        )));
    }
    Ok(Type::new(t.dtype, *shape))
}

/// The dimensions in the order of the attribute, which names every axis once.
pub(crate) fn permute(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Permute(perm) = op else { return Err(misplaced(op)) };
    let t = tensor(op, ins, 0)?;
    if t.shape.rank() != perm.rank() {
        return Err(OpError::new(format!("permute: {} axes are given for {t}", perm.rank())));
    }
    Ok(Type::new(t.dtype, Shape::collect(perm.axes().map(|a| t.shape.dim(a)))?))
}

/// Two dimensions exchanged, each with its name.
pub(crate) fn transpose(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Transpose(swap) = op else { return Err(misplaced(op)) };
    let t = tensor(op, ins, 0)?;
    let (a, b) =
        (t.shape.axis("transpose", swap.0.into())?, t.shape.axis("transpose", swap.1.into())?);
    let mut dims: Dims = t.shape.dims().collect();
    dims.swap(a, b);
    Ok(Type::new(t.dtype, Shape::from_dims(&dims)?))
}

/// The shape of the attribute, to which the operand must broadcast.
pub(crate) fn expand(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Expand(shape) = op else { return Err(misplaced(op)) };
    let t = tensor(op, ins, 0)?;
    let fits = t.shape.broadcast(shape).is_some_and(|s| s.same_sizes(shape));
    if !fits {
        return Err(OpError::new(format!("expand: {t} does not expand to {shape}"))
            .hint("only dimensions of size 1 repeat"));
    }
    Ok(Type::new(t.dtype, *shape))
}

/// One dimension shortened to `ceil((stop - start) / step)`; it keeps its name only where it stays
/// whole.
pub(crate) fn slice(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Slice(s) = op else { return Err(misplaced(op)) };
    let t = tensor(op, ins, 0)?;
    let axis = t.shape.axis("slice", s.axis.into())?;
    let size = t.shape.sizes()[axis] as u64;
    if s.step == 0 || s.start > s.stop || s.stop > size {
        let range = format!("{}..{} by {}", s.start, s.stop, s.step);
        return Err(OpError::new(format!("slice: range {range} does not fit axis {axis} of {t}"))
            .hint("start <= stop <= size, step >= 1"));
    }
    let whole = s.len() == size;
    let dim = |d: Dim| if whole { d } else { Dim::new(s.len() as usize) };
    Ok(Type::new(t.dtype, replace(&t.shape, axis, dim(t.shape.dim(axis)))?))
}

/// The shape with another dimension at one axis.
pub(in crate::rules) fn replace(shape: &Shape, axis: usize, dim: Dim) -> Result<Shape> {
    Shape::collect(shape.dims().enumerate().map(|(i, d)| if i == axis { dim } else { d }))
}

/// The sum of the sizes along the axis; all other sizes are equal, dtypes promote.
pub(crate) fn cat(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Cat(axis) = op else { return Err(misplaced(op)) };
    let first = tensor(op, ins, 0)?;
    let axis = first.shape.axis("cat", axis.0.into())?;
    let mut total = 0_usize;
    for i in 0..ins.len() {
        let t = tensor(op, ins, i)?;
        let fits = t.shape.rank() == first.shape.rank()
            && t.shape
                .sizes()
                .iter()
                .zip(first.shape.sizes())
                .enumerate()
                .all(|(d, (a, b))| d == axis || a == b);
        if !fits {
            return Err(OpError::new(format!("cat: {first} and {t} differ outside axis {axis}")));
        }
        total = total.saturating_add(t.shape.sizes()[axis]);
    }
    let dim = if ins.len() == 1 { first.shape.dim(axis) } else { Dim::new(total) };
    Ok(Type::new(promote(ins), replace(&first.shape, axis, dim)?))
}

/// One dimension grown to `lo + n + (n - 1) * interior + hi`.
pub(crate) fn pad(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Pad(p) = op else { return Err(misplaced(op)) };
    let t = tensor(op, ins, 0)?;
    literal(op, ins, 1)?;
    let axis = t.shape.axis("pad", p.axis.into())?;
    let size = p.padded(t.shape.sizes()[axis]);
    let size =
        size.ok_or_else(|| OpError::new(format!("pad: axis {axis} of {t} grows beyond any size")))?;
    Ok(Type::new(t.dtype, replace(&t.shape, axis, Dim::new(size))?))
}
