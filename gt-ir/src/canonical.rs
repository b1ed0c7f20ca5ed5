//! The canonical form of a segment: what stays the same when a program records it again.
//!
//! A session names its values by number, and the numbers of one iteration of a loop differ from
//! those of the next; so do its literals (a learning rate, a seed). The canonical form leaves both
//! out. Values are renumbered densely: first what comes from outside, in order of first use, then
//! what the segment defines, in order. Literals become slots: their kind stays, their values go.
//! What is left is a [`Template`] and its [`Key`]; what was taken out is a [`Bindings`].
//!
//! Guarantees: segments that do the same have the same key, in any process made with this op table:
//! the key covers ops with attributes (shapes, dtypes, names of dimensions), how operands are wired
//! (so that `[a, a]` is not `[a, b]`), kinds of literals, uploads' types, frees, outputs, signal
//! scopes, and the order of all these. [`expand`] gives back the segment, and nothing decoded from
//! bytes makes any function here panic.
//!
//! Does not: cover the types of values from outside (they are compared where values are bound),
//! source places or the names of inputs and outputs (a template keeps those of the segment it was
//! made from). The key is no defense against someone who searches for collisions: who shares
//! templates between parties compares them.

mod build;
mod canonicalizer;
mod explain;
mod fit;
mod key;
mod matching;
mod number;
mod wire;

use std::sync::Arc;

pub use build::{NotCanonical, canonical};
pub use canonicalizer::Canonicalizer;
pub use explain::{Difference, Part, explain};
pub use fit::{Unfit, expand};
pub use key::Key;
pub use matching::{Matcher, Mismatch, matches};

use crate::{
    dtype::DType,
    scalar::Scalar,
    tape::{Tape, ValueId},
};

/// A segment in canonical form. Made by [`canonical`] and [`Template::new`] only, which see to it
/// that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Template {
    /// The segment: values `%0..` are those from outside, then what it defines; literals are
    /// [placeholders](Scalar).
    pub tape: Arc<Tape>,
    /// What it goes by.
    pub key: Key,
    /// Number of values from outside.
    pub n_inputs: usize,
    /// Number of values it defines: uploads and results of instructions.
    pub n_defined: usize,
    /// What the literals are, in order of occurrence, each by the dtype it has on its own.
    pub slots: Vec<DType>,
    /// The slots of lower bounds; the slot after each is the upper bound, which must be larger.
    ranges: Vec<usize>,
}

/// What a template leaves out: the values and literals of one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bindings {
    /// The values from outside, in order of first use; all different.
    pub inputs: Vec<ValueId>,
    /// The values the segment defines, in order.
    pub defined: Defined,
    /// The literals, in order of occurrence.
    pub scalars: Vec<Scalar>,
}

/// The names of the values a segment defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Defined {
    /// Consecutive ones, which is what a recorder gives: the first, and how many.
    Run(ValueId, u64),
    /// Any others.
    List(Vec<ValueId>),
}

impl Defined {
    /// How many there are.
    pub const fn len(&self) -> usize {
        match self {
            Defined::Run(_, count) => *count as usize,
            Defined::List(list) => list.len(),
        }
    }

    /// Whether the list is empty.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The i-th of them.
    pub fn get(&self, i: usize) -> Option<ValueId> {
        match self {
            Defined::Run(first, count) => {
                let i = i as u64;
                (i < *count).then(|| first.0.checked_add(i)).flatten().map(ValueId)
            }
            Defined::List(list) => list.get(i).copied(),
        }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = ValueId> + '_ {
        (0..self.len()).map_while(|i| self.get(i))
    }
}

impl Default for Defined {
    fn default() -> Defined {
        Defined::Run(ValueId(0), 0)
    }
}

#[cfg(test)]
mod tests;
