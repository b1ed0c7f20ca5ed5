//! The results of a work: a row of a table, or an object.

use anyhow::{Context, Result};
use gt_compiler::Report;
use gt_ir::backend::{GraphStats, Stats, WorkerStats};
use gt_ir::units::bytes;
use serde_json::{Value, json};

/// The results of one work.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) work: String,
    pub(crate) engine: String,
    /// The device of the engine.
    pub(crate) device: String,
    pub(crate) tier: u8,
    /// Milliseconds of a step: median, 10th and 90th percentiles.
    pub(crate) ms: f64,
    pub(crate) p10: f64,
    pub(crate) p90: f64,
    pub(crate) n_steps: usize,
    /// Seconds of the first step, and from the session's first operation to its result.
    pub(crate) first_s: f64,
    pub(crate) start_s: f64,
    /// Instructions of a step, and the share of them that ran in plans.
    pub(crate) instructions: u64,
    pub(crate) planned: f64,
    /// Kernels compiled since the session began.
    pub(crate) compiled: u64,
    /// The graphs of devices that have graphs.
    pub(crate) graphs: GraphStats,
    /// The plan of a step.
    pub(crate) plan: Option<Plan>,
    /// The memory of this process before the session's first operation, and its largest growth.
    pub(crate) resident: Option<u64>,
    pub(crate) peak_bytes: Option<u64>,
}

/// The figures of the plan of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub(crate) kernels: u64,
    pub(crate) launches: u64,
    /// The bytes that its kernels read and write, by the compiler's estimate.
    pub(crate) bytes: u64,
    /// The milliseconds of compiling it.
    pub(crate) ms: f64,
}

impl Row {
    /// A row without figures.
    pub(crate) fn new(work: &str, tier: u8) -> Row {
        Row { work: work.into(), tier, ..Row::default() }
    }

    /// Sets the engine and device, from the session's statistics.
    pub(crate) fn place(&mut self, stats: &Stats) {
        if let Some(worker) = stats.workers.last() {
            (self.engine, self.device) = (worker.engine.clone(), worker.device.clone());
            self.graphs = worker.graphs;
        }
    }

    /// Sets median and spread, from ascending samples.
    pub(crate) fn spread(&mut self, samples: &[f64]) {
        let at = |share: f64| {
            let place = (samples.len().saturating_sub(1)) as f64 * share;
            samples.get(place.round() as usize).copied().unwrap_or_default()
        };
        (self.p10, self.ms, self.p90) = (at(0.1), at(0.5), at(0.9));
    }

    /// Sets the counts of a step, from the session's statistics before and after the steps.
    pub(crate) fn count(&mut self, before: &WorkerStats, after: &WorkerStats) {
        // One step more than measured ran in between, instruction by instruction.
        let n_steps = self.n_steps as u64 + 1;
        let all = after.instructions - before.instructions;
        let interpreted = after.interpreted - before.interpreted;
        self.instructions = all / n_steps;
        let measured = (all - self.instructions).max(1) as f64;
        self.planned = 1.0 - interpreted.saturating_sub(self.instructions) as f64 / measured;
        self.compiled = after.kernels_compiled;
    }

    /// Sets the plan, from the report of compiling a step.
    pub(crate) fn plan(&mut self, report: &Report) {
        self.plan = Some(Plan {
            kernels: report.kernels as u64,
            launches: report.launches as u64,
            bytes: report.after.bytes,
            ms: report.compile_ns as f64 / 1e6,
        });
    }

