//! A permutation that a later one undoes moves behind the pointwise ops between the two, where both
//! cancel: `permute(f(permute(x), y))` is `f(x, permute(y))`.
//!
//! Exact: the same elements are computed from the same operands. It happens only where permutations
//! cancel, so that the values in between are computed and stored in the order of their producer and
//! of their user: images with channels last between convolutions.

use gt_ir::{
    Class, Graph, NodeId, Op, OpError, Shape,
    attr::Perm,
    graph::{Node, Rebuild},
    shape::Dim,
};

use super::{Context, Operands, Pass, op_of, rebuild};

/// The pass: permutations past pointwise ops.
pub(crate) struct SinkPermutes;

impl Pass for SinkPermutes {
    fn name(&self) -> &'static str {
        "sink-permutes"
    }

    fn run(&self, graph: &Graph, _: &mut Context<'_>) -> Result<Option<Graph>, OpError> {
        let wanted = wanted(graph);
        if !graph.ids().any(|id| is_pointwise(graph.node(id)) && wanted[id.index()].is_some()) {
            return Ok(None);
        }
        let mut ids = graph.ids();
        rebuild(graph, |new, node, operands| {
            let perm = ids.next().and_then(|id| wanted[id.index()]);
            let sunk = match perm.filter(|_| is_pointwise(node)) {
                Some(perm) => sunk(new, node, operands, &perm)?,
                None => None,
            };
            sunk.map_or_else(|| new.copy(node, operands), Ok)
        })
    }
}

fn is_pointwise(node: &Node) -> bool {
    op_of(node).is_some_and(|op| op.spec().class == Class::Pointwise)
}

/// For each node a permutation that it, or what is computed from it element by element, is given
/// to.
fn wanted(graph: &Graph) -> Vec<Option<Perm>> {
    let mut wanted: Vec<Option<Perm>> = vec![None; graph.len()];
    for id in graph.ids().rev() {
        let node = graph.node(id);
        let perm = match op_of(node) {
            Some(Op::Permute(perm)) => Some(perm),
            Some(_) if is_pointwise(node) => wanted[id.index()],
            Some(_) | None => None,
        };
        for operand in graph.operands(id) {
            wanted[operand.index()] = wanted[operand.index()].or(perm);
        }
    }
    wanted
}

/// The op on operands permuted, and its result permuted back; nothing where that cancels no
/// permutation or would make a new one.
fn sunk(
    new: &mut Rebuild,
    node: &Node,
    operands: &Operands,
    perm: &Perm,
) -> Result<Option<NodeId>, OpError> {
    let permuted = |new: &Rebuild, id: NodeId| match op_of(new.made().node(id)) {
        Some(Op::Permute(p)) if p == perm.inverse() => new.made().operands(id).first().copied(),
        Some(_) | None => None,
    };
    let Some(op) = op_of(node) else { return Ok(None) };
    let spread = |new: &Rebuild, id| matches!(op_of(new.made().node(id)), Some(Op::Expand(_)));
    let cancels = operands.iter().any(|id| permuted(new, *id).is_some());
    if !cancels || !operands.iter().all(|id| permuted(new, *id).is_some() || spread(new, *id)) {
        return Ok(None);
    }
    let mut turned = Operands::new();
    for id in operands {
        turned.push(match permuted(new, *id) {
            Some(inner) => inner,
            None => expanded(new, *id, perm)?,
        });
    }
    let made = new.op(op, &turned)?;
    new.op(Op::Permute(perm.inverse()), &[made]).map(Some)
}

/// An expansion, permuted: what it repeats is permuted instead.
fn expanded(new: &mut Rebuild, id: NodeId, perm: &Perm) -> Result<NodeId, OpError> {
    let to = new.ty(id).shape;
    let from = new.made().operands(id).first().copied();
    let from = from.ok_or_else(|| OpError::new("expand: has no operand"))?;
    let shape = new.ty(from).shape;
    let goal = Shape::collect(perm.axes().map(|a| to.dim(a)))?;
    if shape.rank() == 0 {
        return new.op(Op::Expand(goal), &[from]);
    }
    let ones = std::iter::repeat_n(Dim::new(1), to.rank() - shape.rank());
    let full = new.op(Op::Reshape(Shape::collect(ones.chain(shape.dims()))?), &[from])?;
    let turned = new.op(Op::Permute(*perm), &[full])?;
    new.op(Op::Expand(goal), &[turned])
}
