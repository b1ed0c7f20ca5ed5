//! Pooling: the largest or the mean of windows of lines, images and volumes.
//!
//! Guarantees: windows that reach beyond the padding, with `ceil_mode`, count what is inside of it;
//! gradients of equal elements go to the first of them, in the order of the axes.

use gt_ir::attr::Pool;
use gt_ir::{DType, Op, OpError};

use super::conv::small;
use crate::core::DynTensor;

/// What PyTorch's keyword arguments of pooling say: along height, then along width. Volumes have a
/// depth before them, `Pooling<3>`. Lines use the second of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pooling<const N: usize = 2> {
    /// Elements of a window.
    pub size: [usize; N],
    /// Distance between windows.
    pub stride: [usize; N],
    /// Elements put around, on both sides: those that are no maximum, or zeros that count in the
    /// mean.
    pub padding: [usize; N],
    /// A last window that reaches beyond the padding, if it begins before it: sizes are rounded up.
    pub ceil_mode: bool,
    /// Whether the zeros of the padding count as elements in the mean.
    pub count_include_pad: bool,
}

impl<const N: usize> Pooling<N> {
    /// Windows of this size beside each other.
    pub fn of(size: [usize; N]) -> Pooling<N> {
        let padding = [0; N];
        Pooling { size, stride: size, padding, ceil_mode: false, count_include_pad: true }
    }

    /// How far the last window along an axis of `n` elements reaches beyond the padding.
    fn beyond(&self, axis: usize, n: usize) -> usize {
        let (size, stride, padding) = (self.size[axis], self.stride[axis], self.padding[axis]);
        let whole = n.saturating_add(padding.saturating_mul(2));
        if !self.ceil_mode || stride == 0 || whole < size {
            return 0;
        }
        let mut last = (whole - size).div_ceil(stride) * stride;
        if last >= n.saturating_add(padding) {
            last = last.saturating_sub(stride);
        }
        (last + size).saturating_sub(whole)
    }
}

impl Pooling {
    /// How many elements each of the windows along an axis has, without padding: `[n_windows]` of
    /// the float that means are computed in. At least 1.
    #[track_caller]
    fn n_inside(&self, x: &DynTensor, axis: usize, n_windows: usize) -> DynTensor {
        let dtype = x.detach().widened().dtype();
        let first = x.on_own(|| DynTensor::arange(0, n_windows as i64, 1, DType::I64));
        let first = first * self.stride[axis] as i64 - self.padding[axis] as i64;
        let end = (&first + self.size[axis] as i64).minimum(x.size(axis as i64 - 2) as i64);
        (end - first.maximum(0)).maximum(1).to_dtype(dtype)
    }
}

/// The largest element of each window of `[.., channels, height, width]`, NaN if there is one. All
/// of a gradient goes to the first of equals.
#[must_use]
#[track_caller]
pub fn max_pool2d(x: &DynTensor, how: Pooling) -> DynTensor {
    let beyond = [how.beyond(0, x.size(-2)), how.beyond(1, x.size(-1))];
    let mut whole = x.clone();
    if beyond != [0; 2] {
        let mut pads = vec![(0, 0); x.rank().saturating_sub(2)];
        pads.extend(beyond.map(|n| (0, n as i64)));
        whole = x.pad(pads, f64::NEG_INFINITY);
    }
    whole.record_with(|ty| {
        let pair = |numbers| small("max_pool2d", ty, numbers);
        Ok(Op::MaxPool2d(Pool {
            size: pair(how.size)?,
            stride: pair(how.stride)?,
            padding: pair(how.padding)?,
            dilation: [1, 1],
        }))
    })
}

/// The mean of each window. The zeros around count if `count_include_pad` says so; what is beyond
/// them does not count.
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
    let beyond = [how.beyond(0, x.size(-2)), how.beyond(1, x.size(-1))];
    let mut y = x.clone();
    if how.padding != [0; 2] || beyond != [0; 2] {
        let mut pads = vec![(0, 0); x.rank().saturating_sub(2)];
        let around = how.padding.into_iter().zip(beyond);
        pads.extend(around.map(|(n, beyond)| (n as i64, n.saturating_add(beyond) as i64)));
        y = y.pad(pads, 0.0);
    }
    if !how.count_include_pad {
        let sums = windows(&y.widened(), how).sum([-2, -1]);
        let [n, m] = [0, 1].map(|axis| how.n_inside(x, axis, sums.size(axis as i64 - 2)));
        return (sums / (n.unsqueeze(-1) * m)).to_dtype(x.dtype());
    }
    let mut y = windows(&y, how).mean([-2, -1]);
    for (i, n) in beyond.into_iter().enumerate().filter(|(_, n)| *n > 0) {
        let size = how.size[i] as f64;
        y = last_times(&y, i as i64 - 2, size / (size - n as f64));
    }
    y
}

