//! The verifier: what makes a tape well formed, and everything that is wrong with one that is not.
//!
//! **Values.** Each is defined once, before its uses; uses and outputs come before its free; it is
//! freed at most once. **Types.** Each instruction has the arity of its op, and its rule
//! ([`infer`]) accepts the operands; a type written beside an instruction is the inferred one.
//! **Names.** A named dimension has one size throughout a tape. **Signals.** Scopes nest, close in
//! order, and are all closed at the end of a whole tape. **Limits.** Names and operand lists are no
//! longer than the [text](crate::text) and binary forms carry.
//!
//! A verified tape never makes the interpreter or an engine panic. It may still fail when run:
//! indices are data, and so is the memory at hand. A fault is always the producer's: the user's for
//! a tape file, the client's on the wire.
//!
//! [`Verifier`] checks entry by entry as they arrive and remembers live values only, so a session
//! of any length takes bounded memory. [`verify`] checks a whole tape, knows its future and its
//! past, and therefore says more.
//!
//! Not checked: whether a value is ever used, and where it lives.

mod fault;
mod ids;
mod whole;

use std::{collections::HashMap, sync::Arc};

pub use fault::{Fault, FaultKind};
pub use ids::IdHash;
use smallvec::SmallVec;
pub use whole::{verify, verify_declared};

use crate::{
    intern::{DimName, Loc},
    op::{Arity, Operand, OperandType, infer},
    shape::Type,
    tape::{Entry, Instr, MAX_OPERANDS, MAX_STRING, ValueId},
};

/// The most values alive at once.
pub const MAX_LIVE: usize = 1 << 24;
/// The deepest nesting of signal scopes.
pub const MAX_SCOPES: usize = 1 << 10;
/// The most faults [`verify`] reports.
pub const MAX_FAULTS: usize = 100;

/// A tape without faults: the types of its values.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    types: HashMap<u64, Type, IdHash>,
}

impl Verified {
    /// The type of a value of the tape.
    pub fn ty(&self, value: ValueId) -> Option<Type> {
        self.types.get(&value.0).copied()
    }
}

/// Checks a session's entries as they come, remembering the types of live values.
///
/// ```
/// use gt_ir::{text, verify::Verifier};
/// let text = "gt tape 1\n%0 = input : f32[2,3]\n%1 = sum[1] %0\nfree %0\n";
/// let (tape, _) = text::parse(text).unwrap();
/// let mut verifier = Verifier::new();
/// let types: Vec<_> = tape.entries.iter().map(|e| verifier.entry(e).unwrap()).collect();
/// assert_eq!(types[1].unwrap().to_string(), "f32[2]");
/// assert_eq!(verifier.n_live(), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Verifier {
    /// Absent type: the instruction that should have defined it was faulty.
    live: HashMap<u64, Option<Type>, IdHash>,
    scopes: Vec<Arc<str>>,
    seen: usize,
}

impl Verifier {
    /// A verifier that has seen nothing.
    pub fn new() -> Verifier {
        Verifier::default()
    }

    /// Checks the next entry and gives the type of the value it defines. There is none when it
    /// defines no value, and when it computes from a value whose own definition was faulty: that
    /// fault was reported and is not repeated.
    ///
    /// # Errors
    /// The first fault of the entry. A value it defines is then alive without a type, so that one
    /// fault stays one.
    pub fn entry(&mut self, entry: &Entry) -> Result<Option<Type>, Fault> {
        let mut first = None;
        let ty = self.check(entry, None, &mut |fault| {
            first.get_or_insert(fault);
        });
        first.map_or(Ok(ty), Err)
    }

    /// Takes the effect of a segment that was verified before, entry by entry, with inputs of the
    /// same types: what it freed of them is gone, and what it made and kept is alive. The caller
    /// vouches that the values made are fresh and few enough.
    pub fn replay(
        &mut self,
        freed: impl IntoIterator<Item = ValueId>,
        made: impl IntoIterator<Item = (ValueId, Type)>,
    ) {
        for value in freed {
            self.live.remove(&value.0);
        }
        self.live.extend(made.into_iter().map(|(value, ty)| (value.0, Some(ty))));
    }

