//! How long the plan of a step takes that is spread without signals: `cargo run --release -p
//! gt-compiler --example plan_cost [INSTRUCTIONS [MEMBERS..]]`, by default 5,000 instructions on 2,
//! 4 and 8 members. The step trains a network of equal layers, with momentum.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a report for people, with a clock"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::time::Instant;

use gt_compiler::shard::{Auto, Rates, Request, at, explain, partition};
use gt_ir::canonical::canonical;
use gt_ir::layout::Layout;
use gt_ir::signal::Signals;
use gt_ir::{Entry, Tape, Type, ValueId, text};

/// Runs of which the fastest counts.
const RUNS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let asked: Result<Vec<usize>, _> = std::env::args().skip(1).map(|n| n.parse()).collect();
    let asked = asked?;
    let instructions = asked.first().copied().unwrap_or(5000);
    let members = if asked.len() > 1 { asked[1..].to_vec() } else { vec![2, 4, 8] };
    let (tape, _) = text::parse(&step(instructions)?).map_err(|_| "the step is no tape")?;
    for n in members {
        measure(&tape, n)?;
    }
    Ok(())
}

fn measure(tape: &Tape, n: usize) -> Result<(), Box<dyn Error>> {
    let held = tape.entries.iter().map_while(|entry| match entry {
        Entry::Input { out, ty, .. } => Some((*out, *ty)),
        _ => None,
    });
    let held: BTreeMap<ValueId, Type> = held.collect();
    // The batch is an upload, all else is there before.
    let (before, rest) = tape.entries.split_at(held.len());
    let entries = before[..1].iter().chain(rest).cloned().collect();
    let (template, bindings) = canonical(&Tape { entries });
    let state: Vec<(Type, Layout)> =
        bindings.inputs.iter().map(|value| (held[value], at(0))).collect();
    let request = |auto: Option<Auto>| Request {
        template: &template,
        inputs: &state,
        signals: SIGNALS,
        uploads: &[],
        n_members: n as u32,
        auto,
        rates: Rates::default(),
    };
    let best = |auto: Option<Auto>| -> Result<f64, Box<dyn Error>> {
        let mut best = f64::INFINITY;
        for _ in 0..RUNS {
            let start = Instant::now();
            partition(&request(auto))?;
            best = best.min(start.elapsed().as_secs_f64() * 1e3);
        }
        Ok(best)
    };
    let (alone, planned) = (best(None)?, best(Some(Auto::default()))?);
    let n_instructions = rest.iter().filter(|entry| matches!(entry, Entry::Instr(_))).count();
    println!("{n_instructions} instructions on {n}: {alone:.1} ms, with a plan {planned:.1} ms");
    for way in explain(&request(Some(Auto::default())), None)?.plans {
        println!("  {:8.3} ms  {}", way.seconds * 1e3, way.name);
    }
    Ok(())
}

/// A step of about so many instructions: the batch, parameters and momenta, then the instructions.
fn step(instructions: usize) -> Result<String, std::fmt::Error> {
    const WIDTH: usize = 1024;
    const LAYER: usize = 16;
    let n = instructions.div_ceil(LAYER);
    let mut text = format!("gt tape 1\n%0 = input : f32[256,{WIDTH}]\n");
    let mut next = 1;
    let mut line = |text: &mut String, what: &str| {
        next += 1;
        writeln!(text, "%{} = {what}", next - 1).map(|()| next - 1)
    };
    let mut state = Vec::new();
    for _ in 0..n {
        let [w, v] = [(); 2].map(|()| line(&mut text, &format!("input : f32[{WIDTH},{WIDTH}]")));
        let [b, u] = [(); 2].map(|()| line(&mut text, &format!("input : f32[{WIDTH}]")));
        state.push([w?, v?, b?, u?]);
    }
    let (mut x, mut kept) = (0, Vec::new());
    for [w, _, b, _] in &state {
        let product = line(&mut text, &format!("matmul %{x}, %{w}"))?;
        let sum = line(&mut text, &format!("add %{product}, %{b}"))?;
        kept.push((x, sum));
        x = line(&mut text, &format!("relu %{sum}"))?;
    }
    let mut grad = line(&mut text, &format!("mul %{x}, 0.001"))?;
    for ([w, v, b, u], (x, sum)) in state.iter().zip(&kept).rev() {
        let mask = line(&mut text, &format!("gt %{sum}, 0.0"))?;
        let inner = line(&mut text, &format!("where %{mask}, %{grad}, 0.0"))?;
        let turned = line(&mut text, &format!("permute[1,0] %{x}"))?;
        let of_w = line(&mut text, &format!("matmul %{turned}, %{inner}"))?;
        let of_b = line(&mut text, &format!("sum[0] %{inner}"))?;
        let turned = line(&mut text, &format!("permute[1,0] %{w}"))?;
        grad = line(&mut text, &format!("matmul %{inner}, %{turned}"))?;
        for (parameter, momentum, of) in [(w, v, of_w), (b, u, of_b)] {
            let scaled = line(&mut text, &format!("mul %{momentum}, 0.9"))?;
            let momentum_then = line(&mut text, &format!("add %{scaled}, %{of}"))?;
            let change = line(&mut text, &format!("mul %{momentum_then}, 0.1"))?;
            line(&mut text, &format!("sub %{parameter}, %{change}"))?;
            writeln!(text, "free %{parameter}\nfree %{momentum}\nfree %{scaled}\nfree %{of}")?;
            writeln!(text, "free %{change}")?;
        }
        writeln!(text, "free %{mask}\nfree %{inner}\nfree %{sum}")?;
    }
    Ok(text)
}

/// No signals.
const SIGNALS: &Signals = &Signals::new();
