//! A whole tape under check: what only its future and its past can tell.
//!
//! The incremental verifier says that a value is not alive. With the whole tape at hand, this file
//! says why: the value was freed, is defined later, depends on itself, or has no definition. Each
//! of these has a kind and a hint of its own, because each is mended in another way.

use std::collections::BTreeMap;

use super::{Fault, FaultKind, MAX_FAULTS, Verified, Verifier};
use crate::{
    intern::DimName,
    op::Operand,
    shape::Type,
    tape::{Entry, Tape, ValueId},
};

/// Checks a whole tape.
///
/// ```
/// use gt_ir::{text, verify::{FaultKind, verify}};
/// let text = "gt tape 1\n%0 = input : f32[2]\nfree %0\n%1 = exp %0\noutput %1\n";
/// let (tape, _) = text::parse(text).unwrap();
/// let faults = verify(&tape).unwrap_err();
/// assert_eq!(faults[0].kind, FaultKind::UseAfterFree);
/// assert_eq!(faults[0].related, Some((1, "freed here")));
/// ```
///
/// # Errors
/// All its faults, in order, [`MAX_FAULTS`] at most.
pub fn verify(tape: &Tape) -> Result<Verified, Vec<Fault>> {
    verify_declared(tape, |_| None)
}

/// As [`verify`], with the types written beside instructions: `declared` has them by entry.
///
/// An engine never sees a written type. It is checked because a reader of the text relies on it.
///
/// # Errors
/// As [`verify`].
pub fn verify_declared(
    tape: &Tape,
    declared: impl Fn(usize) -> Option<Type>,
) -> Result<Verified, Vec<Fault>> {
    let mut whole = Whole::new(tape);
    for (at, entry) in tape.entries.iter().enumerate() {
        whole.entry(at, entry, declared(at));
        if whole.faults.len() >= MAX_FAULTS {
            break;
        }
    }
    whole.finish()
}

/// A whole tape under check: the incremental verifier, and what it cannot know.
struct Whole<'a> {
    tape: &'a Tape,
    verifier: Verifier,
    /// The first definition of each value, past or future.
    defined_at: BTreeMap<ValueId, usize>,
    freed_at: BTreeMap<ValueId, usize>,
    opened_at: Vec<usize>,
    /// The first size of each named dimension, and the entry that has it; later sizes are reported
    /// once each.
    dims: BTreeMap<DimName, (usize, usize)>,
    dims_reported: Vec<(DimName, usize)>,
    types: Verified,
    faults: Vec<Fault>,
}

