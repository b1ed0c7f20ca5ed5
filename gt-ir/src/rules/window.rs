//! Windows along axes, which are views, and convolution as a matrix product over them (Chellapilla,
//! Puri and Simard 2006). `depthwise` is the convolution of each channel by itself.

mod depthwise;

use smallvec::smallvec;

use super::{
    derive::{misplaced, value},
    grad::{Out, operand},
    infer::{Result, tensor},
};
use crate::{
    attr::{Axes, AxisSet, Conv, Pad, Perm, Window},
    emit::{Build, Emit, Emitted},
    error::OpError,
    grad::{Grads, Vjp, through},
    op::{Op, Operand, OperandType},
    shape::{Dim, Shape, Type},
    tape::ValueId,
};

/// Columns of a product that fill a vector.
const COLUMNS: usize = 16;

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
        over(c, i, kernel.sizes()).count(padded)
    };
    Some([along(0)?, along(1)?])
}

/// The windows along height (0) or width (1).
fn over(c: &Conv, i: usize, kernel: &[usize]) -> Window {
    Window {
        axis: 0,
        size: kernel[2 + i] as u64,
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
    if depthwise::applies(kernel.sizes()) && groups > 1 {
        let x = padded(e, &c, x, [2, 3])?;
        return depthwise::conv(e, &c, x, w);
    }
    let rows = rows(e, &c, x, kernel.sizes())?;
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
fn rows(e: &mut dyn Emit, c: &Conv, x: ValueId, kernel: &[usize]) -> Emitted {
    let y = permuted(e, x, &[0, 2, 3, 1])?;
    let y = padded(e, c, y, [1, 2])?;
    // Channels last after each step, so that what gradients add up has them last too.
    let y = e.emit(Op::Unfold(Window { axis: 1, ..over(c, 0, kernel) }), &[y.into()])?;
    let y = permuted(e, y, &[0, 1, 4, 2, 3])?;
    let y = e.emit(Op::Unfold(Window { axis: 3, ..over(c, 1, kernel) }), &[y.into()])?;
    permuted(e, y, &[0, 1, 3, 2, 5, 4])
}

/// An image with zeros around it, whose height and width are these axes.
fn padded(e: &mut dyn Emit, c: &Conv, mut x: ValueId, axes: [u8; 2]) -> Emitted {
    for (axis, around) in axes.into_iter().zip(c.padding).filter(|(_, n)| *n > 0) {
        let around = around.into();
        x = e.pad(x, Pad { axis, lo: around, hi: around, interior: 0 })?;
    }
    Ok(x)
}

/// The gradient by the image is a convolution too, of the gradient with turned kernels, where that
/// costs no more than adding up the gradients of windows. The gradient by the kernels is a product
/// with the windows.
pub(crate) fn conv_grad(cx: &mut Vjp<'_>) -> Out {
    let Op::Conv2d(c) = *cx.op else { return Err(misplaced(cx.op)) };
    let [x, w] = [cx.ty(0)?.shape, cx.ty(1)?.shape];
    let by_channel = depthwise::applies(w.sizes()) && c.groups > 1;
    let back = turned(&c, &x, &w, by_channel);
    let mut gradients: Grads = smallvec![None, None];
    if let Some(back) = &back {
        gradients[0] = operand(cx, 0, |cx, _| image_grad(cx, &c, back))?;
    }
    if by_channel {
        gradients[1] = operand(cx, 1, |cx, _| {
            let x = cx.tensor(0)?;
            let x = padded(cx.e, &c, x, [2, 3])?;
            depthwise::kernel_grad(cx.e, &c, x, w.sizes(), cx.grad)
        })?;
    }
    let rest = [back.is_none() && cx.wants(0), !by_channel && cx.wants(1)];
    if rest.contains(&true) {
        let others = through(&mut Vjp { e: &mut *cx.e, wanted: &rest, ..*cx }, conv2d)?;
        for (known, other) in gradients.iter_mut().zip(others) {
            *known = known.or(other);
        }
    }
    Ok(gradients)
}

/// The padding of a gradient, along height and width, from which a convolution with step 1 makes
/// the gradient of the image; `None` where that costs more than another way: steps would have it
/// multiply mostly zeros, and few channels make products of few columns.
fn turned(c: &Conv, image: &Shape, kernel: &Shape, by_channel: bool) -> Option<[Pad; 2]> {
    let (sizes, along) = (kernel.sizes(), extent(c, image, kernel)?);
    let one_each = by_channel && sizes[0] == image.sizes()[1];
    if !one_each && (c.groups != 1 || c.stride != [1, 1] || sizes[1] < COLUMNS) {
        return None;
    }
    let pad = |i: usize| {
        let reach = u64::from(c.dilation[i]) * (sizes[2 + i] as u64 - 1);
        let lo = reach.checked_sub(c.padding[i].into())?;
        let step = u64::from(c.stride[i]);
        let seen = (along[i] as u64 - 1) * step + 1;
        let hi = (image.sizes()[2 + i] as u64 + reach).checked_sub(seen + lo)?;
        Some(Pad { axis: 2 + i as u8, lo, hi, interior: step - 1 })
    };
    Some([pad(0)?, pad(1)?])
}

/// The gradient of the image: what its padded gradient has in common with the kernels, turned by
/// half a turn, with the channels of image and result exchanged.
fn image_grad(cx: &mut Vjp<'_>, c: &Conv, pads: &[Pad; 2]) -> Emitted {
    let w = cx.tensor(1)?;
    let flipped = cx.e.emit(Op::Flip(Axes(AxisSet::from_iter([2, 3]))), &[w.into()])?;
    let flipped = if c.groups == 1 { permuted(cx.e, flipped, &[1, 0, 2, 3])? } else { flipped };
    let mut grad = cx.grad;
    for pad in pads {
        if pad.lo + pad.hi + pad.interior > 0 {
            grad = cx.e.pad(grad, *pad)?;
        }
    }
    let back = Conv { stride: [1; 2], padding: [0; 2], ..*c };
    cx.e.emit(Op::Conv2d(back), &[grad.into(), flipped.into()])
}

/// A shape without names.
fn dims(sizes: &[usize]) -> Result<Shape> {
    Shape::collect(sizes.iter().copied().map(Dim::new))
}

/// The axes in this order.
fn permuted(e: &mut dyn Emit, x: ValueId, order: &[usize]) -> Emitted {
    e.permute(x, Perm::new(order).ok_or_else(|| OpError::new("conv2d: no such axes"))?)
}
