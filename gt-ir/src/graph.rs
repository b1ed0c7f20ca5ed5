//! The dataflow graph passes and engines work on: petgraph inside, typed ids outside.
//!
//! Guarantees: nodes are numbered in topological order, every node has the type its op's rule
//! gives, inputs keep the positions they were declared at. A graph made by [`expand`] or
//! [`Graph::expanded`] holds primitive ops only, with casts and broadcasts spelled out: pointwise
//! operands have equal dtypes and sizes (the condition of `where` is `bool`), logical ops work on
//! `bool`, `matmul` takes operands of equal rank (at least 2), dtype and leading sizes, reductions
//! and gathers never see `bool` (indices are `i64`), and every scalar node has the dtype it is used
//! in.
//!
//! petgraph's `DiGraph` holds the nodes, the edges with their ports, and the uses of each node. Of
//! its algorithms none is called: a node is added after its operands, so ids are a topological
//! order and a walk over all nodes, or over the live ones, is a loop over ids. Drawings hide
//! literals and frame kernels, which petgraph's `Dot` cannot do.

mod build;
mod check;
mod dot;
mod print;
mod rebuild;
mod rounds;
mod segment;

use std::sync::Arc;

use petgraph::{Direction, graph::DiGraph, graph::NodeIndex, visit::EdgeRef};
use smallvec::SmallVec;

pub use build::{Calls, LowerError, expand, expand_with, lower};
pub use dot::{DOT_HEAD, Legend};
pub use rebuild::Rebuild;
pub use segment::{Segment, segment};

use crate::{intern::Loc, op::Op, scalar::Scalar, shape::Type};

/// A node of a [`Graph`]; prints as `n3`. Smaller ids come earlier in topological order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

/// What a node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// The k-th tensor given at run time.
    Input(u32),
    /// The k-th scalar given at run time, a zero-dimensional value of the node's dtype.
    Scalar(u32),
    /// A constant that belongs to an op's definition, a zero-dimensional value of the node's dtype.
    Const(Scalar),
    /// An op applied to the node's inputs.
    Op(Op),
}

/// A node's contents.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The input, scalar, constant or op.
    pub kind: NodeKind,
    /// The type of its result.
    pub ty: Type,
    /// Where the user wrote it.
    pub loc: Loc,
    /// The signal scopes it was recorded in, outermost first, joined by `/`.
    pub signal: Option<Arc<str>>,
    /// The number of the traced node that it stands for. Where several became one, of one of them.
    pub origin: u32,
}

/// How far a graph has come: what may stand in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Any op, operands as recorded; scalars are weakly typed, as on the tape.
    #[default]
    Traced,
    /// Primitives, with casts and broadcasts spelled out; scalars have the dtype they are used in.
    /// The only derived ops among them are those that the expansion kept as calls of an engine.
    Expanded,
}

/// A dataflow graph with ordered inputs, scalar slots and outputs.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    dag: DiGraph<Node, u32>,
    inputs: Vec<NodeId>,
    outputs: Vec<NodeId>,
    slots: Vec<Scalar>,
    stage: Stage,
    /// The derived ops that an expansion kept, each once.
    calls: Vec<Op>,
}

impl NodeId {
    /// Position in topological order.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    fn raw(self) -> NodeIndex {
        NodeIndex::new(self.index())
    }
}

impl From<NodeIndex> for NodeId {
    fn from(i: NodeIndex) -> Self {
        NodeId(i.index() as u32)
    }
}

impl Graph {
    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.dag.node_count()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every node, in topological order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator {
        (0..self.len() as u32).map(NodeId)
    }

    /// The node at a position in topological order.
    pub fn id(&self, index: usize) -> NodeId {
        debug_assert!(index < self.len(), "a graph of {} nodes has no node {index}", self.len());
        NodeId(index as u32)
    }

    /// A node of this graph.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.dag[id.raw()]
    }

    /// The operands of a node, in order.
    pub fn operands(&self, id: NodeId) -> SmallVec<[NodeId; 3]> {
        let edges = || self.dag.edges_directed(id.raw(), Direction::Incoming);
        let mut operands: SmallVec<[NodeId; 3]> = SmallVec::new();
        let (mut last, mut descending) = (u32::MAX, true);
        for edge in edges() {
            descending &= *edge.weight() < last;
            last = *edge.weight();
            operands.push(edge.source().into());
        }
        if descending {
            // Edges come newest first, and whoever makes nodes adds operands in order.
            operands.reverse();
            return operands;
        }
        let mut found: SmallVec<[(u32, NodeId); 3]> =
            edges().map(|e| (*e.weight(), e.source().into())).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, id)| id).collect()
    }

    /// The nodes that use a node's result, ascending; one that uses it twice comes twice.
    pub fn users(&self, id: NodeId) -> SmallVec<[NodeId; 3]> {
        let mut users: SmallVec<[NodeId; 3]> =
            self.dag.neighbors(id.raw()).map(NodeId::from).collect();
        users.sort_unstable();
        users
    }

    /// The tensor inputs, by position.
    pub fn inputs(&self) -> &[NodeId] {
        &self.inputs
    }

    /// The results, by position; a node may occur twice.
    pub fn outputs(&self) -> &[NodeId] {
        &self.outputs
    }

    /// How far it has come.
    pub const fn stage(&self) -> Stage {
        self.stage
    }

    /// Whether a node is a scalar that takes its dtype from the operands beside it.
    fn is_weak(&self, id: NodeId) -> bool {
        self.stage == Stage::Traced && matches!(self.node(id).kind, NodeKind::Scalar(_))
    }

    /// The scalar slots, with the values they had where the graph was made.
    pub fn slots(&self) -> &[Scalar] {
        &self.slots
    }
}