/// The windows over the last two axes, as two axes more.
#[track_caller]
fn windows(y: &DynTensor, how: Pooling) -> DynTensor {
    let rank = y.rank() as i64;
    let down = y.unfold(rank - 2, how.size[0], how.stride[0]);
    down.unfold(rank - 1, how.size[1], how.stride[1])
}

/// The last elements along an axis multiplied.
#[track_caller]
fn last_times(y: &DynTensor, axis: i64, factor: f64) -> DynTensor {
    let before = y.size(axis).saturating_sub(1);
    let last = y.narrow(axis, before as i64, 1).mul(factor);
    DynTensor::cat([&y.narrow(axis, 0, before), &last], axis)
}

/// [`max_pool2d`] over lines.
#[must_use]
#[track_caller]
pub fn max_pool1d(x: &DynTensor, size: usize, stride: usize, padding: usize) -> DynTensor {
    max_pool2d(&x.unsqueeze(-2), of_lines(size, stride, padding)).squeeze(-2)
}

/// [`avg_pool2d`] over lines.
#[must_use]
#[track_caller]
pub fn avg_pool1d(x: &DynTensor, size: usize, stride: usize, padding: usize) -> DynTensor {
    avg_pool2d(&x.unsqueeze(-2), of_lines(size, stride, padding)).squeeze(-2)
}

fn of_lines(size: usize, stride: usize, padding: usize) -> Pooling {
    Pooling { stride: [1, stride], padding: [0, padding], ..Pooling::of([1, size]) }
}

/// [`max_pool2d`] over volumes, `[.., depth, height, width]`.
#[must_use]
#[track_caller]
pub fn max_pool3d(x: &DynTensor, how: Pooling<3>) -> DynTensor {
    let Some(volumes) = Volumes::of(x) else { return no_volumes("max_pool3d", x) };
    let planes = max_pool2d(&volumes.planes(x), how.of_planes());
    let pooled = max_pool2d(&volumes.depths(&planes), how.of_depths());
    volumes.whole(&planes, &pooled)
}

/// [`avg_pool2d`] over volumes, `[.., depth, height, width]`.
#[must_use]
#[track_caller]
pub fn avg_pool3d(x: &DynTensor, how: Pooling<3>) -> DynTensor {
    let Some(volumes) = Volumes::of(x) else { return no_volumes("avg_pool3d", x) };
    let planes = avg_pool2d(&volumes.planes(x), how.of_planes());
    let pooled = avg_pool2d(&volumes.depths(&planes), how.of_depths());
    volumes.whole(&planes, &pooled)
}

impl Pooling<3> {
    /// What planes are pooled by.
    fn of_planes(self) -> Pooling {
        let plane = |[_, height, width]: [usize; 3]| [height, width];
        Pooling {
            size: plane(self.size),
            stride: plane(self.stride),
            padding: plane(self.padding),
            ceil_mode: self.ceil_mode,
            count_include_pad: self.count_include_pad,
        }
    }

    /// What becomes of planes is pooled by this along the depth.
    fn of_depths(self) -> Pooling {
        Pooling {
            size: [self.size[0], 1],
            stride: [self.stride[0], 1],
            padding: [self.padding[0], 0],
            ceil_mode: self.ceil_mode,
            count_include_pad: self.count_include_pad,
        }
    }
}

/// Volumes on their way: planes are pooled, then what became of them along the depth.
struct Volumes {
    lead: Vec<usize>,
    volume: [usize; 3],
}

impl Volumes {
    fn of(x: &DynTensor) -> Option<Volumes> {
        let shape = x.shape();
        let (lead, &volume) = shape.sizes().split_last_chunk()?;
        Some(Volumes { lead: lead.to_vec(), volume })
    }

    /// Images, of which the depths are channels.
    #[track_caller]
    fn planes(&self, x: &DynTensor) -> DynTensor {
        let [depth, height, width] = self.volume;
        x.reshape([self.lead.iter().product(), depth, height, width])
    }

    /// Pooled planes as images whose heights are the depths.
    #[track_caller]
    fn depths(&self, planes: &DynTensor) -> DynTensor {
        let (n, [depth, ..]) = (planes.size(0), self.volume);
        planes.reshape([n, 1, depth, planes.size(-2) * planes.size(-1)])
    }

    /// Volumes again.
    #[track_caller]
    fn whole(&self, planes: &DynTensor, pooled: &DynTensor) -> DynTensor {
        let volume = [pooled.size(-2), planes.size(-2), planes.size(-1)];
        pooled.reshape([&self.lead[..], &volume].concat())
    }
}

#[track_caller]
fn no_volumes(name: &str, x: &DynTensor) -> DynTensor {
    x.record_with(|ty| {
        let error = OpError::new(format!("{name}: {ty} is no volume"));
        Err(error.hint("x is `[.., depth, height, width]`"))
    })
}
