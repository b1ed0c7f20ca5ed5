//! The search of one block: into an e-graph, and out again as a solution.

use egg::Id;

use super::{
    analysis,
    assemble::{Solution, Step},
    block::{Block, Cut, Role},
    extract::{self, Chosen, Problem},
    language::{Kinds, Node, Sig, Uniform, What},
    rules::{BOOK, Compiled},
};
use crate::cost::Machine;

/// Adds the nodes of a block; gives their classes.
pub(super) fn insert(graph: &mut analysis::Graph, cut: &Cut, block: &Block) -> Vec<Id> {
    let mut ids: Vec<Id> = Vec::with_capacity(block.locals.len());
    for (at, local) in block.locals.iter().enumerate() {
        let term = &cut.terms[local.node as usize];
        let Sig { what, ty } = *graph.analysis.sigs.get(term.sig);
        let (own, kind) = match (local.role, what) {
            (Role::External, _) => (Some(What::External(at as u32)), None),
            (Role::Number(Some(slot)), _) => (Some(What::Uniform(Uniform::Slot(slot))), None),
            (_, What::Op(op)) => (None, Some(op.kind())),
            (_, What::External(_) | What::Uniform(_)) => (None, None),
        };
        let sig = own.map_or(term.sig, |what| graph.analysis.sigs.intern(Sig { what, ty }));
        let children = local.children.iter().map(|c| ids[*c as usize]).collect();
        ids.push(graph.add(Node { kind, sig, children }));
    }
    ids
}

/// How often each rule that only recognizes finds its left side in the block; a value counts for
/// the first such rule.
pub(super) fn recognize(graph: &mut analysis::Graph, block: &Block, ids: &[Id]) -> Vec<u32> {
    let members =
        block.locals.iter().zip(ids).filter(|(l, _)| matches!(l.role, Role::Member { .. }));
    let mut members: Vec<Id> = members.map(|(_, id)| graph.find(*id)).collect();
    members.sort_unstable();
    members.dedup();
    let kinds: Kinds = graph.nodes().iter().filter_map(|node| node.kind).collect();
    let fits = |rule: &Compiled| rule.patterns.iter().any(|pattern| pattern.fits(kinds));
    let rules = BOOK.rules.iter().enumerate().filter(|(_, r)| r.recognizes() && fits(r));
    let rules: Vec<(usize, &Compiled)> = rules.collect();
    let mut counts = vec![0; BOOK.rules.len()];
    for class in members {
        if let Some((at, _)) = rules.iter().find(|(_, rule)| is_found(graph, rule, class)) {
            counts[*at] += 1;
        }
    }
    counts
}

/// Whether a class is a match of a rule that recognizes.
fn is_found(graph: &mut analysis::Graph, rule: &Compiled, class: Id) -> bool {
    let kind = graph[class].nodes.first().and_then(|node| node.kind);
    let mut matches = Vec::new();
    for pattern in rule.patterns.iter().filter(|p| kind.is_some_and(|k| p.roots.contains(&k))) {
        let mut fuel = 10_000;
        pattern.search(graph, class, &mut fuel, &mut |found| {
            matches.push(found);
            matches.len() < 8
        });
    }
    matches.iter().any(|found| rule.is_known(graph, found))
}

/// The cheaper way to compute a block that its e-graph holds, if there is one.
pub(super) fn solution(
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
