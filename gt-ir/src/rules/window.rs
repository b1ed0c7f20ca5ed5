//! Windows along axes, which are views, and convolution as a matrix product over them (Chellapilla,
//! Puri and Simard 2006).

use super::{
    derive::{misplaced, value},
    infer::{Result, tensor},
};
use crate::{
    attr::{Conv, Pad, Perm, Window},
    emit::{Build, Emit, Emitted},
    error::OpError,
    op::{Op, Operand, OperandType},
    shape::{Dim, Shape, Type},
    tape::ValueId,
};

/// `[.., n, ..]` to `[.., windows, .., size]`.
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

/// Height and width of the result.
///
/// By axis: floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1, the formula of
/// PyTorch's `Conv2d`.
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

/// `[batch, c, h, w]` and `[out, c / groups, kh, kw]` to `[batch, out, h', w']`.
pub(crate) fn infer_conv(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Conv2d(c) = op else { return Err(misplaced(op)) };
    let (x, w) = (tensor(op, ins, 0)?, tensor(op, ins, 1)?);
    let mismatch = |why: &str| {
        OpError::new(format!("conv2d: kernels {w} do not fit {x}")).hint(why.to_owned())
    };
    if x.shape.rank() != 4 || w.shape.rank() != 4 || x.dtype != w.dtype || !x.dtype.is_float() {
        return Err(mismatch(
            "floats of one dtype: [batch, channels, height, width] and [out channels, channels / \
             groups, height, width]",
        ));
    }
    let (groups, channels) = (c.groups as usize, x.shape.sizes()[1]);
    let [out, each, ..] = *w.shape.sizes() else { return Err(misplaced(op)) };
    if groups == 0 || out % groups != 0 || Some(channels) != each.checked_mul(groups) {
        return Err(mismatch(
            "the channels of the kernels times the groups are those of the image; out channels \
             divide into the groups",
        ));
    }
    let [height, width] = extent(c, &x.shape, &w.shape)
        .ok_or_else(|| mismatch("not one window fits the padded image"))?;
    let dims = [x.shape.dim(0), w.shape.dim(0), Dim::new(height), Dim::new(width)];
    Ok(Type::new(x.dtype, Shape::from_dims(&dims)?))
}

/// Windows as rows, kernels as columns: one product for the whole batch. Channels are the last axis
/// of what it makes and of what it reads, so that a window is a few runs of memory, and what comes
/// before and after walks along channels.
pub(crate) fn conv2d(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::Conv2d(c) = *op else { return Err(misplaced(op)) };
    let (x, w) = (value(op, ins, 0)?, value(op, ins, 1)?);
    let (image, kernel) = (e.ty(x).shape, e.ty(w).shape);
    let [height, width] = extent(&c, &image, &kernel).ok_or_else(|| misplaced(op))?;
    let (batch, out, groups) = (image.sizes()[0], kernel.sizes()[0], c.groups as usize);
    let [_, each, tall, broad] = *kernel.sizes() else { return Err(misplaced(op)) };
    let rows = rows(e, &c, x, &kernel)?;
    let (n, inner) = (batch * height * width, tall * broad * each);
    if groups == 1 {
        let rows = e.reshape(rows, dims(&[n, inner])?)?;
        let apart = permuted(e, w, &[2, 3, 1, 0])?;
        let columns = e.reshape(apart, dims(&[inner, out])?)?;
        let product = e.matmul(rows, columns)?;
        let image = e.reshape(product, dims(&[batch, height, width, out])?)?;
        return permuted(e, image, &[0, 3, 1, 2]);
    }
    let split = e.reshape(rows, dims(&[batch, height, width, tall, broad, groups, each])?)?;
    let split = permuted(e, split, &[5, 0, 1, 2, 3, 4, 6])?;
    let rows = e.reshape(split, dims(&[groups, n, inner])?)?;
    let apart = e.reshape(w, dims(&[groups, out / groups, each, tall, broad])?)?;
    let apart = permuted(e, apart, &[0, 3, 4, 2, 1])?;
    let columns = e.reshape(apart, dims(&[groups, inner, out / groups])?)?;
    let product = e.matmul(rows, columns)?;
    let image = e.reshape(product, dims(&[groups, batch, height, width, out / groups])?)?;
    let image = permuted(e, image, &[1, 0, 4, 2, 3])?;
    e.reshape(image, dims(&[batch, out, height, width])?)
}

/// The windows of an image: `[batch, height, width, kernel height, kernel width, channels]`.
fn rows(e: &mut dyn Emit, c: &Conv, x: ValueId, kernel: &Shape) -> Emitted {
    let mut y = permuted(e, x, &[0, 2, 3, 1])?;
    for (axis, around) in [1, 2].into_iter().zip(c.padding).filter(|(_, n)| *n > 0) {
        let around = around.into();
        y = e.pad(y, Pad { axis, lo: around, hi: around, interior: 0 })?;
    }
    // Channels last after each step, so that what gradients add up has them last too.
    let y = e.emit(Op::Unfold(Window { axis: 1, ..over(c, 0, kernel) }), &[y.into()])?;
    let y = permuted(e, y, &[0, 1, 4, 2, 3])?;
    let y = e.emit(Op::Unfold(Window { axis: 3, ..over(c, 1, kernel) }), &[y.into()])?;
    permuted(e, y, &[0, 1, 3, 2, 5, 4])
}

/// A shape without names.
fn dims(sizes: &[usize]) -> Result<Shape> {
    Shape::collect(sizes.iter().copied().map(Dim::new))
}

/// The axes in this order.
fn permuted(e: &mut dyn Emit, x: ValueId, order: &[usize]) -> Emitted {
    e.permute(x, Perm::new(order).ok_or_else(|| OpError::new("conv2d: no such axes"))?)
}
