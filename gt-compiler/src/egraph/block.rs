//! Blocks of a graph, cut so that repeated parts (layers, the update of each parameter) are
//! searched once.
//!
//! A block is a range of nodes in topological order. Its end depends on the ops around it, not on
//! their positions, so that equal layers are cut alike (content-defined chunking). A block also
//! sees some nodes before its beginning, its halo, as deep as left sides of rules reach: a cut
//! hides no match. Two blocks have equal keys if they differ only in the inputs, slots and earlier
//! results that they use.

use std::hash::Hasher;

use gt_ir::{Graph, NodeId, NodeKind, Op};
use rustc_hash::FxHasher;
use smallvec::SmallVec;

use super::language::{Kinds, Sig, SigId, Signatures, Uniform, What};

/// Fewest and most ops of a block.
const SIZES: (usize, usize) = (32, 160);
/// Most nodes a block sees before its beginning.
const MAX_HALO: usize = 64;

/// A node as blocks see it.
#[derive(Clone, Debug)]
pub(super) struct Term {
    /// The op, number or outer value; all slots look alike.
    pub(super) sig: SigId,
    pub(super) part: Part,
    pub(super) children: SmallVec<[u32; 3]>,
}

/// The part that a node plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A tensor given at run time.
    Input,
    /// A number given at run time, in some shape.
    Slot(u32),
    /// A constant, in some shape.
    Const,
    Op,
}

/// The nodes of a graph as terms, cut into blocks.
pub(super) struct Cut {
    pub(super) terms: Vec<Term>,
    /// First and last + 1 node of each block.
    pub(super) blocks: Vec<(u32, u32)>,
    /// For each node, whether a node outside of its block uses it.
    pub(super) exported: Vec<bool>,
}

/// A block by itself.
pub(super) struct Block {
    /// Its nodes, its halo's and those these use, ascending.
    pub(super) locals: Vec<Local>,
    /// Slots by their number in the block.
    pub(super) slots: Vec<u32>,
    /// Equal for blocks that are solved alike.
    pub(super) key: Vec<u32>,
}

/// A node inside a block.
#[derive(Clone, Debug)]
pub(super) struct Local {
    /// Its number in the graph.
    pub(super) node: u32,
    pub(super) role: Role,
    /// Places of its operands among the locals.
    pub(super) children: SmallVec<[u32; 3]>,
}

/// The role of a node in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A node of the block; whether something outside uses it.
    Member { wanted: bool },
    /// A node before the block; whether its own block computes it anyway.
    Halo { provided: bool },
    /// A value made elsewhere, of which only the type is known.
    External,
    /// One number: a slot by its number in the block, or a constant.
    Number(Option<u32>),
}

impl Role {
    /// Whether the search sees what the node computes.
    const fn is_inner(self) -> bool {
        matches!(self, Role::Member { .. } | Role::Halo { .. })
    }
}

impl Cut {
    /// Cuts an expanded graph.
    pub(super) fn new(graph: &Graph, sigs: &mut Signatures) -> Cut {
        let mut terms: Vec<Term> = Vec::with_capacity(graph.len());
        for id in graph.ids() {
            let term = term(graph, id, &terms, sigs);
            terms.push(term);
        }
        let blocks = blocks(&terms);
        let mut block_of = vec![u32::MAX; terms.len()];
        for (b, (start, end)) in blocks.iter().enumerate() {
            block_of[*start as usize..*end as usize].fill(b as u32);
        }
        let mut exported = vec![false; terms.len()];
        graph.outputs().iter().for_each(|o| exported[o.index()] = true);
        for (at, term) in terms.iter().enumerate() {
            for &child in &term.children {
                exported[child as usize] |= block_of[child as usize] != block_of[at];
            }
        }
        Cut { terms, blocks, exported }
    }

    /// The inside of a block, with a halo of some depth.
    pub(super) fn block(
        &self,
        range: (u32, u32),
        depth: usize,
        sigs: &mut Signatures,
        graph: &Graph,
    ) -> Block {
        let (start, end) = (range.0 as usize, range.1 as usize);
        let halo = self.halo(start, end, depth);
        let mut nodes: Vec<u32> =
            halo.iter().copied().chain(range.0..range.1).filter(|n| self.is_op(*n)).collect();
        let inner = nodes.len();
        for at in 0..inner {
            nodes.extend(self.terms[nodes[at] as usize].children.iter().copied());
        }
        nodes.sort_unstable();
        nodes.dedup();
        let mut block =
            Block { locals: Vec::with_capacity(nodes.len()), slots: Vec::new(), key: Vec::new() };
        for &node in &nodes {
            let role = self.role(node, range, &halo, &mut block.slots);
            let children =
                if role.is_inner() { self.terms[node as usize].children.as_slice() } else { &[] };
            let place = |child: &u32| nodes.binary_search(child).unwrap_or(0) as u32;
            let children: SmallVec<[u32; 3]> = children.iter().map(place).collect();
            let sig = match role {
                Role::External => {
                    let ty = graph.node(graph_id(graph, node)).ty.unnamed();
                    sigs.intern(Sig { what: What::External(0), ty })
                }
                Role::Member { .. } | Role::Halo { .. } | Role::Number(_) => {
                    self.terms[node as usize].sig
                }
            };
            block.key.extend([code(role), sig.number()]);
            block.key.extend_from_slice(&children);
            block.locals.push(Local { node, role, children });
        }
        block
    }

