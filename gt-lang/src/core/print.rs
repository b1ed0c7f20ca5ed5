//! Printing a tensor: its values as PyTorch shows them, with four digits, columns aligned, the
//! middle of large ones left out.
//!
//! Guarantees: printing reads at most a few hundred elements, however large the tensor; a tensor
//! that cannot be read prints its error; nothing is tracked.

use std::fmt;

use gt_ir::attr::Axis;
use gt_ir::{DType, HostTensor, Op, Shape};

use super::movement::slice_op;
use super::record::try_record;
use super::tensor::Repr;
use super::{Arg, DynTensor};
use crate::error::Result;
use crate::no_grad::no_grad;
use crate::session::Place;

/// More elements than this are abbreviated.
const THRESHOLD: usize = 1000;
/// Elements shown at each end of an abbreviated axis.
const EDGE: usize = 3;
/// Columns a line should not exceed.
const LINE: usize = 80;
/// Digits behind the point.
const DIGITS: usize = 4;

/// Elements as text, and the columns that one takes on a line.
pub(crate) struct Cells {
    pub(crate) texts: Vec<String>,
    pub(crate) width: usize,
}

/// A dtype as it is printed, and whether it is.
pub(crate) struct Label<'a> {
    pub(crate) dtype: &'a str,
    pub(crate) is_shown: bool,
}

impl fmt::Display for DynTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ty = self.ty();
        let is_empty = ty.shape.numel() == 0;
        let is_usual = matches!(ty.dtype, DType::F32)
            || (matches!(ty.dtype, DType::I64 | DType::Bool) && !is_empty);
        let label = Label { dtype: ty.dtype.name(), is_shown: !is_usual };
        f.write_str(&self.printed(&ty.shape, &label, cells))
    }
}

impl fmt::Debug for DynTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl DynTensor {
    /// The tensor as PyTorch prints it. Of `shape` are the cells, of which each may stand for the
    /// elements along axes that the tensor has behind them.
    pub(crate) fn printed(
        &self,
        shape: &Shape,
        label: &Label<'_>,
        cells: impl FnOnce(&HostTensor) -> Cells,
    ) -> String {
        match no_grad(|| self.abbreviated(shape)) {
            Ok(shown) => self.text(&shown, shape, label, cells),
            Err(error) => format!("tensor(<error: {error}>)"),
        }
    }

    /// The elements to show: all, or the ends of each long axis. Nobody knows the line that prints,
    /// so what is recorded and what goes wrong stands where the tensor was made.
    fn abbreviated(&self, shape: &Shape) -> Result<HostTensor> {
        let place = Place::Known(self.with_value(|value| value.made.loc));
        let mut shown = self.detach();
        for (axis, &size) in shape.sizes().iter().enumerate() {
            if is_cut(shape, size) {
                let end = |from| {
                    let cut = slice_op(axis, from, from + EDGE, 1);
                    try_record(&cut, &[Arg::Tensor(&shown)], place)
                };
                let (first, last) = (end(0)?, end(size - EDGE)?);
                let both = [Arg::Tensor(&first), Arg::Tensor(&last)];
                shown = try_record(&Op::Cat(Axis(axis as u8)), &both, place)?;
            }
        }
        shown.to_host_at(place)
    }

    /// The elements that are shown, and what is said about them.
    fn text(
        &self,
        shown: &HostTensor,
        shape: &Shape,
        label: &Label<'_>,
        cells: impl FnOnce(&HostTensor) -> Cells,
    ) -> String {
        let mut out = "tensor(".to_owned();
        if shape.numel() == 0 {
            out.push_str("[]");
        } else {
            let cut: Vec<bool> = shape.sizes().iter().map(|&s| is_cut(shape, s)).collect();
            let sizes = &shown.ty().shape.sizes()[..shape.rank()];
            let Cells { texts, width } = cells(shown);
            nest(&mut out, (&texts, width), sizes, &cut, 7);
        }
        self.suffixes(shape, label).into_iter().for_each(|suffix| {
            let column = out.rsplit('\n').next().map_or(0, str::len);
            let fits = column + suffix.len() + 3 <= LINE;
            out.push_str(if fits { ", " } else { ",\n       " });
            out.push_str(&suffix);
        });
        out.push(')');
        out
    }

    /// What stands behind the numbers: dtype, size of an empty tensor, `grad_fn`.
    fn suffixes(&self, shape: &Shape, label: &Label<'_>) -> Vec<String> {
        let mut suffixes = Vec::new();
        if shape.numel() == 0 && shape.rank() != 1 {
            let sizes: Vec<String> = shape.sizes().iter().map(usize::to_string).collect();
            suffixes.push(format!("size=({})", sizes.join(", ")));
        }
        if label.is_shown {
            suffixes.push(format!("dtype={}", label.dtype));
        }
        match &self.0 {
            Repr::Plain(_) => (),
            Repr::Tracked(_, node) => suffixes.push(format!("grad_fn=<{}>", node.op.name())),
            Repr::Variable(_) if !self.is_tracked() => (),
            Repr::Variable(_) => suffixes.push("requires_grad=true".to_owned()),
        }
        suffixes
    }
}

