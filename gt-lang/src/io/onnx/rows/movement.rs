//! Operators that move elements, and those that make them of nothing.

use gt_ir::attr::{Axis, AxisSet, Diagonal, Pad, Perm, Slice, Swap};
use gt_ir::{DType, Dim, Emit, HostTensor, OpError, Shape, Type, ValueId};

use super::{Graph, Node, Row};
use crate::io::onnx::graph::{Emitted, number};
use crate::io::onnx::proto::{AttributeProto, dims};

/// The same elements in another shape.
pub(super) fn reshape(g: &mut Graph, row: &Row<'_>, shape: Shape) -> Emitted {
    let x = row.cast(g, 0, row.ty.dtype)?;
    g.reshape(x, shape)
}

/// Axes of size 1 repeated.
pub(super) fn expand(g: &mut Graph, row: &Row<'_>, shape: Shape) -> Emitted {
    let x = row.cast(g, 0, row.ty.dtype)?;
    g.expand(x, shape)
}

/// The axes in another order.
pub(super) fn permute(g: &mut Graph, row: &Row<'_>, perm: Perm) -> Emitted {
    let x = row.value(g, 0)?;
    Ok(transposed(g, x, perm.axes(), row.ty.shape))
}

/// Two axes exchanged.
pub(super) fn transpose(g: &mut Graph, row: &Row<'_>, swap: Swap) -> Emitted {
    let x = row.value(g, 0)?;
    let mut order: Vec<usize> = (0..row.ty.shape.rank()).collect();
    order.swap(swap.0.into(), swap.1.into());
    Ok(transposed(g, x, order, row.ty.shape))
}

/// A value of this shape, with its axes in this order.
pub(super) fn transposed(
    g: &mut Graph,
    x: ValueId,
    order: impl IntoIterator<Item = usize>,
    shape: Shape,
) -> ValueId {
    let order = order.into_iter().map(|axis| axis as i64);
    let node = Node::new("Transpose", &[x]).with(AttributeProto::ints("perm", order));
    let dtype = g.ty(x).dtype;
    g.add(node, Type::new(dtype, shape))
}

/// A strided range of an axis.
pub(super) fn slice(g: &mut Graph, row: &Row<'_>, slice: Slice) -> Emitted {
    let x = row.value(g, 0)?;
    let bound = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let range = [(slice.axis.into(), bound(slice.start), bound(slice.stop), bound(slice.step))];
    sliced(g, x, &range, row.ty.shape)
}

/// Ranges of axes (axis, start, stop, step).
pub(super) fn sliced(
    g: &mut Graph,
    x: ValueId,
    ranges: &[(i64, i64, i64, i64)],
    shape: Shape,
) -> Emitted {
    let starts = g.ints(ranges.iter().map(|range| range.1))?;
    let stops = g.ints(ranges.iter().map(|range| range.2))?;
    let axes = g.ints(ranges.iter().map(|range| range.0))?;
    let steps = g.ints(ranges.iter().map(|range| range.3))?;
    let dtype = g.ty(x).dtype;
    Ok(g.add(Node::new("Slice", &[x, starts, stops, axes, steps]), Type::new(dtype, shape)))
}

/// Axes backwards.
pub(super) fn flip(g: &mut Graph, row: &Row<'_>, axes: AxisSet) -> Emitted {
    let x = row.value(g, 0)?;
    if axes.is_empty() {
        return Ok(x);
    }
    // The range ends before the first element, which is below every number that counts from 0.
    let ranges: Vec<_> = axes.iter().map(|axis| (axis as i64, -1, i64::MIN + 1, -1)).collect();
    sliced(g, x, &ranges, row.ty.shape)
}

/// Values one after the other.
pub(super) fn cat(g: &mut Graph, row: &Row<'_>, axis: Axis) -> Emitted {
    row.apply_with(g, "Concat", |node| node.int("axis", axis.0.into()))
}