    /// The kinds of the ops that a search of a block sees.
    pub(super) fn kinds(&self, block: &Block, sigs: &Signatures) -> Kinds {
        let inner = block.locals.iter().filter(|local| local.role.is_inner());
        let op = |local: &Local| match sigs.get(self.terms[local.node as usize].sig).what {
            What::Op(op) => Some(op.kind()),
            What::External(_) | What::Uniform(_) => None,
        };
        inner.filter_map(op).collect()
    }

    fn is_op(&self, node: u32) -> bool {
        self.terms[node as usize].part == Part::Op
    }

    fn role(&self, node: u32, range: (u32, u32), halo: &[u32], slots: &mut Vec<u32>) -> Role {
        let exported = self.exported[node as usize];
        match self.terms[node as usize].part {
            Part::Slot(slot) => {
                let known = slots.iter().position(|s| *s == slot).unwrap_or_else(|| {
                    slots.push(slot);
                    slots.len() - 1
                });
                Role::Number(Some(known as u32))
            }
            Part::Const => Role::Number(None),
            Part::Op if (range.0..range.1).contains(&node) => Role::Member { wanted: exported },
            Part::Op if halo.binary_search(&node).is_ok() => Role::Halo { provided: exported },
            Part::Input | Part::Op => Role::External,
        }
    }

    /// Ops before a block that it may look at, ascending: each of their operands is one of them, or
    /// there in any case.
    fn halo(&self, start: usize, end: usize, depth: usize) -> Vec<u32> {
        let mut found: Vec<u32> = Vec::new();
        let mut front: Vec<u32> = Vec::new();
        let mut visit = |children: &[u32], next: &mut Vec<u32>| {
            for &child in children {
                let fits = (child as usize) < start && self.is_op(child) && found.len() < MAX_HALO;
                if fits && !found.contains(&child) {
                    found.push(child);
                    next.push(child);
                }
            }
        };
        (start..end).for_each(|at| visit(&self.terms[at].children, &mut front));
        for _ in 1..depth {
            let mut next = Vec::new();
            front.iter().for_each(|at| visit(&self.terms[*at as usize].children, &mut next));
            front = next;
        }
        found.sort_unstable();
        let mut kept: Vec<u32> = Vec::with_capacity(found.len());
        for node in found {
            let there = |c: &u32| {
                !self.is_op(*c) || self.exported[*c as usize] || kept.binary_search(c).is_ok()
            };
            if self.terms[node as usize].children.iter().all(there) {
                kept.push(node);
            }
        }
        kept
    }
}

fn code(role: Role) -> u32 {
    match role {
        Role::Member { wanted } => 1 + u32::from(wanted),
        Role::Halo { provided } => 3 + u32::from(provided),
        Role::External => 5,
        Role::Number(None) => 6,
        Role::Number(Some(slot)) => 7 + slot,
    }
}

fn graph_id(graph: &Graph, node: u32) -> NodeId {
    graph.id(node as usize)
}

/// A node as a term. Movement of one number is that number.
fn term(graph: &Graph, id: NodeId, terms: &[Term], sigs: &mut Signatures) -> Term {
    let node = graph.node(id);
    let ty = node.ty.unnamed();
    let operands = graph.operands(id);
    let (what, part) = match node.kind {
        NodeKind::Input(_) => (What::External(0), Part::Input),
        NodeKind::Scalar(k) => (What::Uniform(Uniform::Slot(0)), Part::Slot(k)),
        NodeKind::Const(c) => (What::Uniform(Uniform::Const(c)), Part::Const),
        NodeKind::Op(op) => match (op, operands.first().map(|o| &terms[o.index()])) {
            (
                Op::Expand(_) | Op::Reshape(_) | Op::Permute(_) | Op::Slice(_) | Op::Unfold(_),
                Some(of),
            ) if matches!(of.part, Part::Slot(_) | Part::Const) => (sigs.get(of.sig).what, of.part),
            _ => (What::Op(op.unnamed()), Part::Op),
        },
    };
    let children = if part == Part::Op {
        operands.iter().map(|o| o.index() as u32).collect()
    } else {
        SmallVec::new()
    };
    Term { sig: sigs.intern(Sig { what, ty }), part, children }
}

/// The ranges of the blocks. A block ends after the node with the least hash among the nodes that
/// may end it, so that equal sequences of nodes end alike. A node that is no op lies in the range
/// around it and belongs to no block.
fn blocks(terms: &[Term]) -> Vec<(u32, u32)> {
    let ops: Vec<u32> =
        (0..terms.len() as u32).filter(|n| terms[*n as usize].part == Part::Op).collect();
    let tokens: Vec<u64> = ops.iter().map(|n| token(terms, *n as usize)).collect();
    // The hash of a node and of the node before: many nodes have the same op.
    let hash = |i: usize| {
        (tokens[i] ^ tokens[i - 1].rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
    };
    let (fewest, most) = SIZES;
    let mut blocks = Vec::new();
    let (mut start, mut first) = (0_u32, 0);
    while ops.len() - first > most {
        let last =
            (first + fewest..first + most).min_by_key(|i| hash(*i)).unwrap_or(first + most - 1);
        let end = ops[last] + 1;
        blocks.push((start, end));
        (start, first) = (end, last + 1);
    }
    blocks.push((start, terms.len() as u32));
    blocks
}

/// A hash of a node and of its operands that does not depend on their positions.
fn token(terms: &[Term], at: usize) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_u32(terms[at].sig.number());
    terms[at].children.iter().for_each(|c| hasher.write_u32(terms[*c as usize].sig.number()));
    hasher.finish()
}
