//! Random tapes on whatever runs them, against the interpreter.

use std::collections::BTreeMap;

use gt_compiler::{Arg, Engine, EngineError, Value};
use gt_ir::{
    Entry, HostTensor, Operand, Tape, ValueId, interp, lower,
    testing::{difference, units},
};

type Data = BTreeMap<ValueId, HostTensor>;

/// One instruction at a time.
pub(crate) fn eager(
    engine: &mut dyn Engine,
    tape: &Tape,
    data: &Data,
) -> Result<Data, EngineError> {
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
pub(crate) fn fused(
    engine: &mut dyn Engine,
    tape: &Tape,
    data: &Data,
) -> Result<Data, EngineError> {
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

/// The result of a tape that has one.
pub(crate) fn one(results: Result<Data, EngineError>) -> HostTensor {
    results.unwrap().into_values().next().unwrap()
}

pub(crate) fn compare(what: &str, tape: &Tape, data: &Data, got: Result<Data, EngineError>) {
    let want = interp::run(tape, data);
    match (want, got) {
        (Ok(want), Ok(got)) => {
            for (id, want) in &want {
                if let Some(difference) =
                    difference(want, &got[id], 8.0 * units(&lower(tape).unwrap(), want.ty().dtype))
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

/// A fixed sample; `GT_SEEDS=n` makes it larger.
pub(crate) fn seeds(start: u64) -> std::ops::Range<u64> {
    let n = std::env::var("GT_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    start..start + n
}
