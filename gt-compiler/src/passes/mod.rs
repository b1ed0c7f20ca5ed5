//! Passes: pure functions from a graph of primitives to an equal one. A pass does one thing that
//! has one right answer; a choice among alternatives belongs to the e-graph.
//!
//! Guarantees, checked by the driver in [`pipeline`](crate::pipeline): the result is a valid
//! expanded graph with the same inputs, slots and types of outputs. A pass preserves the bits of
//! every result, unless the numerics policy allows more, and is idempotent.

mod canonicalize;
mod cast;
mod cse;
mod dce;
mod fold;
mod join_pads;
pub(crate) mod movement;
mod one_hot;
mod reciprocal;
mod sink;
mod slices;
mod turn;
mod widen;

use gt_ir::{
    Graph, NodeId, NodeKind, Op, OpError,
    graph::{Node, Rebuild},
};
use smallvec::SmallVec;

use crate::{cost::Machine, options::Options, report::Report};

pub(crate) use canonicalize::Canonicalize;
pub(crate) use cast::{CancelCasts, skips};
pub(crate) use cse::Cse;
pub(crate) use dce::{Dce, needed};
pub(crate) use fold::Fold;
pub(crate) use join_pads::JoinPads;
pub(crate) use movement::Movement;
pub(crate) use one_hot::OneHots;
pub(crate) use reciprocal::Reciprocals;
pub(crate) use sink::SinkPermutes;
pub(crate) use slices::Slices;
pub(crate) use turn::TurnProducts;
pub(crate) use widen::widen_products;

/// The options of a compilation, and its report.
pub(crate) struct Context<'a> {
    pub(crate) options: &'a Options,
    pub(crate) machine: &'a Machine,
    pub(crate) report: Report,
}

/// A step of the pipeline.
pub(crate) trait Pass: Sync {
    /// Its name in `GT_DUMP` and in reports.
    fn name(&self) -> &'static str;

    /// The graph after it; `None` where it finds nothing to do.
    ///
    /// # Errors
    /// Only bugs: a valid expanded graph never makes a pass fail.
    fn run(&self, graph: &Graph, cx: &mut Context<'_>) -> Result<Option<Graph>, OpError>;
}

/// The operands of a node, in the graph being made.
type Operands = SmallVec<[NodeId; 3]>;

/// Builds a graph node by node: `f` is given each node with its operands in the new graph and says
/// which node stands for it.
fn rebuild(
    graph: &Graph,
    mut f: impl FnMut(&mut Rebuild, &Node, &Operands) -> Result<NodeId, OpError>,
) -> Result<Option<Graph>, OpError> {
    let mut new = Rebuild::of(graph);
    let mut map: Vec<NodeId> = Vec::with_capacity(graph.len());
    for id in graph.ids() {
        let operands: Operands = graph.operands(id).iter().map(|o| map[o.index()]).collect();
        let node = graph.node(id);
        new.at(node);
        let made = f(&mut new, node, &operands)?;
        map.push(made);
    }
    let outputs: SmallVec<[NodeId; 8]> = graph.outputs().iter().map(|o| map[o.index()]).collect();
    new.finish(&outputs).map(Some)
}

/// The op of a node, if it is one.
fn op_of(node: &Node) -> Option<Op> {
    match node.kind {
        NodeKind::Op(op) => Some(op),
        NodeKind::Input(_) | NodeKind::Scalar(_) | NodeKind::Const(_) => None,
    }
}
