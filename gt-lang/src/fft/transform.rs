//! Transforms along one axis or two, and what belongs to their frequencies.

use gt_ir::attr::Direction;
use gt_ir::{DType, Op};

use super::{complex, conj, real, refused};
use crate::core::DynTensor;

/// What is divided by the number of elements; PyTorch's `norm`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Norm {
    /// The transform to times, `ifft`.
    #[default]
    Backward,
    /// The transform to frequencies, `fft`.
    Forward,
    /// Both, by the root.
    Ortho,
}

/// What transforms may be told; the defaults are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The number of elements in time: longer inputs are cut, shorter ones get zeros behind. The
    /// default is what is there, and for `irfft` two less than twice what is there.
    pub n: Option<usize>,
    /// The axis, not counting that of the parts.
    pub dim: i64,
    /// What is divided by the number of elements.
    pub norm: Norm,
}

impl Default for Options {
    fn default() -> Self {
        Options { n: None, dim: -1, norm: Norm::Backward }
    }
}

/// The transform of complex numbers along the axis before their parts: `[.., n, 2]`.
#[must_use]
#[track_caller]
pub fn fft(x: &DynTensor) -> DynTensor {
    fft_with(x, Options::default())
}

/// [`fft`] of another length, along another axis, or divided differently.
#[must_use]
#[track_caller]
pub fn fft_with(x: &DynTensor, options: Options) -> DynTensor {
    along(x, Direction::Forward, options)
}

/// The inverse of [`fft`], `[.., n, 2]`.
#[must_use]
#[track_caller]
pub fn ifft(x: &DynTensor) -> DynTensor {
    ifft_with(x, Options::default())
}

/// [`ifft`] of another length, along another axis, or divided differently.
#[must_use]
#[track_caller]
pub fn ifft_with(x: &DynTensor, options: Options) -> DynTensor {
    along(x, Direction::Inverse, options)
}

/// The transform of real numbers along the last axis, without the frequencies that are conjugates
/// of others: `[.., n]` to `[.., n / 2 + 1, 2]`.
#[must_use]
#[track_caller]
pub fn rfft(x: &DynTensor) -> DynTensor {
    rfft_with(x, Options::default())
}

/// [`rfft`] of another length, along another axis, or divided differently.
#[must_use]
#[track_caller]
pub fn rfft_with(x: &DynTensor, options: Options) -> DynTensor {
    let numbers = complex(x, &x.detach().zeros_like());
    let all = along(&numbers, Direction::Forward, options);
    let (axis, n) = (behind(options.dim), all.size(behind(options.dim)));
    if all.error().is_some() { all } else { all.narrow(axis, 0, n / 2 + 1) }
}

/// The real numbers of these frequencies, the inverse of [`rfft`] for an even number of them:
/// `[.., m, 2]` to `[.., 2 (m - 1)]`. The imaginary parts of the first frequency, and of the last
/// of an even number, do not matter.
#[must_use]
#[track_caller]
pub fn irfft(x: &DynTensor) -> DynTensor {
    irfft_with(x, Options::default())
}

/// [`irfft`] to another number of elements, which an odd one needs, along another axis, or divided
/// differently.
#[must_use]
#[track_caller]
pub fn irfft_with(x: &DynTensor, options: Options) -> DynTensor {
    let axis = behind(options.dim);
    let n = options.n.unwrap_or_else(|| x.size(axis).saturating_sub(1) * 2);
    if let Some(fault) = misfit("irfft", x, options.dim, n) {
        return fault;
    }
    // Frequencies above the half are conjugates of those below.
    let lower = fitted(x, axis, n / 2 + 1);
    let above = (n - 1) / 2;
    let upper = conj(&lower.narrow(axis, 1, above).flip([axis]));
    let all = DynTensor::cat([lower, upper], axis);
    real(&along(&all, Direction::Inverse, Options { n: Some(n), ..options }))
}

/// The transform of complex numbers along both axes before their parts: `[.., m, n, 2]`.
#[must_use]
#[track_caller]
pub fn fft2(x: &DynTensor) -> DynTensor {
    fft2_with(x, Norm::Backward)
}

/// [`fft2`], divided differently.
#[must_use]
#[track_caller]
pub fn fft2_with(x: &DynTensor, norm: Norm) -> DynTensor {
    both(x, Direction::Forward, norm)
}

/// The inverse of [`fft2`], `[.., m, n, 2]`.
#[must_use]
#[track_caller]
pub fn ifft2(x: &DynTensor) -> DynTensor {
    ifft2_with(x, Norm::Backward)
}

/// [`ifft2`], divided differently.
#[must_use]
#[track_caller]
pub fn ifft2_with(x: &DynTensor, norm: Norm) -> DynTensor {
    both(x, Direction::Inverse, norm)
}

