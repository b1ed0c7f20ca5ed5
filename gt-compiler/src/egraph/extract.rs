//! The extraction: one e-node for each class, so that the graph, not the tree, is cheapest.
//!
//! A greedy choice comes first: each class takes the e-node whose set of needed classes costs
//! least, where a class counts once however often it is needed. Then other e-nodes are tried one at
//! a time and judged by the cost model of whole graphs (hill climbing). The block as it came is a
//! candidate too, so that the result is never worse.

use egg::Id;
use gt_ir::Type;

use super::{
    analysis::Graph,
    language::{Node, What},
};
use crate::cost::{self, Dag, Machine};

/// Most graphs costed while improving one block.
const MAX_TRIALS: usize = 24;
/// Sweeps over the classes until the greedy choice must have settled.
const MAX_SWEEPS: usize = 6;
/// Seconds that make a longer chain of free ops the worse one.
const EPSILON: f64 = 1e-12;

/// A value of a choice, in topological order.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) class: Id,
    /// `None` for a value that needs no computation.
    pub(super) node: Option<Node>,
    /// Places of the operands in the list of values.
    pub(super) operands: Vec<usize>,
}

/// A block to be extracted.
pub(super) struct Problem<'g> {
    pub(super) graph: &'g Graph,
    /// The classes wanted.
    pub(super) wanted: &'g [Id],
    /// Classes that other blocks provide.
    pub(super) provided: &'g [Id],
    /// The e-nodes the block came with.
    pub(super) original: &'g [(Id, Node)],
    pub(super) machine: &'g Machine,
}

/// A cheaper way to compute the wanted classes, if the e-graph holds one.
pub(super) fn cheaper(problem: &Problem<'_>) -> Option<Vec<Chosen>> {
    let space = Space::new(problem);
    if space.classes.iter().all(|c| c.nodes.len() <= 1) && space.is_unmerged(problem) {
        return None;
    }
    let original = space.original(problem);
    // A rule may find a value equal to one of its operands, as in `x && (x || y) = x`. The original
    // program then needs its own result, or computes one value in two ways, and has no cost in the
    // e-graph. Every solution is tried in this case: the caller compares whole graphs before it
    // takes one.
    let known = if is_merged(problem) { None } else { space.objective(problem, &original) };
    let before = known.unwrap_or(f64::INFINITY);
    let mut best = original;
    let mut cost = before;
    let greedy = space.greedy();
    if let Some(found) = space.objective(problem, &greedy).filter(|found| *found < cost) {
        (best, cost) = (greedy, found);
    }
    space.improve(problem, &mut best, &mut cost);
    // A gain that rounding could have made is none.
    (cost < before * (1.0 - 1e-9)).then(|| space.list(problem, &best)).flatten()
}

/// Whether two values of the block as it came have one class by now.
fn is_merged(problem: &Problem<'_>) -> bool {
    let mut classes: Vec<Id> =
        problem.original.iter().map(|(id, _)| problem.graph.find(*id)).collect();
    classes.sort_unstable();
    classes.windows(2).any(|pair| pair[0] == pair[1])
}

/// The classes that matter, with dense numbers, operands before users as far as there are no
/// cycles.
struct Space {
    classes: Vec<Class>,
    /// The number of a class by its id.
    number: Vec<u32>,
}

struct Class {
    id: Id,
    provided: bool,
    nodes: Vec<Candidate>,
}

struct Candidate {
    node: Node,
    operands: Vec<usize>,
    cost: f64,
}

const NONE: u32 = u32::MAX;

impl Space {
    fn new(problem: &Problem<'_>) -> Space {
        let graph = problem.graph;
        let mut space = Space { classes: Vec::new(), number: vec![NONE; graph.nodes().len()] };
        let provided: Vec<Id> = problem.provided.iter().map(|id| graph.find(*id)).collect();
        let mut seen = vec![false; graph.nodes().len()];
        // Depth first without recursion: a class is numbered when what it needs has been.
        let mut stack: Vec<(Id, bool)> =
            problem.wanted.iter().rev().map(|id| (graph.find(*id), false)).collect();
        while let Some((id, done)) = stack.pop() {
            let at = usize::from(id);
            if done {
                space.number[at] = space.classes.len() as u32;
                space.classes.push(Class {
                    id,
                    provided: provided.contains(&id),
                    nodes: Vec::new(),
                });
            } else if !std::mem::replace(&mut seen[at], true) {
                stack.push((id, true));
                if !provided.contains(&id) {
                    let children = graph[id].nodes.iter().flat_map(|n| n.children.iter());
                    stack.extend(children.map(|c| (graph.find(*c), false)));
                }
            }
        }
        for at in 0..space.classes.len() {
            let class = &space.classes[at];
            if !class.provided {
                let nodes =
                    graph[class.id].nodes.iter().map(|n| space.candidate(problem, n)).collect();
                space.classes[at].nodes = nodes;
            }
        }
        space
    }

