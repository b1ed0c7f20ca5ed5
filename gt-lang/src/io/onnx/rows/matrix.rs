//! The two operations of linear algebra that ONNX has: determinants and Fourier transforms.

use gt_ir::attr::{Axis, Direction};
use gt_ir::{Dim, Emit, HostTensor, Op, OpError, Shape, Type, ValueId};

use super::{Graph, Node, Row};
use crate::io::onnx::graph::Emitted;

/// The determinant, its sign, and the logarithm of its absolute value, which is that of the
/// determinant as a float.
pub(super) fn determinant(g: &mut Graph, row: &Row<'_>) -> Emitted {
    let x = row.cast(g, 0, row.ty.dtype)?;
    let batch = row.ty.shape.rank() - 1;
    let flat = Shape::collect(row.ty.shape.dims().take(batch))?;
    let value = g.add(Node::new("Det", &[x]), Type::new(row.ty.dtype, flat));
    let sign = g.emit(Op::Sign, &[value.into()])?;
    let size = g.emit(Op::Abs, &[value.into()])?;
    let log = g.emit(Op::Log, &[size.into()])?;
    let column = Shape::collect(flat.dims().chain([Dim::new(1)]))?;
    let columns = [value, sign, log].map(|part| g.reshape(part, column));
    let columns = columns.into_iter().collect::<Result<Vec<ValueId>, OpError>>()?;
    let columns: Vec<_> = columns.into_iter().map(Into::into).collect();
    g.emit(Op::Cat(Axis(batch as u8)), &columns)
}

/// A transform along the last axis but one. ONNX divides the inverse by its length, and wants an
/// axis before it.
pub(super) fn fourier(g: &mut Graph, row: &Row<'_>, direction: Direction) -> Emitted {
    let x = row.cast(g, 0, row.ty.dtype)?;
    let one = std::iter::once(Dim::new(1));
    let batched = Shape::collect(one.chain(row.ty.shape.dims()))?;
    let x = g.reshape(x, batched)?;
    let axis = g.constant(&HostTensor::scalar(batched.rank() as i64 - 2));
    let is_inverse = matches!(direction, Direction::Inverse);
    let node = Node::new("DFT", &[x]).without().operand(axis);
    let node = node.int("inverse", i64::from(is_inverse));
    let y = g.add(node, Type::new(row.ty.dtype, batched));
    let y = g.reshape(y, row.ty.shape)?;
    let n = row.ty.shape.sizes()[row.ty.shape.rank() - 2];
    if is_inverse { g.emit(Op::Mul, &[y.into(), (n as i64).into()]) } else { Ok(y) }
}
