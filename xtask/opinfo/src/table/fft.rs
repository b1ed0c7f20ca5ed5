//! Fourier transforms of real numbers, whose results `cases.py` shows as pairs. GT has no complex
//! dtypes, so samples with complex numbers are not computed.

use gt::DynTensor;
use gt::fft::{self, Norm, Options};

use super::rows;
use crate::arguments::{Arguments, Outcome, absent};

rows! {
    "fft.fft", "input n=None dim=-1 norm=None" => |a| fft::fft_with(&numbers(a)?, options(a)?);
    "fft.ifft", "input n=None dim=-1 norm=None" => |a| fft::ifft_with(&numbers(a)?, options(a)?);
    "fft.rfft", "input n=None dim=-1 norm=None" => |a| fft::rfft_with(a.x()?, options(a)?);
    "fft.irfft", "input n=None dim=-1 norm=None" => |a| fft::irfft_with(&numbers(a)?, options(a)?);
    "fft.fftshift", "input dim=None" => |a| fft::fftshift(a.x()?, &axes(a)?);
    "fft.ifftshift", "input dim=None" => |a| fft::ifftshift(a.x()?, &axes(a)?);
}

/// The real numbers as complex ones; integers as floats, as in PyTorch.
fn numbers(a: &Arguments<'_>) -> Outcome<DynTensor> {
    let x = a.x()?;
    if !x.dtype().is_float() {
        return absent("transforms of integers");
    }
    Ok(fft::complex(x, &x.detach().zeros_like()))
}

fn options(a: &Arguments<'_>) -> Outcome<Options> {
    if !a.x()?.dtype().is_float() {
        return absent("transforms of integers");
    }
    let n = if a.is_none("n") { None } else { Some(a.size("n")?) };
    let norm = match a.text("norm") {
        "" | "backward" => Norm::Backward,
        "forward" => Norm::Forward,
        "ortho" => Norm::Ortho,
        other => return absent(format!("the norm {other}")),
    };
    Ok(Options { n, dim: a.int("dim")?, norm })
}

fn axes(a: &Arguments<'_>) -> Outcome<Vec<i64>> {
    match a.is_none("dim") {
        true => Ok((0..a.x()?.rank() as i64).collect()),
        false => a.ints("dim"),
    }
}