/// Whether an axis of this size is printed with `...` in its middle.
fn is_cut(shape: &Shape, size: usize) -> bool {
    shape.numel() > THRESHOLD && size > 2 * EDGE
}

/// Brackets around brackets of cells of some width; `indent` is the column of the opening one.
fn nest(
    out: &mut String,
    (cells, width): (&[String], usize),
    sizes: &[usize],
    cut: &[bool],
    indent: usize,
) {
    let Some((&size, inner)) = sizes.split_first() else {
        out.push_str(cells.first().map_or("", String::as_str));
        return;
    };
    out.push('[');
    if inner.is_empty() {
        row(out, (cells, width), cut[0], indent);
    } else {
        let (step, gap) = (
            cells.len() / size.max(1),
            format!(",{}{}", "\n".repeat(inner.len()), " ".repeat(indent + 1)),
        );
        for i in 0..size {
            if i > 0 {
                out.push_str(&gap);
            }
            if cut[0] && i == EDGE {
                out.push_str("...");
                out.push_str(&gap);
            }
            let part = &cells[i * step..(i + 1) * step];
            nest(out, (part, width), inner, &cut[1..], indent + 1);
        }
    }
    out.push(']');
}

/// The innermost axis, broken into lines.
fn row(out: &mut String, (cells, width): (&[String], usize), cut: bool, indent: usize) {
    let per_line = (LINE.saturating_sub(indent) / (width + 2)).max(1);
    let mut shown: Vec<&str> = cells.iter().map(String::as_str).collect();
    if cut {
        shown.insert(EDGE, " ...");
    }
    let lines: Vec<String> = shown.chunks(per_line).map(|line| line.join(", ")).collect();
    out.push_str(&lines.join(&format!(",\n{}", " ".repeat(indent + 1))));
}

/// Each element as text, all in one style, to the right of a column.
fn cells(shown: &HostTensor) -> Cells {
    let texts: Vec<String> = match shown.ty().dtype {
        DType::F32 | DType::F64 | DType::Bf16 | DType::F16 => {
            let Cells { texts, width } = floats(&shown.to_f64());
            let width = texts.first().map_or(width, String::len);
            return Cells { texts, width };
        }
        // 64-bit integers do not all fit a float; the others do.
        DType::I64 => {
            shown.to_vec::<i64>().unwrap_or_default().iter().map(i64::to_string).collect()
        }
        DType::I32 | DType::U8 => shown.to_f64().iter().map(f64::to_string).collect(),
        DType::Bool => shown
            .to_f64()
            .iter()
            .map(|&v| if v == 0.0 { "False" } else { "True" }.to_owned())
            .collect(),
    };
    let width = texts.iter().map(String::len).max().unwrap_or(0);
    aligned(texts, width)
}

/// These texts, each to the right of a column of this width.
fn aligned(texts: Vec<String>, width: usize) -> Cells {
    let texts: Vec<String> = texts.into_iter().map(|text| format!("{text:>width$}")).collect();
    Cells { texts, width }
}

/// Floats as PyTorch prints them: whole numbers as `1.`, a wide range of sizes as `1.0000e+00`,
/// else four digits. Zeros, infinities and NaN have no say in style and width.
pub(crate) fn floats(values: &[f64]) -> Cells {
    let telling = |v: &f64| v.is_finite() && *v != 0.0;
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    values
        .iter()
        .filter(|v| telling(v))
        .for_each(|v| (low, high) = (low.min(v.abs()), high.max(v.abs())));
    let whole = values.iter().filter(|v| telling(v)).all(|v| *v == v.ceil());
    let wide = high > 0.0 && (high / low > 1000.0 || high > 1e8 || (!whole && low < 1e-4));
    let format = |v: f64| match v {
        v if v.is_nan() => "nan".to_owned(),
        v if v.is_infinite() => if v > 0.0 { "inf" } else { "-inf" }.to_owned(),
        v if wide => scientific(v),
        v if whole => format!("{v:.0}."),
        v => format!("{v:.DIGITS$}"),
    };
    let cells: Vec<String> = values.iter().copied().map(format).collect();
    let width = cells
        .iter()
        .zip(values)
        .filter(|(_, v)| telling(v))
        .map(|(c, _)| c.len())
        .max()
        .unwrap_or(1);
    aligned(cells, width)
}

/// `1.2346e+02`: at least two digits of exponent, always with a sign.
fn scientific(v: f64) -> String {
    let text = format!("{v:.DIGITS$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}
