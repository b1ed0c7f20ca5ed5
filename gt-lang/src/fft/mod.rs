//! Fourier transforms with the names of PyTorch's `torch.fft`, and short-time ones (`stft`).
//!
//! Complex numbers are real tensors with a last axis of size 2, the real and the imaginary part, as
//! `torch.view_as_real` shows them: `[.., 2]` of `f32` or `f64`. Axes are counted without it, so
//! `dim` -1 is the axis before. Sums, differences and products with real numbers are those of
//! tensors; [`mul`], [`abs`], [`conj`] and [`angle`] are those of complex numbers. A
//! [`ComplexTensor`](crate::complex::ComplexTensor) holds such pairs, and has the operators, the
//! functions and the transforms of complex numbers as methods.
//!
//! Gradients of every order and [`vmap`](crate::autograd::vmap) go through all functions. Other
//! dtypes are an error of the next read; a cast to `f32` says where digits get lost.
//!
//! ```no_run
//! # extern crate gt_lang as gt;
//! use gt::prelude::*;
//!
//! let x = DynTensor::randn([8, 400], DType::F32);
//! let spectrum = fft::rfft(&x); // [8, 201, 2]
//! let power = fft::abs(&spectrum).square(); // [8, 201]
//! let back = fft::irfft_with(&spectrum, fft::Options { n: Some(400), ..Default::default() });
//! ```

mod number;
mod short_time;
mod transform;

pub(crate) use number::times;
pub use number::{abs, angle, complex, conj, imag, mul, real};
pub use short_time::{Stft, istft, stft};
pub use transform::{
    Norm, Options, fft, fft_with, fft2, fft2_with, fftfreq, fftshift, ifft, ifft_with, ifft2,
    ifft2_with, ifftshift, irfft, irfft_with, rfft, rfft_with, rfftfreq,
};

use gt_ir::OpError;

use crate::core::DynTensor;

/// A tensor that carries an error about `x`.
#[track_caller]
fn refused(x: &DynTensor, message: String, hint: &str) -> DynTensor {
    x.record_with(|_| Err(OpError::new(message).hint(hint)))
}
