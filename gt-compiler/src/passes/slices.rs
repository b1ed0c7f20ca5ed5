//! A `gather` or a `scatter_add` whose index is the same all over each slice of the axis becomes an
//! `index_select` or an `index_add`, which read one position for a slice: `index.unsqueeze(1)`
//! expanded to the width of a matrix names its rows.
//!
//! Exact: the same elements are added in the same order. The `expand` is known from the graph; an
//! index that was computed before is not looked at.

use gt_ir::{Dim, Graph, NodeId, Op, OpError, Shape, graph::Node};

use super::{Context, Pass, op_of, rebuild};

/// The pass: indices of elements to indices of slices.
pub(crate) struct Slices;

impl Pass for Slices {
    fn name(&self) -> &'static str {
        "slices"
    }

    fn run(&self, graph: &Graph, _: &mut Context<'_>) -> Result<Option<Graph>, OpError> {
        if !graph.ids().any(|id| sliced(graph, graph.node(id), &graph.operands(id)).is_some()) {
            return Ok(None);
        }
        rebuild(graph, |new, node, operands| {
            let Some((op, index, n)) = sliced(new.made(), node, operands) else {
                return new.copy(node, operands);
            };
            let line = Shape::from_dims(&[n])?;
            let mut operands = operands.clone();
            operands[1] = match new.ty(index).shape.same_sizes(&line) {
                true => index,
                false => new.op(Op::Reshape(line), &[index])?,
            };
            new.op(op, &operands)
        })
    }
}

/// The op by slices, and its index before it was expanded, of so many elements.
fn sliced(graph: &Graph, node: &Node, operands: &[NodeId]) -> Option<(Op, NodeId, Dim)> {
    let (op, axis) = match op_of(node) {
        Some(Op::Gather(axis)) => (Op::IndexSelect(axis), usize::from(axis.0)),
        Some(Op::ScatterAdd(axis)) => (Op::IndexAdd(axis), usize::from(axis.0)),
        Some(_) | None => return None,
    };
    let (of, places) = (graph.node(operands[0]).ty.shape, graph.node(operands[1]));
    let Some(Op::Expand(_)) = op_of(places) else { return None };
    let index = graph.operands(operands[1])[0];
    let (all, from) = (places.ty.shape, graph.node(index).ty.shape);
    let behind = all.rank() - from.rank().min(all.rank());
    let size = |d: usize| d.checked_sub(behind).map_or(1, |d| from.sizes()[d]);
    let others = || (0..all.rank()).filter(|d| *d != axis);
    let fits = others().all(|d| size(d) == 1 && all.sizes()[d] == of.sizes()[d]);
    let is_wide = others().any(|d| all.sizes()[d] > 1);
    (fits && is_wide && size(axis) == all.sizes()[axis]).then(|| (op, index, all.dim(axis)))
}
