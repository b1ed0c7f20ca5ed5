//! A system on paper: it takes what a program records, and runs nothing.

use anyhow::{Result, ensure};
use gt::ir::backend::{Backend, ErrorKind, RunError, Stats};
use gt::ir::{Entry, HostTensor, Tape, ValueId};
use gt::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The system.
pub(crate) struct Paper;

impl Backend for Paper {
    fn submit(&self, _segment: Tape) {}

    fn upload(&self, _value: ValueId, _data: HostTensor) {}

    fn fetch(&self, _value: ValueId) -> std::result::Result<HostTensor, RunError> {
        Err(RunError::new(ErrorKind::Resource, "nothing runs here"))
    }

    fn stats(&self) -> std::result::Result<Stats, RunError> {
        Ok(Stats::default())
    }

    fn close(&self) {}
}

/// The tape of a step as a complete program: the second step, because an optimizer's first step
/// makes the state that later steps update. State has one name before the step and after it. The
/// third step tells the two apart: it begins with what the second has left.
pub(crate) fn step(session: &Session, step: &mut dyn FnMut() -> Result<()>) -> Result<Tape> {
    step()?;
    let [mut second, third] = [traced(session, step)?, traced(session, step)?];
    let (before, after) = (inputs(&second), inputs(&third));
    ensure!(before.len() == after.len(), "two steps differ");
    let mut names = BTreeMap::new();
    for (n, (before, after)) in before.iter().zip(&after).enumerate() {
        let is_state = second.entries.iter().any(|entry| entry.defines() == Some(*after));
        if is_state {
            let name: Arc<str> = format!("state{n}").into();
            names.extend([(*before, Arc::clone(&name)), (*after, name)]);
        }
    }
    let outputs: BTreeSet<ValueId> = after.into_iter().filter(|v| names.contains_key(v)).collect();
    second.entries.retain(|entry| !matches!(entry, Entry::Output { .. }));
    let output = |value| Entry::Output { value, name: None };
    second.entries.extend(outputs.into_iter().map(output));
    for entry in &mut second.entries {
        if let Entry::Input { out: value, name, .. } | Entry::Output { value, name } = entry {
            *name = names.get(value).cloned();
        }
    }
    Ok(second)
}

fn traced(session: &Session, step: &mut dyn FnMut() -> Result<()>) -> Result<Tape> {
    session.start_trace();
    step()?;
    Ok(session.stop_trace())
}

/// The values that a tape begins with.
fn inputs(tape: &Tape) -> Vec<ValueId> {
    let value = |entry: &Entry| match entry {
        Entry::Input { out, .. } => Some(*out),
        Entry::Instr(_)
        | Entry::Free(_)
        | Entry::Enter(_)
        | Entry::Exit(_)
        | Entry::Output { .. } => None,
    };
    tape.entries.iter().filter_map(value).collect()
}
