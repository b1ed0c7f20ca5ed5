//! Fourier transforms of complex tensors: those of [`fft`], which has the transforms
//! of pairs, as methods. Axes do not count that of the parts.

use super::ComplexTensor;
use crate::core::DynTensor;
use crate::fft::{self, Norm, Options, Stft};

impl ComplexTensor {
    /// The transform along the last axis: PyTorch's `torch.fft.fft`.
    ///
    /// ```no_run
    /// # extern crate gt_lang as gt;
    /// # use gt::prelude::*;
    /// let x = DynTensor::randn([8, 400], DType::F32);
    /// let spectrum = ComplexTensor::rfft(&x); // c64[8, 201]
    /// let power = spectrum.abs().square(); // [8, 201]
    /// let back = spectrum.irfft();
    /// ```
    #[must_use]
    #[track_caller]
    pub fn fft(&self) -> ComplexTensor {
        self.fft_with(Options::default())
    }

    /// [`ComplexTensor::fft`] of another length, along another axis, or divided differently.
    #[must_use]
    #[track_caller]
    pub fn fft_with(&self, options: Options) -> ComplexTensor {
        ComplexTensor::of(fft::fft_with(&self.pairs, options))
    }

    /// The inverse of [`ComplexTensor::fft`].
    #[must_use]
    #[track_caller]
    pub fn ifft(&self) -> ComplexTensor {
        self.ifft_with(Options::default())
    }

    /// [`ComplexTensor::ifft`] of another length, along another axis, or divided differently.
    #[must_use]
    #[track_caller]
    pub fn ifft_with(&self, options: Options) -> ComplexTensor {
        ComplexTensor::of(fft::ifft_with(&self.pairs, options))
    }

    /// The transform along the last two axes.
    #[must_use]
    #[track_caller]
    pub fn fft2(&self) -> ComplexTensor {
        self.fft2_with(Norm::Backward)
    }

    /// [`ComplexTensor::fft2`], divided differently.
    #[must_use]
    #[track_caller]
    pub fn fft2_with(&self, norm: Norm) -> ComplexTensor {
        ComplexTensor::of(fft::fft2_with(&self.pairs, norm))
    }

    /// The inverse of [`ComplexTensor::fft2`].
    #[must_use]
    #[track_caller]
    pub fn ifft2(&self) -> ComplexTensor {
        self.ifft2_with(Norm::Backward)
    }

    /// [`ComplexTensor::ifft2`], divided differently.
    #[must_use]
    #[track_caller]
    pub fn ifft2_with(&self, norm: Norm) -> ComplexTensor {
        ComplexTensor::of(fft::ifft2_with(&self.pairs, norm))
    }

    /// The transform of real numbers along the last axis, without the frequencies that are
    /// conjugates of others: `[.., n]` to `[.., n / 2 + 1]`.
    #[must_use]
    #[track_caller]
    pub fn rfft(x: &DynTensor) -> ComplexTensor {
        ComplexTensor::rfft_with(x, Options::default())
    }

    /// [`ComplexTensor::rfft`] of another length, along another axis, or divided differently.
    #[must_use]
    #[track_caller]
    pub fn rfft_with(x: &DynTensor, options: Options) -> ComplexTensor {
        ComplexTensor::of(fft::rfft_with(x, options))
    }

    /// The real numbers of these frequencies: see [`fft::irfft`].
    #[must_use]
    #[track_caller]
    pub fn irfft(&self) -> DynTensor {
        self.irfft_with(Options::default())
    }

    /// [`ComplexTensor::irfft`] to another number of elements, along another axis, or divided
    /// differently.
    #[must_use]
    #[track_caller]
    pub fn irfft_with(&self, options: Options) -> DynTensor {
        fft::irfft_with(&self.pairs, options)
    }

    /// The transforms of parts of a real signal, `[.., length]` to `[.., n_fft / 2 + 1, parts]`:
    /// see [`fft::stft`].
    #[must_use]
    #[track_caller]
    pub fn stft(x: &DynTensor, how: &Stft) -> ComplexTensor {
        ComplexTensor::of(fft::stft(x, how))
    }

    /// The signal of these short-time transforms, `[.., length]`: see [`fft::istft`].
    #[must_use]
    #[track_caller]
    pub fn istft(&self, how: &Stft, length: Option<usize>) -> DynTensor {
        fft::istft(&self.pairs, how, length)
    }
}
