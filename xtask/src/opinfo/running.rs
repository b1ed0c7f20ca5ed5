//! Runs the Python programs, each on a part of the work, and reads their output.

use super::python::Python;
use super::report::Report;
use crate::shell::root;
use anyhow::{Context, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};

/// The number of programs at a time. Each has two subjects, of which one computes.
const PROGRAMS: usize = 2;

/// The options of the programs, as JSON.
pub(super) struct Options(Value);

impl Options {
    /// Up to this number of cases of each kind, of these operators or of all.
    pub(super) fn new(most: &[(&str, usize)], ops: &[String]) -> Options {
        let kinds: Vec<&str> = most.iter().map(|(kind, _)| *kind).collect();
        let most: serde_json::Map<String, Value> =
            most.iter().map(|(kind, n)| ((*kind).to_owned(), json!(n))).collect();
        let narrow = narrower_vectors();
        Options(json!({
            "ops": ops, "kinds": kinds, "most": most, "narrow": narrow, "env": {},
        }))
    }

    /// Restricts the run to one case.
    pub(super) fn only(&mut self, case: &str) -> Result<()> {
        let (dtype, kind, number) = super::parts(case)?;
        self.0["only"] = json!(number);
        self.0["dtype"] = json!(dtype);
        self.0["kinds"] = json!([kind]);
        Ok(())
    }

    pub(super) fn engine(&mut self, name: &str) {
        self.0["env"] = json!({ "GT_ENGINE": name });
    }

    fn shard(&self, n: usize, of: usize) -> String {
        let mut options = self.0.clone();
        (options["shard"], options["shards"]) = (json!(n), json!(of));
        if let (2.., Some(narrow)) = (of, self.0["narrow"].as_array()) {
            // The programs divide the widths among them.
            let own = narrow.iter().enumerate().filter(|(i, _)| i % of == n);
            options["narrow"] = own.map(|(_, bits)| bits.clone()).collect();
        }
        options.to_string()
    }
}

/// The values of `GT_SIMD` that change the code for this processor.
fn narrower_vectors() -> Vec<&'static str> {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    match (text.contains("avx512f"), text.contains("avx2")) {
        (true, _) => vec!["128", "256"],
        (_, true) => vec!["128"],
        _ => vec![],
    }
}

/// Runs the programs to their end, and adds every line to the report.
pub(super) fn run(
    python: &Python,
    subject: &Path,
    options: &Options,
    report: &mut Report,
) -> Result<()> {
    let (said, lines) = channel();
    let n_programs = if options.0["only"].is_null() { PROGRAMS } else { 1 };
    let mut programs = Vec::new();
    for n in 0..n_programs {
        let mut program = start(python, subject, &options.shard(n, n_programs))?;
        let output = program.stdout.take().context("a program without output")?;
        let said = said.clone();
        std::thread::spawn(move || listen(BufReader::new(output), &said));
        programs.push(program);
    }
    drop(said);
    let bar = ProgressBar::new(0);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {eta} {msg}")?);
    for line in lines {
        let line: Value =
            serde_json::from_str(&line).with_context(|| format!("a program printed `{line}`"))?;
        if let Some(pieces) = line["pieces"].as_u64() {
            bar.inc_length(pieces);
        }
        if let Some(op) = line["done"].as_str() {
            bar.inc(1);
            bar.set_message(op.to_owned());
        }
        report.add(line);
    }
    bar.finish_and_clear();
    for mut program in programs {
        let status = program.wait()?;
        ensure!(status.success(), "a program of xtask/opinfo failed ({status})");
    }
    if report.is_empty() {
        bail!(
            "nothing was compared\nhint: examples of OpInfo's names are add, \
             nn.functional.relu, div/no_rounding_mode"
        );
    }
    Ok(())
}

fn start(python: &Python, subject: &Path, options: &str) -> Result<Child> {
    let script = root().join("xtask/opinfo/run.py");
    let mut command = Command::new(&python.program);
    command.arg("-B"); // Writes no cache beside the sources.
    if let Some(packages) = &python.packages {
        // Only the pinned packages.
        command.arg("-S").env("PYTHONPATH", packages);
    }
    command.arg(script).arg(subject).arg(options).stdout(Stdio::piped());
    command.spawn().with_context(|| format!("cannot start {}", python.program.display()))
}

/// Sends every line until the output ends.
fn listen(output: impl BufRead, said: &Sender<String>) {
    for line in output.lines().map_while(std::io::Result::ok) {
        if said.send(line).is_err() {
            return;
        }
    }
}
