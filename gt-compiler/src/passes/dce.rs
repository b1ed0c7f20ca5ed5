//! Dead code elimination: nodes no output needs go; inputs stay, since a call gives them by position.

use gt_ir::{Graph, OpError};

use super::{Context, Pass, rebuild};

/// See the module's documentation.
pub(crate) struct Dce;

impl Pass for Dce {
    fn name(&self) -> &'static str {
        "dce"
    }

    fn run(&self, graph: &Graph, _: &mut Context<'_>) -> Result<Graph, OpError> {
        rebuild(graph, |new, node, operands| new.copy(node, operands))
    }
}
