//! The search over all blocks of a graph: each distinct block is solved once, and the cheapest
//! combination of solutions is taken.

use gt_ir::{Graph, NodeId, NodeKind, OpError};
use rustc_hash::FxHashMap;

use super::{
    analysis::{self, Facts},
    assemble::{Assembly, Solution},
    block::{Block, Cut},
    language::Signatures,
    rules::BOOK,
    saturate::{self, Limits, Stop},
    solve::{insert, recognize, solution},
};
use crate::{
    cost::{self, Machine},
    options::Numerics,
    passes::{Context, needed},
    report::Search,
};

/// Most solutions that are tried one by one, where all together are no gain.
const MAX_PARTIAL: usize = 6;

/// Distinct blocks of one graph that are searched, the first ones; the others stay as they are.
const MAX_DISTINCT: usize = 64;

/// A solved block, with the figures of the report.
pub(super) struct Solved {
    solution: Option<Solution>,
    pub(super) fired: Vec<u32>,
    pub(super) recognized: Vec<u32>,
    pub(super) copies: usize,
}

impl Solved {
    /// A block that stays as it is.
    fn unsearched() -> Solved {
        let none = || vec![0; BOOK.rules.len()];
        Solved { solution: None, fired: none(), recognized: none(), copies: 0 }
    }
}

/// A block and the number of what it was solved as.
struct Placed {
    range: (u32, u32),
    block: Block,
    solved: usize,
}

pub(super) struct Searcher<'g> {
    graph: &'g Graph,
    numerics: Numerics,
    machine: &'g Machine,
    sigs: Signatures,
    limits: Limits,
    pub(super) solved: Vec<Solved>,
    pub(super) search: Search,
    pub(super) stop: Stop,
}

impl<'g> Searcher<'g> {
    pub(super) fn new(graph: &'g Graph, numerics: Numerics, machine: &'g Machine) -> Self {
        Searcher {
            graph,
            numerics,
            machine,
            sigs: Signatures::default(),
            limits: Limits::default(),
            solved: Vec::new(),
            search: Search::default(),
            stop: Stop::default(),
        }
    }

    /// A cheaper graph, if one was found.
    pub(super) fn run(&mut self) -> Result<Option<Graph>, OpError> {
        let cut = Cut::new(self.graph, &mut self.sigs);
        // Looked up only, never iterated over.
        let mut known: FxHashMap<Vec<u32>, usize> = FxHashMap::default();
        let mut placed: Vec<Placed> = Vec::with_capacity(cut.blocks.len());
        for &range in &cut.blocks {
            let mut block = cut.block(range, BOOK.depth, &mut self.sigs, self.graph);
            let key = std::mem::take(&mut block.key);
            let solved = match known.get(&key) {
                Some(at) => *at,
                None => {
                    let solved = if self.solved.len() < MAX_DISTINCT {
                        self.solve(&cut, &block)
                    } else {
                        self.stop = Stop::Blocks;
                        Solved::unsearched()
                    };
                    self.solved.push(solved);
                    known.insert(key, self.solved.len() - 1);
                    self.solved.len() - 1
                }
            };
            self.solved[solved].copies += 1;
            placed.push(Placed { range, block, solved });
        }
        (self.search.blocks, self.search.distinct) = (cut.blocks.len(), self.solved.len());
        let before = cost::cost(self.graph, self.machine).seconds;
        let (best, after) = self.choose(&cut, &placed, before)?;
        self.search.seconds = [before, after];
        Ok(best)
    }

