//! Transforms of short parts of a signal, and the signal of such transforms.

use super::refused;
use super::transform::{Norm, Options, irfft_with, rfft_with};
use crate::core::DynTensor;
use crate::functional::{PadMode, pad_with};

/// What [`stft`] and [`istft`] may be told; PyTorch's names.
#[derive(Clone, Debug)]
pub struct Stft {
    /// Elements of a part.
    pub n_fft: usize,
    /// Elements from one part to the next; `None` is a quarter of `n_fft`.
    pub hop_length: Option<usize>,
    /// What each part is multiplied with, at most `n_fft` elements, which stand in the middle;
    /// `None` is ones.
    pub window: Option<DynTensor>,
    /// Whether part i has element `i * hop_length` in its middle: the signal is then mirrored at
    /// its ends.
    pub center: bool,
    /// Whether transforms are divided by the root of `n_fft`.
    pub normalized: bool,
}

impl Stft {
    /// PyTorch's defaults for parts of so many elements.
    pub fn new(n_fft: usize) -> Stft {
        Stft { n_fft, hop_length: None, window: None, center: true, normalized: false }
    }

    fn hop(&self) -> usize {
        self.hop_length.unwrap_or(self.n_fft / 4)
    }

    fn options(&self) -> Options {
        let norm = if self.normalized { Norm::Ortho } else { Norm::Backward };
        Options { n: Some(self.n_fft), dim: -1, norm }
    }

    /// Why there are no such parts.
    fn fault(&self, op: &str) -> Option<(String, &'static str)> {
        let size = self.window.as_ref().map(DynTensor::sizes);
        let fits = size.as_ref().is_none_or(|n| matches!(**n, [n] if n <= self.n_fft));
        let (n_fft, hop) = (self.n_fft, self.hop());
        if n_fft == 0 || hop == 0 {
            let message = format!("{op}: parts of {n_fft} elements, one every {hop}");
            return Some((message, "`n_fft` and `hop_length` are 1 or more"));
        }
        let message = || format!("{op}: a window {size:?} for parts of {n_fft} elements");
        (!fits).then(|| (message(), "a window has one axis, of `n_fft` elements at most"))
    }

    /// The window, with zeros around.
    #[track_caller]
    fn weights(&self, like: &DynTensor) -> DynTensor {
        match &self.window {
            Some(window) => {
                let around = (self.n_fft - window.numel()) as i64;
                window.pad([(around / 2, around - around / 2)], 0.0)
            }
            None => like.on_own(|| DynTensor::ones([self.n_fft], like.dtype())),
        }
    }
}

/// The transforms of parts of a real signal, `[.., length]` to `[.., n_fft / 2 + 1, parts, 2]`:
/// PyTorch's `stft` with `onesided`, as `view_as_real` shows it.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// let x = DynTensor::randn([16_000], DType::F32);
/// let how = fft::Stft { hop_length: Some(160), ..fft::Stft::new(400) };
/// let spectrum = fft::stft(&x, &how); // [201, 101, 2]
/// let back = fft::istft(&spectrum, &how, Some(16_000));
/// ```
#[must_use]
#[track_caller]
pub fn stft(x: &DynTensor, how: &Stft) -> DynTensor {
    if let Some((message, hint)) = how.fault("stft") {
        return refused(x, message, hint);
    }
    let half = how.n_fft / 2;
    let padded = if how.center { pad_with(x, [(half, half)], PadMode::Reflect) } else { x.clone() };
    if padded.size(-1) < how.n_fft && padded.error().is_none() {
        let message = format!("stft: {} is shorter than a part of {}", padded.ty(), how.n_fft);
        return refused(x, message, "take smaller parts, or put zeros behind the signal");
    }
    let parts = padded.unfold(-1, how.n_fft, how.hop());
    rfft_with(&(parts * how.weights(x)), how.options()).transpose(-3, -2)
}

/// The signal of which [`stft`] with the same settings gives these transforms, `[.., n_fft / 2 + 1,
/// parts, 2]` to `[.., length]`: PyTorch's `istft`. Of transforms that no signal has, the nearest
/// (Griffin and Lim 1984). Without a `length` it ends with the last part, or its middle. Elements
/// where all windows are 0 are NaN, where PyTorch returns an error.
#[must_use]
#[track_caller]
pub fn istft(x: &DynTensor, how: &Stft, length: Option<usize>) -> DynTensor {
    if let Some((message, hint)) = how.fault("istft") {
        return refused(x, message, hint);
    }
    if x.rank() < 3 || x.size(-2) == 0 || x.size(-3) != how.n_fft / 2 + 1 {
        if x.error().is_some() {
            return x.clone();
        }
        let message = format!("istft: {} are no transforms of {} elements", x.ty(), how.n_fft);
        return refused(x, message, "it takes [.., n_fft / 2 + 1, parts, 2]");
    }
    let (hop, n_parts) = (how.hop(), x.size(-2));
    let whole = how.n_fft + hop * (n_parts - 1);
    let parts = irfft_with(&x.transpose(-3, -2), how.options());
    let weights = how.weights(&parts);
    let sums = (parts * &weights).fold(-1, hop, whole);
    let shares = weights.square().expand([n_parts, how.n_fft]).fold(0, hop, whole);
    let start = if how.center { how.n_fft / 2 } else { 0 };
    let end = length.map_or(whole.saturating_sub(start), |length| start + length).min(whole);
    let n = end.saturating_sub(start);
    let cut = |x: &DynTensor| x.narrow(-1, start as i64, n);
    let signal = cut(&sums) / cut(&shares);
    let missing = length.map_or(0, |length| length.saturating_sub(n));
    if missing == 0 {
        return signal;
    }
    let mut pads = vec![(0, 0); signal.rank()];
    if let Some(last) = pads.last_mut() {
        *last = (0, missing as i64);
    }
    signal.pad(&pads, 0.0)
}
