//! Padding with what is there already, and images made larger or smaller.

use gt_ir::{DType, OpError};

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

/// Elements put around: `pads[i]` is how many come before and after axis `i` of the last `pads.len()` axes (PyTorch counts from the last).
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

/// Each element of images `[.., height, width]` as a block of `scale` times as many: PyTorch's `interpolate(mode="nearest")`.
#[must_use]
#[track_caller]
pub fn upsample_nearest2d(x: &DynTensor, scale: [usize; 2]) -> DynTensor {
    x.repeat_interleave(scale[0], -2).repeat_interleave(scale[1], -1)
}

/// Images `[.., height, width]` of another size, by weighing the four nearest elements: PyTorch's `interpolate(mode="bilinear", align_corners=False)`.
#[must_use]
#[track_caller]
pub fn upsample_bilinear2d(x: &DynTensor, size: [usize; 2]) -> DynTensor {
    let between = |x: &DynTensor, axis: i64, size: usize| {
        let session = x.session();
        let _entered = session.as_ref().map(Session::enter);
        let n = x.size(axis);
        let scale = n as f64 / size.max(1) as f64;
        let places = DynTensor::arange(0, size as i64, 1, DType::F64);
        let places = places.add(0.5).mul(scale).sub(0.5).maximum(0.0);
        let low = places.floor().minimum(n.saturating_sub(1) as f64);
        let high = low.add(1.0).minimum(n.saturating_sub(1) as f64);
        let share = places.sub(&low).to_dtype(x.dtype().or_default_float());
        let share = if axis == -2 { share.unsqueeze(-1) } else { share };
        let [low, high] = [low, high].map(|i| x.index_select(axis, &i.to_dtype(DType::I64)));
        low.lerp(&high, &share)
    };
    between(&between(x, -2, size[0]), -1, size[1])
}

/// The means of `size[0]` times `size[1]` parts of images, which must divide them: PyTorch's `adaptive_avg_pool2d` where its windows are all alike.
#[must_use]
#[track_caller]
pub fn adaptive_avg_pool2d(x: &DynTensor, size: [usize; 2]) -> DynTensor {
    let (height, width) = (x.size(-2), x.size(-1));
    let fits = |whole: usize, parts: usize| parts > 0 && whole.is_multiple_of(parts);
    if !fits(height, size[0]) || !fits(width, size[1]) {
        return x.record_with(|ty| {
            let what =
                format!("adaptive_avg_pool2d: {size:?} parts do not divide the last axes of {ty}");
            Err(OpError::new(what)
                .hint("windows of unequal size are not computed; pad or crop first"))
        });
    }
    avg_pool2d(x, Pooling::of([height / size[0], width / size[1]]))
}

/// Channels as blocks of pixels: `[batch, channels * r * r, height, width]` to `[batch, channels, height * r, width * r]` (Shi et al. 2016).
#[must_use]
#[track_caller]
pub fn pixel_shuffle(x: &DynTensor, r: usize) -> DynTensor {
    let r = r.max(1);
    let apart = x.unflatten(1, [x.size(1) / (r * r), r, r]);
    apart.permute([0, 1, 4, 2, 5, 3]).flatten(-2, -1).flatten(-3, -2)
}
