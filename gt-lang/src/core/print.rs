//! Printing a tensor: its values as PyTorch shows them, with four digits, columns aligned, the
//! middle of large ones left out.
//!
//! Guarantees: printing reads at most a few hundred elements, however large the tensor; a tensor
//! that cannot be read prints its error; nothing is tracked.

use std::fmt;

use gt_ir::attr::Axis;
use gt_ir::{DType, HostTensor, Op, Type};

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

impl fmt::Display for DynTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match no_grad(|| self.abbreviated()) {
            Ok(shown) => f.write_str(&self.text(&shown)),
            Err(error) => write!(f, "tensor(<error: {error}>)"),
        }
    }
}

impl fmt::Debug for DynTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl DynTensor {
    /// The elements to show: all, or the ends of each long axis. Nobody knows the line that prints,
    /// so what is recorded and what goes wrong stands where the tensor was made.
    fn abbreviated(&self) -> Result<HostTensor> {
        let ty = self.ty();
        let place = Place::Known(self.with_value(|value| value.made.loc));
        let mut shown = self.detach();
        for (axis, &size) in ty.shape.sizes().iter().enumerate() {
            if is_cut(&ty, size) {
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

    /// The tensor as PyTorch prints it.
    fn text(&self, shown: &HostTensor) -> String {
        let ty = self.ty();
        let mut out = "tensor(".to_owned();
        if ty.shape.numel() == 0 {
            out.push_str("[]");
        } else {
            let (cells, width) = cells(shown);
            let cells: Vec<String> = cells.into_iter().map(|c| format!("{c:>width$}")).collect();
            let cut: Vec<bool> = ty.shape.sizes().iter().map(|&s| is_cut(&ty, s)).collect();
            nest(&mut out, &cells, shown.ty().shape.sizes(), &cut, 7);
        }
        self.suffixes(&ty).into_iter().for_each(|suffix| {
            let column = out.rsplit('\n').next().map_or(0, str::len);
            let fits = column + suffix.len() + 3 <= LINE;
            out.push_str(if fits { ", " } else { ",\n       " });
            out.push_str(&suffix);
        });
        out.push(')');
        out
    }

    /// What stands behind the numbers: dtype, size of an empty tensor, `grad_fn`.
    fn suffixes(&self, ty: &Type) -> Vec<String> {
        let mut suffixes = Vec::new();
        if ty.shape.numel() == 0 && ty.shape.rank() != 1 {
            let sizes: Vec<String> = ty.shape.sizes().iter().map(usize::to_string).collect();
            suffixes.push(format!("size=({})", sizes.join(", ")));
        }
        if !matches!(ty.dtype, DType::F32 | DType::I64 | DType::Bool)
            || (ty.shape.numel() == 0 && ty.dtype != DType::F32)
        {
            suffixes.push(format!("dtype={}", ty.dtype));
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
fn is_cut(ty: &Type, size: usize) -> bool {
    ty.shape.numel() > THRESHOLD && size > 2 * EDGE
}

/// Brackets around brackets; `indent` is the column of the opening one.
fn nest(out: &mut String, cells: &[String], sizes: &[usize], cut: &[bool], indent: usize) {
    let Some((&size, inner)) = sizes.split_first() else {
        out.push_str(cells.first().map_or("", String::as_str));
        return;
    };
    out.push('[');
    if inner.is_empty() {
        row(out, cells, cut[0], indent);
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
            nest(out, &cells[i * step..(i + 1) * step], inner, &cut[1..], indent + 1);
        }
    }
    out.push(']');
}

/// The innermost axis, broken into lines.
fn row(out: &mut String, cells: &[String], cut: bool, indent: usize) {
    let width = cells.first().map_or(0, String::len) + 2;
    let per_line = (LINE.saturating_sub(indent) / width).max(1);
    let mut shown: Vec<&str> = cells.iter().map(String::as_str).collect();
    if cut {
        shown.insert(EDGE, " ...");
    }
    let lines: Vec<String> = shown.chunks(per_line).map(|line| line.join(", ")).collect();
    out.push_str(&lines.join(&format!(",\n{}", " ".repeat(indent + 1))));
}

/// Each element as text, all in one style, and the width of a column.
fn cells(shown: &HostTensor) -> (Vec<String>, usize) {
    let cells: Vec<String> = match shown.ty().dtype {
        DType::F32 | DType::F64 | DType::Bf16 | DType::F16 => return floats(&shown.to_f64()),
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
    let width = cells.iter().map(String::len).max().unwrap_or(0);
    (cells, width)
}

/// Floats as PyTorch prints them: whole numbers as `1.`, a wide range of sizes as `1.0000e+00`,
/// else four digits. Zeros, infinities and NaN have no say in style and width.
fn floats(values: &[f64]) -> (Vec<String>, usize) {
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
    (cells, width)
}

/// `1.2346e+02`: at least two digits of exponent, always with a sign.
fn scientific(v: f64) -> String {
    let text = format!("{v:.DIGITS$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}
