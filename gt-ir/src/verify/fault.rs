//! The faults of a tape, and their diagnostics.

use std::fmt;

use crate::{
    diagnostic::Diagnostic, error::Hinted, intern::Loc, source_map::SourceMap, tape::ValueId,
};

/// The rule that an entry breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// A value that is not alive here; [`verify`](super::verify()) tells the next four apart.
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
    /// The mistake, in lower case and without a final stop.
    pub message: String,
    /// The cure, when one is known.
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

impl Fault {
    pub(super) fn new(entry: usize, kind: FaultKind, message: String) -> Fault {
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

    pub(super) fn value(self, value: ValueId) -> Fault {
        Fault { value: Some(value), ..self }
    }

    pub(super) fn loc(self, loc: Loc) -> Fault {
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

impl Hinted for Fault {
    fn message(&self) -> String {
        format!("entry {}: {}", self.entry, self.message)
    }

    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f)
    }
}
