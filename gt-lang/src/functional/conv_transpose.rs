//! Transposed convolutions: the gradient of a convolution by its image, as a layer.
//!
//! Two ways have the same result up to rounding: windows that are added up where they overlap, and
//! a convolution of an image with zeros between its elements.
//!
//! Guarantees: sizes alone decide, so a program has the same bits each time; gradients of every
//! order; what does not fit is the error of the result. Does not bound the output padding by stride
//! and dilation, as PyTorch does: rows beyond all windows hold the bias alone.

use gt_ir::attr::Pad;
use gt_ir::{Op, OpError};

use super::Convolution;
use super::conv::{as_line, convolved, one_of, small, with_bias};
use crate::core::{Arg, DynTensor};

/// The transpose of [`conv2d`](super::conv2d), its gradient by x: `weight` is `[channels, out
/// channels / groups, height, width]`.
#[must_use]
#[track_caller]
pub fn conv_transpose2d(
    x: &DynTensor,
    weight: &DynTensor,
    bias: Option<&DynTensor>,
    how: Convolution,
) -> DynTensor {
    if let Some(batch) = one_of(x, 3) {
        return conv_transpose2d(&batch, weight, bias, how).squeeze(0);
    }
    if weight.rank() != 4 {
        let e = format!("conv_transpose2d: weight {} has not four axes", weight.ty());
        return weight.record_with(|_| Err(OpError::new(e)));
    }
    if let Some(error) = misfit(weight, how) {
        return weight.record_with(|_| Err(error));
    }
    let y =
        if adds_windows(x, weight, how) { added(x, weight, how) } else { spread(x, weight, how) };
    with_bias(&y, bias)
}

/// [`conv_transpose2d`] over lines; `weight` is `[channels, out channels / groups, length]`.
#[must_use]
#[track_caller]
pub fn conv_transpose1d(
    x: &DynTensor,
    weight: &DynTensor,
    bias: Option<&DynTensor>,
    how: Convolution,
) -> DynTensor {
    if let Some(batch) = one_of(x, 2) {
        return conv_transpose1d(&batch, weight, bias, how).squeeze(0);
    }
    let how = match as_line("conv_transpose1d", how) {
        Ok(how) => how,
        Err(error) => return x.record_with(|_| Err(error)),
    };
    let y = conv_transpose2d(&x.unsqueeze(-2), &weight.unsqueeze(-2), None, how);
    with_bias(&y.squeeze(-2), bias)
}

/// Columns of a product that fill a vector.
const COLUMNS: usize = 16;

/// Whether windows are made of the elements of x and added up where they overlap: with a step the
/// other way multiplies mostly zeros, and few out channels make products of few columns. Operands
/// that do not fit are left to the other way, which says so.
fn adds_windows(x: &DynTensor, weight: &DynTensor, how: Convolution) -> bool {
    let (x_shape, shape) = (x.shape(), weight.shape());
    let (&[channels, each, ..], &[_, of_x, ..]) = (shape.sizes(), x_shape.sizes()) else {
        return false;
    };
    let fits = x.rank() == 4 && of_x == channels && x.dtype() == weight.dtype();
    let by_channel = how.groups > 1 && channels == how.groups;
    let is_plain = how.stride == [1, 1] && how.groups == 1 && each >= COLUMNS;
    let is_some = x.numel() > 0 && weight.numel() > 0;
    fits && is_some && x.dtype().is_float() && !by_channel && !is_plain
}

/// A window for each element of x, the product of its channels with the kernels, and the windows
/// added up: the gradient of a convolution by its image.
#[track_caller]
fn added(x: &DynTensor, weight: &DynTensor, how: Convolution) -> DynTensor {
    let (x_shape, shape) = (x.shape(), weight.shape());
    let (&[batch, _, tall, broad], &[channels, each, height, width]) =
        (x_shape.sizes(), shape.sizes())
    else {
        return x.clone();
    };
    let (groups, inner) = (how.groups, channels / how.groups);
    let n = batch * tall * broad;
    let windows = if groups == 1 {
        let columns = weight.permute([0, 2, 3, 1]).reshape([inner, height * width * each]);
        x.permute([0, 2, 3, 1]).reshape([n, inner]).matmul(&columns)
    } else {
        let rows = x.reshape([batch, groups, inner, tall, broad]).permute([1, 0, 3, 4, 2]);
        let kernels = weight.reshape([groups, inner, each, height, width]);
        let columns =
            kernels.permute([0, 1, 3, 4, 2]).reshape([groups, inner, height * width * each]);
        let windows = rows.reshape([groups, n, inner]).matmul(&columns);
        windows.reshape([groups, n * height * width, each]).transpose(0, 1)
    };
    let windows = windows.reshape([batch, tall, broad, height, width, groups * each]);
    // Channels are last after each step, as in a convolution.
    let y = folded(&windows.permute([0, 1, 3, 2, 5, 4]), how, 1, (broad, width));
    let y = folded(&y.permute([0, 1, 3, 4, 2]), how, 0, (tall, height));
    // A sum that begins with 0, as PyTorch's: a negative zero alone is positive.
    y.permute([0, 3, 1, 2]).add(0.0)
}

