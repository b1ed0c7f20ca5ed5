//! What libtorch has no one call for: padding between elements, windows any distance apart, and
//! counting in a narrow dtype.

use gt_ir::{
    Type,
    attr::{Pad, Window},
};
use tch::{Device, Kind, Tensor};

use super::{Made, host::kind_of, sizes};

/// A literal before, after and between the elements of one axis.
pub(super) fn pad(x: &Tensor, value: &Tensor, pad: Pad, out: Type) -> Made {
    let mut padded =
        Tensor::f_empty(sizes(&out.shape).as_slice(), (kind_of(out.dtype), x.device()))?;
    padded.f_copy_(value)?;
    let (axis, n) = (i64::from(pad.axis), x.size()[usize::from(pad.axis)]);
    if n > 0 {
        let (start, step) = (pad.lo as i64, pad.interior as i64 + 1);
        padded.f_slice(axis, start, start + (n - 1) * step + 1, step)?.f_copy_(x)?;
    }
    Ok(padded)
}

/// Windows along an axis, by the strides of x.
pub(super) fn unfold(x: &Tensor, window: Window, out: Type) -> Made {
    let (axis, mut strides) = (usize::from(window.axis), x.stride());
    let own = strides[axis];
    // Of one window, or of windows of one element, the distance may be any number.
    let stride = |n: i64, distance: u64| if n > 1 { own * distance as i64 } else { own };
    strides[axis] = stride(out.shape.sizes()[axis] as i64, window.step);
    strides.push(stride(window.size as i64, window.dilation));
    Ok(x.f_as_strided(sizes(&out.shape).as_slice(), strides, None::<i64>)?)
}

/// 0, 1, 2, .. in row-major order, wrapped into the dtype.
pub(super) fn iota(out: Type, device: Device) -> Made {
    let counted = Tensor::f_arange(out.shape.numel() as i64, (Kind::Int64, device))?;
    Ok(counted.f_to_kind(kind_of(out.dtype))?.f_reshape(sizes(&out.shape).as_slice())?)
}
