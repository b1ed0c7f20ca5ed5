//! Dead code elimination: nodes that no output needs are dropped. Inputs stay, since a call gives
//! them by position.

use gt_ir::{Graph, OpError};

use super::{Context, Pass, rebuild};

/// The pass: dead code elimination.
pub(crate) struct Dce;

impl Pass for Dce {
    fn name(&self) -> &'static str {
        "dce"
    }

    fn run(&self, graph: &Graph, _: &mut Context<'_>) -> Result<Option<Graph>, OpError> {
        let mut live = vec![false; graph.len()];
        graph.outputs().iter().chain(graph.inputs()).for_each(|id| live[id.index()] = true);
        for id in graph.ids().rev() {
            if live[id.index()] {
                graph.operands(id).iter().for_each(|o| live[o.index()] = true);
            }
        }
        if live.iter().all(|l| *l) {
            return Ok(None);
        }
        rebuild(graph, |new, node, operands| new.copy(node, operands))
    }
}
