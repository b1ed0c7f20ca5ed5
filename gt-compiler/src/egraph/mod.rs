//! The search for cheaper equal graphs.
use crate::passes::{Context, Pass};
use gt_ir::{Graph, OpError};
pub(crate) struct Rewrite;
impl Pass for Rewrite {
    fn name(&self) -> &'static str {
        "egraph"
    }
    fn run(&self, graph: &Graph, cx: &mut Context<'_>) -> Result<Graph, OpError> {
        Ok(graph.clone())
    }
}
