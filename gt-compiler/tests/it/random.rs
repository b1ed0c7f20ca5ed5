//! Random tapes, run instruction by instruction and as one fused region, give what the interpreter
//! gives.

use std::collections::BTreeMap;

use gt_compiler::{Arg, Engine, EngineError, Native, NativeConfig, Options, Value};
use gt_ir::{
    DType, HostTensor, Op, Tape, ValueId,
    attr::{Axes, AxisSet},
    testing::{Config, Source, ill_conditioned, inputs, same_bits, special_inputs, tape},
};

use crate::sweeps::tapes::{compare, eager, fused, seeds};

pub(crate) fn native(threads: usize) -> Native {
    Native::new(NativeConfig {
        threads,
        memory_limit: 1 << 30,
        cache_capacity: 4096,
        store: None,
        guarded: true,
        team: None,
    })
    .unwrap()
}

/// A tensor in the engine's own memory, which nobody else holds: a donated input may give it away.
/// A large upload is the caller's memory.
pub(crate) fn owned(engine: &mut Native, tensor: &HostTensor) -> Result<Value, EngineError> {
    let value = engine.upload(tensor)?;
    if value.ty.shape.rank() == 0 {
        return Ok(value);
    }
    let flip = Op::Flip(Axes(AxisSet::from_iter([0])));
    let turned = engine.execute(&flip, &[Arg::Value(&value)])?;
    engine.execute(&flip, &[Arg::Value(&turned)])
}

/// The whole tape as a segment whose inputs may be overwritten where it frees them: everything that
/// is alive at its end.
fn replayed(
    engine: &mut Native,
    tape: &Tape,
    data: &BTreeMap<ValueId, HostTensor>,
    options: &Options,
) -> Result<BTreeMap<ValueId, HostTensor>, EngineError> {
    let segment = gt_ir::graph::segment(tape, |_| None).unwrap();
    let compiled = engine.compiler().compile(&segment.graph, &segment.donated, options)?;
    let mut values = Vec::new();
    for id in &segment.inputs {
        values.push(owned(engine, &data[id])?);
    }
    let results = engine.run(&compiled.program, &mut values, segment.graph.slots());
    if results.is_err() {
        for (id, value) in segment.inputs.iter().zip(&values) {
            assert!(same_bits(&engine.download(value)?, &data[id]), "a failed run changed {id}");
        }
    }
    let names = segment.outputs.iter().copied();
    names.zip(results?).map(|(name, v)| Ok((name, engine.download(&v)?))).collect()
}

fn check(config: &Config, seeds: std::ops::Range<u64>) {
    check_on(config, seeds, inputs);
}

/// Makes the data of a tape.
type Data = fn(&Tape, &mut Source<'_>) -> BTreeMap<ValueId, HostTensor>;

fn check_on(config: &Config, seeds: std::ops::Range<u64>, inputs: Data) {
    let mut engine = native(2);
    for seed in seeds {
        let mut source = Source::from_seed(seed);
        let tape = tape(&mut source, config);
        let data = inputs(&tape, &mut source);
        if ill_conditioned(&tape) {
            continue;
        }
        let eager = eager(&mut engine, &tape, &data);
        let fused = fused(&mut engine, &tape, &data);
        if let (Ok(eager), Ok(fused)) = (&eager, &fused) {
            for (id, want) in eager {
                assert!(
                    same_bits(want, &fused[id]),
                    "seed {seed}: {id} has other bits\n{}",
                    gt_ir::text::print(&tape)
                );
            }
        }
        // Of every second tape, all is made again that can be.
        let options = Options { memory: (seed % 2 == 0).then_some(0), ..Options::default() };
        if let (Ok(eager), Ok(replayed)) = (&eager, replayed(&mut engine, &tape, &data, &options)) {
            for (id, got) in replayed {
                let bits = eager.get(&id).is_none_or(|want| same_bits(want, &got));
                assert!(bits, "seed {seed}, replayed: {id}\n{}", gt_ir::text::print(&tape));
            }
        }
        compare(&format!("seed {seed}, eager"), &tape, &data, eager);
        compare(&format!("seed {seed}, fused"), &tape, &data, fused);
    }
}

#[test]
fn any_tape() {
    check(&Config::default(), seeds(0));
}

/// Rows enough for tiles, chunks and several threads.
#[test]
fn large_tapes() {
    let large = Config {
        max_size: 48,
        max_numel: 60_000,
        dtypes: vec![DType::F32, DType::F32, DType::I64],
        ..Config::default()
    };
    let sample = seeds(2_000_000);
    check(&large, sample.start..sample.start + (sample.end - sample.start) / 5);
}

#[test]
fn tapes_on_special_numbers() {
    check_on(&Config::default(), seeds(3_000_000), special_inputs);
}

/// Windows and expansions add axes: what a type rule allows, every rank has an expansion for.
#[test]
fn tapes_of_every_rank() {
    let config = Config { max_rank: gt_ir::MAX_RANK, max_size: 3, ..Config::default() };
    check(&config, seeds(4_000_000));
}

#[test]
fn integer_tapes() {
    check(&Config::integers(), seeds(1_000_000));
}
