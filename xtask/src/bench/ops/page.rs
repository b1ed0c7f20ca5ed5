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
the square of the size in elements. A step takes about 4.5 us for its way through the session, which
is most of it at size 64. The reason says so where a row would be within its bars without them.

Names stand for inputs: `x` and `y` are matrices, `t` is `x` transposed, `r` and `k` are a row and
a column, `v` and `q` vectors of the size and of its square, `c` has three axes of which the first
has 16 elements, `i`, `j` and `s` are positions, `e` is a table of rows, `g` images, `f` and `d`
kernels, and `a` has the axes of attention.
";

/// The milliseconds of a step that computes nothing: the way through the session.
const SESSION: f64 = 0.0045;

/// A row of the table: the milliseconds in each column, by size within dtype.
struct Line {
    form: Form,
    cells: Vec<Option<[f64; 2]>>,
}

impl Line {
    fn of(form: Form, by_case: &BTreeMap<&str, [f64; 2]>) -> Result<Line> {
        let mut cells = Vec::new();
        for dtype in DTYPES {
            for n in SIZES {
                let case = form.case(n, dtype)?;
                cells.push(case.and_then(|case| by_case.get(case.name.as_str()).copied()));
            }
        }
        Ok(Line { form, cells })
    }

    fn ratio(&self, column: usize) -> Option<f64> {
        self.cells[column].map(|[ours, theirs]| ours / theirs)
    }

    /// Whether a cell is above its bar, if GT's step takes so much less.
    fn is_above(&self, column: usize, less: f64) -> bool {
        let bar = BARS[column % BARS.len()];
        self.cells[column].is_some_and(|[ours, theirs]| (ours - less) / theirs > bar)
    }

    /// Why cells are above their bars, if some are.
    fn reason(&self) -> &'static str {
        let some = |less| (0..self.cells.len()).any(|column| self.is_above(column, less));
        match self.form.reason {
            _ if !some(0.0) => "",
            "" if some(SESSION) => "unexplained",
            "" => "the way through the session",
            reason => reason,
        }
    }

    /// The largest ratio of the sizes beyond the first.
    fn worst(&self) -> f64 {
        let large = (0..self.cells.len()).filter(|column| column % SIZES.len() > 0);
        large.filter_map(|column| self.ratio(column)).fold(0.0, f64::max)
    }

    fn text(&self) -> String {
        let cell = |column| match self.ratio(column) {
            None => String::new(),
            Some(ratio) if self.is_above(column, 0.0) => format!("**{ratio:.2}**"),
            Some(ratio) => format!("{ratio:.2}"),
        };
        let cells: Vec<String> = (0..self.cells.len()).map(cell).collect();
        let code = self.form.code.replace('|', "\\|");
        format!("| `{code}` | {} | {} |", cells.join(" | "), self.reason())
    }
}

/// Writes the page.
pub(super) fn write(outcomes: &[Outcome], about: &str) -> Result<()> {
    let measured = outcomes.iter().filter(|outcome| outcome.error.is_none());
    let by_case = measured.map(|outcome| (outcome.case.as_str(), outcome.ms)).collect();
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
        let ratios: Vec<f64> = lines.iter().filter_map(|line| line.ratio(i)).collect();
        let mean = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64;
        let above = lines.iter().filter(|line| line.is_above(i, 0.0)).count();
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
        let mut cells = vec![None; SIZES.len() * DTYPES.len()];
        (cells[0], cells[1], cells[4]) = (Some([1.4, 1.0]), Some([1.4, 1.0]), Some([0.5, 1.0]));
        let line = Line { form, cells };
        assert_eq!(line.worst(), 1.4);
        let rest = "  |".repeat(line.cells.len() - 5);
        let text = format!("| `-x` | 1.40 | **1.40** |  |  | 0.50 |{rest} unexplained |");
        assert_eq!(line.text(), text);
        let means = means(&[line]);
        assert!(means.contains("| f32, 512 | 1.40 | 1 of 1 |"), "{means}");
    }

    #[test]
    fn a_short_step_is_mostly_the_session() {
        let form = forms().next().unwrap();
        let of = |ms| Line { form, cells: vec![Some(ms); SIZES.len() * DTYPES.len()] }.reason();
        assert_eq!(of([0.0055, 0.001]), "the way through the session");
        assert_eq!(of([0.0055, 0.0005]), "unexplained");
        assert_eq!(of([0.001, 0.001]), "");
    }
}
