//! The page docs/speed.md: GT's time divided by PyTorch's, for every row of xtask/peers/ops.txt at
//! every size and dtype, and the reason where a row is slower.

use super::Outcome;
use super::cases::{DTYPES, Form, SIZES, forms};
use crate::shell::root;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const PAGE: &str = "docs/speed.md";

/// The ratio up to which a cell is as it should be, at each size.
const BARS: [f64; 3] = [1.5, 1.0, 1.0];

const INTRODUCTION: &str = "\
# The speed of every op

Written by `cargo xtask bench --ops`, which measures every op of the table beside PyTorch's eager
operators. A figure is GT's time divided by PyTorch's: below 1 GT is faster. Figures above the bar
are bold: 1 at the sizes 512 and 4096, and 1.5 at 64.
[Benchmarks](benchmarks.md#every-op-beside-pytorch) says how they are measured. A value has about
the square of the size in elements. At size 64, the way through the session is most of a step.

Names stand for inputs: `x` and `y` are matrices, `t` is `x` transposed, `r` and `k` are a row and
a column, `v` and `q` vectors of the size and of its square, `c` has three axes of which the first
has 16 elements, `i`, `j` and `s` are positions, `e` is a table of rows, `g` images, `f` and `d`
kernels, and `a` has the axes of attention.
";

/// A row of the table: the ratio in each column, by size within dtype.
struct Line {
    form: Form,
    ratios: Vec<Option<f64>>,
}

impl Line {
    fn of(form: Form, by_case: &BTreeMap<&str, f64>) -> Result<Line> {
        let mut ratios = Vec::new();
        for dtype in DTYPES {
            for n in SIZES {
                let case = form.case(n, dtype)?;
                ratios.push(case.and_then(|case| by_case.get(case.name.as_str()).copied()));
            }
        }
        Ok(Line { form, ratios })
    }

    /// The largest ratio of the sizes beyond the first.
    fn worst(&self) -> f64 {
        let columns = self.ratios.iter().enumerate();
        let large = columns.filter(|(i, _)| i % SIZES.len() > 0).filter_map(|(_, ratio)| *ratio);
        large.fold(0.0, f64::max)
    }

    fn text(&self) -> String {
        let cell = |(i, ratio): (usize, &Option<f64>)| match ratio {
            None => String::new(),
            Some(ratio) if *ratio > BARS[i % BARS.len()] => format!("**{ratio:.2}**"),
            Some(ratio) => format!("{ratio:.2}"),
        };
        let cells: Vec<String> = self.ratios.iter().enumerate().map(cell).collect();
        let code = self.form.code.replace('|', "\\|");
        format!("| `{code}` | {} | {} |", cells.join(" | "), self.form.reason)
    }
}

/// Writes the page.
pub(super) fn write(outcomes: &[Outcome], about: &str) -> Result<()> {
    let measured = outcomes.iter().filter(|outcome| outcome.error.is_none());
    let by_case = measured.map(|outcome| (outcome.case.as_str(), outcome.ratio())).collect();
    let lines: Result<Vec<Line>> = forms().map(|form| Line::of(form, &by_case)).collect();
    let mut lines = lines?;
    lines.sort_by(|a, b| b.worst().total_cmp(&a.worst()));
    let text = format!("{INTRODUCTION}\n{about}.\n\n{}\n{}", means(&lines), table(&lines));
    std::fs::write(root().join(PAGE), text).with_context(|| PAGE.to_string())?;
    println!("written to {PAGE}");
    Ok(())
}

/// The titles of the columns: sizes within dtypes.
fn titles() -> impl Iterator<Item = String> {
    DTYPES.iter().flat_map(|dtype| SIZES.iter().map(move |n| format!("{dtype}, {n}")))
}

/// The geometric mean of each column, and how many of its cells are above the bar.
fn means(lines: &[Line]) -> String {
    let mut text = String::from("| cases | geometric mean | above the bar |\n|---|---|---|\n");
    for (i, title) in titles().enumerate() {
        let ratios: Vec<f64> = lines.iter().filter_map(|line| line.ratios[i]).collect();
        let mean = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64;
        let above = ratios.iter().filter(|ratio| **ratio > BARS[i % BARS.len()]).count();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {title} | {:.2} | {above} of {} |", mean.exp(), ratios.len());
    }
    text
}

fn table(lines: &[Line]) -> String {
    let titles: Vec<String> = titles().collect();
    let mut text = format!("| PyTorch's expression | {} | reason |\n", titles.join(" | "));
    text += &format!("|---|{}---|\n", "---|".repeat(titles.len()));
    for line in lines {
        let _ = writeln!(text, "{}", line.text());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_above_their_bars_are_bold() {
        let form = forms().next().unwrap();
        let mut ratios = vec![None; SIZES.len() * DTYPES.len()];
        (ratios[0], ratios[1], ratios[4]) = (Some(1.4), Some(1.4), Some(0.5));
        let line = Line { form, ratios };
        assert_eq!(line.worst(), 1.4);
        assert_eq!(line.text(), "| `-x` | 1.40 | **1.40** |  |  | 0.50 |  |  |  |  |  |");
        let means = means(&[line]);
        assert!(means.contains("| f32, 512 | 1.40 | 1 of 1 |"), "{means}");
    }
}
