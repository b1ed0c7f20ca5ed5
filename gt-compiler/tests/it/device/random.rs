//! Random tapes as programs that run again and again.

use std::collections::BTreeMap;
use std::ops::Range;

use gt_compiler::simulated::{Simulation, SimulationConfig};
use gt_compiler::{Arg, Engine, EngineError, Options, Value};
use gt_ir::testing::{Config, Source, inputs, same_bits, tape};
use gt_ir::{HostTensor, Op, Scalar, Segment, Tape, ValueId};

use crate::{random::native, sweeps::tapes::eager};

type Results = BTreeMap<ValueId, HostTensor>;

/// A copy in memory of the engine's own, which nobody else holds.
fn copy(engine: &mut dyn Engine, value: &Value) -> Value {
    engine.execute(&Op::Expand(value.ty.shape), &[Arg::Value(value)]).unwrap()
}

/// Literals of another run: seeds and bounds of random integers stay what they may be.
fn varied(scalars: &[Scalar], round: usize) -> Vec<Scalar> {
    let vary = |s: &Scalar| match *s {
        Scalar::F64(x) if round % 2 == 1 => Scalar::F64(x * 0.5),
        other => other,
    };
    scalars.iter().map(vary).collect()
}

/// Runs a segment many times: inputs it may overwrite are copies, every third one of the others
/// comes anew each time.
fn rounds(
    engine: &mut dyn Engine,
    segment: &Segment,
    data: &Results,
) -> Vec<Result<Results, EngineError>> {
    let compiler = engine.compiler();
    let options = Options::default();
    let program = compiler.compile(&segment.graph, &segment.donated, &options).unwrap().program;
    let given: Vec<Value> =
        segment.inputs.iter().map(|id| engine.upload(&data[id]).unwrap()).collect();
    let round = |round: usize| {
        let mut values = Vec::new();
        for (i, value) in given.iter().enumerate() {
            let value = match segment.donated[i] {
                true => copy(engine, value),
                false if i % 3 == 2 => engine.upload(&data[&segment.inputs[i]]).unwrap(),
                false => value.clone(),
            };
            values.push(value);
        }
        let scalars = varied(segment.graph.slots(), round);
        let results = engine.run(&program, &mut values, &scalars);
        if results.is_err() {
            for (id, value) in segment.inputs.iter().zip(&values) {
                let now = engine.download(value).unwrap();
                assert!(same_bits(&now, &data[id]), "a failed run changed {id}");
            }
        }
        let names = segment.outputs.iter().copied();
        names.zip(results?).map(|(name, v)| Ok((name, engine.download(&v)?))).collect()
    };
    (0..6).map(round).collect()
}

fn same(
    what: &str,
    tape: &Tape,
    a: &Result<Results, EngineError>,
    b: &Result<Results, EngineError>,
) {
    let text = || gt_ir::text::print(tape);
    match (a, b) {
        (Ok(a), Ok(b)) => {
            for (id, x) in a {
                let equal = b.get(id).is_none_or(|y| same_bits(x, y));
                assert!(equal, "{what}: {id}: {x:?} and {:?}\n{}", b[id], text());
            }
        }
        (Err(a), Err(b)) => assert_eq!(a, b, "{what}\n{}", text()),
        (a, b) => panic!("{what}: {a:?} and {b:?}\n{}", text()),
    }
}

fn check(config: &Config, seeds: Range<u64>, simulation: SimulationConfig) -> u64 {
    let plain = SimulationConfig { graphs: false, ..simulation };
    let mut reference = native(1);
    let mut stepwise = Simulation::new(plain).engine().unwrap();
    let mut graphs = Simulation::new(simulation).engine().unwrap();
    for seed in seeds {
        let mut source = Source::from_seed(seed);
        let tape = tape(&mut source, config);
        let data = inputs(&tape, &mut source);
        let wanted = eager(&mut reference, &tape, &data);
        let instructions = eager(&mut *graphs, &tape, &data);
        same(&format!("seed {seed}, instruction by instruction"), &tape, &wanted, &instructions);
        let segment = gt_ir::graph::segment(&tape, |_| None).unwrap();
        let wanted = rounds(&mut reference, &segment, &data);
        let steps = rounds(&mut *stepwise, &segment, &data);
        let replays = rounds(&mut *graphs, &segment, &data);
        if instructions.is_ok() {
            same(&format!("seed {seed}, as a program"), &tape, &instructions, &steps[0]);
        }
        for round in 0..wanted.len() {
            same(&format!("seed {seed}, round {round}"), &tape, &wanted[round], &steps[round]);
            same(&format!("seed {seed}, replay {round}"), &tape, &wanted[round], &replays[round]);
        }
    }
    let stats = graphs.stats();
    assert_eq!((stats.live_bytes, stepwise.stats().graph_replays), (0, 0));
    stats.graph_replays
}

#[test]
fn replays_have_the_bits_of_steps_and_of_instructions() {
    let replays = check(&Config::default(), 0..150, SimulationConfig::default());
    assert!(replays > 150, "{replays} replays");
    let moving = SimulationConfig { reuses_addresses: false, ..SimulationConfig::default() };
    let replays = check(&Config::default(), 1000..1050, moving);
    assert!(replays > 50, "{replays} replays");
}

#[test]
fn indices_outside_their_axis_are_the_same_error_everywhere() {
    let config = Config { wild_indices: true, empty: false, ..Config::integers() };
    let replays = check(&config, 2000..2100, SimulationConfig::default());
    assert!(replays > 50, "{replays} replays");
}
