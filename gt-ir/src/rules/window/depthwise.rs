//! Convolution where each channel has kernels of its own (Howard et al. 2017): there is nothing to
//! sum over but the places of a kernel, so it is a sum of slices, not a matrix product.
//!
//! Guarantees: sums are formed in a wide dtype, place by place in row-major order, and rounded
//! once. Padding is the caller's.

use super::{dims, extent, over, permuted};
use crate::{
    attr::{AxisSet, Conv, Keep, Slice, Window},
    emit::{Build, Emit, Emitted},
    error::OpError,
    op::Op,
    rules::derive::wide,
    tape::ValueId,
};

/// Most places of a kernel. A sum of so many slices is one loop. Over 64 channels it takes 23 ms,
/// where PyTorch takes 370, and 12 ms to compile; of more places, nothing was measured.
const MOST: usize = 13 * 13;

/// Whether these kernels, `[out, channels / groups, height, width]`, are summed place by place.
pub(super) fn applies(kernel: &[usize]) -> bool {
    matches!(*kernel, [_, 1, tall, broad] if tall * broad <= MOST)
}

/// The convolution of an image that has been padded: `[batch, channels, h, w]`.
pub(super) fn conv(e: &mut dyn Emit, c: &Conv, x: ValueId, w: ValueId) -> Emitted {
    let (image, kernel, narrow) = (e.ty(x).shape, e.ty(w).shape, e.ty(x).dtype);
    let unpadded = Conv { padding: [0; 2], ..*c };
    let [height, width] = extent(&unpadded, &image, &kernel).ok_or_else(misfit)?;
    let [batch, channels, h, width_before] = *image.sizes() else { return Err(misfit()) };
    let [out, _, tall, broad] = *kernel.sizes() else { return Err(misfit()) };
    let each = out / channels.max(1);
    let (x, w) = (e.cast(x, wide(narrow))?, e.cast(w, wide(narrow))?);
    let x = e.reshape(x, dims(&[batch, channels, 1, h, width_before])?)?;
    let places = e.reshape(w, dims(&[channels, each, tall * broad])?)?;
    let mut sum = None;
    for place in 0..tall * broad {
        let down = seen(c, 0, 3, place / broad, height);
        let across = seen(c, 1, 4, place % broad, width);
        let part = e.slice(x, down)?;
        let part = e.slice(part, across)?;
        let (axis, start) = (2, place as u64);
        let weight = e.slice(places, Slice { axis, start, stop: start + 1, step: 1 })?;
        let weight = e.reshape(weight, dims(&[channels, each, 1, 1])?)?;
        let term = e.mul(part, weight)?;
        sum = Some(match sum {
            Some(before) => e.add(before, term)?,
            None => term,
        });
    }
    let sum = e.reshape(sum.ok_or_else(misfit)?, dims(&[batch, out, height, width])?)?;
    e.cast(sum, narrow)
}

fn misfit() -> OpError {
    OpError::new("conv2d: the kernels do not fit")
}

/// What `n` windows see at this place of a kernel along height (0) or width (1), this axis.
fn seen(c: &Conv, i: usize, axis: u8, place: usize, n: usize) -> Slice {
    let (step, start) = (u64::from(c.stride[i]), place as u64 * u64::from(c.dilation[i]));
    Slice { axis, start, stop: start + (n as u64 - 1) * step + 1, step }
}

/// The gradient of the kernels, from the padded image and the gradient of the result: each place of
/// a kernel has the sum of what it met.
pub(super) fn kernel_grad(
    e: &mut dyn Emit,
    c: &Conv,
    x: ValueId,
    kernel: &[usize],
    grad: ValueId,
) -> Emitted {
    let (&[out, _, tall, broad], narrow) =
        (kernel.first_chunk().ok_or_else(misfit)?, e.ty(x).dtype);
    let (x, grad) = (e.cast(x, wide(narrow))?, e.cast(grad, wide(narrow))?);
    let [batch, channels, ..] = *e.ty(x).shape.sizes() else { return Err(misfit()) };
    let [_, _, height, width] = *e.ty(grad).shape.sizes() else { return Err(misfit()) };
    let along = |i: usize, axis| Window { axis, ..over(c, i, kernel) };
    let windows = e.emit(Op::Unfold(along(0, 2)), &[x.into()])?;
    let windows = e.emit(Op::Unfold(along(1, 3)), &[windows.into()])?;
    let windows = permuted(e, windows, &[1, 4, 5, 0, 2, 3])?;
    let windows = e.reshape(windows, dims(&[channels, 1, tall, broad, batch, height, width])?)?;
    let each = out / channels.max(1);
    let grad = e.reshape(grad, dims(&[batch, channels, each, height, width])?)?;
    let grad = permuted(e, grad, &[1, 2, 0, 3, 4])?;
    let grad = e.reshape(grad, dims(&[channels, each, 1, 1, batch, height, width])?)?;
    let met = e.mul(windows, grad)?;
    let sum = e.sum(met, AxisSet::from_iter([4, 5, 6]), Keep::No)?;
    let sum = e.reshape(sum, dims(&[out, 1, tall, broad])?)?;
    e.cast(sum, narrow)
}