    /// The row as an object.
    pub(crate) fn json(&self) -> Value {
        json!({
            "work": self.work, "engine": self.engine, "device": self.device, "tier": self.tier,
            "ms": self.ms, "p10": self.p10, "p90": self.p90, "steps": self.n_steps,
            "first_s": self.first_s, "start_s": self.start_s,
            "instructions": self.instructions, "planned": self.planned,
            "kernels": self.plan.map(|plan| plan.kernels),
            "launches": self.plan.map(|plan| plan.launches),
            "bytes": self.plan.map(|plan| plan.bytes),
            "compile_ms": self.plan.map(|plan| plan.ms),
            "graphs": self.graphs,
            "kernels_compiled": self.compiled, "peak_bytes": self.peak_bytes,
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
            device: text("device"),
            graphs: serde_json::from_value(object["graphs"].clone()).unwrap_or_default(),
            tier: number("tier") as u8,
            ms: number("ms"),
            p10: number("p10"),
            p90: number("p90"),
            n_steps: number("steps") as usize,
            first_s: number("first_s"),
            start_s: number("start_s"),
            instructions: number("instructions") as u64,
            planned: number("planned"),
            compiled: number("kernels_compiled") as u64,
            plan: object["kernels"].as_u64().map(|kernels| Plan {
                kernels,
                launches: number("launches") as u64,
                bytes: number("bytes") as u64,
                ms: number("compile_ms"),
            }),
            resident: None,
            peak_bytes: object["peak_bytes"].as_u64(),
        })
    }

    /// A line about graphs, if the device has them.
    pub(crate) fn about_graphs(&self) -> Option<String> {
        let GraphStats { captured, replays, fallbacks, host_ns, device_ns } = self.graphs;
        let times = (host_ns > 0).then(|| {
            let [host, device] = [host_ns, device_ns].map(|ns| ns as f64 / 1e3);
            format!("; a replay takes the host {host:.1} us and the device {device:.1} us")
        });
        (self.graphs != GraphStats::default()).then(|| {
            format!(
                "  graphs: {captured} captured, {replays} replays, {fallbacks} runs without \
                 (GT_VERBOSE=1 says why){}",
                times.unwrap_or_default()
            )
        })
    }

    /// The row as a line under [`head`].
    pub(crate) fn line(&self) -> String {
        let of_plan = |tell: fn(Plan) -> String| self.plan.map_or_else(|| "-".into(), tell);
        columns([
            &self.work,
            &milliseconds(self.ms),
            &format!("{} .. {}", milliseconds(self.p10), milliseconds(self.p90)),
            &format!("{:.3} s", self.first_s),
            &self.instructions.to_string(),
            &of_plan(|plan| plan.kernels.to_string()),
            &of_plan(|plan| plan.launches.to_string()),
            &of_plan(|plan| bytes(plan.bytes)),
            &self.peak_bytes.map_or_else(|| "-".into(), bytes),
        ])
    }
}

/// The names of the columns.
pub(crate) fn head() -> String {
    let names =
        ["work", "ms", "10% .. 90%", "first", "instrs", "kernels", "launches", "bytes", "peak"];
    columns(names)
}

fn columns(cells: [&str; 9]) -> String {
    let [work, ms, spread, first, instrs, kernels, launches, bytes, peak] = cells;
    format!(
        "{work:<13} {ms:>9} {spread:>20} {first:>9} {instrs:>6} {kernels:>7} {launches:>8} \
         {bytes:>9} {peak:>9}"
    )
}

/// A time with four or five digits.
fn milliseconds(ms: f64) -> String {
    match ms {
        0.0..1.0 => format!("{ms:.4}"),
        1.0..10.0 => format!("{ms:.3}"),
        10.0..100.0 => format!("{ms:.2}"),
        _ => format!("{ms:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_tenths_of_samples() {
        let mut row = Row::new("w", 1);
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
            planned: 1.0,
            compiled: 12,
            plan: Some(Plan { kernels: 12, launches: 7, bytes: 1_500_000, ms: 2.5 }),
            peak_bytes: Some(3_200_000),
            engine: "native".into(),
            device: "cpu".into(),
            graphs: GraphStats {
                captured: 1,
                replays: 2,
                fallbacks: 3,
                host_ns: 4000,
                device_ns: 5000,
            },
            ..Row::new("mlp_small", 1)
        };
        assert_eq!(Row::parse(&row.json().to_string()).unwrap(), row);
        assert_eq!(row.line().len(), head().len());
        let row = Row { plan: None, peak_bytes: None, ..row };
        assert_eq!(Row::parse(&row.json().to_string()).unwrap(), row);
        assert!(Row::parse("oops").is_err());
    }
}