/// `n` windows of so many elements, the last axis, added up along height (0), which is axis 1, or
/// width (1), which is axis 3.
#[track_caller]
fn folded(y: &DynTensor, how: Convolution, i: usize, (n, size): (usize, usize)) -> DynTensor {
    let apart = |n: usize, step: usize| n.saturating_sub(1).saturating_mul(step);
    let len =
        apart(n, how.stride[i]).saturating_add(apart(size, how.dilation[i])).saturating_add(1);
    let axis = 1 + 2 * i;
    let y = y.fold_dilated(axis as i64, how.stride[i], how.dilation[i], len);
    let (before, more) = (how.padding[i] as i64, how.output_padding[i] as i64);
    let mut pads = vec![(0, 0); axis];
    pads.push((-before, more - before));
    y.pad(pads, 0.0)
}

/// A convolution of x, with zeros put between and around its elements, by the kernels turned around
/// (Dumoulin and Visin 2016).
#[track_caller]
fn spread(x: &DynTensor, weight: &DynTensor, how: Convolution) -> DynTensor {
    let shape = weight.shape();
    let &[channels, each, height, width] = shape.sizes() else { return weight.clone() };
    let groups = how.groups;
    let turned = weight
        .reshape([groups, channels / groups, each, height, width])
        .transpose(1, 2)
        .reshape([groups * each, channels / groups, height, width])
        .flip([2, 3]);
    let mut spread = x.clone();
    for (i, size) in [height, width].into_iter().enumerate() {
        let reach = how.dilation[i].saturating_mul(size.saturating_sub(1));
        let before = i64::try_from(reach).unwrap_or(i64::MAX) - how.padding[i] as i64;
        let after = before.saturating_add(how.output_padding[i] as i64);
        spread = apart(&spread, 2 + i, how.stride[i], (before, after));
    }
    let plain =
        Convolution { dilation: how.dilation, groups: how.groups, ..Convolution::default() };
    convolved(&spread, &turned, plain)
}

/// What of a transposed convolution cannot be, whatever it is applied to.
fn misfit(weight: &DynTensor, how: Convolution) -> Option<OpError> {
    let (channels, groups) = (weight.size(0), how.groups);
    if groups == 0 || !channels.is_multiple_of(groups) {
        let what = format!("the {channels} channels of weight {}", weight.ty());
        let error = format!("conv_transpose2d: {what} cannot be divided into {groups} groups");
        return Some(OpError::new(error).hint("the number of groups divides the channels"));
    }
    if how.same {
        let error = "conv_transpose2d: zeros that keep the size are of convolutions only";
        return Some(OpError::new(error).hint("give the zeros in `padding`"));
    }
    let all = [how.stride, how.padding, how.dilation, how.output_padding];
    let beyond = |of: &[usize; 2]| small("conv_transpose2d", &weight.ty(), *of).err();
    if let Some(error) = all.iter().find_map(beyond) {
        return Some(error);
    }
    let pairs = [("stride", how.stride), ("dilation", how.dilation)];
    let (name, pair) = pairs.into_iter().find(|(_, pair)| pair.contains(&0))?;
    let error = OpError::new(format!("conv_transpose2d: {name} {pair:?} makes no window"));
    Some(error.hint("each number is 1 or more"))
}

/// The elements of an axis `step` apart, with zeros between and around; a negative number cuts off.
#[track_caller]
fn apart(x: &DynTensor, axis: usize, step: usize, (before, after): (i64, i64)) -> DynTensor {
    let pad = Pad {
        axis: axis as u8,
        lo: before.max(0) as u64,
        hi: after.max(0) as u64,
        interior: step.saturating_sub(1) as u64,
    };
    let zero = Arg::from(0);
    let mut y = x.record_with_args(&[Arg::Tensor(x), zero], |_| Ok(Op::Pad(pad)));
    if before < 0 || after < 0 {
        let mut cut = vec![(0, 0); axis];
        cut.push((before.min(0), after.min(0)));
        y = y.pad(cut, 0.0);
    }
    y
}
