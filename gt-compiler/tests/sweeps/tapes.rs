//! Random tapes on whatever runs them, against the interpreter.

use std::collections::BTreeMap;

use gt_compiler::{Arg, Engine, EngineError, Value};
use gt_ir::{
    DType, Entry, HostTensor, Op, Operand, Tape, ValueId, interp, lower, testing::difference,
};

type Data = BTreeMap<ValueId, HostTensor>;

/// A sine of something huge turns the last bit of its argument into anything.
pub(crate) fn ill_conditioned(tape: &Tape) -> bool {
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

pub(crate) fn compare(what: &str, tape: &Tape, data: &Data, got: Result<Data, EngineError>) {
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

/// A fixed sample; `GT_SEEDS=n` makes it larger.
pub(crate) fn seeds(start: u64) -> std::ops::Range<u64> {
    let n = std::env::var("GT_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    start..start + n
}
