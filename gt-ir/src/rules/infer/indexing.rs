//! Type rules of what takes indices or gives them. Whether an index is in range is data, which only
//! a run can see.

use super::{Result, misplaced, tensor};
use crate::{
    dtype::{Category, DType},
    error::OpError,
    op::{Op, OperandType},
    shape::{Dim, Shape, Type},
};

/// Operand `i`, which must be an integer tensor.
fn index(op: &Op, ins: &[OperandType], i: usize) -> Result<Type> {
    let t = tensor(op, ins, i)?;
    if t.dtype.category() == Category::Int {
        return Ok(t);
    }
    Err(OpError::new(format!("{}: the index must be an integer tensor, but is {t}", op.name()))
        .hint("cast it to i64"))
}

/// `index` may be smaller than `x` on every axis but the one addressed.
fn within(op: &Op, index: &Type, x: &Type, axis: usize) -> Result<()> {
    let fits = index.shape.rank() == x.shape.rank()
        && index
            .shape
            .sizes()
            .iter()
            .zip(x.shape.sizes())
            .enumerate()
            .all(|(d, (i, n))| d == axis || i <= n);
    if fits {
        return Ok(());
    }
    Err(OpError::new(format!("{}: index {index} does not fit {x} outside axis {axis}", op.name())))
}

/// `x[.., n, ..]` and `index[.., k, ..]` to the shape of the index, in the dtype of x.
pub(crate) fn gather(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Gather(axis) = op else { return Err(misplaced(op)) };
    let (x, i) = (tensor(op, ins, 0)?, index(op, ins, 1)?);
    let axis = x.shape.axis("gather", axis.0.into())?;
    within(op, &i, &x, axis)?;
    Ok(Type::new(x.dtype, i.shape))
}

/// The source of an update has the dtype of its base: a silent cast could lose what is added.
fn same_dtype(op: &Op, base: &Type, src: &Type) -> Result<()> {
    if base.dtype == src.dtype {
        return Ok(());
    }
    Err(OpError::new(format!("{}: base {base} and source {src} differ in dtype", op.name()))
        .hint("cast one of them"))
}

/// Nothing is added into `bool`: whether the sum should be `or` or a count is for the user to say.
fn not_bool(op: &Op, t: &Type) -> Result<()> {
    if t.dtype == DType::Bool {
        Err(OpError::new(format!("{}: cannot add into {t}", op.name()))
            .hint("cast to an integer first"))
    } else {
        Ok(())
    }
}

/// `base, index, src` to the type of the base; index and source have one shape.
pub(crate) fn scatter_add(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (Op::ScatterAdd(axis)
    | Op::Scatter(axis)
    | Op::ScatterMax(axis)
    | Op::ScatterMin(axis)
    | Op::ScatterMul(axis)) = op
    else {
        return Err(misplaced(op));
    };
    let (base, i, src) = (tensor(op, ins, 0)?, index(op, ins, 1)?, tensor(op, ins, 2)?);
    let axis = base.shape.axis(op.name(), axis.0.into())?;
    within(op, &i, &base, axis)?;
    same_dtype(op, &base, &src)?;
    if matches!(op, Op::ScatterAdd(_)) {
        not_bool(op, &base)?;
    }
    if !i.shape.same_sizes(&src.shape) {
        return Err(OpError::new(format!(
            "{}: index {i} and source {src} differ in shape",
            op.name()
        )));
    }
    Ok(base)
}

/// `x.shape[..axis] + index.shape + x.shape[axis + 1..]`.
fn selected(x: &Shape, index: &Shape, axis: usize) -> Result<Shape> {
    let dims = x.dims().take(axis).chain(index.dims()).chain(x.dims().skip(axis + 1));
    Shape::collect(dims)
}

/// `x[a, n, b]` and `index[i, j]` to `[a, i, j, b]`, in the dtype of x.
pub(crate) fn index_select(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::IndexSelect(axis) = op else { return Err(misplaced(op)) };
    let (x, i) = (tensor(op, ins, 0)?, index(op, ins, 1)?);
    let axis = x.shape.axis("index_select", axis.0.into())?;
    Ok(Type::new(x.dtype, selected(&x.shape, &i.shape, axis)?))
}

/// `base, index, src` to the type of the base; the source has the shape that `index_select` gives.
pub(crate) fn index_add(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (Op::IndexAdd(axis) | Op::IndexCopy(axis)) = op else { return Err(misplaced(op)) };
    let (base, i, src) = (tensor(op, ins, 0)?, index(op, ins, 1)?, tensor(op, ins, 2)?);
    let axis = base.shape.axis(op.name(), axis.0.into())?;
    same_dtype(op, &base, &src)?;
    if matches!(op, Op::IndexAdd(_)) {
        not_bool(op, &base)?;
    }
    if !selected(&base.shape, &i.shape, axis)?.same_sizes(&src.shape) {
        return Err(OpError::new(format!(
            "{}: source {src} does not fit base {base} and index {i} along axis {axis}",
            op.name()
        )));
    }
    Ok(base)
}

/// `index[..]` to `i64[.., classes]`.
pub(crate) fn one_hot(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::OneHot(classes) = op else { return Err(misplaced(op)) };
    let i = index(op, ins, 0)?;
    let classes = usize::try_from(classes.0)
        .map_err(|_| OpError::new("one_hot: more classes than can be addressed"))?;
    Ok(Type::new(DType::I64, Shape::collect(i.shape.dims().chain([Dim::new(classes)]))?))
}

/// The shape of the operand, as `i64`.
pub(crate) fn argsort(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::ArgSort(order) = op else { return Err(misplaced(op)) };
    let x = tensor(op, ins, 0)?;
    x.shape.axis("argsort", order.axis.into())?;
    Ok(x.with_dtype(DType::I64))
}
