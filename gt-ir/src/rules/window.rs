//! Windows along axes, and convolution as a matrix product over them.
//!
//! Windows that touch without overlapping are views; others are put together from one strided slice for each of a window's elements.

use super::{
    derive::{misplaced, value},
    infer::{Result, tensor},
};
use crate::{
    attr::{Axis, Conv, Pad, Perm, Slice, Window},
    emit::{Build, Emit, Emitted},
    error::OpError,
    op::{Op, Operand, OperandType},
    shape::{Dim, Shape, Type},
    tape::ValueId,
};

pub(crate) fn infer_unfold(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Unfold(w) = op else { return Err(misplaced(op)) };
    let x = tensor(op, ins, 0)?;
    let axis = x.shape.axis("unfold", w.axis.into())?;
    let n = w.count(x.shape.sizes()[axis]).ok_or_else(|| {
        let (size, step, dilation) = (w.size, w.step, w.dilation);
        let what = format!("windows of {size} elements, {dilation} apart, every {step}");
        OpError::new(format!("unfold: {what}, do not fit axis {axis} of {x}"))
            .hint("size, step and dilation are at least 1, and one window must fit")
    })?;
    let counted = super::infer::replace(&x.shape, axis, Dim::new(n))?;
    Ok(Type::new(x.dtype, Shape::collect(counted.dims().chain([Dim::new(w.size as usize)]))?))
}

pub(crate) fn unfold(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::Unfold(w) = *op else { return Err(misplaced(op)) };
    let x = value(op, ins, 0)?;
    let rank = e.ty(x).shape.rank();
    let axis = usize::from(w.axis);
    let y = windows(e, x, w)?;
    // The elements of a window go last.
    let order: Vec<usize> = (0..=rank).filter(|a| *a != axis).chain([axis]).collect();
    e.permute(y, Perm::new(&order).ok_or_else(|| misplaced(op))?)
}

/// The axis as two: a window's elements, then the windows.
fn windows(e: &mut dyn Emit, x: ValueId, w: Window) -> Emitted {
    let shape = e.ty(x).shape;
    let axis = usize::from(w.axis);
    let n = w.count(shape.sizes()[axis]).unwrap_or(0);
    if n > 0 && w.dilation == 1 && w.step == w.size {
        let whole =
            e.slice(x, Slice { axis: w.axis, start: 0, stop: n as u64 * w.size, step: 1 })?;
        let apart = e.reshape(whole, split(&shape, axis, [n, w.size as usize])?)?;
        let order = Perm::swap(shape.rank() + 1, axis, axis + 1);
        return e.permute(apart, order.ok_or_else(|| OpError::new("unfold: no such axis"))?);
    }
    let line = split(&shape, axis, [1, n])?;
    let mut parts: Vec<Operand> = Vec::new();
    for k in 0..w.size {
        let start = k * w.dilation;
        let stop = start + (n as u64 - 1) * w.step + 1;
        let part = e.slice(x, Slice { axis: w.axis, start, stop, step: w.step })?;
        parts.push(e.reshape(part, line)?.into());
    }
    match parts.as_slice() {
        [Operand::Value(only)] => Ok(*only),
        _ => joined(e, w.axis, &parts),
    }
}

/// One `cat`, or several where a window has more elements than an instruction takes operands.
fn joined(e: &mut dyn Emit, axis: u8, parts: &[Operand]) -> Emitted {
    let mut some: Vec<Operand> = Vec::new();
    for chunk in parts.chunks(crate::text::MAX_OPERANDS) {
        some.push(e.emit(Op::Cat(Axis(axis)), chunk)?.into());
    }
    if some.len() == 1 { value(&Op::Cat(Axis(axis)), &some, 0) } else { joined(e, axis, &some) }
}

/// A shape with one axis as two of these sizes.
fn split(shape: &Shape, axis: usize, into: [usize; 2]) -> Result<Shape> {
    let (before, after) = (shape.dims().take(axis), shape.dims().skip(axis + 1));
    Shape::collect(before.chain(into.map(Dim::new)).chain(after))
}