    /// The cheapest graph tried, if one is cheaper than the graph as it came, which takes `before`,
    /// and what it takes: with all solutions, or, where blocks get in each other's way, with those
    /// that help one by one. A graph that computes fewer steps that can fail is none: it would give
    /// a result in place of an error.
    fn choose(
        &self,
        cut: &Cut,
        placed: &[Placed],
        before: f64,
    ) -> Result<(Option<Graph>, f64), OpError> {
        let solutions: Vec<usize> =
            (0..self.solved.len()).filter(|s| self.solved[*s].solution.is_some()).collect();
        if solutions.is_empty() {
            return Ok((None, before));
        }
        let n_checks = n_checks(self.graph);
        let seconds = |graph: &Graph| match self::n_checks(graph) < n_checks {
            true => f64::INFINITY,
            false => cost::cost(graph, self.machine).seconds,
        };
        let all = self.assemble(cut, placed, &solutions)?;
        let cost = seconds(&all);
        if cost < before {
            return Ok((Some(all), cost));
        }
        let (mut used, mut best, mut cost) = (Vec::new(), None, before);
        for &solution in solutions.iter().take(MAX_PARTIAL) {
            used.push(solution);
            let graph = self.assemble(cut, placed, &used)?;
            let found = seconds(&graph);
            if found < cost {
                (best, cost) = (Some(graph), found);
            } else {
                used.pop();
            }
        }
        Ok((best, cost))
    }

    /// The graph with some of the solutions.
    fn assemble(&self, cut: &Cut, placed: &[Placed], used: &[usize]) -> Result<Graph, OpError> {
        let mut assembly = Assembly::new(self.graph, cut);
        for Placed { range, block, solved } in placed {
            let solution = self.solved[*solved].solution.as_ref().filter(|_| used.contains(solved));
            assembly.add(*range, block, solution)?;
        }
        assembly.finish()
    }

    /// Puts a block into an e-graph, saturates and extracts.
    fn solve(&mut self, cut: &Cut, block: &Block) -> Solved {
        if !BOOK.can_match(cut.kinds(block, &self.sigs), self.numerics) {
            return Solved::unsearched();
        }
        let mut graph = analysis::Graph::new(Facts { sigs: std::mem::take(&mut self.sigs) });
        let ids = insert(&mut graph, cut, block);
        graph.rebuild();
        let recognized = recognize(&mut graph, block, &ids);
        let outcome = saturate::saturate(&mut graph, self.numerics, &self.limits);
        self.search.nodes += graph.total_number_of_nodes();
        self.search.classes += graph.number_of_classes();
        self.search.iterations = self.search.iterations.max(outcome.iterations);
        self.stop = self.stop.max(outcome.stop);
        let is_new = outcome.fired.iter().any(|f| *f > 0);
        let solution = if is_new { solution(&graph, block, &ids, self.machine) } else { None };
        self.sigs = std::mem::take(&mut graph.analysis.sigs);
        Solved { solution, fired: outcome.fired, recognized, copies: 0 }
    }

    pub(super) fn report(&mut self, cx: &mut Context<'_>, improved: bool) {
        let total = |of: fn(&Solved) -> &Vec<u32>| {
            let mut counts: Vec<(String, usize)> = Vec::new();
            for (at, rule) in BOOK.rules.iter().enumerate() {
                let n: usize = self.solved.iter().map(|s| of(s)[at] as usize * s.copies).sum();
                if n > 0 {
                    counts.push((rule.rule.name.to_owned(), n));
                }
            }
            // The sort is stable: equal counts stay in the order of the tables.
            counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
            counts
        };
        cx.report.rules = total(|s| &s.fired);
        cx.report.recognized = total(|s| &s.recognized);
        self.search.stop = self.stop.name().to_owned();
        self.search.improved = improved;
        cx.report.egraph = std::mem::take(&mut self.search);
    }
}

/// The number of steps that can fail and that an output needs.
fn n_checks(graph: &Graph) -> usize {
    let needed = needed(graph);
    let can_fail = |id: NodeId| match graph.node(id).kind {
        NodeKind::Op(op) => op.spec().can_fail(),
        NodeKind::Input(_) | NodeKind::Scalar(_) | NodeKind::Const(_) => false,
    };
    graph.ids().filter(|id| needed[id.index()] && can_fail(*id)).count()
}
