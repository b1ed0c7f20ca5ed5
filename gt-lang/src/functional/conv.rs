//! Convolutions over lines (`[batch, channels, length]`), images (`[batch, channels, height,
//! width]`) and volumes (`[batch, channels, depth, height, width]`).
//!
//! Guarantees: lines are images of height 1; without a batch axis there is none in the result; what
//! does not fit is the error of the result. Transposed convolutions are in `conv_transpose`.

use gt_ir::attr::Conv;
use gt_ir::{Op, OpError, Type};

use super::precision::biased;
use crate::core::{Arg, DynTensor};

/// What PyTorch's keyword arguments of convolutions say: along height, then along width. Volumes
/// have a depth before them, `Convolution<3>`. Lines use the second of two; a first one that says
/// something else is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convolution<const N: usize = 2> {
    /// Distance between windows.
    pub stride: [usize; N],
    /// Zeros put around, on both sides.
    pub padding: [usize; N],
    /// As many zeros around that the result is as large as x, one more at the end where their
    /// number is odd: PyTorch's `padding="same"`. `padding` does not count then, and strides are 1.
    pub same: bool,
    /// Distance between elements of a window.
    pub dilation: [usize; N],
    /// Groups that channels are cut into.
    pub groups: usize,
    /// Rows and columns added at the end of a transposed convolution's result; others ignore it.
    pub output_padding: [usize; N],
}

impl<const N: usize> Default for Convolution<N> {
    fn default() -> Self {
        Convolution {
            stride: [1; N],
            padding: [0; N],
            same: false,
            dilation: [1; N],
            groups: 1,
            output_padding: [0; N],
        }
    }
}

/// The sum over channels and windows of x times `weight`, `[out channels, channels / groups,
/// height, width]`, plus one number of `bias` for each out channel. An image without a batch axis
/// gives one.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::functional::{Convolution, conv2d};
/// let images = DynTensor::randn([8, 3, 32, 32], DType::F32);
/// let weight = DynTensor::randn([16, 3, 3, 3], DType::F32);
/// let y = conv2d(&images, &weight, None, Convolution { padding: [1, 1], ..Default::default() });
/// assert_eq!(y.sizes(), [8, 16, 32, 32]);
/// ```
#[must_use]
#[track_caller]
pub fn conv2d(
    x: &DynTensor,
    weight: &DynTensor,
    bias: Option<&DynTensor>,
    how: Convolution,
) -> DynTensor {
    if let Some(batch) = one_of(x, 3) {
        return conv2d(&batch, weight, bias, how).squeeze(0);
    }
    with_bias(&convolved(x, weight, how), bias)
}

/// [`conv2d`] over lines; `weight` is `[out channels, channels / groups, length]`.
#[must_use]
#[track_caller]
pub fn conv1d(
    x: &DynTensor,
    weight: &DynTensor,
    bias: Option<&DynTensor>,
    how: Convolution,
) -> DynTensor {
    if let Some(batch) = one_of(x, 2) {
        return conv1d(&batch, weight, bias, how).squeeze(0);
    }
    let how = match as_line("conv1d", how) {
        Ok(how) => how,
        Err(error) => return x.record_with(|_| Err(error)),
    };
    let y = convolved(&x.unsqueeze(-2), &weight.unsqueeze(-2), how).squeeze(-2);
    with_bias(&y, bias)
}

/// [`conv2d`] over volumes; `weight` is `[out channels, channels / groups, depth, height, width]`.
///
/// Windows along the depth become channels of images, so one product sums over all of a kernel.
#[must_use]
#[track_caller]
pub fn conv3d(
    x: &DynTensor,
    weight: &DynTensor,
    bias: Option<&DynTensor>,
    how: Convolution<3>,
) -> DynTensor {
    if let Some(batch) = one_of(x, 4) {
        return conv3d(&batch, weight, bias, how).squeeze(0);
    }
    match with_same("conv3d", x, weight, how) {
        Ok((x, how)) => with_bias(&by_depth(&x, weight, how), bias),
        Err(error) => x.record_with(|_| Err(error)),
    }
}

/// The convolution of a batch of volumes.
#[track_caller]
fn by_depth(x: &DynTensor, weight: &DynTensor, how: Convolution<3>) -> DynTensor {
    let (x_shape, shape) = (x.shape(), weight.shape());
    let (&[batch, channels, depth, height, width], &[out, each, deep, tall, broad]) =
        (x_shape.sizes(), shape.sizes())
    else {
        return unfit_volumes(x, weight, how);
    };
    let reach = how.dilation[0].saturating_mul(deep.saturating_sub(1)).saturating_add(1);
    let fits = channels.checked_div(how.groups) == Some(each)
        && channels.is_multiple_of(how.groups)
        && depth.saturating_add(how.padding[0].saturating_mul(2)) >= reach;
    if !fits || how.stride[0] == 0 || deep == 0 {
        return unfit_volumes(x, weight, how);
    }
    let around = how.padding[0] as i64;
    let padded = x.pad([(0, 0), (0, 0), (around, around)], 0.0);
    let windows = padded.unfold_dilated(2, deep, how.stride[0], how.dilation[0]);
    let n = windows.size(2);
    let images = windows.permute([0, 2, 1, 5, 3, 4]);
    let images = images.reshape([batch * n, channels * deep, height, width]);
    let plane = |[_, height, width]: [usize; 3]| [height, width];
    let flat = Convolution {
        stride: plane(how.stride),
        padding: plane(how.padding),
        dilation: plane(how.dilation),
        groups: how.groups,
        ..Convolution::default()
    };
    let y = convolved(&images, &weight.reshape([out, each * deep, tall, broad]), flat);
    let (height, width) = (y.size(-2), y.size(-1));
    y.reshape([batch, n, out, height, width]).transpose(1, 2)
}

