//! The search for cheaper equal graphs: equality saturation with directed rules, block by block.
//!
//! Each distinct block is put into an e-graph, saturated within limits that hold, and the cheapest graph is extracted; the result is mapped
//! onto all copies of the block. The graph that comes out is taken only if the cost model, asked about whole graphs, says it is cheaper
//! than the one that came in. Equal graphs give equal results, bit for bit.

mod analysis;
mod block;
mod extract;
mod language;
mod pattern;
mod rules;
mod saturate;
#[cfg(test)]
mod tests;

use std::time::Duration;

use egg::Id;
use gt_ir::{Graph, NodeId, NodeKind, Op, OpError, Type, graph::Rebuild};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{
    cost::{self, Machine},
    options::Numerics,
    passes::{Context, Pass},
    pipeline::Clock,
    report::Search,
};
use analysis::Facts;
use block::{Block, Cut, Part, Role};
use extract::{Chosen, Problem};
use language::{Node, Sig, Signatures, Uniform, What};
use rules::BOOK;
use saturate::{Deadline, Limits, Stop};

/// Most graphs tried with only some of the solutions.
const MAX_PARTIAL: usize = 6;

/// No compilation searches longer.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// The pass.
pub(crate) struct Rewrite;

impl Pass for Rewrite {
    fn name(&self) -> &'static str {
        "egraph"
    }

    fn run(&self, graph: &Graph, cx: &mut Context<'_>) -> Result<Graph, OpError> {
        let mut search = Searcher::new(graph, cx.options.numerics, cx.machine);
        let rewritten = search.run()?;
        search.report(cx, rewritten.is_some());
        Ok(rewritten.unwrap_or_else(|| graph.clone()))
    }
}

/// A value of a solved block.
#[derive(Clone, Debug)]
enum Step {
    /// A node of the block that is there already.
    Local(u32),
    /// One number in some shape; a slot by its number in the block.
    Number(Uniform, Type),
    /// An op on earlier steps.
    Op {
        op: Op,
        operands: SmallVec<[u32; 3]>,
        /// A node of the block that this stands for.
        like: Option<u32>,
        /// Whether it is that very node.
        same: bool,
    },
}

/// How a block is computed more cheaply.
struct Solution {
    steps: Vec<Step>,
    /// For each local that is wanted, its step.
    wanted: Vec<(u32, u32)>,
}

/// A solved block, and what the report says of it.
struct Solved {
    solution: Option<Solution>,
    fired: Vec<u32>,
    recognized: Vec<u32>,
    copies: usize,
}

/// A block and the number of what it was solved as.
struct Placed {
    range: (u32, u32),
    block: Block,
    solved: usize,
}

struct Searcher<'g> {
    graph: &'g Graph,
    numerics: Numerics,
    machine: &'g Machine,
    sigs: Signatures,
    deadline: Deadline,
    limits: Limits,
    solved: Vec<Solved>,
    search: Search,
    stop: Stop,
}

impl<'g> Searcher<'g> {
    fn new(graph: &'g Graph, numerics: Numerics, machine: &'g Machine) -> Self {
        Searcher {
            graph,
            numerics,
            machine,
            sigs: Signatures::default(),
            deadline: Deadline { clock: Clock::start(), limit: TIME_LIMIT },
            limits: Limits::default(),
            solved: Vec::new(),
            search: Search::default(),
            stop: Stop::default(),
        }
    }

    /// A cheaper graph, if one was found.
    fn run(&mut self) -> Result<Option<Graph>, OpError> {
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
                    let solved = self.solve(&cut, &block);
                    self.solved.push(solved);
                    known.insert(key, self.solved.len() - 1);
                    self.solved.len() - 1
                }
            };
            self.solved[solved].copies += 1;
            placed.push(Placed { range, block, solved });
        }
        (self.search.blocks, self.search.distinct) = (cut.blocks.len(), self.solved.len());
        self.choose(&cut, &placed)
    }

    /// The cheapest graph tried: with all solutions, or, where blocks get in each other's way, with those that help one by one.
    fn choose(&self, cut: &Cut, placed: &[Placed]) -> Result<Option<Graph>, OpError> {
        let solutions: Vec<usize> =
            (0..self.solved.len()).filter(|s| self.solved[*s].solution.is_some()).collect();
        if solutions.is_empty() {
            return Ok(None);
        }
        let seconds = |graph: &Graph| cost::cost(graph, self.machine).seconds;
        let before = seconds(self.graph);
        let all = self.assemble(cut, placed, &solutions)?;
        if seconds(&all) < before {
            return Ok(Some(all));
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
        Ok(best)
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
        let mut graph = analysis::Graph::new(Facts { sigs: std::mem::take(&mut self.sigs) });
        let ids = insert(&mut graph, cut, block);
        graph.rebuild();
        let recognized = recognize(&mut graph, block, &ids);
        let outcome = saturate::saturate(&mut graph, self.numerics, &self.limits, &self.deadline);
        self.search.nodes += graph.total_number_of_nodes();
        self.search.classes += graph.number_of_classes();
        self.search.iterations = self.search.iterations.max(outcome.iterations);
        self.stop = self.stop.max(outcome.stop);
        let is_new = outcome.fired.iter().any(|f| *f > 0);
        let solution = if is_new { solution(&graph, block, &ids, self.machine) } else { None };
        self.sigs = std::mem::take(&mut graph.analysis.sigs);
        Solved { solution, fired: outcome.fired, recognized, copies: 0 }
    }

    fn report(&mut self, cx: &mut Context<'_>, improved: bool) {
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
        self.search.milliseconds = self.deadline.clock.nanoseconds() as f64 / 1e6;
        cx.report.egraph = std::mem::take(&mut self.search);
    }
}