    fn candidate(&self, problem: &Problem<'_>, node: &Node) -> Candidate {
        let graph = problem.graph;
        let operands = node
            .children
            .iter()
            .map(|c| self.number[usize::from(graph.find(*c))] as usize)
            .collect();
        let types: Vec<&Type> = node.children.iter().map(|c| &graph[*c].data.ty).collect();
        let sig = graph.analysis.sigs.get(node.sig);
        let cost = match sig.what {
            What::Op(op) => EPSILON + cost::alone(&op, &sig.ty, &types, problem.machine),
            What::External(_) | What::Uniform(_) => 0.0,
        };
        Candidate { node: node.clone(), operands, cost }
    }

    /// Whether the block came with a class for each e-node.
    fn is_unmerged(&self, problem: &Problem<'_>) -> bool {
        let n =
            self.classes.iter().filter(|c| c.nodes.iter().any(|n| n.node.kind.is_some())).count();
        n >= problem.original.len()
    }

    /// The choice the block came with, by class.
    fn original(&self, problem: &Problem<'_>) -> Vec<usize> {
        let mut choice = vec![usize::MAX; self.classes.len()];
        for (id, node) in problem.original {
            let number = self.number[usize::from(problem.graph.find(*id))];
            let Some(class) = self.classes.get(number as usize) else { continue };
            if choice[number as usize] != usize::MAX {
                continue;
            }
            let canonical = node.children.iter().map(|c| problem.graph.find(*c));
            let is = |n: &Candidate| {
                n.node.sig == node.sig && n.node.children.iter().copied().eq(canonical.clone())
            };
            choice[number as usize] = class.nodes.iter().position(is).unwrap_or(0);
        }
        choice.iter().map(|c| if *c == usize::MAX { 0 } else { *c }).collect()
    }

    fn greedy(&self) -> Vec<usize> {
        let words = self.classes.len().div_ceil(64);
        let mut best: Vec<Option<(f64, Vec<u64>, usize)>> = vec![None; self.classes.len()];
        for _ in 0..MAX_SWEEPS {
            let mut changed = false;
            for (at, class) in self.classes.iter().enumerate() {
                if class.provided {
                    changed |= best[at].is_none();
                    best[at] = Some((0.0, vec![0; words], 0));
                    continue;
                }
                for (n, candidate) in class.nodes.iter().enumerate() {
                    let Some(set) = self.needs(at, candidate, &best, words) else { continue };
                    let others = self.sum(&set, &best);
                    let total = others + candidate.cost;
                    if best[at].as_ref().is_none_or(|(known, ..)| total < known * (1.0 - 1e-12)) {
                        let mut set = set;
                        set[at / 64] |= 1 << (at % 64);
                        best[at] = Some((total, set, n));
                        changed = true;
                    }
                }
            }
            if !changed {
                break;
            }
        }
        best.into_iter().map(|b| b.map_or(0, |(_, _, n)| n)).collect()
    }

    /// The classes a candidate needs, unless it needs its own.
    fn needs(
        &self,
        at: usize,
        candidate: &Candidate,
        best: &[Option<(f64, Vec<u64>, usize)>],
        words: usize,
    ) -> Option<Vec<u64>> {
        let mut set = vec![0_u64; words];
        for &operand in &candidate.operands {
            let (_, needed, _) = best[operand].as_ref()?;
            set.iter_mut().zip(needed).for_each(|(s, n)| *s |= n);
        }
        (set[at / 64] >> (at % 64) & 1 == 0).then_some(set)
    }

