//! Images made larger or smaller: PyTorch's `interpolate`.

use gt_ir::{DType, OpError};

use crate::core::DynTensor;
use crate::session::Session;

/// The size that [`interpolate`] gives images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Resize {
    /// Height and width.
    Size([usize; 2]),
    /// How many times as high and as wide, rounded down: PyTorch's `scale_factor`.
    Scale([f64; 2]),
}

/// What the new elements of [`interpolate`] are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interpolation {
    /// The nearest element before.
    #[default]
    Nearest,
    /// The four nearest, weighed by distance.
    Bilinear(Corners),
    /// The sixteen nearest, weighed by a cubic polynomial (Keys 1981, with a slope of -0.75).
    Bicubic(Corners),
}

/// What stays in its place when an image is resized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Corners {
    /// The outer edges of the elements at the corners: PyTorch's default.
    #[default]
    Edges,
    /// Their centers: `align_corners=True`.
    Centers,
}

/// Images `[.., height, width]` of another size. Floats only.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::functional::{Corners, Interpolation, Resize, interpolate};
/// let images = DynTensor::rand([8, 3, 32, 32], DType::F32);
/// let to = Resize::Size([48, 40]);
/// let y = interpolate(&images, to, Interpolation::Bicubic(Corners::Edges));
/// assert_eq!(y.sizes(), [8, 3, 48, 40]);
/// ```
#[must_use]
#[track_caller]
pub fn interpolate(x: &DynTensor, to: Resize, mode: Interpolation) -> DynTensor {
    let image = [x.size(-2), x.size(-1)];
    let (size, steps) = match to {
        Resize::Size(size) => (size, [0, 1].map(|i| image[i] as f64 / size[i].max(1) as f64)),
        Resize::Scale(scale) => {
            ([0, 1].map(|i| (image[i] as f64 * scale[i]) as usize), scale.map(f64::recip))
        }
    };
    if x.rank() < 2 || image.contains(&0) || size.contains(&0) {
        return x.record_with(|ty| {
            let what = format!("interpolate: {ty} cannot be resized to {size:?}");
            Err(OpError::new(what).hint("x is `[.., height, width]`, each number 1 or more"))
        });
    }
    let rows = along(x, -2, size[0], steps[0], mode);
    along(&rows, -1, size[1], steps[1], mode)
}

/// So many elements of an axis, `step` apart.
#[track_caller]
fn along(x: &DynTensor, axis: i64, size: usize, step: f64, mode: Interpolation) -> DynTensor {
    let session = x.session();
    let _entered = session.as_ref().map(Session::enter);
    let at = DynTensor::arange(0, size as i64, 1, DType::F64);
    let last = x.size(axis).saturating_sub(1) as f64;
    let between = last / size.saturating_sub(1).max(1) as f64;
    match mode {
        Interpolation::Nearest => taken(x, axis, &at.mul(step).floor()),
        Interpolation::Bilinear(corners) => {
            let place = corners.places(&at, step, between).maximum(0.0);
            let low = place.floor();
            let share = place.sub(&low).to_dtype(x.dtype().or_default_float());
            let (before, behind) = (taken(x, axis, &low), taken(x, axis, &low.add(1.0)));
            before.real().lerp(&behind, &along_rows(share, axis))
        }
        Interpolation::Bicubic(corners) => {
            let place = corners.places(&at, step, between);
            let low = place.floor();
            let share = place.sub(&low);
            let mut sum = cubic_part(x, axis, (&low, &share), -1.0);
            for offset in [0.0, 1.0, 2.0] {
                sum = sum.add(&cubic_part(x, axis, (&low, &share), offset));
            }
            sum
        }
    }
}

impl Corners {
    /// Where new elements lie among the old ones, which are `step` apart or, between the centers
    /// of those at the ends, `between`.
    #[track_caller]
    fn places(self, at: &DynTensor, step: f64, between: f64) -> DynTensor {
        match self {
            Corners::Edges => at.add(0.5).mul(step).sub(0.5),
            Corners::Centers => at.mul(between),
        }
    }
}

/// The elements of an axis at these places, or at the nearest end.
#[track_caller]
fn taken(x: &DynTensor, axis: i64, place: &DynTensor) -> DynTensor {
    let last = x.size(axis).saturating_sub(1) as f64;
    x.index_select(axis, &place.clamp(0.0, last).to_dtype(DType::I64))
}

/// What the elements `offset` behind those before the places add.
#[track_caller]
fn cubic_part(
    x: &DynTensor,
    axis: i64,
    (low, share): (&DynTensor, &DynTensor),
    offset: f64,
) -> DynTensor {
    let weight = cubic(&share.sub(offset).abs()).to_dtype(x.dtype().or_default_float());
    taken(x, axis, &low.add(offset)).mul(&along_rows(weight, axis))
}

/// The weight of an element at this distance, up to 2.
#[track_caller]
fn cubic(distance: &DynTensor) -> DynTensor {
    const SLOPE: f64 = -0.75;
    let d = distance;
    let near = d.mul(SLOPE + 2.0).sub(SLOPE + 3.0).mul(&d.square()).add(1.0);
    let far = d.mul(SLOPE).sub(5.0 * SLOPE).mul(d).add(8.0 * SLOPE).mul(d).sub(4.0 * SLOPE);
    d.le(1.0).where_(&near, &far)
}

/// What says something of each element of an axis, with an axis behind where that one has one
/// behind.
#[track_caller]
pub(super) fn along_rows(x: DynTensor, axis: i64) -> DynTensor {
    if axis == -2 { x.unsqueeze(-1) } else { x }
}

/// Each element of images `[.., height, width]` as a block of `scale` times as many: PyTorch's
/// `interpolate(mode="nearest")`.
#[must_use]
#[track_caller]
pub fn upsample_nearest2d(x: &DynTensor, scale: [usize; 2]) -> DynTensor {
    x.repeat_interleave(scale[0], -2).repeat_interleave(scale[1], -1)
}

/// Images `[.., height, width]` of another size, by weighing the four nearest elements: PyTorch's
/// `interpolate(mode="bilinear", align_corners=False)`.
#[must_use]
#[track_caller]
pub fn upsample_bilinear2d(x: &DynTensor, size: [usize; 2]) -> DynTensor {
    interpolate(x, Resize::Size(size), Interpolation::Bilinear(Corners::Edges))
}