/// Adds the nodes of a block; gives their classes.
fn insert(graph: &mut analysis::Graph, cut: &Cut, block: &Block) -> Vec<Id> {
    let mut ids: Vec<Id> = Vec::with_capacity(block.locals.len());
    for (at, local) in block.locals.iter().enumerate() {
        let term = &cut.terms[local.node as usize];
        let Sig { what, ty } = *graph.analysis.sigs.get(term.sig);
        let (what, kind) = match (local.role, what) {
            (Role::External, _) => (What::External(at as u32), None),
            (Role::Number(Some(slot)), _) => (What::Uniform(Uniform::Slot(slot)), None),
            (_, What::Op(op)) => (what, Some(op.kind())),
            (_, what) => (what, None),
        };
        let sig = graph.analysis.sigs.intern(Sig { what, ty });
        let children = local.children.iter().map(|c| ids[*c as usize]).collect();
        ids.push(graph.add(Node { kind, sig, children }));
    }
    ids
}

/// How often each rule that only names things finds its left side in the block; a value has one name.
fn recognize(graph: &mut analysis::Graph, block: &Block, ids: &[Id]) -> Vec<u32> {
    let members =
        block.locals.iter().zip(ids).filter(|(l, _)| matches!(l.role, Role::Member { .. }));
    let mut members: Vec<Id> = members.map(|(_, id)| graph.find(*id)).collect();
    members.sort_unstable();
    members.dedup();
    let mut counts = vec![0; BOOK.rules.len()];
    let mut named: Vec<Id> = Vec::new();
    for (at, rule) in BOOK.rules.iter().enumerate().filter(|(_, r)| r.recognizes()) {
        for &class in &members {
            if named.contains(&class) {
                continue;
            }
            let mut matches = Vec::new();
            for pattern in &rule.patterns {
                let mut fuel = 10_000;
                pattern.search(graph, class, &mut fuel, &mut |found| {
                    matches.push(found);
                    matches.len() < 8
                });
            }
            if matches.iter().any(|found| rule.is_known(graph, found)) {
                counts[at] += 1;
                named.push(class);
            }
        }
    }
    counts
}

/// The cheaper way to compute a block that its e-graph holds, if there is one.
fn solution(
    graph: &analysis::Graph,
    block: &Block,
    ids: &[Id],
    machine: &Machine,
) -> Option<Solution> {
    let of = |role: fn(Role) -> bool| -> Vec<(u32, Id)> {
        let these = block.locals.iter().zip(ids).enumerate().filter(|(_, (l, _))| role(l.role));
        these.map(|(at, (_, id))| (at as u32, *id)).collect()
    };
    let wanted = of(|r| r == Role::Member { wanted: true });
    let provided = of(|r| r == Role::Halo { provided: true });
    let inner = of(|r| matches!(r, Role::Member { .. } | Role::Halo { .. }));
    let original: Vec<(Id, Node)> =
        inner.iter().map(|(_, id)| (*id, graph.id_to_node(*id).clone())).collect();
    let only = |list: &[(u32, Id)]| list.iter().map(|(_, id)| *id).collect::<Vec<Id>>();
    let problem = Problem {
        graph,
        wanted: &only(&wanted),
        provided: &only(&provided),
        original: &original,
        machine,
    };
    let chosen = extract::cheaper(&problem)?;
    let mut steps = Vec::with_capacity(chosen.len());
    for value in &chosen {
        steps.push(step(graph, value, &provided, &inner)?);
    }
    let place = |id: Id| chosen.iter().position(|c| c.class == graph.find(id)).map(|p| p as u32);
    let wanted =
        wanted.iter().map(|(at, id)| Some((*at, place(*id)?))).collect::<Option<Vec<_>>>()?;
    Some(Solution { steps, wanted })
}