    fn sum(&self, set: &[u64], best: &[Option<(f64, Vec<u64>, usize)>]) -> f64 {
        let mut total = 0.0;
        for (word, bits) in set.iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 {
                let at = word * 64 + bits.trailing_zeros() as usize;
                let chosen = best[at].as_ref().map_or(0, |(_, _, n)| *n);
                total += self.classes[at].nodes.get(chosen).map_or(0.0, |c| c.cost);
                bits &= bits - 1;
            }
        }
        total
    }

    /// Tries other e-nodes for the classes in use, one at a time.
    fn improve(&self, problem: &Problem<'_>, best: &mut [usize], cost: &mut f64) {
        let mut trials = 0;
        for at in (0..self.classes.len()).rev() {
            for n in 0..self.classes[at].nodes.len() {
                if n == best[at] || self.classes[at].nodes.len() < 2 {
                    continue;
                }
                if trials == MAX_TRIALS {
                    return;
                }
                trials += 1;
                let before = std::mem::replace(&mut best[at], n);
                match self.objective(problem, best).filter(|found| *found < *cost * (1.0 - 1e-9)) {
                    Some(found) => *cost = found,
                    None => best[at] = before,
                }
            }
        }
    }

    /// Seconds of a choice; nothing if it runs in a circle.
    fn objective(&self, problem: &Problem<'_>, choice: &[usize]) -> Option<f64> {
        let order = self.order(problem, choice)?;
        let mut dag = Dag::default();
        let mut place = vec![0_usize; self.classes.len()];
        for &at in &order {
            let class = &self.classes[at];
            let ty = &problem.graph[class.id].data.ty;
            place[at] = match class.nodes.get(choice[at]) {
                None => dag.given(ty),
                Some(candidate) => match problem.graph.analysis.sigs.get(candidate.node.sig).what {
                    What::External(_) => dag.given(ty),
                    What::Uniform(_) => dag.number(ty),
                    What::Op(op) => {
                        let first = candidate
                            .operands
                            .first()
                            .map(|o| problem.graph[self.classes[*o].id].data.ty);
                        dag.op(
                            &op,
                            ty,
                            first.as_ref(),
                            candidate.operands.iter().map(|o| place[*o]),
                        )
                    }
                },
            };
        }
        for id in problem.wanted {
            dag.output(place[self.number[usize::from(problem.graph.find(*id))] as usize]);
        }
        Some(cost::cost_of(&dag, problem.machine).seconds)
    }

    /// Classes a choice needs, operands first; nothing if it runs in a circle.
    fn order(&self, problem: &Problem<'_>, choice: &[usize]) -> Option<Vec<usize>> {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let mut marks = vec![Mark::New; self.classes.len()];
        let mut order = Vec::with_capacity(self.classes.len());
        let number = |id: &Id| self.number[usize::from(problem.graph.find(*id))] as usize;
        let mut stack: Vec<(usize, bool)> =
            problem.wanted.iter().rev().map(|id| (number(id), false)).collect();
        while let Some((at, done)) = stack.pop() {
            if done {
                marks[at] = Mark::Done;
                order.push(at);
                continue;
            }
            match marks[at] {
                Mark::Done => continue,
                Mark::Open => return None,
                Mark::New => marks[at] = Mark::Open,
            }
            stack.push((at, true));
            if let Some(candidate) = self.classes[at].nodes.get(choice[at]) {
                for &operand in candidate.operands.iter().rev() {
                    match marks[operand] {
                        Mark::Open => return None,
                        Mark::New => stack.push((operand, false)),
                        Mark::Done => (),
                    }
                }
            }
        }
        Some(order)
    }

    fn list(&self, problem: &Problem<'_>, choice: &[usize]) -> Option<Vec<Chosen>> {
        let order = self.order(problem, choice)?;
        let mut place = vec![0_usize; self.classes.len()];
        let mut list = Vec::with_capacity(order.len());
        for (i, at) in order.into_iter().enumerate() {
            place[at] = i;
            let class = &self.classes[at];
            let chosen = class.nodes.get(choice[at]);
            let operands =
                chosen.map(|c| c.operands.iter().map(|o| place[*o]).collect()).unwrap_or_default();
            list.push(Chosen { class: class.id, node: chosen.map(|c| c.node.clone()), operands });
        }
        Some(list)
    }
}
