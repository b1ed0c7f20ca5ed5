//! Padding with what is there already, means of parts of images, and channels as pixels.

use gt_ir::{DType, OpError};

use super::interpolate::along_rows;
use super::{Pooling, avg_pool2d};
use crate::core::DynTensor;
use crate::session::Session;

/// What elements around a tensor are; [`DynTensor::pad`] puts a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PadMode {
    /// The elements next to the edge, mirrored; the edge itself is not repeated.
    Reflect,
    /// The edge.
    Replicate,
    /// The other end.
    Circular,
}

/// Elements put around: `pads[i]` is how many come before and after axis `i` of the last
/// `pads.len()` axes (PyTorch counts from the last).
#[must_use]
#[track_caller]
pub fn pad_with(x: &DynTensor, pads: impl AsRef<[(usize, usize)]>, mode: PadMode) -> DynTensor {
    let pads = pads.as_ref();
    let Some(first) = x.rank().checked_sub(pads.len()) else {
        return x.record_with(|ty| {
            Err(OpError::new(format!("pad: {} pairs are more than {ty} has axes", pads.len())))
        });
    };
    let mut y = x.clone();
    for (axis, &(before, after)) in (first..).zip(pads).filter(|(_, pads)| **pads != (0, 0)) {
        let n = x.size(axis as i64);
        let most = match mode {
            PadMode::Reflect => n.saturating_sub(1),
            PadMode::Circular => n,
            PadMode::Replicate => {
                if n == 0 {
                    0
                } else {
                    usize::MAX
                }
            }
        };
        if before.max(after) > most {
            return x.record_with(|ty| {
                let what = format!("pad: {before} and {after} elements around axis {axis} of {ty}");
                Err(OpError::new(what).hint(format!("the mode {mode:?} takes at most {most}")))
            });
        }
        y = y.index_select(axis as i64, &sources(x, mode, n, (before, after)));
    }
    y
}

/// Which element stands at each place of a padded axis.
#[track_caller]
fn sources(x: &DynTensor, mode: PadMode, n: usize, (before, after): (usize, usize)) -> DynTensor {
    let session = x.session();
    let _entered = session.as_ref().map(Session::enter);
    let (n, before, after) = (n as i64, before as i64, after as i64);
    let places = DynTensor::arange(-before, n + after, 1, DType::I64);
    match mode {
        PadMode::Reflect => {
            let from_front = places.abs();
            from_front.minimum(&from_front.neg().add(2 * (n - 1)))
        }
        PadMode::Replicate => places.maximum(0).minimum(n - 1),
        PadMode::Circular => {
            let inside = places.add(&places.lt(0).to_dtype(DType::I64).mul(n));
            inside.sub(&places.ge(n).to_dtype(DType::I64).mul(n))
        }
    }
}

/// The means of `size[0]` times `size[1]` parts of images `[.., height, width]`: PyTorch's
/// `adaptive_avg_pool2d`. Of `n` elements part `i` of `m` has those from `floor(i n / m)` to
/// `ceil((i + 1) n / m)`: where `m` does not divide `n`, parts overlap and their sizes differ by
/// one.
#[must_use]
#[track_caller]
pub fn adaptive_avg_pool2d(x: &DynTensor, size: [usize; 2]) -> DynTensor {
    let image = [x.size(-2), x.size(-1)];
    if image.iter().chain(&size).any(|&n| n == 0) {
        return x.record_with(|ty| {
            let what = format!("adaptive_avg_pool2d: {size:?} parts of the last axes of {ty}");
            Err(OpError::new(what).hint("there is at least one part, and one element to a part"))
        });
    }
    if !x.dtype().is_float() {
        return x.record_with(|ty| {
            Err(OpError::new(format!("adaptive_avg_pool2d: takes floats, but got {ty}"))
                .hint("cast to f32 first"))
        });
    }
    let [divides_height, divides_width] = [0, 1].map(|i| image[i].is_multiple_of(size[i]));
    if divides_height && divides_width {
        return avg_pool2d(x, Pooling::of([image[0] / size[0], image[1] / size[1]]));
    }
    let wide = if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    let rows = means_of_parts(&x.to_dtype(wide), -2, size[0]);
    means_of_parts(&rows, -1, size[1]).to_dtype(x.dtype())
}

/// The means of so many parts of an axis. Each part is gathered with room for the largest, and what
/// is not its own counts as zero.
#[track_caller]
fn means_of_parts(x: &DynTensor, axis: i64, parts: usize) -> DynTensor {
    let session = x.session();
    let _entered = session.as_ref().map(Session::enter);
    let n = x.size(axis);
    // Quotients of whole numbers below 2^53 round to the right side.
    let (n_parts, size) = (parts as f64, n as f64);
    let part = DynTensor::arange(0, parts as i64, 1, DType::F64);
    let first = part.mul(size).div(n_parts).floor();
    let end = part.add(1.0).mul(size).div(n_parts).ceil();
    let length = end.sub(&first).to_dtype(x.dtype());
    let most = n.min(n.div_ceil(parts) + 1);
    let within = DynTensor::arange(0, most as i64, 1, DType::F64);
    let places = first.unsqueeze(-1).add(&within);
    let own = places.lt(&end.unsqueeze(-1));
    // Behind the axis there is nothing to gather.
    let places = places.minimum(size - 1.0).to_dtype(DType::I64);
    let gathered = x.index_select(axis, &places);
    // One axis became two; with behind them what was behind it.
    let sums = along_rows(own, axis).where_(&gathered, 0).sum(axis);
    sums.div(&along_rows(length, axis))
}

/// Channels as blocks of pixels: `[batch, channels * r * r, height, width]` to `[batch, channels,
/// height * r, width * r]` (Shi et al. 2016).
#[must_use]
#[track_caller]
pub fn pixel_shuffle(x: &DynTensor, r: usize) -> DynTensor {
    let r = r.max(1);
    let apart = x.unflatten(1, [x.size(1) / (r * r), r, r]);
    apart.permute([0, 1, 4, 2, 5, 3]).flatten(-2, -1).flatten(-3, -2)
}

/// The inverse of [`pixel_shuffle`]: `[batch, channels, height * r, width * r]` to `[batch,
/// channels * r * r, height, width]`. Heights and widths are multiples of `r`.
#[must_use]
#[track_caller]
pub fn pixel_unshuffle(x: &DynTensor, r: usize) -> DynTensor {
    let r = r.max(1);
    let (height, width) = (x.size(-2) / r, x.size(-1) / r);
    let apart = x.unflatten(-1, [width, r]).unflatten(-3, [height, r]);
    // [.., channels, height, r, width, r]
    let apart = apart.movedim(-1, -4).movedim(-2, -4);
    apart.flatten(-5, -3)
}
