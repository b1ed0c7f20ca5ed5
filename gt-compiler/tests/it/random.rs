//! Random tapes, run instruction by instruction and as one fused region, give what the interpreter gives.

use std::collections::BTreeMap;

use gt_compiler::{Arg, Engine, EngineError, Native, NativeConfig, Options, Value};
use gt_ir::{
    DType, Entry, HostTensor, Op, Operand, Tape, ValueId, interp, lower,
    testing::{Config, Source, difference, inputs, same_bits, tape},
};

pub(crate) fn native(threads: usize) -> Native {
    Native::new(NativeConfig {
        threads,
        memory_limit: 1 << 30,
        cache_capacity: 4096,
        store: None,
        guarded: true,
    })
    .unwrap()
}

/// A sine of something huge turns the last bit of its argument into anything.
fn ill_conditioned(tape: &Tape) -> bool {
    let has = |f: fn(&Op) -> bool| tape.instrs().any(|i| f(&i.op));
    has(|op| matches!(op, Op::Sin | Op::Cos)) && has(|op| matches!(op, Op::Exp | Op::Pow))
}

fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        DType::F32 => f64::from(f32::EPSILON),
        DType::F16 => 1.0 / 1024.0,
        DType::Bf16 => 1.0 / 128.0,
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => f64::MIN_POSITIVE,
    }
}

/// The coarsest rounding anywhere in a tape: a later cast to a finer dtype does not undo it.
fn coarsest(tape: &Tape) -> f64 {
    let types = gt_ir::lower(tape).unwrap();
    types.ids().map(|id| epsilon(types.node(id).ty.dtype)).fold(0.0, f64::max)
}

/// One instruction at a time.
pub(crate) fn eager(
    engine: &mut dyn Engine,
    tape: &Tape,
    data: &BTreeMap<ValueId, HostTensor>,
) -> Result<BTreeMap<ValueId, HostTensor>, EngineError> {
    let (mut values, mut outputs) = (BTreeMap::<ValueId, Value>::new(), BTreeMap::new());
    for entry in &tape.entries {
        match entry {
            Entry::Input { out, .. } => {
                let value = engine.upload(&data[out])?;
                values.insert(*out, value);
            }
            Entry::Instr(i) => {
                let args: Vec<Arg<'_>> = i
                    .inputs
                    .iter()
                    .map(|o| match o {
                        Operand::Value(v) => Arg::Value(&values[v]),
                        Operand::Scalar(s) => Arg::Scalar(*s),
                    })
                    .collect();
                let value = engine.execute(&i.op, &args)?;
                values.insert(i.out, value);
            }
            Entry::Output { value, .. } => {
                outputs.insert(*value, engine.download(&values[value])?);
            }
            Entry::Free(v) => drop(values.remove(v)),
            Entry::Enter(_) | Entry::Exit(_) => (),
        }
    }
    Ok(outputs)
}

/// The whole tape as one region.
fn fused(
    engine: &mut Native,
    tape: &Tape,
    data: &BTreeMap<ValueId, HostTensor>,
) -> Result<BTreeMap<ValueId, HostTensor>, EngineError> {
    let graph = lower(tape).unwrap();
    let program = engine.compile(&graph)?;
    let ids = tape
        .entries
        .iter()
        .filter_map(|e| if let Entry::Input { out, .. } = e { Some(out) } else { None });
    let values: Vec<Value> = ids.map(|id| engine.upload(&data[id])).collect::<Result<_, _>>()?;
    let results = engine.run(&program, &mut values.clone(), graph.slots())?;
    let names = tape
        .entries
        .iter()
        .filter_map(|e| if let Entry::Output { value, .. } = e { Some(*value) } else { None });
    names.zip(results).map(|(name, v)| Ok((name, engine.download(&v)?))).collect()
}

/// The whole tape as a segment whose inputs may be overwritten where it frees them: everything that is alive at its end.
fn replayed(
    engine: &mut Native,
    tape: &Tape,
    data: &BTreeMap<ValueId, HostTensor>,
) -> Result<BTreeMap<ValueId, HostTensor>, EngineError> {
    let segment = gt_ir::graph::segment(tape, |_| None).unwrap();
    let compiled =
        engine.compiler().compile(&segment.graph, &segment.donated, &Options::default())?;
    let mut values = Vec::new();
    for id in &segment.inputs {
        // A copy in the engine's own memory, which nobody else holds.
        let value = engine.upload(&data[id])?;
        let shape = value.ty.shape;
        values.push(engine.execute(&Op::Expand(shape), &[Arg::Value(&value)])?);
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

fn compare(
    what: &str,
    tape: &Tape,
    data: &BTreeMap<ValueId, HostTensor>,
    got: Result<BTreeMap<ValueId, HostTensor>, EngineError>,
) {
    let want = interp::run(tape, data);
    match (want, got) {
        (Ok(want), Ok(got)) => {
            for (id, want) in &want {
                if let Some(difference) =
                    difference(want, &got[id], 8.0 * coarsest(tape) / epsilon(want.ty().dtype))
                {
                    panic!("{what}: {id}: {difference}\n{}", gt_ir::text::print(tape));
                }
            }
        }
        (Err(_), Err(_)) => (),
        (want, got) => panic!(
            "{what}: interpreter {:?}, engine {:?}\n{}",
            want.err(),
            got.err(),
            gt_ir::text::print(tape)
        ),
    }
}

fn check(config: &Config, seeds: std::ops::Range<u64>) {
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
        if let (Ok(eager), Ok(replayed)) = (&eager, replayed(&mut engine, &tape, &data)) {
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
fn integer_tapes() {
    check(&Config::integers(), seeds(1_000_000));
}

/// A fixed sample; `GT_SEEDS=n` makes it larger.
fn seeds(start: u64) -> std::ops::Range<u64> {
    let n = std::env::var("GT_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    start..start + n
}