fn step(
    graph: &analysis::Graph,
    value: &Chosen,
    provided: &[(u32, Id)],
    inner: &[(u32, Id)],
) -> Option<Step> {
    let same_class = |(_, id): &&(u32, Id)| graph.find(*id) == value.class;
    let Some(node) = &value.node else {
        return provided.iter().find(same_class).map(|(at, _)| Step::Local(*at));
    };
    let sig = graph.analysis.sigs.get(node.sig);
    Some(match sig.what {
        What::External(at) => Step::Local(at),
        What::Uniform(uniform) => Step::Number(uniform, sig.ty),
        What::Op(op) => {
            let is = |(_, id): &&(u32, Id)| {
                let original = graph.id_to_node(*id);
                let children = original.children.iter().map(|c| graph.find(*c));
                original.sig == node.sig
                    && children.eq(node.children.iter().map(|c| graph.find(*c)))
            };
            let mut likes = inner.iter().filter(same_class);
            let same = likes.clone().find(is);
            let like = same.or_else(|| likes.next()).map(|(at, _)| *at);
            let operands = value.operands.iter().map(|o| *o as u32).collect();
            Step::Op { op, operands, like, same: same.is_some() }
        }
    })
}

/// The graph being put together from solved blocks.
struct Assembly<'g> {
    graph: &'g Graph,
    cut: &'g Cut,
    new: Rebuild,
    /// What stands for each node, where that is known.
    map: Vec<Option<NodeId>>,
}

impl<'g> Assembly<'g> {
    fn new(graph: &'g Graph, cut: &'g Cut) -> Self {
        Assembly { graph, cut, new: Rebuild::of(graph), map: vec![None; graph.len()] }
    }

    fn add(
        &mut self,
        range: (u32, u32),
        block: &Block,
        solution: Option<&Solution>,
    ) -> Result<(), OpError> {
        for node in range.0..range.1 {
            if solution.is_none() || self.cut.terms[node as usize].part != Part::Op {
                self.copy(node)?;
            }
        }
        let Some(solution) = solution else { return Ok(()) };
        let mut made: Vec<NodeId> = Vec::with_capacity(solution.steps.len());
        let first =
            solution.wanted.first().map_or(range.0, |(at, _)| block.locals[*at as usize].node);
        self.new.at(self.graph.node(self.graph.id(first as usize)));
        for step in &solution.steps {
            let id = self.step(step, block, &made)?;
            made.push(id);
        }
        for (at, step) in &solution.wanted {
            let node = block.locals[*at as usize].node as usize;
            let id = made[*step as usize];
            self.new.name(id, &self.graph.node(self.graph.id(node)).ty);
            self.map[node] = Some(id);
        }
        Ok(())
    }

    fn step(&mut self, step: &Step, block: &Block, made: &[NodeId]) -> Result<NodeId, OpError> {
        match step {
            Step::Local(at) => self.known(block.locals[*at as usize].node),
            Step::Number(uniform, ty) => {
                let kind = match uniform {
                    Uniform::Slot(k) => NodeKind::Scalar(block.slots[*k as usize]),
                    Uniform::Const(c) => NodeKind::Const(*c),
                };
                let scalar = self.new.leaf(kind, Type::scalar(ty.dtype));
                if ty.shape.rank() == 0 {
                    Ok(scalar)
                } else {
                    self.new.op(Op::Expand(ty.shape), &[scalar])
                }
            }
            Step::Op { op, operands, like, same } => {
                let operands: SmallVec<[NodeId; 3]> =
                    operands.iter().map(|o| made[*o as usize]).collect();
                let like = like.map(|at| {
                    self.graph.node(self.graph.id(block.locals[at as usize].node as usize))
                });
                match like {
                    Some(node) if *same => self.new.copy(node, &operands),
                    Some(node) => {
                        self.new.at(node);
                        self.new.op(*op, &operands)
                    }
                    None => self.new.op(*op, &operands),
                }
            }
        }
    }

    fn known(&self, node: u32) -> Result<NodeId, OpError> {
        self.map[node as usize]
            .ok_or_else(|| OpError::new(format!("egraph: nothing stands for n{node}")))
    }

    fn copy(&mut self, node: u32) -> Result<(), OpError> {
        let id = self.graph.id(node as usize);
        let operands = self.graph.operands(id);
        let operands = operands
            .iter()
            .map(|o| self.known(o.index() as u32))
            .collect::<Result<SmallVec<[_; 3]>, _>>()?;
        self.map[node as usize] = Some(self.new.copy(self.graph.node(id), &operands)?);
        Ok(())
    }

    fn finish(self) -> Result<Graph, OpError> {
        let outputs = self.graph.outputs().iter().map(|o| self.known(o.index() as u32));
        let outputs = outputs.collect::<Result<Vec<NodeId>, _>>()?;
        self.new.finish(&outputs)
    }
}
