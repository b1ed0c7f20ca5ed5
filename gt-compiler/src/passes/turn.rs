//! A matrix product of which only the transpose is used is computed transposed: the operands are
//! transposed, by strides alone, instead of the result, which would be read across its rows.
//!
//! Exact: each element is the sum of the same products in the same order. Products with vectors
//! stay, since their order of additions depends on the side of the vector.

use gt_ir::{Graph, NodeId, NodeKind, Op, OpError, attr::Perm};

use super::{Context, Pass, op_of, rebuild};

/// The pass: transposed products.
pub(crate) struct TurnProducts;

impl Pass for TurnProducts {
    fn name(&self) -> &'static str {
        "turn-products"
    }

    fn run(&self, graph: &Graph, _: &mut Context<'_>) -> Result<Option<Graph>, OpError> {
        let turned: Vec<Option<Perm>> = graph.ids().map(|id| turn(graph, id)).collect();
        if turned.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut ids = graph.ids();
        rebuild(graph, |new, node, operands| {
            let Some(id) = ids.next() else { return new.copy(node, operands) };
            if let Some(perm) = turned[id.index()] {
                let left = new.op(Op::Permute(perm), &[operands[1]])?;
                let right = new.op(Op::Permute(perm), &[operands[0]])?;
                return new.op(Op::MatMul, &[left, right]);
            }
            let of_turned =
                graph.operands(id).first().is_some_and(|from| turned[from.index()].is_some());
            if of_turned { Ok(operands[0]) } else { new.copy(node, operands) }
        })
    }
}

/// The swap of the last two axes that is all a product is used for.
fn turn(graph: &Graph, id: NodeId) -> Option<Perm> {
    let NodeKind::Op(Op::MatMul) = graph.node(id).kind else { return None };
    let shape = graph.node(id).ty.shape;
    let (rank, sizes) = (shape.rank(), shape.sizes());
    let swap = Perm::swap(rank, rank - 2, rank - 1)?;
    let [user] = graph.users(id)[..] else { return None };
    let only = op_of(graph.node(user)) == Some(Op::Permute(swap)) && !graph.outputs().contains(&id);
    (only && sizes[rank - 2] > 1 && sizes[rank - 1] > 1).then_some(swap)
}