    /// The type of a live value; `None` when it is not alive or has none.
    pub fn ty(&self, value: ValueId) -> Option<Type> {
        self.live.get(&value.0).copied().flatten()
    }

    /// As [`Verifier::ty`], where it lies.
    pub fn ty_of(&self, value: ValueId) -> Option<&Type> {
        self.live.get(&value.0)?.as_ref()
    }

    /// Whether a value is alive, with or without a type.
    pub fn is_live(&self, value: ValueId) -> bool {
        self.live.contains_key(&value.0)
    }

    /// Number of live values.
    pub fn n_live(&self) -> usize {
        self.live.len()
    }

    /// The live values, in order of their ids.
    pub fn live(&self) -> Vec<ValueId> {
        let mut live: Vec<ValueId> = self.live.keys().copied().map(ValueId).collect();
        live.sort_unstable();
        live
    }

    /// Number of entries seen.
    pub fn n_seen(&self) -> usize {
        self.seen
    }

    /// The signal scopes that are open, outermost first.
    pub fn scopes(&self) -> &[Arc<str>] {
        &self.scopes
    }

    /// As [`Verifier::entry`], with all faults, and with the type written beside an instruction.
    fn check(
        &mut self,
        entry: &Entry,
        declared: Option<Type>,
        report: &mut dyn FnMut(Fault),
    ) -> Option<Type> {
        let at = self.seen;
        self.seen += 1;
        if let Some(name) = entry.name().filter(|name| name.len() > MAX_STRING) {
            let message =
                format!("a name of {} bytes is above the limit of {MAX_STRING}", name.len());
            report(Fault::new(at, FaultKind::Limit, message));
        }
        match entry {
            Entry::Input { out, ty, name: _ } => {
                self.define(at, *out, Some(*ty), Loc::NONE, report);
                Some(*ty)
            }
            Entry::Instr(instr) => {
                let ty = self.instr(at, instr, declared, report);
                self.define(at, instr.out, ty, instr.loc, report);
                ty
            }
            Entry::Free(value) => {
                if self.live.remove(&value.0).is_none() {
                    report(
                        Fault::new(
                            at,
                            FaultKind::NotLive,
                            format!("free of {value}, which is not alive"),
                        )
                        .value(*value),
                    );
                }
                None
            }
            Entry::Enter(name) => {
                if self.scopes.len() >= MAX_SCOPES {
                    report(Fault::new(
                        at,
                        FaultKind::Limit,
                        format!("signal scopes nest deeper than {MAX_SCOPES}"),
                    ));
                } else {
                    self.scopes.push(Arc::clone(name));
                }
                None
            }
            Entry::Exit(name) => {
                self.exit(at, name, report);
                None
            }
            Entry::Output { value, name: _ } => {
                if !self.is_live(*value) {
                    report(not_live(at, *value, "output", Loc::NONE));
                }
                None
            }
        }
    }

    /// Notes the value an entry defines, unless it is defined already.
    fn define(
        &mut self,
        at: usize,
        value: ValueId,
        ty: Option<Type>,
        loc: Loc,
        report: &mut dyn FnMut(Fault),
    ) {
        if self.live.len() >= MAX_LIVE {
            report(
                Fault::new(at, FaultKind::Limit, format!("more than {MAX_LIVE} values are alive"))
                    .loc(loc),
            );
            return;
        }
        if self.live.insert(value.0, ty).is_some() {
            let message = format!("second definition of {value}");
            report(Fault::new(at, FaultKind::Redefinition, message).value(value).loc(loc));
        }
    }