/// Elements put before, after and between. ONNX puts none between: the axis gets a second one, in
/// which they stand behind each element.
pub(super) fn pad(g: &mut Graph, row: &Row<'_>, pad: Pad) -> Emitted {
    let (x, value) = (row.cast(g, 0, row.ty.dtype)?, row.cast(g, 1, row.ty.dtype)?);
    let axis = usize::from(pad.axis);
    let n = g.ty(x).shape.sizes().get(axis).copied().unwrap_or(0);
    let x = if pad.interior > 0 && n > 1 { spread(g, x, value, pad)? } else { x };
    if pad.lo == 0 && pad.hi == 0 {
        return Ok(x);
    }
    padded(g, x, value, Pad { interior: 0, ..pad })
}

/// Elements put between those of an axis.
fn spread(g: &mut Graph, x: ValueId, value: ValueId, pad: Pad) -> Emitted {
    let (axis, shape) = (usize::from(pad.axis), g.ty(x).shape);
    let (n, wide) = (shape.sizes()[axis], 1 + pad.interior as usize);
    let around = |middle: &[usize]| {
        let (before, behind) = (shape.dims().take(axis), shape.dims().skip(axis + 1));
        Shape::collect(before.chain(middle.iter().map(|size| Dim::new(*size))).chain(behind))
    };
    let cells = g.reshape(x, around(&[n, 1])?)?;
    let behind = Pad { axis: pad.axis + 1, lo: 0, hi: pad.interior, interior: 0 };
    let cells = padded(g, cells, value, behind)?;
    let line = g.reshape(cells, around(&[n * wide])?)?;
    let length = n * wide - pad.interior as usize;
    sliced(g, line, &[(axis as i64, 0, length as i64, 1)], around(&[length])?)
}

/// Elements put before and after those of an axis.
fn padded(g: &mut Graph, x: ValueId, value: ValueId, pad: Pad) -> Emitted {
    let (axis, ty) = (usize::from(pad.axis), g.ty(x));
    let size = |(i, dim): (usize, Dim)| {
        let more = if i == axis { (pad.lo + pad.hi) as usize } else { 0 };
        if more == 0 { dim } else { Dim::new(dim.size + more) }
    };
    let shape = Shape::collect(ty.shape.dims().enumerate().map(size))?;
    let (pads, axes) = (g.ints([pad.lo as i64, pad.hi as i64])?, g.ints([axis as i64])?);
    let node = Node::new("Pad", &[x, pads, value, axes]);
    Ok(g.add(node, Type::new(ty.dtype, shape)))
}

/// One number everywhere.
pub(super) fn full(g: &mut Graph, row: &Row<'_>) -> Emitted {
    let Some(scalar) = row.number(0).filter(|_| row.ty.shape.rank() > 0) else {
        let value = row.cast(g, 0, row.ty.dtype)?;
        return g.expand(value, row.ty.shape);
    };
    let value = number(scalar, row.ty.dtype)?;
    let line = HostTensor::new(Type::new(row.ty.dtype, Shape::new(&[1])?), value.into_bytes())?;
    let sizes = g.ints(dims(row.ty.shape.sizes()))?;
    let node = Node::new("ConstantOfShape", &[sizes]);
    Ok(g.add(node.with(AttributeProto::tensor("value", &line)), row.ty))
}

/// The numbers 0, 1, 2, ..
pub(super) fn iota(g: &mut Graph, row: &Row<'_>) -> Emitted {
    let n = row.ty.shape.numel();
    let [start, stop, step] = [0, n as i64, 1].map(HostTensor::scalar);
    let ins = [g.constant(&start), g.constant(&stop), g.constant(&step)];
    let line = g.add(Node::new("Range", &ins), Type::new(DType::I64, Shape::new(&[n])?));
    let line = g.cast(line, row.ty.dtype);
    g.reshape(line, row.ty.shape)
}

/// The elements on one side of a diagonal.
pub(super) fn triangle(
    g: &mut Graph,
    row: &Row<'_>,
    diagonal: Diagonal,
    part: &'static str,
) -> Result<ValueId, OpError> {
    let x = row.value(g, 0)?;
    let diagonal = g.constant(&HostTensor::scalar(diagonal.0));
    let node = Node::new("Trilu", &[x, diagonal]).int("upper", i64::from(part == "upper"));
    Ok(g.add(node, row.ty))
}
