//! The interpreter and the native engine give the same results for any tape and any data, and never
//! panic.

use std::{cell::RefCell, collections::BTreeMap};

use gt_compiler::{Arg, Engine, EngineError, Native, NativeConfig, Value};
use gt_ir::{
    Entry, HostTensor, Operand, Tape, ValueId, interp, lower,
    testing::{Config, Source, difference, inputs, tape},
    text::print,
    verify::verify,
};

type Values = BTreeMap<ValueId, HostTensor>;

thread_local! {
    static ENGINE: RefCell<Native> = RefCell::new({
        let config = NativeConfig {
            threads: 1,
            memory_limit: 1 << 28,
            cache_capacity: 256,
            store: None,
            guarded: true,
            team: None,
        };
        Native::new(config).expect("this machine has an engine")
    });
}

/// Runs one instruction at a time.
fn eager(engine: &mut Native, tape: &Tape, data: &Values) -> Result<Values, EngineError> {
    let (mut values, mut outputs) = (BTreeMap::<ValueId, Value>::new(), Values::new());
    for entry in &tape.entries {
        match entry {
            Entry::Input { out, .. } => drop(values.insert(*out, engine.upload(&data[out])?)),
            Entry::Instr(instr) => {
                let args: Vec<Arg<'_>> = instr
                    .inputs
                    .iter()
                    .map(|operand| match operand {
                        Operand::Value(value) => Arg::Value(&values[value]),
                        Operand::Scalar(scalar) => Arg::Scalar(*scalar),
                    })
                    .collect();
                let result = engine.execute(&instr.op, &args)?;
                values.insert(instr.out, result);
            }
            Entry::Output { value, .. } => {
                drop(outputs.insert(*value, engine.download(&values[value])?))
            }
            Entry::Free(value) => drop(values.remove(value)),
            Entry::Enter(_) | Entry::Exit(_) => (),
        }
    }
    Ok(outputs)
}

/// Runs the whole tape as one region.
fn fused(engine: &mut Native, tape: &Tape, data: &Values) -> Result<Values, EngineError> {
    let graph = lower(tape).expect("a verified tape has a graph");
    let program = engine.compile(&graph)?;
    let values =
        data.values().map(|data| engine.upload(data)).collect::<Result<Vec<Value>, _>>()?;
    let results = engine.run(&program, &mut values.clone(), graph.slots())?;
    let outputs = tape.entries.iter().filter_map(|entry| {
        if let Entry::Output { value, .. } = entry { Some(*value) } else { None }
    });
    outputs.zip(results).map(|(id, value)| Ok((id, engine.download(&value)?))).collect()
}

fn agree(tape: &Tape, wanted: &Values, found: &Values) {
    for (id, wanted) in wanted {
        if let Some(difference) = difference(wanted, &found[id], 16.0) {
            panic!("{id}: {difference}\n{}", print(tape));
        }
    }
}

pub(crate) fn check(bytes: &[u8]) {
    let mut source = Source::from_bytes(bytes);
    let config = match source.below(4) {
        0 => Config { wild_indices: true, ..Config::integers() },
        1 | 2 => Config::integers(),
        _ => Config::default(),
    };
    let tape = tape(&mut source, &config);
    assert!(verify(&tape).is_ok(), "{}", print(&tape));
    let data = inputs(&tape, &mut source);
    ENGINE.with_borrow_mut(|engine| {
        let wanted = interp::run(&tape, &data);
        match (&wanted, eager(engine, &tape, &data)) {
            (Ok(wanted), Ok(found)) => agree(&tape, wanted, &found),
            (Err(_), Err(_)) => return,
            (wanted, found) => panic!(
                "interpreter {:?}, engine {:?}\n{}",
                wanted.as_ref().err(),
                found.err(),
                print(&tape)
            ),
        }
        let (Ok(wanted), Ok(found)) = (&wanted, fused(engine, &tape, &data)) else {
            panic!("the region failed\n{}", print(&tape))
        };
        agree(&tape, wanted, &found);
    });
}
