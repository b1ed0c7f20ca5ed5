//! A copy of what a session records, as a program of its own: what it uses of what was there before
//! becomes its inputs.
//!
//! Guarantees: the tape is well formed whenever the session's own is; its inputs stand first, in
//! the order of their first use. What was there before and is only freed does not occur.

use std::collections::BTreeMap;

use gt_ir::{Entry, Tape, Type, ValueId};

/// The copy so far.
pub(super) struct Trace {
    entries: Vec<Entry>,
    /// The first value that was defined since it began.
    first: ValueId,
    /// Types of values defined since, and of those before that were used.
    types: BTreeMap<ValueId, Type>,
    /// The latter, in the order of their first use.
    given: Vec<ValueId>,
}

impl Trace {
    /// A copy that begins before this value is defined.
    pub(super) fn from(first: ValueId) -> Trace {
        Trace { entries: Vec::new(), first, types: BTreeMap::new(), given: Vec::new() }
    }

    /// Keeps entries that were submitted.
    pub(super) fn keep(&mut self, entries: &[Entry]) {
        self.entries.extend(entries.iter().cloned());
    }

    /// Notes the type of a value that is defined or used.
    pub(super) fn note(&mut self, value: ValueId, ty: &Type) {
        if self.types.insert(value, *ty).is_none() && value < self.first {
            self.given.push(value);
        }
    }

    /// The type of a value, if it was noted.
    pub(super) fn ty(&self, value: ValueId) -> Option<Type> {
        self.types.get(&value).copied()
    }

    /// What was submitted, as it was.
    pub(super) fn into_submitted(self) -> Tape {
        Tape { entries: self.entries }
    }

    /// The program, up to these entries that are not submitted yet.
    pub(super) fn tape(&self, recent: &[Entry]) -> Tape {
        let input =
            |value: &ValueId| Some(Entry::Input { out: *value, ty: self.ty(*value)?, name: None });
        let known = |entry: &&Entry| match entry {
            Entry::Free(value) => *value >= self.first || self.types.contains_key(value),
            _ => true,
        };
        let recorded = self.entries.iter().chain(recent).filter(known).cloned();
        Tape { entries: self.given.iter().filter_map(input).chain(recorded).collect() }
    }
}
