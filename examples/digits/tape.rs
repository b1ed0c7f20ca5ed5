//! The tape of one training step as a program of its own: what exists before the step becomes its inputs.

use super::data::Digits;
use super::model::{self, Mlp};
use gt::ir::verify::Verifier;
use gt::ir::{Entry, Operand, Tape, ValueId};
use gt::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What values are called.
pub type Names = BTreeMap<ValueId, Arc<str>>;

/// The second step on a new model: by then the optimizer's momentum is there. What has a name in the program has it on the tape.
pub fn of_a_step(session: &Session, config: SgdConfig, batch: &Digits) -> Result<Tape> {
    session.start_trace();
    let net = Mlp::new();
    let mut optimizer = Sgd::new(net.parameters(), config);
    model::step(&net, &mut optimizer, batch.pick(&positions(batch)))?;
    let before = session.stop_trace();
    let inputs = names(&net);
    session.start_trace();
    model::step(&net, &mut optimizer, batch.pick(&positions(batch)))?.item()?;
    let mut tape = session.stop_trace();
    let uploads = tape
        .entries
        .iter_mut()
        .filter_map(|e| if let Entry::Input { name, .. } = e { Some(name) } else { None });
    uploads.zip(["images", "labels"]).for_each(|(name, word)| *name = Some(word.into()));
    let reads = tape
        .entries
        .iter_mut()
        .filter_map(|e| if let Entry::Output { name, .. } = e { Some(name) } else { None });
    reads.zip(["loss"]).for_each(|(name, word)| *name = Some(word.into()));
    Ok(standalone(&before, tape, &inputs, &names(&net)))
}

/// What the values of the parameters are called.
fn names(net: &Mlp) -> Names {
    let named = net.named_parameters().into_iter();
    named.filter_map(|(name, tensor)| Some((tensor.value_id()?, Arc::from(name)))).collect()
}

fn positions(batch: &Digits) -> Vec<usize> {
    (0..batch.len()).collect()
}

/// The tape as a program of its own: what it uses of what was made `before` it becomes its inputs, what it leaves alive its outputs.
pub fn standalone(before: &Tape, tape: Tape, inputs: &Names, outputs: &Names) -> Tape {
    let mut verifier = Verifier::new();
    before.entries.iter().for_each(|entry| drop(verifier.entry(entry)));
    let defined: BTreeSet<ValueId> = tape.entries.iter().filter_map(Entry::defines).collect();
    let used: BTreeSet<ValueId> =
        tape.entries.iter().flat_map(uses).filter(|value| !defined.contains(value)).collect();
    let given = used.into_iter().filter_map(|out| {
        Some(Entry::Input { out, ty: verifier.ty(out)?, name: inputs.get(&out).cloned() })
    });
    let mut left = defined;
    for entry in &tape.entries {
        if let Entry::Free(value) | Entry::Output { value, .. } = entry {
            left.remove(value);
        }
    }
    let left =
        left.into_iter().map(|value| Entry::Output { value, name: outputs.get(&value).cloned() });
    let entries = given.collect::<Vec<_>>().into_iter().chain(tape.entries).chain(left).collect();
    renumbered(Tape { entries })
}

/// The same tape with its values numbered in the order they are defined.
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

fn uses(entry: &Entry) -> Vec<ValueId> {
    match entry {
        Entry::Instr(instr) => {
            let values = instr.inputs.iter().filter_map(|operand| {
                if let Operand::Value(v) = operand { Some(*v) } else { None }
            });
            values.collect()
        }
        Entry::Free(value) | Entry::Output { value, .. } => vec![*value],
        Entry::Input { .. } | Entry::Enter(_) | Entry::Exit(_) => vec![],
    }
}
