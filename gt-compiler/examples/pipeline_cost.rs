//! What the passes in front of the engine cost and gain, on a tape: `cargo run --release -p
//! gt-compiler --example pipeline_cost FILE.gt`. Without a file, on a made-up program of 5,000
//! instructions.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "it measures and prints")]

use std::{error::Error, fmt::Write as _, time::Instant};

use gt_compiler::{Machine, Numerics, Options, pipeline};
use gt_ir::{Graph, lower, text};

/// Runs of which the fastest counts.
const RUNS: usize = 9;

fn main() -> Result<(), Box<dyn Error>> {
    let text = match std::env::args().nth(1) {
        Some(file) => std::fs::read_to_string(file)?,
        None => layers(5000)?,
    };
    let (tape, _) = text::parse(&text).map_err(|_| "the file is no tape")?;
    let graph = lower(&tape)?;
    for numerics in Numerics::ALL {
        measure(&graph, numerics)?;
    }
    Ok(())
}

fn measure(graph: &Graph, numerics: Numerics) -> Result<(), Box<dyn Error>> {
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        pipeline::optimize(
            graph,
            &Options { numerics, ..Options::default() },
            &Machine::PROCESSOR,
        )?;
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
    }
    let report = pipeline::optimize(
        graph,
        &Options { numerics, ..Options::default() },
        &Machine::PROCESSOR,
    )?
    .report;
    println!("{numerics}: {best:.1} ms for {} instructions", report.instructions);
    println!(
        "  nodes {:?}, seconds {:.6} -> {:.6}",
        report.nodes, report.before.seconds, report.after.seconds
    );
    for pass in &report.passes {
        println!(
            "  {:14} {:6} nodes {:8.2} ms",
            pass.name,
            pass.nodes,
            pass.nanoseconds as f64 / 1e6
        );
    }
    println!("  {:?}\n  rules {:?}\n  found {:?}", report.egraph, report.rules, report.recognized);
    Ok(())
}

/// Layers one after the other, no two of which have the same sizes throughout.
fn layers(instructions: usize) -> Result<String, std::fmt::Error> {
    const BODY: [&str; 9] =
        ["exp", "neg", "softmax[1]", "tanh", "gelu", "sigmoid", "log_softmax[1]", "abs", "relu"];
    let n = instructions / (BODY.len() + 1);
    let width = |i: usize| 16 + 8 * (i % 7);
    let mut text = format!("gt tape 1\n%0 = input : f32[64,{}]\n", width(0));
    for i in 0..n {
        writeln!(text, "%{} = input : f32[{},{}]", i + 1, width(i), width(i + 1))?;
    }
    let (mut x, mut next) = (0, n + 1);
    for i in 0..n {
        let ty = format!("f32[64,{}]", width(i + 1));
        writeln!(text, "%{next} = matmul %{x}, %{} : {ty}", i + 1)?;
        for op in BODY {
            writeln!(text, "%{} = {op} %{next} : {ty}", next + 1)?;
            next += 1;
        }
        (x, next) = (next, next + 1);
    }
    writeln!(text, "output %{x}")?;
    Ok(text)
}
