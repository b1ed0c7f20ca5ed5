//! Equality saturation: rules are applied until they add nothing new, within limits that hold.
//!
//! Each iteration searches for the left sides of all rules, then applies all matches. After the
//! first iteration only classes near a change are searched again. The limits are counts, never a
//! clock, so that the outcome depends on the input alone.

use egg::Id;

use super::{
    analysis::Graph,
    language::Kinds,
    pattern::Match,
    rules::{BOOK, Book},
};
use crate::options::Numerics;

/// The limits of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// E-nodes, beyond those the block came with.
    pub(crate) nodes: usize,
    pub(crate) iterations: usize,
    /// Matches of one rule in one iteration.
    pub(crate) matches: usize,
    /// E-nodes looked at in one iteration.
    pub(crate) fuel: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { nodes: 1500, iterations: 8, matches: 600, fuel: 400_000 }
    }
}

/// Why a search ended; the first limit reached names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stop {
    /// No rule had anything to add.
    #[default]
    Saturated,
    Matches,
    Fuel,
    Iterations,
    Nodes,
    /// The program has more distinct blocks than are searched.
    Blocks,
}

impl Stop {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Stop::Saturated => "saturated",
            Stop::Matches => "match limit",
            Stop::Fuel => "work limit",
            Stop::Iterations => "iteration limit",
            Stop::Nodes => "node limit",
            Stop::Blocks => "block limit",
        }
    }
}

/// The outcome of a search.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) iterations: usize,
    pub(crate) stop: Stop,
    /// How often each rule of the book added something.
    pub(crate) fired: Vec<u32>,
}

/// Which classes a search looks at.
enum Scope {
    All,
    /// The classes with true at their id.
    Some(Vec<bool>),
}

impl Scope {
    fn holds(&self, id: Id) -> bool {
        match self {
            Scope::All => true,
            Scope::Some(marks) => marks.get(usize::from(id)).copied().unwrap_or(false),
        }
    }
}

/// Saturates an e-graph with the rules a policy allows.
pub(crate) fn saturate(graph: &mut Graph, numerics: Numerics, limits: &Limits) -> Outcome {
    let book = &*BOOK;
    let mut run = Run {
        book,
        numerics,
        limits: Limits { nodes: graph.total_size() + limits.nodes, ..*limits },
        outcome: Outcome { fired: vec![0; book.rules.len()], ..Outcome::default() },
    };
    graph.rebuild();
    let mut scope = Scope::All;
    let mut kinds: Kinds = graph.nodes().iter().filter_map(|node| node.kind).collect();
    while run.outcome.iterations < limits.iterations {
        run.outcome.iterations += 1;
        let matches = run.search(graph, &scope, kinds);
        let before = graph.nodes().len();
        let mut changed = run.apply(graph, &matches);
        graph.rebuild();
        kinds.extend(graph.nodes()[before..].iter().filter_map(|node| node.kind));
        changed.extend((before..graph.nodes().len()).map(|i| graph.find(Id::from(i))));
        if changed.is_empty() || run.outcome.stop >= Stop::Nodes {
            return run.outcome;
        }
        scope = near(graph, &changed, book.depth);
    }
    run.outcome.stop = run.outcome.stop.max(Stop::Iterations);
    run.outcome
}

struct Run<'b> {
    book: &'b Book,
    numerics: Numerics,
    limits: Limits,
    outcome: Outcome,
}

impl Run<'_> {
    /// The matches of all rules; `kinds` are those of the ops in the e-graph.
    fn search(&mut self, graph: &Graph, scope: &Scope, kinds: Kinds) -> Vec<(usize, Match)> {
        let mut matches = Vec::new();
        let mut fuel = self.limits.fuel;
        for (at, rule) in self.book.rules.iter().enumerate() {
            if rule.rule.numerics > self.numerics || rule.recognizes() {
                continue;
            }
            let end = matches.len() + self.limits.matches;
            for pattern in rule.patterns.iter().filter(|pattern| pattern.fits(kinds)) {
                let roots = pattern.roots.iter();
                let classes = roots.filter_map(|root| graph.classes_for_op(&Some(*root))).flatten();
                for class in classes.filter(|c| scope.holds(*c)) {
                    let go_on = pattern.search(graph, class, &mut fuel, &mut |found| {
                        matches.push((at, found));
                        matches.len() < end
                    });
                    if !go_on {
                        let why = if fuel == 0 { Stop::Fuel } else { Stop::Matches };
                        self.outcome.stop = self.outcome.stop.max(why);
                        break;
                    }
                }
            }
        }
        matches
    }

    /// Applies matches and gives the classes that changed.
    fn apply(&mut self, graph: &mut Graph, matches: &[(usize, Match)]) -> Vec<Id> {
        let mut changed = Vec::new();
        for (at, found) in matches {
            if graph.total_size() >= self.limits.nodes {
                self.outcome.stop = Stop::Nodes;
                break;
            }
            let Some(made) = self.book.rules[*at].apply(graph, found) else { continue };
            if graph.union(found.root, made) {
                self.outcome.fired[*at] += 1;
                changed.push(graph.find(made));
            }
        }
        changed
    }
}

/// Classes from which a left side can reach a changed class.
fn near(graph: &Graph, changed: &[Id], depth: usize) -> Scope {
    let mut marks = vec![false; graph.nodes().len()];
    let mut front: Vec<Id> = Vec::new();
    let mut mark = |id: Id, front: &mut Vec<Id>| {
        let id = graph.find(id);
        if !std::mem::replace(&mut marks[usize::from(id)], true) {
            front.push(id);
        }
    };
    changed.iter().for_each(|id| mark(*id, &mut front));
    for _ in 0..depth {
        for id in std::mem::take(&mut front) {
            graph[id].parents().for_each(|p| mark(p, &mut front));
        }
    }
    Scope::Some(marks)
}
