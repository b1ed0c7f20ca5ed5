//! What was measured of a work: a row of the table for people, or an object for programs.

use anyhow::{Context, Result};
use gt_ir::backend::WorkerStats;
use serde_json::{Value, json};

/// What was measured of one work.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) work: String,
    pub(crate) engine: String,
    pub(crate) tier: u8,
    /// Milliseconds of a step: median, and what a tenth of the steps stay under or go over.
    pub(crate) ms: f64,
    pub(crate) p10: f64,
    pub(crate) p90: f64,
    pub(crate) n_steps: usize,
    /// Seconds of the first step, and from the session's first operation to its result.
    pub(crate) first_s: f64,
    pub(crate) start_s: f64,
    /// Instructions of a step.
    pub(crate) instructions: u64,
    /// Kernels compiled since the session began.
    pub(crate) kernels: u64,
    /// Memory of this process: what it had before the session's first operation, and what it took on top at most.
    pub(crate) resident: Option<u64>,
    pub(crate) peak_bytes: Option<u64>,
}

impl Row {
    /// A row without figures.
    pub(crate) fn new(work: &str, engine: &str, tier: u8) -> Row {
        Row { work: work.into(), engine: engine.into(), tier, ..Row::default() }
    }

    /// Median and spread of ascending samples.
    pub(crate) fn spread(&mut self, samples: &[f64]) {
        let at = |share: f64| {
            let place = (samples.len().saturating_sub(1)) as f64 * share;
            samples.get(place.round() as usize).copied().unwrap_or_default()
        };
        (self.p10, self.ms, self.p90) = (at(0.1), at(0.5), at(0.9));
    }

    /// What a step ran, from what the session ran before and after them.
    pub(crate) fn count(&mut self, before: &WorkerStats, after: &WorkerStats) {
        let n_steps = (self.n_steps as u64).max(1);
        self.instructions = (after.instructions - before.instructions) / n_steps;
        self.kernels = after.kernels_compiled;
    }

    /// One object.
    pub(crate) fn json(&self) -> Value {
        json!({
            "work": self.work, "engine": self.engine, "tier": self.tier,
            "ms": self.ms, "p10": self.p10, "p90": self.p90, "steps": self.n_steps,
            "first_s": self.first_s, "start_s": self.start_s,
            "instructions": self.instructions, "kernels": self.kernels,
            "peak_bytes": self.peak_bytes,
        })
    }

    /// The row that [`Row::json`] wrote.
    pub(crate) fn parse(line: &str) -> Result<Row> {
        let object: Value =
            serde_json::from_str(line).context("the measurement printed no object")?;
        let number = |key: &str| object[key].as_f64().unwrap_or_default();
        let text = |key: &str| object[key].as_str().unwrap_or_default().to_string();
        Ok(Row {
            work: text("work"),
            engine: text("engine"),
            tier: number("tier") as u8,
            ms: number("ms"),
            p10: number("p10"),
            p90: number("p90"),
            n_steps: number("steps") as usize,
            first_s: number("first_s"),
            start_s: number("start_s"),
            instructions: number("instructions") as u64,
            kernels: number("kernels") as u64,
            resident: None,
            peak_bytes: object["peak_bytes"].as_u64(),
        })
    }

    /// One line under [`head`].
    pub(crate) fn line(&self) -> String {
        format!(
            "{:<14} {:>10} {:>21} {:>10} {:>8} {:>8} {:>9}",
            self.work,
            milliseconds(self.ms),
            format!("{} .. {}", milliseconds(self.p10), milliseconds(self.p90)),
            format!("{:.3} s", self.first_s),
            self.instructions,
            self.kernels,
            self.peak_bytes.map_or_else(|| "-".into(), bytes),
        )
    }
}

/// The names of the columns.
pub(crate) fn head() -> String {
    format!(
        "{:<14} {:>10} {:>21} {:>10} {:>8} {:>8} {:>9}",
        "work", "ms", "10% .. 90%", "first", "instrs", "kernels", "peak"
    )
}

/// As many digits as matter.
fn milliseconds(ms: f64) -> String {
    match ms {
        0.0..1.0 => format!("{ms:.4}"),
        1.0..10.0 => format!("{ms:.3}"),
        10.0..100.0 => format!("{ms:.2}"),
        _ => format!("{ms:.1}"),
    }
}

/// `3.2 MB`
fn bytes(number: u64) -> String {
    match number {
        0..1_000 => format!("{number} B"),
        1_000..1_000_000 => format!("{:.1} kB", number as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", number as f64 / 1e6),
        _ => format!("{:.1} GB", number as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_tenths_of_samples() {
        let mut row = Row::new("w", "native", 1);
        let samples: Vec<f64> = (0..=100).map(f64::from).collect();
        row.spread(&samples);
        assert_eq!((row.p10, row.ms, row.p90), (10.0, 50.0, 90.0));
        row.spread(&[3.0]);
        assert_eq!((row.p10, row.ms, row.p90), (3.0, 3.0, 3.0));
    }

    #[test]
    fn a_row_comes_back_from_json_and_fits_its_columns() {
        let row = Row {
            ms: 0.065,
            p10: 0.06,
            p90: 12.5,
            n_steps: 7,
            first_s: 0.01,
            start_s: 0.02,
            instructions: 40,
            kernels: 12,
            peak_bytes: Some(3_200_000),
            ..Row::new("mlp_small", "native", 1)
        };
        assert_eq!(Row::parse(&row.json().to_string()).unwrap(), row);
        assert_eq!(row.line().len(), head().len());
        assert!(Row::parse("oops").is_err());
    }
}
