//! Common subexpression elimination: equal ops on equal operands become one node. Names of
//! dimensions do not distinguish values.
//!
//! Ops are pure, random ones included: their bits follow from the seed. Two seeds in two scalar
//! slots are two values, as two slots always are, whatever they held when the graph was made.

use gt_ir::{DType, Graph, NodeId, NodeKind, OpError};
use rustc_hash::FxHashMap;

use super::{Context, Operands, Pass, rebuild};

/// The pass: common subexpression elimination.
pub(crate) struct Cse;

impl Pass for Cse {
    fn name(&self) -> &'static str {
        "cse"
    }

    fn run(&self, graph: &Graph, _: &mut Context<'_>) -> Result<Option<Graph>, OpError> {
        let firsts = firsts(graph);
        if graph.ids().eq(firsts.iter().copied()) {
            return Ok(None);
        }
        let mut map: Vec<NodeId> = Vec::with_capacity(graph.len());
        rebuild(graph, |new, node, operands| {
            let first = firsts[map.len()].index();
            let id = if first < map.len() { map[first] } else { new.copy(node, operands)? };
            map.push(id);
            Ok(id)
        })
    }
}

/// For each node the first one that is equal to it.
fn firsts(graph: &Graph) -> Vec<NodeId> {
    // Looked up only, never iterated over.
    let mut known: FxHashMap<(NodeKind, DType, Operands), NodeId> = FxHashMap::default();
    let mut firsts: Vec<NodeId> = Vec::with_capacity(graph.len());
    for id in graph.ids() {
        let node = graph.node(id);
        let kind = match node.kind {
            NodeKind::Op(op) => NodeKind::Op(op.unnamed()),
            leaf @ (NodeKind::Input(_) | NodeKind::Scalar(_) | NodeKind::Const(_)) => leaf,
        };
        let operands = graph.operands(id).iter().map(|o| firsts[o.index()]).collect();
        // The shape follows from the op and the operands; of a number only the dtype tells.
        firsts.push(*known.entry((kind, node.ty.dtype, operands)).or_insert(id));
    }
    firsts
}
