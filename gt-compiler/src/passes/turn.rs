//! A product that only its transpose is used of is made transposed: the operands are turned, which
//! is a matter of strides, instead of the result, which would be read across its rows.
//!
//! Exact: each element is the sum of the same products in the same order. Products with vectors
//! stay, since the engine folds those in an order that depends on which side the vector stands.

use gt_ir::{Graph, NodeId, NodeKind, Op, OpError, attr::Perm};

use super::{Context, Pass, op_of, rebuild};

/// See the module's documentation.
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

#[cfg(test)]
mod tests {
    use gt_ir::{lower, text};

    use crate::{Machine, Options, pipeline::optimize};

    #[test]
    fn a_transposed_product_is_a_product_of_transposed_operands() {
        let tape = "gt tape 1
%0 = input : f32[8,5]
%1 = input : f32[5,7]
%2 = matmul %0, %1
%3 = transpose[0,1] %2
output %3
";
        let graph = lower(&text::parse(tape).expect("it is a tape").0).expect("it is valid");
        let graph = optimize(&graph, &Options::default(), &Machine::default()).expect("it passes");
        let text = graph.graph.to_string();
        let product = text.find("matmul").expect("a product");
        assert!(!text[product..].contains("permute"), "{text}");
    }
}
