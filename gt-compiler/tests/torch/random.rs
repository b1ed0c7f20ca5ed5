//! Random tapes: by libtorch's ops an instruction at a time, and by the engine on libtorch eagerly
//! and as one region.

use gt_compiler::{
    NativeConfig,
    torch::{Device, TorchConfig, engine, ops},
};
use gt_ir::{
    Op, Tape,
    testing::{Config, Source, ill_conditioned, inputs, tape},
};

use crate::sweeps::tapes::{compare, eager, fused, seeds};

/// Whether digits that `gelu` lost far below zero (one plus what is nearly minus one) are
/// multiplied, by which they grow beyond any tolerance.
fn multiplies_cancelled(tape: &Tape) -> bool {
    let has = |f: fn(&Op) -> bool| tape.instrs().any(|i| f(&i.op));
    has(|op| matches!(op, Op::Gelu | Op::GeluTanh))
        && has(|op| matches!(op, Op::Prod(_) | Op::CumProd(_)))
}

fn check(config: &Config, start: u64) {
    let host = NativeConfig { threads: 2, store: None, ..NativeConfig::host() };
    let mut engine = engine(&TorchConfig { host, ..TorchConfig::host(Device::Cpu) }).unwrap();
    for seed in seeds(start) {
        let mut source = Source::from_seed(seed);
        let tape = tape(&mut source, config);
        let data = inputs(&tape, &mut source);
        if ill_conditioned(&tape) || multiplies_cancelled(&tape) {
            continue;
        }
        let by_ops = ops::run_tape(&tape, &data, Device::Cpu);
        compare(&format!("seed {seed}, ops"), &tape, &data, by_ops);
        let eager = eager(engine.as_mut(), &tape, &data);
        let whole = eager.is_ok();
        compare(&format!("seed {seed}, eager"), &tape, &data, eager);
        if whole {
            // Of a region only what is read runs, so it may miss an error.
            let fused = fused(engine.as_mut(), &tape, &data);
            compare(&format!("seed {seed}, fused"), &tape, &data, fused);
        }
    }
}

#[test]
fn any_tape() {
    check(&Config::default(), 10_000_000);
}

#[test]
fn integer_tapes() {
    check(&Config::integers(), 11_000_000);
}

/// Indices that may point anywhere: an error here is one there.
#[test]
fn wild_tapes() {
    check(&Config { wild_indices: true, ..Config::default() }, 12_000_000);
}
