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
        // Looked up only, never iterated over.
        let mut known: FxHashMap<(NodeKind, DType, Operands), NodeId> = FxHashMap::default();
        rebuild(graph, |new, node, operands| {
            let kind = match node.kind {
                NodeKind::Op(op) => NodeKind::Op(op.unnamed()),
                leaf @ (NodeKind::Input(_) | NodeKind::Scalar(_) | NodeKind::Const(_)) => leaf,
            };
            // The shape follows from the op and the operands; of a number only the dtype tells.
            let key = (kind, node.ty.dtype, operands.clone());
            if let Some(&id) = known.get(&key) {
                return Ok(id);
            }
            let id = new.copy(node, operands)?;
            known.insert(key, id);
            Ok(id)
        })
    }
}
