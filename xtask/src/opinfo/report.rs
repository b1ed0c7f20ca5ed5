//! The report on the programs' findings: counts by operator, and each difference with a command
//! that repeats its case.

use super::differences::{Differences, Finding};
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// Most differences that are printed of one operator. The others are counted.
const SHOWN: usize = 6;
/// The outcomes and their titles, in the order of the table.
const COLUMNS: [(&str, &str); 4] = [
    ("agree", "agree"),
    ("intended", "differ as intended"),
    ("absent", "not in GT"),
    ("wrong", "wrong"),
];

pub(super) struct Report {
    differences: Differences,
    /// Number of cases by operator and outcome.
    counts: BTreeMap<String, BTreeMap<&'static str, u64>>,
    unexpected: Vec<Value>,
    /// Reasons why cases are not in GT, by operator.
    absent: BTreeMap<String, BTreeSet<String>>,
    lines: Vec<Value>,
    stale: Vec<String>,
}

impl Report {
    pub(super) fn new(differences: Differences) -> Report {
        Report {
            differences,
            counts: BTreeMap::new(),
            unexpected: Vec::new(),
            absent: BTreeMap::new(),
            lines: Vec::new(),
            stale: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Adds a line of a program: the end of a piece of work, or a finding about a case.
    pub(super) fn add(&mut self, line: Value) {
        if let (Some(op), Some(agreeing)) =
            (line["done"].as_str(), line["counts"]["agree"].as_u64())
        {
            *self.counted(op, "agree") += agreeing;
        }
        if let Some(finding) = Finding::of(&line) {
            let column = match finding.outcome {
                "absent" => "absent",
                _ if self.differences.allow(&finding) => "intended",
                _ => "wrong",
            };
            *self.counted(finding.op, column) += 1;
            if column == "absent" {
                self.absent.entry(finding.op.into()).or_default().insert(finding.why.into());
            }
            if column == "wrong" {
                self.unexpected.push(line.clone());
            }
        }
        self.lines.push(line);
    }

    fn counted(&mut self, op: &str, column: &'static str) -> &mut u64 {
        self.counts.entry(op.into()).or_default().entry(column).or_default()
    }

    /// Records the intended differences without a finding.
    pub(super) fn find_stale(&mut self) {
        self.stale = self.differences.unused();
    }

    /// Writes all lines of the programs to a file.
    pub(super) fn write(&self, file: &Path) -> Result<()> {
        let text: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Prints the report. Returns the number of wrong cases and of stale intended differences. For
    /// `one` case it prints every finding, else intended differences only if `intended`.
    pub(super) fn print(&self, one: bool, intended: bool) -> usize {
        if !one {
            print!("{}", self.table());
        }
        let all = self.lines.iter().filter(|line| Finding::of(line).is_some());
        let shown: Vec<&Value> = match (one, intended) {
            (true, _) => all.collect(),
            (false, true) => all.filter(|line| line["outcome"] != "absent").collect(),
            (false, false) => self.unexpected.iter().collect(),
        };
        print_findings(&shown);
        for row in &self.stale {
            println!("\nan intended difference that no longer occurs: {row}");
        }
        let sum = |column| self.counts.values().filter_map(|c| c.get(column)).sum::<u64>();
        let totals = COLUMNS.map(|(column, title)| format!("{} {title}", sum(column)));
        println!("\n{} operators: {}", self.counts.len(), totals.join(", "));
        self.unexpected.len() + self.stale.len()
    }

    /// A line for each operator with a case that does not agree.
    fn table(&self) -> String {
        let mut text = String::new();
        for (op, counts) in &self.counts {
            let of = |column: &str| counts.get(column).copied().unwrap_or_default();
            if COLUMNS.iter().skip(1).all(|(column, _)| of(column) == 0) {
                continue;
            }
            let cells = COLUMNS.map(|(column, title)| (of(column), title));
            let cells: Vec<String> = cells
                .iter()
                .filter(|(n, _)| *n > 0)
                .map(|(n, title)| format!("{n} {title}"))
                .collect();
            let _ = write!(text, "{op}: {}", cells.join(", "));
            if let Some(reasons) = self.absent.get(op) {
                let reasons: Vec<&str> = reasons.iter().map(String::as_str).collect();
                let _ = write!(text, " ({})", reasons.join("; "));
            }
            text.push('\n');
        }
        text
    }
}

/// Prints findings, up to [`SHOWN`] of each operator.
fn print_findings(lines: &[&Value]) {
    let mut shown: BTreeMap<&str, usize> = BTreeMap::new();
    for line in lines {
        let n = shown.entry(line["op"].as_str().unwrap_or_default()).or_default();
        *n += 1;
        if *n <= SHOWN {
            println!("\n{}", in_words(line));
        }
    }
    for (op, n) in shown.iter().filter(|(_, n)| **n > SHOWN) {
        println!("\n{op}: {} more like these", n - SHOWN);
    }
}

/// A case, its outcome, and the command that repeats it.
fn in_words(line: &Value) -> String {
    let text = |name: &str| line[name].as_str().unwrap_or_default();
    let outcome = match text("outcome") {
        "differ" => "differs from PyTorch",
        "refused" => "is refused by GT and computed by PyTorch",
        "plan" => "has different bits as a plan",
        "narrow" => "has different bits with narrower vectors",
        "panic" => "panics",
        "crash" => "ends the process",
        "absent" => "is not in GT",
        _ => "cannot be compared",
    };
    let (op, case) = (text("op"), text("case"));
    let why = text("why").replace('\n', "\n  ");
    format!(
        "{op}({}) {outcome}\n  {why}\n  repeat: cargo xtask opinfo {op} --case {case}",
        text("call")
    )
}
