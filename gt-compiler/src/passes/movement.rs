//! Movements in a row become one movement, or none: reshapes, permutations, expansions and slices
//! compose, and a value that is one number everywhere needs no movement.

use gt_ir::{
    Graph, NodeId, NodeKind, Op, OpError, Shape,
    attr::{Perm, Slice},
    graph::{Node, Rebuild},
};
use smallvec::SmallVec;

use super::{Context, Pass, op_of, rebuild};

/// The pass: composition of movements.
pub(crate) struct Movement;

impl Pass for Movement {
    fn name(&self) -> &'static str {
        "movement"
    }

    fn run(&self, graph: &Graph, _: &mut Context<'_>) -> Result<Option<Graph>, OpError> {
        rebuild(graph, |new, node, operands| match op_of(node) {
            Some(op @ (Op::Reshape(_) | Op::Permute(_) | Op::Expand(_) | Op::Slice(_))) => {
                moved(new, node, op, operands[0])
            }
            Some(_) | None => new.copy(node, operands),
        })
    }
}

/// `op` applied to a node, composed with the movements already there.
fn moved(new: &mut Rebuild, node: &Node, mut op: Op, mut from: NodeId) -> Result<NodeId, OpError> {
    loop {
        if let Op::Permute(perm) = op
            && keeps_order(&perm, &new.ty(from).shape)
        {
            op = Op::Reshape(node.ty.shape);
        }
        // A slice of equal size takes everything, and a permutation of equal size may still move.
        let changes =
            matches!(op, Op::Permute(_)) || !new.ty(from).shape.same_sizes(&node.ty.shape);
        if !changes {
            return Ok(from);
        }
        match composed(new, node, &op, from) {
            Some((next, inner)) => (op, from) = (next, inner),
            None => break,
        }
    }
    match node.kind {
        NodeKind::Op(same) if same == op => new.copy(node, &[from]),
        NodeKind::Op(_) | NodeKind::Input(_) | NodeKind::Scalar(_) | NodeKind::Const(_) => {
            new.op(op, &[from])
        }
    }
}

/// One movement for `op` after the one that made `from`, and what it moves.
fn composed(new: &Rebuild, node: &Node, op: &Op, from: NodeId) -> Option<(Op, NodeId)> {
    let first = op_of(new.made().node(from))?;
    let inner = *new.made().operands(from).first()?;
    // A value that is one number everywhere is the same number in any shape.
    if let Op::Expand(_) = first
        && new.ty(inner).shape.rank() == 0
    {
        return Some((Op::Expand(node.ty.shape), inner));
    }
    let next = match (first, *op) {
        (Op::Reshape(_), Op::Reshape(to)) => Op::Reshape(to),
        (Op::Expand(_), Op::Expand(to)) => Op::Expand(to),
        (Op::Reshape(middle), Op::Expand(to)) if adds_leading(&new.ty(inner).shape, &middle) => {
            Op::Expand(to)
        }
        (Op::Permute(first), Op::Permute(then)) => Op::Permute(after(&first, &then)?),
        (Op::Slice(first), Op::Slice(then)) if first.axis == then.axis => {
            Op::Slice(sliced(&first, &then))
        }
        _ => return None,
    };
    Some((next, inner))
}

/// Whether axes that matter keep their order, so that the elements do.
pub(crate) fn keeps_order(perm: &Perm, shape: &Shape) -> bool {
    let kept: SmallVec<[usize; 8]> = perm.axes().filter(|&a| shape.sizes()[a] != 1).collect();
    kept.is_sorted()
}

/// Whether `to` is `from` with axes of size 1 in front.
pub(crate) fn adds_leading(from: &Shape, to: &Shape) -> bool {
    let Some(lead) = to.rank().checked_sub(from.rank()) else { return false };
    to.sizes()[..lead].iter().all(|&s| s == 1) && to.sizes()[lead..] == *from.sizes()
}

/// The permutation that does one after another.
pub(crate) fn after(first: &Perm, then: &Perm) -> Option<Perm> {
    let first: SmallVec<[usize; 8]> = first.axes().collect();
    let axes: SmallVec<[usize; 8]> = then.axes().map(|a| first[a]).collect();
    Perm::new(&axes)
}

/// The slice that takes the second of what the first takes.
///
/// A slice of at most one element may have any step, so only the steps of longer slices are
/// multiplied: their product is less than the size of the axis.
pub(crate) fn sliced(first: &Slice, then: &Slice) -> Slice {
    let at = |i: u64| first.start.saturating_add(i.saturating_mul(first.step));
    let stop = match then.len() {
        0 => at(then.start).min(first.stop),
        n => at(then.start + (n - 1) * then.step) + 1,
    };
    let step = if then.len() > 1 { first.step * then.step } else { 1 };
    Slice { axis: first.axis, start: at(then.start).min(stop), stop, step }
}
