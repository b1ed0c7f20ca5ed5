//! Measures the rows of docs/benchmarks.md: `cargo xtask bench [ROW..] [--json]`.
//!
//! Each row is measured several times and printed as median, smallest and largest sample, with its
//! bar and the commit. Rows that need a new process run this program again. This file has the table
//! and the rows of single programs; the other rows are in `recording`, `digits` and `passes`.

#![expect(clippy::disallowed_methods, reason = "benches read the clock")]
#![expect(unreachable_pub, dead_code, reason = "only parts of the example's modules are used")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "benches print their measurements")]

#[path = "../../examples/digits/data.rs"]
mod data;
#[path = "../../examples/digits/model.rs"]
mod model;

mod digits;
mod passes;
mod recording;

use gt::prelude::*;
use std::process::{Command, Stdio};
use std::time::Instant;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A row of the table.
struct Row {
    name: &'static str,
    unit: &'static str,
    /// The bar of the figure, or an empty string.
    bar: &'static str,
    measure: fn() -> Outcome<Vec<f64>>,
}

const ROWS: &[Row] = &[
    Row { name: "embedded_start", unit: "ms", bar: "< 50", measure: embedded_start },
    Row { name: "record", unit: "ns/instruction", bar: "< 200", measure: recording::record },
    Row {
        name: "period_detection",
        unit: "ns/instruction",
        bar: "< 200",
        measure: recording::period_detection,
    },
    Row {
        name: "canonical_key",
        unit: "ns/instruction",
        bar: "< 40",
        measure: recording::canonical_key,
    },
    Row {
        name: "template_match",
        unit: "ns/instruction",
        bar: "< 15",
        measure: recording::template_match,
    },
    Row { name: "dispatch2000", unit: "ms", bar: "< 10", measure: dispatch2000 },
    Row {
        name: "digits_step_embedded",
        unit: "us",
        bar: "",
        measure: digits::digits_step_embedded,
    },
    Row {
        name: "digits_step_ipc",
        unit: "us",
        bar: "< 2x embedded",
        measure: digits::digits_step_ipc,
    },
    Row {
        name: "digits_read_embedded",
        unit: "us",
        bar: "",
        measure: digits::digits_read_embedded,
    },
    Row {
        name: "digits_read_ipc",
        unit: "us",
        bar: "< 2x embedded",
        measure: digits::digits_read_ipc,
    },
    Row { name: "copy_16m", unit: "GB/s", bar: "", measure: passes::copy_16m },
    Row { name: "chain_16m", unit: "GB/s", bar: "> 0.8x copy_16m", measure: passes::chain_16m },
    Row { name: "minmax_16m", unit: "GB/s", bar: "", measure: passes::minmax_16m },
    Row { name: "tanh_16m", unit: "ms", bar: "< 11.8 (JAX)", measure: passes::tanh_16m },
    Row { name: "memory_growth", unit: "KiB", bar: "about 0", measure: digits::memory_growth },
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let done = match words.first().map(String::as_str) {
        Some("--child-start") => child_start(),
        Some("--child-memory") => digits::child_memory(),
        _ => table(&words),
    };
    if let Err(error) = done {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn table(words: &[String]) -> Outcome<()> {
    let json = words.iter().any(|word| word == "--json");
    let wanted: Vec<&String> = words.iter().filter(|word| !word.starts_with("--")).collect();
    let commit = commit();
    if !json {
        println!(
            "{:<22} {:>10} {:>22}  {:<15} {:<16} at {commit}",
            "row", "median", "smallest .. largest", "unit", "bar"
        );
    }
    for row in
        ROWS.iter().filter(|row| wanted.is_empty() || wanted.iter().any(|name| *name == row.name))
    {
        let mut samples = (row.measure)()?;
        samples.sort_by(f64::total_cmp);
        let (low, median, high) =
            (samples[0], samples[samples.len() / 2], samples[samples.len() - 1]);
        let Row { name, unit, bar, .. } = row;
        if json {
            println!(
                "{{\"row\":\"{name}\",\"median\":{median},\"smallest\":{low},\"largest\":{high},\
                 \"n\":{},\"unit\":\"{unit}\",\"bar\":\"{bar}\",\"commit\":\"{commit}\"}}",
                samples.len()
            );
        } else {
            println!(
                "{name:<22} {median:>10.2} {:>22}  {unit:<15} {bar}",
                format!("{low:.2} .. {high:.2}")
            );
        }
    }
    Ok(())
}

fn commit() -> String {
    let git = |words: &[&str]| {
        Command::new("git").args(words).output().ok().filter(|output| output.status.success())
    };
    let head = git(&["rev-parse", "--short", "HEAD"])
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string());
    let dirty = git(&["status", "--porcelain", "--untracked-files=no"])
        .is_some_and(|output| !output.stdout.is_empty());
    format!(
        "{}{}",
        head.unwrap_or_else(|| "unknown".into()),
        if dirty { " with changes" } else { "" }
    )
}

/// `n` samples of `measure`, after a first one that is discarded.
fn samples(n: usize, mut measure: impl FnMut() -> Outcome<f64>) -> Outcome<Vec<f64>> {
    measure()?;
    (0..n).map(|_| measure()).collect()
}

fn seconds(work: impl FnOnce() -> Outcome<()>) -> Outcome<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}

// From the first line of `main` of a new process to its first result.

fn embedded_start() -> Outcome<Vec<f64>> {
    samples(20, || child("--child-start"))
}

fn child_start() -> Outcome<()> {
    let time = seconds(|| {
        let x: T![4] = Tensor::ones();
        (&x + 1.0).to_vec::<f32>()?;
        Ok(())
    })?;
    println!("{}", time * 1e3);
    Ok(())
}

fn child(mode: &str) -> Outcome<f64> {
    let output =
        Command::new(std::env::current_exe()?).arg(mode).stderr(Stdio::inherit()).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

// 2,000 additions on 4 elements, each of the result before, then a read.

fn dispatch2000() -> Outcome<Vec<f64>> {
    samples(30, || {
        let mut x: T![4] = Tensor::zeros();
        x.to_vec::<f32>()?;
        let time = seconds(|| {
            for _ in 0..2_000 {
                x = &x + 1.0;
            }
            assert_eq!(x.to_vec::<f32>()?, [2_000.0; 4]);
            Ok(())
        })?;
        Ok(time * 1e3)
    })
}
