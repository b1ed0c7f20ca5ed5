//! The table of works and frameworks: a line after each work, and the page docs/benchmarks.md.

use super::paced::Measured;
use crate::shell::root;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The page, and the lines around its table.
const PAGE: &str = "docs/benchmarks.md";
const BEGIN: &str =
    "<!-- begin of the table written by `cargo xtask bench --vs torch,compile,jax` -->";
const END: &str = "<!-- end of the table -->";

/// A framework.
pub(super) struct Column {
    pub(super) key: &'static str,
    pub(super) title: &'static str,
}

/// A work: GT first, then the peers.
pub(super) struct Row {
    pub(super) work: String,
    pub(super) cells: Vec<Measured>,
}

impl Row {
    /// GT's time divided by the time of the fastest peer.
    fn ratio(&self) -> f64 {
        let best = self.cells.iter().skip(1).map(|cell| cell.ms).fold(f64::INFINITY, f64::min);
        self.cells.first().map_or(f64::NAN, |ours| ours.ms / best)
    }

    pub(super) fn json(&self, columns: &[Column]) -> Value {
        let cell = |(column, cell): (&Column, &Measured)| {
            let Measured { ms, first_s, peak_bytes } = cell;
            let object = json!({ "ms": ms, "first_s": first_s, "peak_bytes": peak_bytes });
            (column.key.to_string(), object)
        };
        let cells: serde_json::Map<String, Value> =
            columns.iter().zip(&self.cells).map(cell).collect();
        json!({ "work": self.work, "ratio": self.ratio(), "by": cells })
    }

    /// One line under [`head`].
    pub(super) fn line(&self) -> String {
        let cell = |cell: &Measured| {
            format!("{:>10} {:>7}", milliseconds(cell.ms), format!("({})", seconds(cell.first_s)))
        };
        let cells: Vec<String> = self.cells.iter().map(cell).collect();
        format!("{:<13} {}   {:>6.2}x", self.work, cells.join("  "), self.ratio())
    }

    /// One row of the page, with the best time in bold.
    fn markdown(&self) -> String {
        let best = self.cells.iter().map(|cell| cell.ms).fold(f64::INFINITY, f64::min);
        let cell = |cell: &Measured| {
            let (ms, first) = (milliseconds(cell.ms), seconds(cell.first_s));
            if cell.ms <= best { format!("**{ms}** ({first})") } else { format!("{ms} ({first})") }
        };
        let cells: Vec<String> = self.cells.iter().map(cell).collect();
        let memory: Vec<String> =
            self.cells.iter().map(|cell| format!("{:.0}", cell.peak_bytes / 1e6)).collect();
        let (work, ratio) = (&self.work, self.ratio());
        format!("| `{work}` | {} | {ratio:.2} | {} |", cells.join(" | "), memory.join(" / "))
    }
}

/// The names of the columns.
pub(super) fn head(columns: &[Column]) -> String {
    let titles: Vec<String> =
        columns.iter().map(|column| format!("{:>10} {:>7}", column.title, "(first)")).collect();
    format!("{:<13} {}   {:>7}", "ms per step", titles.join("  "), "to best")
}

/// Replaces the table of the page.
pub(super) fn keep(columns: &[Column], rows: &[Row], about: &str) -> Result<()> {
    let page = std::fs::read_to_string(root().join(PAGE)).with_context(|| PAGE.to_string())?;
    let fresh = renewed(&page, &markdown(columns, rows, about))
        .context("the page has no lines around the table")?;
    std::fs::write(root().join(PAGE), fresh).with_context(|| PAGE.to_string())?;
    crate::readme::write(&root())?;
    println!("\nwritten to {PAGE}");
    Ok(())
}

fn markdown(columns: &[Column], rows: &[Row], about: &str) -> String {
    let titles: Vec<&str> = columns.iter().map(|column| column.title).collect();
    let mut text =
        format!("{about}.\n\n| work | {} | GT / fastest peer | peak MB |\n", titles.join(" | "));
    text += &format!("|---|{}---|---|\n", "---|".repeat(columns.len()));
    for row in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", row.markdown());
    }
    text
}

fn renewed(page: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{table}\n{END}{after}"))
}

/// Milliseconds with three significant digits.
fn milliseconds(ms: f64) -> String {
    match ms {
        0.0..1.0 => format!("{ms:.3}"),
        1.0..10.0 => format!("{ms:.2}"),
        10.0..100.0 => format!("{ms:.1}"),
        _ => format!("{ms:.0}"),
    }
}

fn seconds(s: f64) -> String {
    match s {
        0.0..0.1 => format!("{s:.3} s"),
        0.1..10.0 => format!("{s:.2} s"),
        _ => format!("{s:.0} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [
        Column { key: "gt", title: "GT" },
        Column { key: "torch", title: "PyTorch eager" },
        Column { key: "jax", title: "JAX jit" },
    ];

    fn row() -> Row {
        let cell = |ms| Measured { ms, first_s: 0.05, peak_bytes: 2e6 };
        Row { work: "norm".into(), cells: vec![cell(3.0), cell(20.0), cell(4.0)] }
    }

    #[test]
    fn ratios_are_to_the_best_peer() {
        assert_eq!(row().ratio(), 0.75);
        assert_eq!(row().json(&COLUMNS)["by"]["jax"]["ms"], 4.0);
        assert_eq!(
            row().markdown(),
            "| `norm` | **3.00** (0.050 s) | 20.0 (0.050 s) | 4.00 (0.050 s) | 0.75 | 2 / 2 / 2 |"
        );
    }

    #[test]
    fn a_table_replaces_the_one_before() {
        let page = format!("# A\n{BEGIN}\nold\n{END}\nend\n");
        let once = renewed(&page, &markdown(&COLUMNS, &[row()], "a machine")).unwrap();
        assert!(once.starts_with("# A\n") && once.ends_with("\nend\n") && !once.contains("old"));
        assert_eq!(renewed(&once, &markdown(&COLUMNS, &[row()], "a machine")).unwrap(), once);
        assert_eq!(renewed("no place", "x"), None);
    }
}
