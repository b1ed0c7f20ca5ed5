//! The search for cheaper equal graphs: equality saturation with directed rules, block by block.
//!
//! Each distinct block is put into an e-graph, saturated within limits that hold, and the cheapest
//! graph is extracted; the result is mapped onto all copies of the block. The graph that comes out
//! is taken only if the cost model, asked about whole graphs, says it is cheaper than the one that
//! came in. Equal graphs give equal results, bit for bit.

mod analysis;
mod assemble;
mod block;
mod extract;
mod language;
mod pattern;
mod rules;
mod saturate;
mod search;
mod solve;
#[cfg(test)]
mod tests;

use gt_ir::{Graph, OpError};

use crate::passes::{Context, Pass};
use search::Searcher;

/// The pass.
pub(crate) struct Rewrite;

impl Pass for Rewrite {
    fn name(&self) -> &'static str {
        "egraph"
    }

    fn run(&self, graph: &Graph, cx: &mut Context<'_>) -> Result<Option<Graph>, OpError> {
        let mut search = Searcher::new(graph, cx.options.numerics, cx.machine);
        let rewritten = search.run()?;
        search.report(cx, rewritten.is_some());
        Ok(rewritten)
    }
}
