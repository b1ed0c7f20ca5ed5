//! The language of the e-graph: one kind of e-node serves every op, so that a new op changes
//! nothing here.
//!
//! An e-node is the number of a signature (op and type) and its children. Signatures are interned,
//! so that e-nodes stay small and a comparison compares numbers. A value that is one number
//! everywhere is a leaf of the full type: the broadcast of a scalar is not an op here.

use egg::{Id, Language};
use gt_ir::{Op, OpKind, Scalar, Type};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A value that is the same number everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Uniform {
    /// A scalar given at run time, by its number in the block.
    Slot(u32),
    /// A constant of an op's definition.
    Const(Scalar),
}

/// The value of a signature, apart from its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    /// A value made outside of the block, by its number there.
    External(u32),
    /// One number everywhere.
    Uniform(Uniform),
    /// A primitive.
    Op(Op),
}

/// An op, number or outer value, and its type without names of dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sig {
    pub(crate) what: What,
    pub(crate) ty: Type,
}

/// The number of an interned [`Sig`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SigId(u32);

impl SigId {
    /// The number.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }
}

/// Interned signatures.
#[derive(Default, Debug)]
pub(crate) struct Signatures {
    list: Vec<Sig>,
    /// Looked up only, never iterated over.
    known: FxHashMap<Sig, SigId>,
}

impl Signatures {
    pub(crate) fn intern(&mut self, sig: Sig) -> SigId {
        let next = SigId(self.list.len() as u32);
        let id = *self.known.entry(sig).or_insert(next);
        if id == next {
            self.list.push(sig);
        }
        id
    }

    pub(crate) fn find(&self, sig: &Sig) -> Option<SigId> {
        self.known.get(sig).copied()
    }

    pub(crate) fn get(&self, id: SigId) -> &Sig {
        &self.list[id.0 as usize]
    }
}

/// The kind of op of an e-node, which egg compares first; `None` for a leaf.
pub(crate) type Kind = Option<OpKind>;

/// A set of kinds of ops: those that stand in a block, or one of which a rule looks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kinds(u128);

const _: () = assert!(OpKind::ALL.len() <= 128, "a set has a bit for each kind");

impl Kinds {
    /// Whether the sets have a kind in common.
    pub(crate) const fn meets(self, other: Kinds) -> bool {
        self.0 & other.0 != 0
    }
}

impl Extend<OpKind> for Kinds {
    fn extend<I: IntoIterator<Item = OpKind>>(&mut self, kinds: I) {
        kinds.into_iter().for_each(|kind| self.0 |= 1 << kind as u32);
    }
}

impl FromIterator<OpKind> for Kinds {
    fn from_iter<I: IntoIterator<Item = OpKind>>(kinds: I) -> Kinds {
        let mut set = Kinds::default();
        set.extend(kinds);
        set
    }
}

/// The children of an e-node.
pub(crate) type Children = SmallVec<[Id; 3]>;

/// An e-node. The kind follows from the signature and comes first, so that sorting groups e-nodes
/// by it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) sig: SigId,
    pub(crate) children: Children,
}

impl Language for Node {
    type Discriminant = Kind;

    fn discriminant(&self) -> Kind {
        self.kind
    }

    fn matches(&self, other: &Node) -> bool {
        self.sig == other.sig && self.children.len() == other.children.len()
    }

    fn children(&self) -> &[Id] {
        &self.children
    }

    fn children_mut(&mut self) -> &mut [Id] {
        &mut self.children
    }
}
