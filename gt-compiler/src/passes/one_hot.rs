//! A `scatter_add` of one element into each row of a constant becomes a comparison of the index
//! with the position, which kernels compute where they need it: the gradient of picking one score
//! out of many takes no memory of its own.
//!
//! Exact: each element is the constant, or the constant plus the one element added to it. An index
//! outside of its axis is still found, by the `gather` that picked from an axis of this size with
//! the same indices; without such a `gather` nothing changes.

use gt_ir::{DType, Graph, NodeId, NodeKind, Op, OpError, Shape, Type, graph::Rebuild};

use super::{Context, Operands, Pass, op_of, rebuild};

/// The pass: scattered single elements to comparisons.
pub(crate) struct OneHots;

impl Pass for OneHots {
    fn name(&self) -> &'static str {
        "one-hots"
    }

    fn run(&self, graph: &Graph, _: &mut Context<'_>) -> Result<Option<Graph>, OpError> {
        let found: Vec<Option<usize>> = graph.ids().map(|id| one_hot(graph, id)).collect();
        if found.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut found = found.into_iter();
        rebuild(graph, |new, node, operands| match found.next().flatten() {
            Some(axis) => compared(new, operands, axis),
            None => new.copy(node, operands),
        })
    }
}

/// The axis of an addition that meets each row of a number once, at a place that is checked
/// elsewhere.
fn one_hot(graph: &Graph, id: NodeId) -> Option<usize> {
    let Op::ScatterAdd(axis) = op_of(graph.node(id))? else { return None };
    let at = usize::from(axis.0);
    let [base, index, _] = graph.operands(id)[..] else { return None };
    let (all, places) = (graph.node(base).ty.shape, graph.node(index).ty.shape);
    let others = |shape: &Shape| {
        let mut sizes = shape.sizes().to_vec();
        sizes[at] = 1;
        sizes
    };
    let is_checked = |user: NodeId| {
        op_of(graph.node(user)) == Some(Op::Gather(axis)) && {
            let operands = graph.operands(user);
            let size = graph.node(operands[0]).ty.shape.sizes()[at];
            operands[1] == index && size == all.sizes()[at]
        }
    };
    let fits = is_number(graph, base) && places.sizes()[at] == 1 && others(&all) == places.sizes();
    (fits && graph.users(index).into_iter().any(is_checked)).then_some(at)
}

/// Whether a value is one number everywhere.
fn is_number(graph: &Graph, id: NodeId) -> bool {
    match graph.node(id).kind {
        NodeKind::Scalar(_) | NodeKind::Const(_) => true,
        NodeKind::Op(Op::Expand(_) | Op::Reshape(_)) => is_number(graph, graph.operands(id)[0]),
        NodeKind::Op(_) | NodeKind::Input(_) => false,
    }
}

fn compared(new: &mut Rebuild, operands: &Operands, axis: usize) -> Result<NodeId, OpError> {
    let (base, index, src) = (operands[0], operands[1], operands[2]);
    let all = new.ty(base).shape;
    let n = all.dim(axis);
    let places = new.op(Op::Iota(Type::new(DType::I64, Shape::from_dims(&[n])?)), &[])?;
    let line = (0..all.rank()).map(|d| if d == axis { n } else { gt_ir::Dim::new(1) });
    let line = Shape::from_dims(&line.collect::<Vec<_>>())?;
    let mut shaped = |op: Op, id: NodeId, shape: &Shape| match new.ty(id).shape.same_sizes(shape) {
        true => Ok(id),
        false => new.op(op, &[id]),
    };
    let places = shaped(Op::Reshape(line), places, &line)?;
    let [places, index, src] = [places, index, src].map(|id| shaped(Op::Expand(all), id, &all));
    let (places, index, src) = (places?, index?, src?);
    let is_here = new.op(Op::Eq, &[places, index])?;
    let sum = new.op(Op::Add, &[base, src])?;
    new.op(Op::Where, &[is_here, sum, base])
}
