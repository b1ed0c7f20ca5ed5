//! Operators whose positions are data. Positions are `i64`; ONNX reads negative ones from the end,
//! where GT's runs end in an error.

use gt_ir::attr::Axis;
use gt_ir::{DType, Dim, Emit, OpError, Shape, ValueId};

use super::movement::sliced;
use super::reduce::wide;
use super::{Graph, Node, Row};
use crate::io::onnx::graph::Emitted;
use crate::io::onnx::proto::AttributeProto;

/// Single elements along an axis. ONNX wants the other axes to be as long as those of the index.
pub(super) fn gather(g: &mut Graph, row: &Row<'_>, axis: Axis) -> Emitted {
    let (x, index) = (row.value(g, 0)?, row.cast(g, 1, DType::I64)?);
    let (whole, wanted) = (g.ty(x).shape, g.ty(index).shape);
    let kept = replaced(&wanted, axis.0.into(), whole.sizes()[usize::from(axis.0)])?;
    let x = if kept.same_sizes(&whole) { x } else { cut(g, x, kept)? };
    let node = Node::new("GatherElements", &[x, index]).int("axis", axis.0.into());
    Ok(g.add(node, row.ty))
}

/// The first elements of each axis.
fn cut(g: &mut Graph, x: ValueId, shape: Shape) -> Emitted {
    let ranges = shape.sizes().iter().enumerate();
    let ranges: Vec<_> = ranges.map(|(axis, size)| (axis as i64, 0, *size as i64, 1)).collect();
    sliced(g, x, &ranges, shape)
}

/// Whole slices along an axis.
pub(super) fn index_select(g: &mut Graph, row: &Row<'_>, axis: Axis) -> Emitted {
    let (x, index) = (row.value(g, 0)?, row.cast(g, 1, DType::I64)?);
    let node = Node::new("Gather", &[x, index]).int("axis", axis.0.into());
    Ok(g.add(node, row.ty))
}

/// Single elements added along an axis.
pub(super) fn scatter_add(g: &mut Graph, row: &Row<'_>, axis: Axis) -> Emitted {
    let (index, dtype) = (row.cast(g, 1, DType::I64)?, wide(row.ty.dtype));
    let src = row.cast(g, 2, dtype)?;
    scattered(g, row, axis, index, src)
}

/// Whole slices added along an axis: each element of them by itself.
pub(super) fn index_add(g: &mut Graph, row: &Row<'_>, axis: Axis) -> Emitted {
    let (index, dtype) = (row.cast(g, 1, DType::I64)?, wide(row.ty.dtype));
    let src = row.cast(g, 2, dtype)?;
    let (n, axis_at) = (g.ty(index).shape.numel(), usize::from(axis.0));
    let all = replaced(&row.ty.shape, axis_at, n)?;
    let line = (0..all.rank()).map(|i| Dim::new(if i == axis_at { n } else { 1 }));
    let index = g.reshape(index, Shape::collect(line)?)?;
    let (index, src) = (g.expand(index, all)?, g.reshape(src, all)?);
    scattered(g, row, axis, index, src)
}

/// A shape with another size of one axis.
fn replaced(shape: &Shape, axis: usize, size: usize) -> Result<Shape, OpError> {
    let dims = shape.dims().enumerate();
    Shape::collect(dims.map(|(i, dim)| if i == axis { Dim::new(size) } else { dim }))
}

/// The base of a row with elements added, in the dtype of their sums.
fn scattered(g: &mut Graph, row: &Row<'_>, axis: Axis, index: ValueId, src: ValueId) -> Emitted {
    let dtype = wide(row.ty.dtype);
    let base = row.cast(g, 0, dtype)?;
    let node = Node::new("ScatterElements", &[base, index, src]).int("axis", axis.0.into());
    let node = node.with(AttributeProto::text("reduction", "add"));
    let sums = g.add(node, row.ty.with_dtype(dtype));
    Ok(g.cast(sums, row.ty.dtype))
}
