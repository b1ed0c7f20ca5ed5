//! Operators that fold axes, and those that look at a whole axis: sums, extrema, positions, orders,
//! running sums, softmax and normalizations.

use gt_ir::attr::{Axis, Keep, Order, Reduce, ReduceOne, Trailing};
use gt_ir::{DType, HostTensor, OpError, Type, ValueId};

use super::{Graph, Node, Row, taken};
use crate::io::onnx::graph::Emitted;
use crate::io::onnx::proto::AttributeProto;

/// A fold over axes; none of them leaves the operand as it is. Narrow floats are added up in `f32`.
pub(super) fn over(g: &mut Graph, row: &Row<'_>, name: &'static str, over: Reduce) -> Emitted {
    if over.axes.is_empty() {
        return row.cast(g, 0, row.ty.dtype);
    }
    let is_extremum = matches!(name, "ReduceMax" | "ReduceMin");
    let dtype = if is_extremum { taken(name, row.ty.dtype) } else { wide(row.ty.dtype) };
    let x = row.cast(g, 0, dtype)?;
    let axes = g.ints(over.axes.iter().map(|axis| axis as i64))?;
    let node = Node::new(name, &[x, axes]).int("keepdims", kept(over.keep));
    let y = g.add(node, row.ty.with_dtype(dtype));
    Ok(g.cast(y, row.ty.dtype))
}

fn kept(keep: Keep) -> i64 {
    i64::from(keep == Keep::Yes)
}

/// The position of an extremum.
pub(super) fn place(g: &mut Graph, row: &Row<'_>, name: &'static str, over: ReduceOne) -> Emitted {
    let x = row.cast(g, 0, taken(name, row.operand_type(0).dtype))?;
    let node = Node::new(name, &[x]).int("axis", over.axis.into());
    Ok(g.add(node.int("keepdims", kept(over.keep)), row.ty))
}

/// Positions in sorted order: the largest or smallest of all elements.
pub(super) fn argsort(g: &mut Graph, row: &Row<'_>, order: Order) -> Emitted {
    let dtype = taken("TopK", row.operand_type(0).dtype);
    let x = row.cast(g, 0, dtype)?;
    let n = row.ty.shape.sizes()[usize::from(order.axis)];
    let n = g.ints([n as i64])?;
    let node = Node::new("TopK", &[x, n]).int("axis", order.axis.into());
    let node = node.int("largest", i64::from(order.descending)).int("sorted", 1);
    Ok(g.add_second(node, row.ty.with_dtype(dtype), row.ty))
}

/// Running sums, of narrow floats in `f32`.
pub(super) fn cumsum(g: &mut Graph, row: &Row<'_>, axis: Axis) -> Emitted {
    let dtype = wide(row.ty.dtype);
    let x = row.cast(g, 0, dtype)?;
    let axis = g.constant(&HostTensor::scalar(i64::from(axis.0)));
    let y = g.add(Node::new("CumSum", &[x, axis]), row.ty.with_dtype(dtype));
    Ok(g.cast(y, row.ty.dtype))
}

/// The dtype that many elements are added up in.
pub(super) fn wide(dtype: DType) -> DType {
    if matches!(dtype, DType::F16 | DType::Bf16) { DType::F32 } else { dtype }
}

/// An operator along one axis that keeps the shape; of narrow floats in `f32`, since evaluators
/// take the logarithm of a rounded softmax.
pub(super) fn along(g: &mut Graph, row: &Row<'_>, name: &'static str, axis: Axis) -> Emitted {
    let dtype = wide(row.ty.dtype);
    let x = row.cast(g, 0, dtype)?;
    let y = g.add(Node::new(name, &[x]).int("axis", axis.0.into()), row.ty.with_dtype(dtype));
    Ok(g.cast(y, row.ty.dtype))
}

/// `LayerNormalization`, if its epsilon is a number.
pub(super) fn layer_norm(
    g: &mut Graph,
    row: &Row<'_>,
    dims: Trailing,
) -> Result<Option<ValueId>, OpError> {
    let Some(eps) = row.attribute(3) else { return Ok(None) };
    let dtype = row.ty.dtype;
    let ins = [row.cast(g, 0, dtype)?, row.cast(g, 1, dtype)?, row.cast(g, 2, dtype)?];
    let node = Node::new("LayerNormalization", &ins).int("axis", -i64::from(dims.0));
    Ok(Some(g.add(node.with(AttributeProto::float("epsilon", eps)), row.ty)))
}

/// `BatchNormalization` in use, if its epsilon is a number.
pub(super) fn batch_norm(g: &mut Graph, row: &Row<'_>) -> Result<Option<ValueId>, OpError> {
    let Some(eps) = row.attribute(5) else { return Ok(None) };
    let channels = row.ty.shape.sizes().get(1).copied();
    let fits = |ty: Type| Some(ty.shape.numel()) == channels && ty.shape.rank() == 1;
    if !(1..5).all(|i| fits(row.operand_type(i))) {
        return Ok(None);
    }
    let dtype = row.ty.dtype;
    // In GT's order: x, mean, variance, weight, bias.
    let order = [0, 3, 4, 1, 2].map(|i| row.cast(g, i, dtype));
    let ins = order.into_iter().collect::<Result<Vec<ValueId>, OpError>>()?;
    let node = Node::new("BatchNormalization", &ins);
    Ok(Some(g.add(node.with(AttributeProto::float("epsilon", eps)), row.ty)))
}