impl<'a> Whole<'a> {
    /// Notes where each value is defined, before any entry is checked: a use may come before its
    /// definition, and the message then points at both.
    fn new(tape: &'a Tape) -> Whole<'a> {
        let mut defined_at = BTreeMap::new();
        for (at, entry) in tape.entries.iter().enumerate() {
            if let Some(value) = entry.defines() {
                defined_at.entry(value).or_insert(at);
            }
        }
        Whole {
            tape,
            verifier: Verifier::new(),
            defined_at,
            freed_at: BTreeMap::new(),
            opened_at: Vec::new(),
            dims: BTreeMap::new(),
            dims_reported: Vec::new(),
            types: Verified::default(),
            faults: Vec::new(),
        }
    }

    /// Checks the next entry, and notes what later messages point at. A value that was freed may
    /// not be defined again, although the incremental verifier, which has forgotten it, would
    /// accept it.
    fn entry(&mut self, at: usize, entry: &Entry, declared: Option<Type>) {
        let mut found = Vec::new();
        let ty = self.verifier.check(entry, declared, &mut |fault| found.push(fault));
        let redefined = found.iter().any(|fault| fault.kind == FaultKind::Redefinition);
        found.into_iter().for_each(|fault| {
            let fault = self.explain(fault);
            self.faults.push(fault);
        });
        if let Some(value) = entry.defines() {
            if !redefined && self.defined_at.get(&value).is_some_and(|first| *first < at) {
                let fault = Fault::new(
                    at,
                    FaultKind::Redefinition,
                    format!("second definition of {value}"),
                )
                .value(value);
                let fault = self.explain(fault);
                self.faults.push(fault);
            }
            if let Some(ty) = ty {
                self.types.types.insert(value.0, ty);
                self.dims(at, &ty);
            }
        }
        match entry {
            Entry::Free(value) => {
                self.freed_at.entry(*value).or_insert(at);
            }
            Entry::Enter(_) => self.opened_at.push(at),
            Entry::Exit(_) => self.opened_at.truncate(self.verifier.scopes.len()),
            Entry::Input { .. } | Entry::Instr(_) | Entry::Output { .. } => {}
        }
    }

    /// Says why a value is not alive, and points at the entry that made it so.
    fn explain(&self, fault: Fault) -> Fault {
        let Some(value) = fault.value else { return fault };
        let defined = self.defined_at.get(&value).copied();
        match (fault.kind, self.freed_at.get(&value), defined) {
            (FaultKind::Redefinition, _, Some(first)) => Fault {
                related: Some((first, "first defined here")),
                hint: Some("give it a number that no other value has".into()),
                ..fault
            },
            (FaultKind::NotLive, Some(freed), _) => {
                let is_free = matches!(self.tape.entries.get(fault.entry), Some(Entry::Free(_)));
                let (kind, message) = if is_free {
                    (FaultKind::DoubleFree, format!("second free of {value}"))
                } else {
                    (FaultKind::UseAfterFree, format!("use of {value} after it was freed"))
                };
                Fault { kind, message, related: Some((*freed, "freed here")), hint: None, ..fault }
            }
            (FaultKind::NotLive, None, Some(later)) if self.needs(later, fault.entry) => Fault {
                kind: FaultKind::Cycle,
                message: format!("cycle: {value} depends on itself"),
                related: (later != fault.entry)
                    .then_some((later, "which is computed from this one here")),
                hint: None,
                ..fault
            },
            (FaultKind::NotLive, None, Some(later)) => Fault {
                kind: FaultKind::BeforeDefinition,
                message: format!("use of {value} before its definition"),
                related: Some((later, "defined here")),
                hint: Some("entries run in order: move the definition up".into()),
                ..fault
            },
            (FaultKind::NotLive, None, None) => Fault {
                kind: FaultKind::Unknown,
                message: format!("unknown value {value}"),
                hint: Some("no entry defines it".into()),
                ..fault
            },
            _ => fault,
        }
    }

    /// Whether the value defined by entry `from` is computed, directly or not, from the value
    /// defined by entry `to`.
    ///
    /// An explicit stack and a mark for each entry: a chain of a million instructions neither
    /// overflows the stack nor is walked twice.
    fn needs(&self, from: usize, to: usize) -> bool {
        let mut visited = vec![false; self.tape.entries.len()];
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            if at == to {
                return true;
            }
            if std::mem::replace(&mut visited[at], true) {
                continue;
            }
            if let Some(Entry::Instr(instr)) = self.tape.entries.get(at) {
                let values = instr.inputs.iter().filter_map(|operand| match operand {
                    Operand::Value(value) => self.defined_at.get(value),
                    Operand::Scalar(_) => None,
                });
                open.extend(values);
            }
        }
        false
    }

    /// Checks that the named dimensions of a type have the sizes that they had before. A name with
    /// `n` sizes gives `n - 1` faults, however often each size occurs.
    fn dims(&mut self, at: usize, ty: &Type) {
        for dim in ty.shape.dims().filter(|dim| dim.name.is_named()) {
            let (size, first) = *self.dims.entry(dim.name).or_insert((dim.size, at));
            if size == dim.size || self.dims_reported.contains(&(dim.name, dim.size)) {
                continue;
            }
            self.dims_reported.push((dim.name, dim.size));
            let message = format!("dimension {} is {} here and {size} before", dim.name, dim.size);
            let hint = Some(
                "a named dimension has one size throughout a tape; write `?` for one that varies"
                    .into(),
            );
            let fault = Fault::new(at, FaultKind::DimSize, message);
            self.faults.push(Fault { hint, related: Some((first, "first sized here")), ..fault });
        }
    }

    /// The types of the values, or the faults. A scope that is never exited is a fault of the entry
    /// that opened it, since the end of a tape has no entry to point at.
    fn finish(mut self) -> Result<Verified, Vec<Fault>> {
        if self.faults.len() < MAX_FAULTS {
            for (at, name) in self.opened_at.iter().zip(&self.verifier.scopes) {
                let fault =
                    Fault::new(*at, FaultKind::Signal, format!("signal {name:?} is never exited"));
                self.faults.push(Fault { hint: Some(format!("add `exit {name:?}`")), ..fault });
            }
        }
        self.faults.truncate(MAX_FAULTS);
        if self.faults.is_empty() { Ok(self.types) } else { Err(self.faults) }
    }
}
