//! The tape: what a client records and everything downstream starts from.
//!
//! Guarantees, once verified: every value is assigned once, before its uses, and freed at most
//! once, after them; signal scopes nest. A tape is a sequence, so it holds no cycles. It does not
//! say where or how anything runs.

use std::sync::Arc;

use smallvec::SmallVec;

pub use crate::operand::{MAX_OPERANDS, ValueId};
use crate::{
    intern::Loc,
    op::{Op, Operand},
    shape::Type,
};

/// The most entries of a tape that is read, as text or as bytes.
pub const MAX_ENTRIES: usize = 1 << 20;
/// The longest name of a value or of a signal, in bytes.
pub const MAX_STRING: usize = 1 << 10;

/// The operands of an instruction; three fit without allocating.
pub type Operands = SmallVec<[Operand; 3]>;

/// One pure instruction: `%5 = matmul %3, %4`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Instr {
    /// The value it defines.
    pub out: ValueId,
    /// The op that is applied.
    pub op: Op,
    /// The operands, in order.
    pub inputs: Operands,
    /// Where the user wrote it.
    pub loc: Loc,
}

/// One line of a tape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// A value given from outside: uploaded data, or a named input of a tape file.
    Input {
        /// The value it defines.
        out: ValueId,
        /// Its type.
        ty: Type,
        /// Its name in a tape file.
        name: Option<Arc<str>>,
    },
    /// An instruction.
    Instr(Instr),
    /// The last handle to a value is gone: nothing later uses it, and its memory may be reused.
    Free(ValueId),
    /// The beginning of a named signal scope.
    Enter(Arc<str>),
    /// The end of the innermost signal scope, which must be the one named.
    Exit(Arc<str>),
    /// A value read by the user: a boundary between segments.
    Output {
        /// The value read.
        value: ValueId,
        /// Its name in a tape file.
        name: Option<Arc<str>>,
    },
}

/// A recorded sequence of entries: a whole program, or one segment of a session. Its serde form is
/// in [`binary`](crate::binary).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tape {
    /// The entries in the order they were recorded.
    pub entries: Vec<Entry>,
}

impl Tape {
    /// The instructions, in order.
    pub fn instrs(&self) -> impl Iterator<Item = &Instr> {
        self.entries.iter().filter_map(|e| match e {
            Entry::Instr(i) => Some(i),
            Entry::Input { .. }
            | Entry::Free(_)
            | Entry::Enter(_)
            | Entry::Exit(_)
            | Entry::Output { .. } => None,
        })
    }
}

impl Entry {
    /// The name it gives to a value or a signal scope, if any.
    pub fn name(&self) -> Option<&str> {
        match self {
            Entry::Input { name, .. } | Entry::Output { name, .. } => name.as_deref(),
            Entry::Enter(name) | Entry::Exit(name) => Some(name),
            Entry::Instr(_) | Entry::Free(_) => None,
        }
    }

    /// The value this entry defines, if any.
    pub fn defines(&self) -> Option<ValueId> {
        match self {
            Entry::Input { out, .. } => Some(*out),
            Entry::Instr(i) => Some(i.out),
            Entry::Free(_) | Entry::Enter(_) | Entry::Exit(_) | Entry::Output { .. } => None,
        }
    }
}
