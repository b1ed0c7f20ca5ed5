//! Dead code elimination: nodes that no output needs are dropped. Inputs stay, since a call gives
//! them by position.

use gt_ir::{Graph, OpError};

use super::{Context, Pass, rebuild};

/// For each node, whether an output needs it.
pub(crate) fn needed(graph: &Graph) -> Vec<bool> {
    let mut needed = vec![false; graph.len()];
    graph.outputs().iter().for_each(|id| needed[id.index()] = true);
    for id in graph.ids().rev() {
        if needed[id.index()] {
            graph.operands(id).iter().for_each(|o| needed[o.index()] = true);
        }
    }
    needed
}

/// The pass: dead code elimination.
pub(crate) struct Dce;

impl Pass for Dce {
    fn name(&self) -> &'static str {
        "dce"
    }

    fn run(&self, graph: &Graph, _: &mut Context<'_>) -> Result<Option<Graph>, OpError> {
        let mut live = needed(graph);
        graph.inputs().iter().for_each(|id| live[id.index()] = true);
        if live.iter().all(|l| *l) {
            return Ok(None);
        }
        rebuild(graph, |new, node, operands| new.copy(node, operands))
    }
}
