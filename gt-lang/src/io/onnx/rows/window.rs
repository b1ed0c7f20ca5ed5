//! Operators on windows: convolutions, pooling, and windows themselves, which are picked by a table
//! of positions.

use gt_ir::attr::{Conv, Pool, Window};
use gt_ir::{Dim, Emit, HostTensor, Op, OpError, Shape, Type};

use super::movement::transposed;
use super::{Graph, Node, Row, taken};
use crate::io::onnx::graph::Emitted;
use crate::io::onnx::proto::AttributeProto;

/// Two numbers of an attribute, `times` times.
fn twice(name: &str, [a, b]: [u32; 2], times: usize) -> AttributeProto {
    AttributeProto::ints(name, [a.into(), b.into()].repeat(times))
}

/// A convolution over height and width.
pub(super) fn conv(g: &mut Graph, row: &Row<'_>, how: Conv) -> Emitted {
    row.apply_with(g, "Conv", |node| {
        node.with(twice("strides", how.stride, 1))
            .with(twice("pads", how.padding, 2))
            .with(twice("dilations", how.dilation, 1))
            .int("group", how.groups.into())
    })
}

/// The largest element of each window. ONNX wants a batch of channels, and an element at least.
pub(super) fn max_pool(g: &mut Graph, row: &Row<'_>, how: Pool) -> Emitted {
    let x = row.value(g, 0)?;
    if g.ty(x).shape.numel() == 0 || row.ty.shape.numel() == 0 {
        return g.emit(Op::Full(row.ty), &[f64::NEG_INFINITY.into()]);
    }
    let dtype = taken("MaxPool", row.ty.dtype);
    let x = g.cast(x, dtype);
    let batch = images(&g.ty(x).shape)?;
    let x = g.reshape(x, batch)?;
    let node = Node::new("MaxPool", &[x])
        .with(twice("kernel_shape", how.size, 1))
        .with(twice("strides", how.stride, 1))
        .with(twice("pads", how.padding, 2))
        .with(twice("dilations", how.dilation, 1));
    let y = g.add(node, Type::new(dtype, images(&row.ty.shape)?));
    let y = g.reshape(y, row.ty.shape)?;
    Ok(g.cast(y, row.ty.dtype))
}

/// A shape with two axes before height and width.
fn images(shape: &Shape) -> Result<Shape, OpError> {
    if shape.rank() == 4 {
        return Ok(*shape);
    }
    let lead = shape.rank().saturating_sub(2);
    let n = shape.sizes()[..lead].iter().product();
    Shape::collect([Dim::new(1), Dim::new(n)].into_iter().chain(shape.dims().skip(lead)))
}

/// Windows along an axis, whose elements are a last axis.
pub(super) fn unfold(g: &mut Graph, row: &Row<'_>, windows: Window) -> Emitted {
    let x = row.value(g, 0)?;
    let (axis, rank) = (usize::from(windows.axis), row.ty.shape.rank());
    let count = row.ty.shape.sizes()[axis] as u64;
    let place = |i: u64, k: u64| (i * windows.step + k * windows.dilation) as i64;
    let places = (0..count).flat_map(|i| (0..windows.size).map(move |k| place(i, k))).collect();
    let table = Shape::new(&[count as usize, windows.size as usize])?;
    let table = g.constant(&HostTensor::from_vec(places, table)?);
    // Behind the axis of windows, and last in the result.
    let within = axis + 1;
    let order: Vec<usize> =
        (0..rank).filter(|i| *i != within).chain(std::iter::once(within)).collect();
    let mut dims: Vec<Dim> = row.ty.shape.dims().collect();
    let size = dims.remove(rank - 1);
    dims.insert(within, size);
    let node = Node::new("Gather", &[x, table]).int("axis", windows.axis.into());
    let picked = g.add(node, Type::new(row.ty.dtype, Shape::from_dims(&dims)?));
    Ok(transposed(g, picked, order, row.ty.shape))
}