#[track_caller]
fn unfit_volumes(x: &DynTensor, weight: &DynTensor, how: Convolution<3>) -> DynTensor {
    let message = format!("conv3d: {} and weight {} do not fit {how:?}", x.ty(), weight.ty());
    let hint = "x is [batch, channels, depth, height, width] and the weight [out channels, \
                channels / groups, depth, height, width]";
    // The error of an operand comes before one about its type.
    x.record_with_args(&[Arg::Tensor(x), Arg::Tensor(weight)], |_| {
        Err(OpError::new(message).hint(hint))
    })
}

/// `x` and what is left to do where zeros are to keep the size: those that both sides share are the
/// convolution's.
#[track_caller]
fn with_same<const N: usize>(
    name: &str,
    x: &DynTensor,
    weight: &DynTensor,
    mut how: Convolution<N>,
) -> Result<(DynTensor, Convolution<N>), OpError> {
    if !how.same {
        return Ok((x.clone(), how));
    }
    if how.stride != [1; N] {
        let e = format!("{name}: zeros keep the size of {} at no stride but 1", x.ty());
        return Err(OpError::new(e).hint("give the zeros in `padding`, or strides of 1"));
    }
    let mut more = vec![(0, 0); x.rank().saturating_sub(N)];
    for i in 0..N {
        let size = weight.size(i as i64 - N as i64);
        let zeros = how.dilation[i].saturating_mul(size.saturating_sub(1));
        how.padding[i] = zeros / 2;
        more.push((0, (zeros % 2) as i64));
    }
    let is_even = more.iter().all(|&pad| pad == (0, 0));
    how.same = false;
    Ok((if is_even { x.clone() } else { x.pad(more, 0.0) }, how))
}

/// What lacks its batch axis, of this rank, as a batch of one.
#[track_caller]
pub(super) fn one_of(x: &DynTensor, rank: usize) -> Option<DynTensor> {
    (x.rank() == rank && x.error().is_none()).then(|| x.unsqueeze(0))
}

/// Lines are images of height 1: of each two numbers the second counts, and the first is the same
/// or what changes nothing.
pub(super) fn as_line(op: &str, how: Convolution) -> Result<Convolution, OpError> {
    let of = |name: &str, [first, width]: [usize; 2], neutral| {
        if first != width && first != neutral {
            let found = format!("{op}: {name} is [{first}, {width}], but a line has one number");
            return Err(OpError::new(found).hint(format!("write `{name}: [{width}; 2]`")));
        }
        Ok([neutral, width])
    };
    Ok(Convolution {
        stride: of("stride", how.stride, 1)?,
        padding: of("padding", how.padding, 0)?,
        same: how.same,
        dilation: of("dilation", how.dilation, 1)?,
        output_padding: of("output_padding", how.output_padding, 0)?,
        groups: how.groups,
    })
}

/// The convolution of a batch of images.
#[track_caller]
pub(super) fn convolved(x: &DynTensor, weight: &DynTensor, how: Convolution) -> DynTensor {
    let (x, how) = match with_same("conv2d", x, weight, how) {
        Ok((x, how)) => (&{ x }, how),
        Err(error) => return x.record_with(|_| Err(error)),
    };
    x.record_with_args(&[Arg::Tensor(x), Arg::Tensor(weight)], |ty| {
        let pair = |numbers| small("conv2d", ty, numbers);
        let [groups] = small("conv2d", ty, [how.groups])?;
        Ok(Op::Conv2d(Conv {
            stride: pair(how.stride)?,
            padding: pair(how.padding)?,
            dilation: pair(how.dilation)?,
            groups,
        }))
    })
}

/// Numbers as attributes hold them.
pub(super) fn small<const N: usize>(
    op: &str,
    ty: &Type,
    numbers: [usize; N],
) -> Result<[u32; N], OpError> {
    match numbers.iter().find(|n| u32::try_from(**n).is_err()) {
        Some(n) => Err(OpError::new(format!("{op}: {n} is too large for {ty}"))),
        None => Ok(numbers.map(|n| n as u32)),
    }
}

/// A number added to each out channel, if there are any.
#[track_caller]
pub(super) fn with_bias(y: &DynTensor, bias: Option<&DynTensor>) -> DynTensor {
    let Some(bias) = bias else { return y.clone() };
    let mut sizes = vec![1; y.rank().saturating_sub(1)];
    if let Some(channels) = sizes.first_mut() {
        *channels = bias.numel();
    }
    biased(y, &bias.reshape(sizes))
}
