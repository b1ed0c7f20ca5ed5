//! Random tapes: an instruction at a time, as one region, and as a graph that is replayed.

use std::collections::BTreeMap;

use gt_compiler::{Engine, EngineError, Value};
use gt_ir::{
    Entry, HostTensor, Op, Tape, ValueId, lower,
    testing::{Config, Source, ill_conditioned, inputs, same_bits, tape},
};

use crate::{
    config, device,
    sweeps::tapes::{compare, eager, fused, seeds},
};

type Data = BTreeMap<ValueId, HostTensor>;

/// Runs of one program: enough for a capture and replays.
const RUNS: usize = 8;

/// The whole tape as one region, several times on the same inputs: the results of every run.
fn again_and_again(
    engine: &mut dyn Engine,
    tape: &Tape,
    data: &Data,
) -> Result<Vec<Data>, EngineError> {
    let graph = lower(tape).unwrap();
    let program = engine.compile(&graph)?;
    let inputs = tape.entries.iter().filter_map(|e| match e {
        Entry::Input { out, .. } => Some(engine.upload(&data[out])),
        _ => None,
    });
    let inputs: Vec<Value> = inputs.collect::<Result<_, _>>()?;
    let names: Vec<_> = tape
        .entries
        .iter()
        .filter_map(|e| if let Entry::Output { value, .. } = e { Some(*value) } else { None })
        .collect();
    let mut all = Vec::new();
    for _ in 0..RUNS {
        let results = engine.run(&program, &mut inputs.clone(), graph.slots())?;
        let results = names.iter().zip(&results);
        all.push(
            results
                .map(|(name, v)| Ok((*name, engine.download(v)?)))
                .collect::<Result<_, EngineError>>()?,
        );
    }
    Ok(all)
}

fn check(config_of_tapes: &Config, start: u64) {
    let Some(mut engine) = device(&config()) else { return };
    for seed in seeds(start) {
        let mut source = Source::from_seed(seed);
        let tape = tape(&mut source, config_of_tapes);
        let data = inputs(&tape, &mut source);
        if ill_conditioned(&tape) {
            continue;
        }
        let eager = eager(engine.as_mut(), &tape, &data);
        let runs = again_and_again(engine.as_mut(), &tape, &data);
        let what = gt_ir::text::print(&tape);
        // cuBLAS rounds a product by how its operands lie, and that differs between an instruction
        // and a region.
        let has_products = tape.instrs().any(|i| i.op == Op::MatMul);
        if let Ok(runs) = &runs {
            for (i, run) in runs.iter().enumerate() {
                for (id, got) in run {
                    assert!(same_bits(got, &runs[0][id]), "seed {seed}, run {i}: {id}\n{what}");
                    let same = eager.as_ref().is_ok_and(|e| same_bits(got, &e[id]));
                    assert!(
                        same || has_products || eager.is_err(),
                        "seed {seed}, fused: {id}\n{what}"
                    );
                }
            }
        }
        let whole = eager.is_ok();
        compare(&format!("seed {seed}, eager"), &tape, &data, eager);
        if whole {
            // Of a region only what is read runs, so it may miss an error.
            let fused = fused(engine.as_mut(), &tape, &data);
            compare(&format!("seed {seed}, fused"), &tape, &data, fused);
            compare(
                &format!("seed {seed}, replayed"),
                &tape,
                &data,
                runs.map(|mut r| r.remove(RUNS - 1)),
            );
        }
    }
}

#[test]
fn any_tape_on_a_gpu() {
    check(&Config::default(), 20_000_000);
}

#[test]
fn integer_tapes_on_a_gpu() {
    check(&Config::integers(), 21_000_000);
}

/// Indices that may point anywhere are errors, not faults of the device.
#[test]
fn wild_tapes_on_a_gpu() {
    check(&Config { wild_indices: true, ..Config::default() }, 22_000_000);
}
