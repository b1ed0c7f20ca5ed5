//! The tape of one training step as a program of its own: what exists before the step becomes its inputs.

use crate::data::Digits;
use crate::model::{self, Mlp};
use gt::ir::verify::Verifier;
use gt::ir::{Entry, Operand, Tape, ValueId};
use gt::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The second step on a new model: by then the optimizer's momentum is there. Parameters, images and labels have their names.
pub fn of_a_step(session: &Session, config: SgdConfig, batch: &Digits) -> Result<Tape> {
    session.start_trace();
    let net = Mlp::new();
    let mut optimizer = Sgd::new(net.parameters(), config);
    model::step(&net, &mut optimizer, batch.pick(&positions(batch)))?;
    let before = session.stop_trace();
    let names = net.named_parameters().into_iter().filter_map(|(name, tensor)| Some((tensor.value_id()?, name)));
    let names: BTreeMap<ValueId, String> = names.collect();
    session.start_trace();
    model::step(&net, &mut optimizer, batch.pick(&positions(batch)))?.item()?;
    Ok(standalone(&before, session.stop_trace(), &names))
}

fn positions(batch: &Digits) -> Vec<usize> {
    (0..batch.len()).collect()
}

/// The tape with an input for each value that it uses and that was made `before` it.
pub fn standalone(before: &Tape, mut tape: Tape, names: &BTreeMap<ValueId, String>) -> Tape {
    let mut verifier = Verifier::new();
    before.entries.iter().for_each(|entry| drop(verifier.entry(entry)));
    let defined: BTreeSet<ValueId> = tape.entries.iter().filter_map(Entry::defines).collect();
    let used: BTreeSet<ValueId> = tape.entries.iter().flat_map(uses).filter(|value| !defined.contains(value)).collect();
    let inputs = used.into_iter().filter_map(|out| {
        let name = names.get(&out).map(|name| Arc::from(name.as_str()));
        Some(Entry::Input { out, ty: verifier.ty(out)?, name })
    });
    let inputs: Vec<Entry> = inputs.collect();
    tape.entries.splice(0..0, inputs);
    tape
}

fn uses(entry: &Entry) -> Vec<ValueId> {
    match entry {
        Entry::Instr(instr) => {
            let values = instr.inputs.iter().filter_map(|operand| if let Operand::Value(v) = operand { Some(*v) } else { None });
            values.collect()
        }
        Entry::Free(value) | Entry::Output { value, .. } => vec![*value],
        Entry::Input { .. } | Entry::Enter(_) | Entry::Exit(_) => vec![],
    }
}