#[track_caller]
fn both(x: &DynTensor, direction: Direction, norm: Norm) -> DynTensor {
    let last = along(x, direction, Options { norm, ..Options::default() });
    along(&last, direction, Options { dim: -2, norm, ..Options::default() })
}

/// The axis of a tensor whose last axis has the parts.
fn behind(dim: i64) -> i64 {
    if dim < 0 { dim - 1 } else { dim }
}

/// The error of what has no such axis of complex numbers, or no elements.
#[track_caller]
fn misfit(op: &str, x: &DynTensor, dim: i64, n: usize) -> Option<DynTensor> {
    if x.error().is_some() {
        return Some(x.clone());
    }
    let axes = x.rank() as i64 - 1;
    if axes < 1 || x.size(-1) != 2 {
        let message = format!("{op}: takes complex numbers [.., n, 2], but got {}", x.ty());
        return Some(refused(x, message, "`fft::complex` makes them of two parts"));
    }
    if !(-axes..axes).contains(&dim) {
        let message = format!("{op}: there is no axis {dim} of complex numbers in {}", x.ty());
        return Some(refused(x, message, "the last axis, of the parts, does not count"));
    }
    if n == 0 {
        let message = format!("{op}: axis {dim} of {} would have no elements", x.ty());
        return Some(refused(x, message, "a transform has one element or more"));
    }
    None
}

/// The tensor, cut or filled with zeros to `n` elements.
#[track_caller]
fn fitted(x: &DynTensor, axis: i64, n: usize) -> DynTensor {
    let now = x.size(axis);
    if now >= n {
        return if now == n { x.clone() } else { x.narrow(axis, 0, n) };
    }
    let at = if axis < 0 { axis + x.rank() as i64 } else { axis };
    let mut pads = vec![(0, 0); x.rank()];
    if let Some(pad) = usize::try_from(at).ok().and_then(|at| pads.get_mut(at)) {
        *pad = (0, (n - now) as i64);
    }
    x.pad(&pads, 0.0)
}

#[track_caller]
fn along(x: &DynTensor, direction: Direction, options: Options) -> DynTensor {
    let axis = behind(options.dim);
    let n = options.n.unwrap_or_else(|| x.size(axis));
    if let Some(fault) = misfit("fft", x, options.dim, n) {
        return fault;
    }
    let is_last = [axis, axis - x.rank() as i64].contains(&-2);
    let turned = |x: DynTensor| if is_last { x } else { x.transpose(axis, -2) };
    let out = turned(fitted(x, axis, n)).record_with(|_| Ok(Op::Fft(direction)));
    let out = turned(out);
    match (options.norm, direction) {
        (Norm::Ortho, _) => out.mul(1.0 / (n as f64).sqrt()),
        (Norm::Backward, Direction::Inverse) | (Norm::Forward, Direction::Forward) => {
            out.mul(1.0 / n as f64)
        }
        (Norm::Backward, Direction::Forward) | (Norm::Forward, Direction::Inverse) => out,
    }
}

/// The frequencies of the elements of [`fft`], `[n]`, of samples `spacing` apart: 0, positive ones,
/// then negative ones.
#[must_use]
#[track_caller]
pub fn fftfreq(n: usize, spacing: f64, dtype: DType) -> DynTensor {
    let (n, half) = (n as i64, n.div_ceil(2) as i64);
    let at = DynTensor::arange(0, n, 1, DType::I64);
    let signed = at.ge(half).where_(&(&at - n), &at);
    (signed.to_dtype(DType::F64) / (n as f64 * spacing)).to_dtype(dtype)
}

/// The frequencies of the elements of [`rfft`], `[n / 2 + 1]`, of samples `spacing` apart.
#[must_use]
#[track_caller]
pub fn rfftfreq(n: usize, spacing: f64, dtype: DType) -> DynTensor {
    let at = DynTensor::arange(0, n as i64 / 2 + 1, 1, DType::F64);
    (at / (n as f64 * spacing)).to_dtype(dtype)
}

/// The tensor with the frequency 0 in the middle of these axes. They are the tensor's: -2 is the
/// last axis of complex numbers, -1 of what [`fftfreq`] gives.
#[must_use]
#[track_caller]
pub fn fftshift(x: &DynTensor, axes: &[i64]) -> DynTensor {
    axes.iter().fold(x.clone(), |x, &axis| rolled(&x, axis, x.size(axis).div_ceil(2)))
}

/// The inverse of [`fftshift`].
#[must_use]
#[track_caller]
pub fn ifftshift(x: &DynTensor, axes: &[i64]) -> DynTensor {
    axes.iter().fold(x.clone(), |x, &axis| rolled(&x, axis, x.size(axis) / 2))
}

/// The tensor with its first elements behind the others.
#[track_caller]
fn rolled(x: &DynTensor, axis: i64, first: usize) -> DynTensor {
    let rest = x.size(axis).saturating_sub(first);
    DynTensor::cat([x.narrow(axis, first as i64, rest), x.narrow(axis, 0, first)], axis)
}
