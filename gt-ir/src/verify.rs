//! The verifier: what makes a tape well formed, and everything that is wrong with one that is not.
//!
//! **Values.** Each is defined once, before its uses; uses and outputs come before its free; it is freed at most once.
//! **Types.** Each instruction has the arity of its op, and its rule ([`infer`]) accepts the operands; a type written
//! beside an instruction is the inferred one. **Names.** A named dimension has one size throughout a tape.
//! **Signals.** Scopes nest, close in order, and are all closed at the end of a whole tape.
//!
//! A verified tape never makes the interpreter or an engine panic. It may still fail when run: indices are data, and so
//! is the memory at hand. A fault is always the producer's: the user's for a tape file, the client's on the wire.
//!
//! [`Verifier`] checks entry by entry as they arrive and remembers live values only, so a session of any length takes
//! bounded memory. [`verify`] checks a whole tape, knows its future and its past, and therefore says more.
//!
//! Not checked: whether a value is ever used, and where it lives.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher, Hasher, RandomState},
    sync::{Arc, LazyLock},
};

use smallvec::SmallVec;

use crate::{
    diagnostic::Diagnostic,
    intern::{DimName, Loc},
    op::{Arity, Operand, OperandType, infer},
    shape::Type,
    tape::{Entry, Instr, Tape, ValueId},
    text::SourceMap,
};

/// The most values alive at once.
pub const MAX_LIVE: usize = 1 << 24;
/// The deepest nesting of signal scopes.
pub const MAX_SCOPES: usize = 1 << 10;
/// The most faults [`verify`] reports.
pub const MAX_FAULTS: usize = 100;

/// What kind of rule an entry breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// A value that is not alive here; [`verify`] tells the next four apart.
    NotLive,
    /// A value that no entry defines.
    Unknown,
    /// A value defined only later.
    BeforeDefinition,
    /// A value that needs itself.
    Cycle,
    /// A value that was freed before.
    UseAfterFree,
    /// A second free of a value.
    DoubleFree,
    /// A second definition of a value.
    Redefinition,
    /// Too many or too few operands.
    Arity,
    /// Shapes, dtypes or attributes that do not fit.
    Type,
    /// A written type that is not the inferred one.
    Declared,
    /// A named dimension with two sizes.
    DimSize,
    /// A signal scope closed out of order, or never.
    Signal,
    /// A limit of this module.
    Limit,
}

/// One thing wrong with a tape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The entry, counted from the first one seen.
    pub entry: usize,
    /// Which rule it breaks.
    pub kind: FaultKind,
    /// What is wrong, in lower case without a final stop.
    pub message: String,
    /// What would mend it, when that is known.
    pub hint: Option<String>,
    /// The operand meant, when it is one of several.
    pub operand: Option<usize>,
    /// The value meant, when it is one.
    pub value: Option<ValueId>,
    /// Another entry that explains it, and what it is (`freed here`).
    pub related: Option<(usize, &'static str)>,
    /// Where the user wrote the entry.
    pub loc: Loc,
}

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

    /// Checks the next entry and gives the type of the value it defines. There is none when it defines no value, and
    /// when it computes from a value whose own definition was faulty: that fault was reported and is not repeated.
    ///
    /// # Errors
    /// The first fault of the entry. A value it defines is then alive without a type, so that one fault stays one.
    pub fn entry(&mut self, entry: &Entry) -> Result<Option<Type>, Fault> {
        let mut first = None;
        let ty = self.check(entry, None, &mut |fault| {
            first.get_or_insert(fault);
        });
        first.map_or(Ok(ty), Err)
    }

    /// The type of a live value; `None` when it is not alive or has none.
    pub fn ty(&self, value: ValueId) -> Option<Type> {
        self.live.get(&value.0).copied().flatten()
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

    fn instr(
        &self,
        at: usize,
        instr: &Instr,
        declared: Option<Type>,
        report: &mut dyn FnMut(Fault),
    ) -> Option<Type> {
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

/// Checks a whole tape.
///
/// # Errors
/// All its faults, in order, [`MAX_FAULTS`] at most.
pub fn verify(tape: &Tape) -> Result<Verified, Vec<Fault>> {
    verify_declared(tape, |_| None)
}

/// As [`verify`], with the types written beside instructions: `declared` has them by entry.
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
    /// The first size of each named dimension, and the entry that has it; later sizes are reported once each.
    dims: BTreeMap<DimName, (usize, usize)>,
    dims_reported: Vec<(DimName, usize)>,
    types: Verified,
    faults: Vec<Fault>,
}

impl<'a> Whole<'a> {
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

    /// Whether the value defined by entry `from` is computed, directly or not, from the value defined by entry `to`.
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

fn not_live(at: usize, value: ValueId, user: &str, loc: Loc) -> Fault {
    let message = format!("{user}: {value} is not alive");
    let hint = "it was freed, or never defined".to_owned();
    Fault { hint: Some(hint), ..Fault::new(at, FaultKind::NotLive, message).value(value).loc(loc) }
}

impl Fault {
    fn new(entry: usize, kind: FaultKind, message: String) -> Fault {
        Fault {
            entry,
            kind,
            message,
            hint: None,
            operand: None,
            value: None,
            related: None,
            loc: Loc::NONE,
        }
    }

    fn value(self, value: ValueId) -> Fault {
        Fault { value: Some(value), ..self }
    }

    fn loc(self, loc: Loc) -> Fault {
        Fault { loc, ..self }
    }

    /// The fault as a diagnostic over the text that `map` belongs to.
    pub fn diagnostic(&self, map: &SourceMap) -> Diagnostic {
        let mut diagnostic = Diagnostic::whole(self.message.as_str());
        diagnostic.hint.clone_from(&self.hint);
        diagnostic.span = map.entry(self.entry).map(|spans| match (self.kind, self.operand) {
            (_, Some(i)) => spans.operands.get(i).unwrap_or(&spans.call).clone(),
            (FaultKind::Redefinition, None) => spans.out.as_ref().unwrap_or(&spans.whole).clone(),
            (FaultKind::Declared | FaultKind::DimSize, None) => {
                spans.ty.as_ref().unwrap_or(&spans.call).clone()
            }
            (_, None) => spans.call.clone(),
        });
        if let Some((entry, label)) = self.related
            && let Some(spans) = map.entry(entry)
        {
            diagnostic.related.push((spans.whole.clone(), label.to_owned()));
        }
        if self.loc != Loc::NONE {
            diagnostic.notes.push(format!("recorded at {}", self.loc));
        }
        diagnostic
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "entry {}: {}", self.entry, self.message)?;
        self.hint.iter().try_for_each(|hint| write!(f, "\nhint: {hint}"))
    }
}

/// Hashes value numbers by one wide multiplication under a key drawn once a process, so that a peer cannot choose
/// numbers that collide.
#[derive(Clone, Copy)]
struct IdHash(u64);

impl Default for IdHash {
    fn default() -> IdHash {
        static KEY: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0_u64));
        IdHash(*KEY)
    }
}

impl BuildHasher for IdHash {
    type Hasher = IdHasher;

    fn build_hasher(&self) -> IdHasher {
        IdHasher(self.0)
    }
}

struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }

    fn write_u64(&mut self, id: u64) {
        let wide = u128::from(self.0 ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }
}