/// Height and width of the result.
fn extent(c: &Conv, image: &Shape, kernel: &Shape) -> Option<[usize; 2]> {
    let along = |i: usize| {
        let padded = image.sizes()[2 + i].checked_add(2 * c.padding[i] as usize)?;
        over(c, i, kernel).count(padded)
    };
    Some([along(0)?, along(1)?])
}

/// The windows along height (0) or width (1).
fn over(c: &Conv, i: usize, kernel: &Shape) -> Window {
    Window {
        axis: 0,
        size: kernel.sizes()[2 + i] as u64,
        step: c.stride[i].into(),
        dilation: c.dilation[i].into(),
    }
}

pub(crate) fn infer_conv(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Conv2d(c) = op else { return Err(misplaced(op)) };
    let (x, w) = (tensor(op, ins, 0)?, tensor(op, ins, 1)?);
    let mismatch = |why: &str| {
        OpError::new(format!("conv2d: kernels {w} do not fit {x}")).hint(why.to_owned())
    };
    if x.shape.rank() != 4 || w.shape.rank() != 4 || x.dtype != w.dtype || !x.dtype.is_float() {
        return Err(mismatch(
            "floats of one dtype: [batch, channels, height, width] and [out channels, channels / groups, height, width]",
        ));
    }
    let (groups, channels) = (c.groups as usize, x.shape.sizes()[1]);
    let [out, each, ..] = *w.shape.sizes() else { return Err(misplaced(op)) };
    if groups == 0 || out % groups != 0 || Some(channels) != each.checked_mul(groups) {
        return Err(mismatch(
            "the channels of the kernels times the groups are those of the image; out channels divide into the groups",
        ));
    }
    let [height, width] = extent(c, &x.shape, &w.shape)
        .ok_or_else(|| mismatch("not one window fits the padded image"))?;
    let dims = [x.shape.dim(0), w.shape.dim(0), Dim::new(height), Dim::new(width)];
    Ok(Type::new(x.dtype, Shape::from_dims(&dims)?))
}

/// Kernels as rows, windows as columns: one product for the whole batch.
pub(crate) fn conv2d(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::Conv2d(c) = *op else { return Err(misplaced(op)) };
    let (x, w) = (value(op, ins, 0)?, value(op, ins, 1)?);
    let (image, kernel) = (e.ty(x).shape, e.ty(w).shape);
    let [height, width] = extent(&c, &image, &kernel).ok_or_else(|| misplaced(op))?;
    let mut y = x;
    for (i, axis) in [(0, 2), (1, 3)] {
        let around = c.padding[i].into();
        if around > 0 {
            y = e.pad(y, Pad { axis, lo: around, hi: around, interior: 0 })?;
        }
    }
    let y = windows(e, y, Window { axis: 2, ..over(&c, 0, &kernel) })?;
    let y = windows(e, y, Window { axis: 4, ..over(&c, 1, &kernel) })?;
    // From [batch, channels, kernel height, height, kernel width, width].
    let y = e.permute(y, Perm::new(&[1, 2, 4, 0, 3, 5]).ok_or_else(|| misplaced(op))?)?;
    let (batch, out, groups) = (image.sizes()[0], kernel.sizes()[0], c.groups as usize);
    let inner = kernel.sizes()[1..].iter().product();
    let matrix = |rows: usize, columns: usize| {
        let dims = [groups, rows, columns].map(Dim::new);
        Shape::from_dims(if groups == 1 { &dims[1..] } else { &dims })
    };
    let columns = e.reshape(y, matrix(inner, batch * height * width)?)?;
    let rows = e.reshape(w, matrix(out / groups, inner)?)?;
    let product = e.matmul(rows, columns)?;
    let apart =
        e.reshape(product, Shape::from_dims(&[out, batch, height, width].map(Dim::new))?)?;
    e.permute(apart, Perm::new(&[1, 0, 2, 3]).ok_or_else(|| misplaced(op))?)
}
