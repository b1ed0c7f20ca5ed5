//! A sum of padded parts becomes a concatenation, where the parts neither overlap nor leave a gap:
//! the gradient of a tensor that was cut into slices is written once, not grown slice by slice.
//!
//! Exact: each element is the sum of its part and of the padding of the other parts, in their
//! order.

use gt_ir::{
    Graph, NodeId, NodeKind, Op, OpError, Shape,
    attr::{Axis, Pad},
    graph::Rebuild,
};
use rustc_hash::FxHashMap;

use super::{Context, Pass, op_of, rebuild};

/// Most parts of one sum: each of them is added to the numbers of all others.
const MOST: usize = 16;

/// The pass: sums of padded parts to concatenations.
pub(crate) struct JoinPads;

/// A sum of parts, or a part by its number.
enum Sum {
    Part(usize),
    Add(Box<Sum>, Box<Sum>),
}

/// A sum of padded parts along their axis.
struct Joined {
    axis: Axis,
    sum: Sum,
    /// The operands of the pads, and the padding, in the order of the sum.
    parts: Vec<[NodeId; 2]>,
    /// The parts in the order they lie in.
    order: Vec<usize>,
}

impl Pass for JoinPads {
    fn name(&self) -> &'static str {
        "join-pads"
    }

    fn run(&self, graph: &Graph, _: &mut Context<'_>) -> Result<Option<Graph>, OpError> {
        let parts = parts(graph);
        let is_sum = |id: &NodeId| parts[id.index()] > 1;
        // Looked up only, never iterated over.
        let found: FxHashMap<NodeId, Joined> =
            graph.ids().filter(is_sum).filter_map(|id| Some((id, joined(graph, id)?))).collect();
        if found.is_empty() {
            return Ok(None);
        }
        let mut ids = graph.ids();
        let mut map: Vec<NodeId> = Vec::with_capacity(graph.len());
        rebuild(graph, |new, node, operands| {
            let made = match ids.next().and_then(|id| found.get(&id)) {
                Some(joined) => joined.build(new, graph, &map)?,
                None => new.copy(node, operands)?,
            };
            map.push(made);
            Ok(made)
        })
    }
}

/// For each node the number of padded parts that it is the sum of: 1 for a pad, 0 for a value that
/// is no such sum or has more than [`MOST`] parts.
///
/// The numbers come from operands to users, so that a long chain of additions is walked once, and
/// [`joined`] descends only into sums of a few parts.
fn parts(graph: &Graph) -> Vec<usize> {
    let mut parts: Vec<usize> = Vec::with_capacity(graph.len());
    for id in graph.ids() {
        parts.push(match op_of(graph.node(id)) {
            Some(Op::Pad(_)) => usize::from(is_number(graph, graph.operands(id)[1])),
            Some(Op::Add) => {
                let operands = graph.operands(id);
                let all: usize = operands.iter().map(|o| parts[o.index()]).sum();
                let is_sum = |o: &NodeId| parts[o.index()] > 0 && is_term(graph, *o);
                if all <= MOST && operands.iter().all(is_sum) { all } else { 0 }
            }
            Some(_) | None => 0,
        });
    }
    parts
}

fn is_number(graph: &Graph, id: NodeId) -> bool {
    matches!(graph.node(id).kind, NodeKind::Scalar(_) | NodeKind::Const(_))
}

/// Whether a value may be a term of a sum of parts: a pad, or a sum that nothing else needs.
fn is_term(graph: &Graph, id: NodeId) -> bool {
    op_of(graph.node(id)) != Some(Op::Add)
        || graph.users(id).len() == 1 && !graph.outputs().contains(&id)
}

/// A sum of parts, if they cover its axis.
fn joined(graph: &Graph, id: NodeId) -> Option<Joined> {
    let (mut pads, mut parts) = (Vec::new(), Vec::new());
    let sum = collect(graph, id, &mut pads, &mut parts)?;
    let axis = pads.first()?.axis;
    let size = graph.node(id).ty.shape.sizes()[usize::from(axis)] as u64;
    let mut order: Vec<usize> = (0..pads.len()).collect();
    order.sort_by_key(|i| pads[*i].lo);
    let mut end = 0;
    for &i in &order {
        let Pad { axis: along, lo, hi, interior } = pads[i];
        if along != axis || interior != 0 || lo != end {
            return None;
        }
        end = size.checked_sub(hi)?;
    }
    (end == size).then_some(Joined { axis: Axis(axis), sum, parts, order })
}

/// Reads a sum that [`parts`] has found.
fn collect(
    graph: &Graph,
    id: NodeId,
    pads: &mut Vec<Pad>,
    parts: &mut Vec<[NodeId; 2]>,
) -> Option<Sum> {
    let [a, b] = graph.operands(id)[..] else { return None };
    if let Some(Op::Pad(pad)) = op_of(graph.node(id)) {
        pads.push(pad);
        parts.push([a, b]);
        return Some(Sum::Part(parts.len() - 1));
    }
    let a = collect(graph, a, pads, parts)?;
    Some(Sum::Add(Box::new(a), Box::new(collect(graph, b, pads, parts)?)))
}

impl Joined {
    fn build(&self, new: &mut Rebuild, graph: &Graph, map: &[NodeId]) -> Result<NodeId, OpError> {
        let mut laid: Vec<NodeId> = Vec::with_capacity(self.order.len());
        for &part in &self.order {
            let shape = graph.node(self.parts[part][0]).ty.shape;
            if shape.sizes()[usize::from(self.axis.0)] > 0 {
                laid.push(self.part(&self.sum, part, &shape, new, map)?);
            }
        }
        if laid.len() == 1 { Ok(laid[0]) } else { new.op(Op::Cat(self.axis), &laid) }
    }

    /// The sum where this part lies.
    fn part(
        &self,
        sum: &Sum,
        part: usize,
        shape: &Shape,
        new: &mut Rebuild,
        map: &[NodeId],
    ) -> Result<NodeId, OpError> {
        match sum {
            Sum::Part(i) if *i == part => Ok(map[self.parts[*i][0].index()]),
            Sum::Part(i) => {
                let number = map[self.parts[*i][1].index()];
                if shape.rank() == 0 { Ok(number) } else { new.op(Op::Expand(*shape), &[number]) }
            }
            Sum::Add(a, b) => {
                let a = self.part(a, part, shape, new, map)?;
                let b = self.part(b, part, shape, new, map)?;
                new.op(Op::Add, &[a, b])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use gt_ir::{lower, text};

    use super::*;

    /// A chain of additions, with a pad as its first operand.
    fn chain(additions: usize) -> Graph {
        let mut tape =
            "gt tape 1\n%0 = input : f32[3]\n%1 = pad[0,1,0,0] %0, 0.0 : f32[4]\n".to_owned();
        for at in 1..=additions {
            writeln!(tape, "%{} = add %{at}, %1 : f32[4]", at + 1).unwrap();
        }
        writeln!(tape, "output %{}", additions + 1).unwrap();
        lower(&text::parse(&tape).unwrap().0).unwrap().expanded().unwrap()
    }

    #[test]
    fn a_long_sum_has_too_many_parts() {
        let parts = parts(&chain(20_000));
        let (few, many) = parts.split_at(MOST + 2);
        assert_eq!(few.iter().max(), Some(&MOST));
        assert!(many.iter().all(|n| *n == 0));
    }
}
