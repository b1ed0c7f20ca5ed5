//! Convolutions and pooling over lines (`[batch, channels, length]`) and images (`[batch, channels,
//! height, width]`).
//!
//! Guarantees: lines are images of height 1; without a batch axis there is none in the result; what
//! does not fit is the error of the result. Transposed convolutions are in `conv_transpose`.

use gt_ir::attr::{Conv, Pool};
use gt_ir::{Op, OpError, Type};

use super::precision::biased;
use crate::core::{Arg, DynTensor};

/// What PyTorch's keyword arguments of convolutions say: along height, then along width. Lines use
/// the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// Distance between windows.
    pub stride: [usize; 2],
    /// Zeros put around, on both sides.
    pub padding: [usize; 2],
    /// Distance between elements of a window.
    pub dilation: [usize; 2],
    /// Groups that channels are cut into.
    pub groups: usize,
    /// Rows and columns added at the end of a transposed convolution's result; others ignore it.
    pub output_padding: [usize; 2],
}

impl Default for Convolution {
    fn default() -> Self {
        Convolution {
            stride: [1; 2],
            padding: [0; 2],
            dilation: [1; 2],
            groups: 1,
            output_padding: [0; 2],
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
    let y = convolved(&x.unsqueeze(-2), &weight.unsqueeze(-2), as_line(how)).squeeze(-2);
    with_bias(&y, bias)
}

/// What PyTorch's keyword arguments of pooling say: along height, then along width. Lines use the
/// second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pooling {
    /// Elements of a window.
    pub size: [usize; 2],
    /// Distance between windows.
    pub stride: [usize; 2],
    /// Elements put around, on both sides: those that are no maximum, or zeros that count in the
    /// mean.
    pub padding: [usize; 2],
}

impl Pooling {
    /// Windows of this size beside each other.
    pub fn of(size: [usize; 2]) -> Pooling {
        Pooling { size, stride: size, padding: [0; 2] }
    }
}

/// The largest element of each window of `[.., channels, height, width]`, NaN if there is one. All
/// of a gradient goes to the first of equals.
#[must_use]
#[track_caller]
pub fn max_pool2d(x: &DynTensor, how: Pooling) -> DynTensor {
    x.record_with(|ty| {
        let pair = |numbers| small("max_pool2d", ty, numbers);
        Ok(Op::MaxPool2d(Pool {
            size: pair(how.size)?,
            stride: pair(how.stride)?,
            padding: pair(how.padding)?,
            dilation: [1, 1],
        }))
    })
}

/// The mean of each window, zeros around included.
#[must_use]
#[track_caller]
pub fn avg_pool2d(x: &DynTensor, how: Pooling) -> DynTensor {
    let rank = x.rank() as i64;
    if rank < 2 || how.size.contains(&0) || how.stride.contains(&0) {
        return x.record_with(|ty| {
            let Pooling { size, stride, .. } = how;
            let error = format!("avg_pool2d: windows of {size:?} every {stride:?} do not fit {ty}");
            Err(OpError::new(error).hint("x is `[.., height, width]`, each number 1 or more"))
        });
    }
    let mut y = x.clone();
    if how.padding != [0; 2] {
        let mut pads = vec![(0, 0); x.rank().saturating_sub(2)];
        pads.extend(how.padding.map(|n| (n as i64, n as i64)));
        y = y.pad(pads, 0.0);
    }
    let down = y.unfold(rank - 2, how.size[0], how.stride[0]);
    down.unfold(rank - 1, how.size[1], how.stride[1]).mean([-2, -1])
}

/// [`max_pool2d`] over lines.
#[must_use]
#[track_caller]
pub fn max_pool1d(x: &DynTensor, size: usize, stride: usize, padding: usize) -> DynTensor {
    let how = Pooling { size: [1, size], stride: [1, stride], padding: [0, padding] };
    max_pool2d(&x.unsqueeze(-2), how).squeeze(-2)
}

/// [`avg_pool2d`] over lines.
#[must_use]
#[track_caller]
pub fn avg_pool1d(x: &DynTensor, size: usize, stride: usize, padding: usize) -> DynTensor {
    let how = Pooling { size: [1, size], stride: [1, stride], padding: [0, padding] };
    avg_pool2d(&x.unsqueeze(-2), how).squeeze(-2)
}

/// What lacks its batch axis, of this rank, as a batch of one.
#[track_caller]
pub(super) fn one_of(x: &DynTensor, rank: usize) -> Option<DynTensor> {
    (x.rank() == rank && x.error().is_none()).then(|| x.unsqueeze(0))
}

/// Lines are images of height 1.
pub(super) fn as_line(how: Convolution) -> Convolution {
    let of = |[_, width]: [usize; 2], height| [height, width];
    Convolution {
        stride: of(how.stride, 1),
        padding: of(how.padding, 0),
        dilation: of(how.dilation, 1),
        output_padding: of(how.output_padding, 0),
        groups: how.groups,
    }
}

/// The convolution of a batch of images.
#[track_caller]
pub(super) fn convolved(x: &DynTensor, weight: &DynTensor, how: Convolution) -> DynTensor {
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
