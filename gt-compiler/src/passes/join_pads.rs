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

/// What a sum of padded parts is along its axis.
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
        // Looked up only, never iterated over.
        let found: FxHashMap<NodeId, Joined> =
            graph.ids().filter_map(|id| Some((id, joined(graph, id)?))).collect();
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

/// The parts of a sum that is used as a whole only.
fn joined(graph: &Graph, id: NodeId) -> Option<Joined> {
    if op_of(graph.node(id)) != Some(Op::Add) {
        return None;
    }
    let (mut pads, mut parts) = (Vec::new(), Vec::new());
    let sum = collect(graph, id, true, &mut pads, &mut parts)?;
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

/// Whether nothing but one other sum of parts needs a sum.
fn is_inner(graph: &Graph, id: NodeId) -> bool {
    graph.users(id).len() == 1 && !graph.outputs().contains(&id)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "every other op ends the sum")]
fn collect(
    graph: &Graph,
    id: NodeId,
    is_root: bool,
    pads: &mut Vec<Pad>,
    parts: &mut Vec<[NodeId; 2]>,
) -> Option<Sum> {
    match op_of(graph.node(id))? {
        Op::Pad(pad) if parts.len() < MOST => {
            let [x, number] = graph.operands(id)[..] else { return None };
            let is_number =
                matches!(graph.node(number).kind, NodeKind::Scalar(_) | NodeKind::Const(_));
            pads.push(pad);
            parts.push([x, number]);
            is_number.then(|| Sum::Part(parts.len() - 1))
        }
        Op::Add if is_root || is_inner(graph, id) => {
            let [a, b] = graph.operands(id)[..] else { return None };
            let a = collect(graph, a, false, pads, parts)?;
            Some(Sum::Add(Box::new(a), Box::new(collect(graph, b, false, pads, parts)?)))
        }
        _ => None,
    }
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
