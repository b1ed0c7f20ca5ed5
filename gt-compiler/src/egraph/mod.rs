//! The search for cheaper equal graphs: equality saturation (Tate et al. 2009) with directed rules,
//! block by block.
//!
//! The graph is cut into blocks of tens of ops. Each distinct block is put into an e-graph and
//! saturated within limits that hold; the cheapest graph of the block is extracted and mapped onto
//! all copies of the block. The graph of all solutions replaces the one that came in only if the
//! cost model, asked about both whole graphs, says it is cheaper. The outcome depends on the graph,
//! the numerics policy and the stated machine alone.
//!
//! The rules of [`Numerics::Exact`] keep every bit; a looser policy adds rules that do not, by the
//! laws of `rules/README.md`. The search never looks at the contents of tensors and scalar slots.

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

use crate::{
    options::Numerics,
    passes::{Context, Pass},
};
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

/// The name of each rule that rewrites, and the strictest policy under which it applies.
pub(crate) fn rules() -> impl Iterator<Item = (&'static str, Numerics)> {
    let rules = rules::BOOK.rules.iter().filter(|rule| !rule.recognizes());
    rules.map(|rule| (rule.rule.name, rule.rule.numerics))
}
