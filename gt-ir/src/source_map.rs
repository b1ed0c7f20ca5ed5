//! The places of a tape's entries in a text, which turn a fault of an entry into carets under a
//! line.

use smallvec::SmallVec;

use crate::{diagnostic::Span, shape::Type};

/// The places of one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntrySpans {
    /// The entry, without blanks and comment around it.
    pub whole: Span,
    /// The value it defines.
    pub out: Option<Span>,
    /// What it does: the op with its operands, or the word and what follows it.
    pub call: Span,
    /// The operands of an instruction.
    pub operands: SmallVec<[Span; 3]>,
    /// The written type.
    pub ty: Option<Span>,
    /// The written type of an instruction, which is to be checked.
    pub declared: Option<Type>,
}

/// The places of a tape's entries in one text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceMap {
    pub(crate) entries: Vec<EntrySpans>,
}

impl SourceMap {
    /// The places of an entry, counted from the first one of the tape.
    pub fn entry(&self, at: usize) -> Option<&EntrySpans> {
        self.entries.get(at)
    }
}
