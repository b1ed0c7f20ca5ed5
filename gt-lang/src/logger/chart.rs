//! Curves drawn with letters.
//!
//! The chart fits a terminal of 80 columns: ten for the numbers beside it and 64 for the curves.
//! Where two curves meet, the later one is drawn. Only curves that share an axis with the first are
//! drawn; of the others the legend has the last values.

use std::fmt::Write as _;

use super::Row;
use super::panels::panels;

const WIDTH: usize = 64;
const HEIGHT: usize = 12;
const MARKS: [char; 6] = ['*', '+', 'o', 'x', '#', '%'];
/// Cyan, yellow, green, magenta, blue, red, as terminals number them.
const COLORS: [u8; 6] = [36, 33, 32, 35, 34, 31];

/// The last values, in one line.
pub(super) fn line(curves: &[String], row: &Row) -> String {
    let mut out = format!("step {}", row.first().copied().unwrap_or(0.0));
    for (curve, value) in curves.iter().zip(row.iter().skip(1)).filter(|(_, v)| !v.is_nan()) {
        let _ = write!(out, "  {curve} {value:.4}");
    }
    out + "\n"
}

/// The curves of the first axis over all steps: each column of letters has the mean of its points.
pub(super) fn draw(curves: &[String], rows: &[Row], colors: bool) -> String {
    let Some(panel) = panels(curves, rows).into_iter().next() else { return String::new() };
    let (low, high) = (panel.low, panel.high);
    let mut grid = vec![vec![None; WIDTH]; HEIGHT];
    for &curve in &panel.curves {
        for (column, mean) in means(rows, curve + 1).into_iter().enumerate() {
            let Some(mean) = mean else { continue };
            let share = if high > low { (high - mean) / (high - low) } else { 0.5 };
            let at = (share * (HEIGHT - 1) as f64).round().clamp(0.0, (HEIGHT - 1) as f64);
            grid[at as usize][column] = Some(curve);
        }
    }
    let mut out = String::new();
    for (i, line) in grid.iter().enumerate() {
        let value = high - (high - low) * i as f64 / (HEIGHT - 1) as f64;
        let marks: String =
            line.iter().map(|mark| mark.map_or(" ".into(), |c| paint(c, colors))).collect();
        let _ = writeln!(out, "{value:>10.4} |{}", marks.trim_end());
    }
    let last = rows.last();
    let step = |row: Option<&Row>| row.and_then(|row| row.first()).copied().unwrap_or(0.0);
    let _ = writeln!(out, "{:>10} +{}", "", "-".repeat(WIDTH));
    let _ = writeln!(out, "{:>11} {:<32}{:>32}", "", step(rows.first()), step(last));
    for (i, curve) in curves.iter().enumerate() {
        let value = rows.iter().rev().filter_map(|row| row.get(i + 1)).find(|v| !v.is_nan());
        let value = value.map_or("-".to_owned(), |value| format!("{value:.4}"));
        let mark = if panel.curves.contains(&i) { paint(i, colors) } else { " ".to_owned() };
        let _ = write!(out, "{:>12}{mark} {curve} {value}", "");
    }
    out + "\n"
}

/// The mark of a curve.
fn paint(curve: usize, colors: bool) -> String {
    let mark = MARKS[curve % MARKS.len()];
    if colors {
        format!("\x1b[{}m{mark}\x1b[0m", COLORS[curve % COLORS.len()])
    } else {
        mark.into()
    }
}

/// The mean of a curve's points in each column.
fn means(rows: &[Row], at: usize) -> Vec<Option<f64>> {
    let columns = rows.len().min(WIDTH);
    let column = |c: usize| {
        let part = &rows[c * rows.len() / columns..(c + 1) * rows.len() / columns];
        let values = part.iter().filter_map(|row| row.get(at)).copied().filter(|v| v.is_finite());
        let (n, sum) = values.fold((0, 0.0), |(n, sum), v| (n + 1, sum + v));
        (n > 0).then(|| sum / f64::from(n))
    };
    (0..columns).map(column).collect()
}
