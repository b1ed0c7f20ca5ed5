//! Complex tensors as text, in PyTorch's layout: real parts and imaginary parts have a style each,
//! and imaginary parts are not aligned.

use std::fmt;

use gt_ir::HostTensor;

use super::{ComplexDType, ComplexTensor};
use crate::core::print::{Cells, Label, floats};

impl fmt::Display for ComplexTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shape, dtype) = (self.shape(), self.dtype());
        let is_shown = dtype == ComplexDType::C128 || shape.numel() == 0;
        let label = Label { dtype: dtype.name(), is_shown };
        f.write_str(&self.pairs.printed(&shape, &label, cells))
    }
}

impl fmt::Debug for ComplexTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Each number as text: `1.0000+2.j`.
fn cells(shown: &HostTensor) -> Cells {
    let parts = shown.to_f64();
    let column = |at: usize| floats(&parts.iter().skip(at).step_by(2).copied().collect::<Vec<_>>());
    let (real, imag) = (column(0), column(1));
    let joined = |(re, im): (&String, &String)| {
        let im = im.trim_start();
        let plus = if im.starts_with('-') { "" } else { "+" };
        format!("{re}{plus}{im}j")
    };
    let texts = real.texts.iter().zip(&imag.texts).map(joined).collect();
    Cells { texts, width: real.width + imag.width + 1 }
}
