//! What libtorch has no one call for: padding between elements, and counting in a narrow dtype.

use gt_ir::{Type, attr::Pad};
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

/// 0, 1, 2, .. in row-major order, wrapped into the dtype.
pub(super) fn iota(out: Type, device: Device) -> Made {
    let counted = Tensor::f_arange(out.shape.numel() as i64, (Kind::Int64, device))?;
    Ok(counted.f_to_kind(kind_of(out.dtype))?.f_reshape(sizes(&out.shape).as_slice())?)
}
