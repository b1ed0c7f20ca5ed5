//! What the host does to run a program on a device: `cargo run --release -p gt-compiler --features
//! torch --example replay_cost`.
//!
//! The device is simulated and idle: launches are counted and do nothing, so nothing but the host's
//! side is measured, step by step and as a graph. The program is a step of an optimizer over so
//! many parameters, in place, with a batch that moves and a learning rate that changes.
#![expect(clippy::print_stdout, reason = "a benchmark prints what it found")]

use std::fmt::Write;
use std::time::Instant;

use gt_compiler::simulated::{Simulation, SimulationConfig};
use gt_compiler::{Engine, EngineError, Options, Value};
use gt_ir::{HostTensor, Scalar, Shape};

const ROUNDS: u32 = 3000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for n in [1, 10, 100] {
        let [(steps, plain), (_, graph)] = [measure(n, false)?, measure(n, true)?];
        println!(
            "{n:4} parameters, {} inputs, {steps} steps: {plain:7.0} ns step by step, {graph:7.0} \
             ns as a graph",
            3 * n + 1
        );
    }
    Ok(())
}

/// Steps of the program, and nanoseconds a run takes, the median of several hundred rounds at a
/// time.
fn measure(n: usize, graphs: bool) -> Result<(usize, f64), Box<dyn std::error::Error>> {
    let config = SimulationConfig { graphs, idle: true, ..SimulationConfig::default() };
    let mut engine = Simulation::new(config).engine()?;
    let (tape, _) = gt_ir::text::parse(&optimizer(n)).map_err(|e| format!("{e:?}"))?;
    let segment = gt_ir::graph::segment(&tape, |_| None)?;
    let compiler = engine.compiler();
    let options = Options::default();
    let program = compiler.compile(&segment.graph, &segment.donated, &options)?.program;
    let mut scalars = segment.graph.slots().to_vec();
    let mut values: Vec<Value> =
        (0..=3 * n).map(|_| upload(&mut *engine)).collect::<Result<_, _>>()?;
    // Where the results are that come next in the place of each input.
    let place = |id: u64| segment.outputs.iter().position(|output| output.0 == id);
    let made = (0..n as u64).flat_map(|i| [7, 2, 5].map(|k| 3 * n as u64 + 1 + 8 * i + k));
    let next: Vec<usize> = made.filter_map(place).collect();
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let batch = upload(&mut *engine)?;
        values[3 * n] = batch;
        scalars[0] = Scalar::F64(0.9 + f64::from(round) * 1e-6);
        #[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
        let start = Instant::now();
        let results = engine.run(&program, &mut values, &scalars)?;
        times.push(start.elapsed().as_nanos() as f64);
        for (value, at) in values.iter_mut().zip(&next) {
            *value = results[*at].clone();
        }
    }
    times.sort_by(f64::total_cmp);
    if graphs && engine.stats().graph_replays < u64::from(ROUNDS) - 10 {
        return Err(format!("{:?}: {:?}", engine.stats(), engine.notes()).into());
    }
    Ok((program.n_steps(), times[times.len() / 2]))
}

fn upload(engine: &mut dyn Engine) -> Result<Value, EngineError> {
    engine.upload(&HostTensor::from_vec(vec![0.5_f32; 64], Shape::new(&[64])?)?)
}

/// The text of a step: for each parameter its mean, its square and itself, then what was read of
/// the batch.
fn optimizer(n: usize) -> String {
    let mut text = String::from("gt tape 1\n");
    let (x, mut next) = (3 * n, 3 * n + 1);
    for i in 0..=x {
        let _ = writeln!(text, "%{i} = input : f32[64]");
    }
    let mut results = Vec::new();
    for i in 0..n {
        let (p, m, v, g) = (3 * i, 3 * i + 1, 3 * i + 2, next);
        let at = |k: usize| next + k;
        let _ = writeln!(text, "%{g} = mul %{p}, %{x} : f32[64]");
        let _ = writeln!(text, "%{} = mul %{m}, 0.9 : f32[64]\nfree %{m}", at(1));
        let _ = writeln!(text, "%{} = add %{}, %{g} : f32[64]", at(2), at(1));
        let _ = writeln!(text, "%{} = mul %{g}, %{g} : f32[64]", at(3));
        let _ = writeln!(text, "%{} = mul %{v}, 0.99 : f32[64]\nfree %{v}", at(4));
        let _ = writeln!(text, "%{} = add %{}, %{} : f32[64]", at(5), at(3), at(4));
        let _ = writeln!(text, "%{} = mul %{}, 0.001 : f32[64]", at(6), at(2));
        let _ = writeln!(text, "%{} = sub %{p}, %{} : f32[64]\nfree %{p}", at(7), at(6));
        for k in [0, 1, 3, 4, 6] {
            let _ = writeln!(text, "free %{}", at(k));
        }
        results.extend([at(7), at(2), at(5)]);
        next += 8;
    }
    for value in results {
        let _ = writeln!(text, "output %{value}");
    }
    text
}
