//! `cargo xtask bench --ops`: every op of the table beside PyTorch, at several sizes and in several
//! dtypes, sorted by ratio.
//!
//! Two programs stay up for the whole run: `gt-cli bench --served` and xtask/peers/ops_torch.py.
//! They measure a case in turn, block by block. Each result is a line of a file, so a run that was
//! interrupted goes on where it ended; `cases` makes the cases, and `page` the page of all results.

mod cases;
mod page;

use super::paced::Paced;
use super::{BenchArgs, Peer, environment};
use crate::opinfo::Python;
use crate::shell::{root, target_folder};
use anyhow::{Context, Result};
use cases::{Case, DTYPES, SIZES, forms};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt::Write as _;
use std::fs::{OpenOptions, read_to_string, write};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The turns of each program, and the seconds of a turn.
const ROUNDS: usize = 5;
const SECONDS: f64 = 0.03;

/// How many of the worst rows are printed.
const SHOWN: usize = 40;

/// The milliseconds of a case: GT, then PyTorch.
#[derive(Serialize, Deserialize)]
struct Outcome {
    case: String,
    ms: [f64; 2],
    first_ms: [f64; 2],
    #[serde(default)]
    error: Option<String>,
}

impl Outcome {
    fn ratio(&self) -> f64 {
        self.ms[0] / self.ms[1]
    }

    fn line(&self) -> String {
        let ([ours, theirs], [first, its]) = (self.ms, self.first_ms);
        let (ratio, cold) = (self.ratio(), first / its);
        format!("{ratio:8.2} {ours:10.3} {theirs:10.3} {cold:8.2}  {}", self.case)
    }
}

/// Measures the cases that have no results yet, and prints the worst.
pub(super) fn compare(args: &BenchArgs) -> Result<()> {
    let file = target_folder().join("bench-ops.jsonl");
    if args.again {
        write(&file, "")?;
    }
    let known = results(&file)?;
    let mut cases = chosen(args)?;
    let all: Vec<String> = cases.iter().map(|case| case.name.clone()).collect();
    cases.retain(|case| known.iter().all(|outcome| outcome.case != case.name));
    measure(&cases, args, &file)?;
    let mut outcomes = results(&file)?;
    outcomes.retain(|outcome| all.contains(&outcome.case));
    report(&mut outcomes)?;
    let is_whole = args.names.is_empty() && args.sizes.is_empty() && args.dtypes.is_empty();
    if is_whole {
        let version = Peer::Torch.package().1.replace("==", " ");
        page::write(&outcomes, &environment::about_with(&version)?)?;
    }
    Ok(())
}

fn results(file: &Path) -> Result<Vec<Outcome>> {
    let text = read_to_string(file).unwrap_or_default();
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// The cases of the command line.
fn chosen(args: &BenchArgs) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    let named = |op: &str| args.names.is_empty() || args.names.iter().any(|name| name == op);
    let sizes = SIZES.iter().filter(|n| args.sizes.is_empty() || args.sizes.contains(n));
    for &n in sizes {
        for dtype in DTYPES
            .iter()
            .filter(|d| args.dtypes.is_empty() || args.dtypes.iter().any(|wanted| wanted == *d))
        {
            for form in forms().filter(|form| named(form.op)) {
                cases.extend(form.case(n, dtype)?);
            }
        }
    }
    Ok(cases)
}

fn measure(cases: &[Case], args: &BenchArgs, file: &Path) -> Result<()> {
    if cases.is_empty() {
        return Ok(());
    }
    let mut out = OpenOptions::new().create(true).append(true).open(file)?;
    let mut programs = programs(args)?;
    let bar = ProgressBar::new(cases.len() as u64);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {eta} {msg}")?);
    for case in cases {
        bar.set_message(case.name.clone());
        let outcome = measured(case, &mut programs)?;
        writeln!(out, "{}", serde_json::to_string(&outcome)?)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// GT and PyTorch, waiting for cases.
fn programs(args: &BenchArgs) -> Result<[Paced; 2]> {
    let program = target_folder().join("release/gt-cli");
    let words = [&["bench", "--served"][..], &args.compute()].concat();
    let python = Python::get()?;
    let file = root().join("xtask/peers/ops_torch.py");
    let packages = python.packages.as_deref().map(Path::to_string_lossy).unwrap_or_default();
    Ok([
        Paced::start("gt", &program, &words)?,
        Paced::start_with(
            "PyTorch",
            &python.program,
            &[&file.to_string_lossy()],
            &[("PYTHONPATH", &packages)],
        )?,
    ])
}

fn measured(case: &Case, programs: &mut [Paced; 2]) -> Result<Outcome> {
    let mut outcome = Outcome {
        case: case.name.clone(),
        ms: [f64::NAN; 2],
        first_ms: [f64::NAN; 2],
        error: None,
    };
    for (i, program) in programs.iter_mut().enumerate() {
        let answer = program.ask(&case.asks[i].to_string())?;
        match answer["first_ms"].as_f64() {
            Some(first) => outcome.first_ms[i] = first,
            None => {
                outcome.error = Some(answer["error"].as_str().unwrap_or_default().into());
                (outcome.ms, outcome.first_ms) = ([0.0; 2], [0.0; 2]);
                return Ok(outcome);
            }
        }
    }
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (program, samples) in programs.iter_mut().zip(&mut samples) {
            let answer = program.ask(&json!({ "seconds": SECONDS }).to_string())?;
            let block = answer["samples"].as_array().context("samples are a list")?;
            samples.extend(block.iter().filter_map(|sample| sample.as_f64()));
        }
    }
    outcome.ms = samples.map(median);
    Ok(outcome)
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}

/// Prints the worst rows, and writes all of them.
fn report(outcomes: &mut [Outcome]) -> Result<()> {
    outcomes.sort_by(|a, b| b.ratio().total_cmp(&a.ratio()));
    let head = "   ratio         GT    PyTorch    first  case | size | dtype\n";
    let mut text = String::from(head);
    let (failed, good): (Vec<&Outcome>, Vec<&Outcome>) =
        outcomes.iter().partition(|outcome| outcome.error.is_some());
    let mean = good.iter().map(|outcome| outcome.ratio().ln()).sum::<f64>() / good.len() as f64;
    for outcome in &good {
        writeln!(text, "{}", outcome.line())?;
    }
    for outcome in &failed {
        let why = outcome.error.as_deref().unwrap_or_default();
        writeln!(text, "       -          -          -        -  {}: {why}", outcome.case)?;
    }
    let file: PathBuf = target_folder().join("bench-ops.txt");
    write(&file, &text)?;
    print!("{}", text.split_inclusive('\n').take(SHOWN + 1).collect::<String>());
    println!("{} cases, geometric mean {:.2}; all in {}", good.len(), mean.exp(), file.display());
    Ok(())
}