    /// The type of the result of an instruction, by the op's rule. Where there is none, the written
    /// type serves, so that the entries after a mistake are still checked.
    fn instr(
        &self,
        at: usize,
        instr: &Instr,
        declared: Option<Type>,
        report: &mut dyn FnMut(Fault),
    ) -> Option<Type> {
        if instr.inputs.len() > MAX_OPERANDS {
            let message = format!("{}: more than {MAX_OPERANDS} operands", instr.op.name());
            report(Fault::new(at, FaultKind::Limit, message).loc(instr.loc));
            return declared;
        }
        let mut types: SmallVec<[OperandType; 3]> = SmallVec::new();
        for (i, operand) in instr.inputs.iter().enumerate() {
            match operand {
                Operand::Scalar(scalar) => types.push(OperandType::Scalar(*scalar)),
                Operand::Value(value) => match self.live.get(&value.0) {
                    Some(Some(ty)) => types.push(OperandType::Tensor(*ty)),
                    Some(None) => {}
                    None => report(Fault {
                        operand: Some(i),
                        ..not_live(at, *value, instr.op.name(), instr.loc)
                    }),
                },
            }
        }
        if types.len() < instr.inputs.len() {
            return declared;
        }
        match (infer(&instr.op, &types), declared) {
            (Ok(inferred), Some(declared)) if !agrees(&declared, &inferred) => {
                let message = format!(
                    "{}: the result is {inferred}, not {declared} as written",
                    instr.op.name()
                );
                report(
                    Fault::new(at, FaultKind::Declared, message).value(instr.out).loc(instr.loc),
                );
                Some(inferred)
            }
            (Ok(inferred), _) => Some(inferred),
            (Err(error), declared) => {
                let fits = match instr.op.spec().arity {
                    Arity::Exactly(n) => instr.inputs.len() == n,
                    Arity::Between(low, high) => (low..=high).contains(&instr.inputs.len()),
                    Arity::Variadic => !instr.inputs.is_empty(),
                };
                let kind = if fits { FaultKind::Type } else { FaultKind::Arity };
                let name = instr.op.name();
                let named = error.message.starts_with(name);
                let message =
                    if named { error.message } else { format!("{name}: {}", error.message) };
                report(Fault { hint: error.hint, ..Fault::new(at, kind, message).loc(instr.loc) });
                declared
            }
        }
    }

    /// Closes a scope, which must be the innermost.
    fn exit(&mut self, at: usize, name: &Arc<str>, report: &mut dyn FnMut(Fault)) {
        match self.scopes.iter().rposition(|open| open == name) {
            Some(depth) if depth + 1 == self.scopes.len() => {}
            Some(_) => {
                let inner = self.scopes.last().map_or("", |s| s.as_ref());
                let message = format!("exit of signal {name:?} while {inner:?} inside it is open");
                report(Fault {
                    hint: Some(format!("exit {inner:?} first")),
                    ..Fault::new(at, FaultKind::Signal, message)
                });
            }
            None => report(Fault::new(
                at,
                FaultKind::Signal,
                format!("exit of signal {name:?}, which is not open"),
            )),
        }
        if let Some(depth) = self.scopes.iter().rposition(|open| open == name) {
            self.scopes.truncate(depth);
        }
    }
}

/// A written type may leave names out, since they are inferred.
fn agrees(declared: &Type, inferred: &Type) -> bool {
    let names = || declared.shape.dims().zip(inferred.shape.dims());
    declared.same_layout(inferred)
        && names().all(|(d, i)| d.name == DimName::NONE || d.name == i.name)
}

/// The fault of a use: this verifier has forgotten whether the value ever existed.
fn not_live(at: usize, value: ValueId, user: &str, loc: Loc) -> Fault {
    let message = format!("{user}: {value} is not alive");
    let hint = "it was freed, or never defined".to_owned();
    Fault { hint: Some(hint), ..Fault::new(at, FaultKind::NotLive, message).value(value).loc(loc) }
}
