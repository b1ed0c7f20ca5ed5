//! The times of docs/benchmarks.md as bars, drawn from the rows that README.md shows.
//!
//! Each work has its own scale from zero, because a step of one takes a thousand times as long as a
//! step of another; the numbers stand beside the bars.

use super::{HEAD, text};
use anyhow::{Context, Result};
use std::fmt::Write as _;

/// The picture, from the root of the repository.
pub(crate) const PICTURE: &str = "docs/guide/src/benchmarks.svg";
/// What the picture shows.
pub(crate) const TITLE: &str = "Milliseconds for one step, less is better";

const WIDTH: f64 = 880.0;
/// The columns of the works and of the frameworks, and where bars begin and end.
const WORK: f64 = 24.0;
const FRAMEWORK: f64 = 258.0;
const LEFT: f64 = 270.0;
const RIGHT: f64 = 800.0;
const TOP: f64 = 66.0;
/// Heights of a bar with its gap, of a bar, and of the gap between works.
const LINE: f64 = 19.0;
const BAR: f64 = 14.0;
const GAP: f64 = 16.0;
/// GT's color, and those of the others in their order.
const COLORS: [&str; 4] = ["#D55E00", "#8CA0B8", "#A9B8CA", "#C4CFDB"];

/// The picture of rows: a head, and a row for each work with a time of each framework.
pub(crate) fn draw(rows: &[Vec<&str>]) -> Result<String> {
    let (head, works) = rows.split_first().context("the page has no table of works")?;
    let frameworks = head.get(1..).unwrap_or_default();
    let group = LINE * frameworks.len() as f64 + GAP;
    let height = TOP + group * works.len() as f64 + 4.0;
    let mut out = super::begin(WIDTH, height);
    text(&mut out, HEAD, (WORK, 36.0), TITLE);
    for (n, row) in works.iter().enumerate() {
        let y = TOP + group * n as f64;
        let name = row.first().context("a row is empty")?.trim_matches('`');
        text(&mut out, "b", (WORK, y + 12.0), name);
        let times = row.iter().skip(1).map(|time| number(time)).collect::<Result<Vec<_>>>()?;
        let longest = times.iter().map(|(time, _)| *time).fold(f64::MIN_POSITIVE, f64::max);
        for (k, (framework, (time, shown))) in frameworks.iter().zip(&times).enumerate() {
            let y = y + LINE * k as f64;
            bar(&mut out, y, (framework, k), time / longest, shown);
        }
    }
    out.push_str("</svg>\n");
    Ok(out)
}

/// A time in a cell, and its text: the fastest is in bold there.
fn number(cell: &str) -> Result<(f64, &str)> {
    let shown = cell.trim_matches('*');
    let time = shown.parse().with_context(|| format!("`{cell}` is no time"))?;
    Ok((time, shown))
}

/// A bar with the name of its framework before it and its time behind it.
fn bar(out: &mut String, y: f64, (framework, k): (&str, usize), share: f64, shown: &str) {
    let width = ((RIGHT - LEFT) * share).max(1.5);
    let color = COLORS[k.min(COLORS.len() - 1)];
    let class = if k == 0 { "b" } else { "s" };
    text(out, &format!("{class} e"), (FRAMEWORK, y + 12.0), framework);
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\" rx=\"2\" \
         fill=\"{color}\"/>"
    );
    text(out, class, (LEFT + width + 7.0, y + 12.0), shown);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_times() -> Result<()> {
        let rows =
            [vec!["work", "GT", "JAX"], vec!["`a`", "**1.5**", "3"], vec!["`b`", "8", "**2**"]];
        let picture = draw(&rows)?;
        let widths: Vec<f64> = picture
            .split("height=\"14\"")
            .filter_map(|part| part.rsplit("width=\"").next()?.split('"').next()?.parse().ok())
            .take(4)
            .collect();
        assert_eq!(widths, [265.0, 530.0, 530.0, 132.5]);
        assert!(picture.contains(">1.5</text>") && !picture.contains("**"), "{picture}");
        assert!(draw(&[vec!["work", "GT"], vec!["`a`", "fast"]]).is_err());
        assert!(draw(&[]).is_err());
        Ok(())
    }
}
