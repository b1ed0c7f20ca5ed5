//! The tape of one training step as a complete program. Its inputs are the values from before the
//! step, its outputs the values that remain after it.

use super::data::Digits;
use super::model::{self, Mlp};
use gt::ir::{Entry, Operand, Tape, ValueId};
use gt::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The names of values.
pub type Names = BTreeMap<ValueId, Arc<str>>;

/// The tape of the second step of a new model, because the optimizer's momentum exists only after
/// the first. Inputs and outputs have the names of the program.
pub fn of_a_step(session: &Session, config: SgdConfig, batch: &Digits) -> Result<Tape> {
    let net = Mlp::new();
    let mut optimizer = Sgd::new(net.parameters(), config);
    model::step(&net, &mut optimizer, batch.pick(&positions(batch)))?;
    let mut names = parameters(&net);
    session.start_trace();
    model::step(&net, &mut optimizer, batch.pick(&positions(batch)))?.item()?;
    let tape = session.stop_trace();
    names.extend(parameters(&net));
    // The batch is uploaded last, and the program reads only the loss.
    let uploads = tape.entries.iter().rev().filter(|e| matches!(e, Entry::Input { .. }));
    let reads = tape.entries.iter().filter(|e| matches!(e, Entry::Output { .. }));
    let (uploads, reads) = (uploads.zip(["labels", "images"]), reads.zip(["loss"]));
    names.extend(uploads.chain(reads).filter_map(|(e, name)| Some((value(e)?, name.into()))));
    Ok(whole(tape, &names))
}

/// The names of the parameters' values.
fn parameters(net: &Mlp) -> Names {
    let named = net.named_parameters().into_iter();
    named.filter_map(|(name, tensor)| Some((tensor.value_id()?, Arc::from(name)))).collect()
}

fn positions(batch: &Digits) -> Vec<usize> {
    (0..batch.len()).collect()
}

/// The value of an input or output.
fn value(entry: &Entry) -> Option<ValueId> {
    match entry {
        Entry::Input { out: value, .. } | Entry::Output { value, .. } => Some(*value),
        Entry::Instr(_) | Entry::Free(_) | Entry::Enter(_) | Entry::Exit(_) => None,
    }
}

/// The tape with an output for each value that remains at its end, and with these names.
pub fn whole(mut tape: Tape, names: &Names) -> Tape {
    let mut left: BTreeSet<ValueId> = tape.instrs().map(|instr| instr.out).collect();
    for entry in &tape.entries {
        if let Entry::Free(value) | Entry::Output { value, .. } = entry {
            left.remove(value);
        }
    }
    tape.entries.extend(left.into_iter().map(|value| Entry::Output { value, name: None }));
    for entry in &mut tape.entries {
        if let Entry::Input { out: value, name, .. } | Entry::Output { value, name } = entry {
            *name = names.get(value).cloned();
        }
    }
    renumbered(tape)
}

/// The same tape, with its values numbered in the order of their definitions.
fn renumbered(mut tape: Tape) -> Tape {
    let defined: Vec<ValueId> = tape.entries.iter().filter_map(Entry::defines).collect();
    let numbers: BTreeMap<ValueId, ValueId> = defined.into_iter().zip((0..).map(ValueId)).collect();
    let renumber = |value: &mut ValueId| *value = numbers.get(value).copied().unwrap_or(*value);
    for entry in &mut tape.entries {
        match entry {
            Entry::Instr(instr) => {
                renumber(&mut instr.out);
                instr.inputs.iter_mut().for_each(|operand| {
                    if let Operand::Value(value) = operand {
                        renumber(value);
                    }
                });
            }
            Entry::Input { out: value, .. } | Entry::Free(value) | Entry::Output { value, .. } => {
                renumber(value)
            }
            Entry::Enter(_) | Entry::Exit(_) => {}
        }
    }
    tape
}
