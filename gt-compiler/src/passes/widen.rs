//! Products of narrow floats become products of `f32` that are rounded once, for an engine that
//! multiplies `f32`: the conversions are then kernels, which are fused with their neighbors and
//! share the threads.
//!
//! Exact: such an engine widens the operands and rounds the sums in the same way. A product of a
//! matrix and a vector of `bf16` stays, because the engine reads the matrix as it lies. What only
//! moves elements is moved after it was widened, so that a matrix lies as before.

use gt_ir::{DType, Graph, NodeId, NodeKind, Op, OpError, graph::Rebuild};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{Operands, op_of, rebuild};

/// Moves of an operand that are done after it was widened, at most.
const MOST: usize = 16;

/// The graph with wide products in place of the narrow ones that the engine does not have; `None`
/// if there are none.
///
/// # Errors
/// Only bugs: a valid expanded graph is widened.
pub(crate) fn widen_products(
    graph: &Graph,
    has: impl Fn(DType) -> bool,
) -> Result<Option<Graph>, OpError> {
    let is_narrow = |graph: &Graph, id| is_narrow(graph, id) && !has(graph.node(id).ty.dtype);
    if !graph.ids().any(|id| is_narrow(graph, id)) {
        return Ok(None);
    }
    // Looked up only, never iterated over.
    let mut wide = FxHashMap::default();
    let mut ids = graph.ids();
    rebuild(graph, |new, node, operands| {
        if !ids.next().is_some_and(|id| is_narrow(graph, id)) {
            return new.copy(node, operands);
        }
        let operands = operands.iter().map(|id| widened(new, *id, &mut wide, MOST));
        let operands = operands.collect::<Result<Operands, _>>()?;
        let product = new.op(Op::MatMul, &operands)?;
        let rounded = new.op(Op::Cast(node.ty.dtype), &[product])?;
        new.name(rounded, &node.ty);
        Ok(rounded)
    })
}

fn is_narrow(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let is_vector = || node.ty.shape.sizes().iter().rev().take(2).any(|size| *size == 1);
    op_of(node) == Some(Op::MatMul)
        && match node.ty.dtype {
            DType::F16 => true,
            DType::Bf16 => !is_vector(),
            DType::F32 | DType::F64 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => false,
        }
}

/// The value in `f32`. It is widened at most so many moves before.
fn widened(
    new: &mut Rebuild,
    id: NodeId,
    wide: &mut FxHashMap<NodeId, NodeId>,
    most: usize,
) -> Result<NodeId, OpError> {
    if let Some(wide) = wide.get(&id) {
        return Ok(*wide);
    }
    let made = match new.made().node(id).kind {
        NodeKind::Op(op) if most > 0 && moves(&op) => {
            let operands: SmallVec<[NodeId; 3]> = new.made().operands(id);
            let operands = operands.into_iter().map(|id| widened(new, id, wide, most - 1));
            let operands = operands.collect::<Result<Operands, _>>()?;
            new.op(op, &operands)?
        }
        NodeKind::Op(_) | NodeKind::Input(_) | NodeKind::Scalar(_) | NodeKind::Const(_) => {
            new.op(Op::Cast(DType::F32), &[id])?
        }
    };
    wide.insert(id, made);
    Ok(made)
}

/// Whether an op moves elements, and leaves none of them out.
fn moves(op: &Op) -> bool {
    matches!(op, Op::Permute(_) | Op::Reshape(_) | Op::Expand(_) | Op::Pad(_) | Op::Unfold(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widened_text(text: &str) -> Option<String> {
        let tape = gt_ir::text::parse(text).unwrap().0;
        let graph = gt_ir::graph::segment(&tape, |_| None).unwrap().graph;
        widen_products(&graph, |_| false).unwrap().map(|graph| graph.to_string())
    }

    /// One conversion of each operand, before it is moved, and one of the result.
    #[test]
    fn what_moves_an_operand_moves_it_wide() {
        let text = "gt tape 1
%0 = input : f16[4,6]
%1 = input : f16[4,3,2]
%2 = permute[1,0] %0
%3 = reshape[4,6] %1
%4 = matmul %3, %2
%5 = matmul %2, %3
output %4
output %5
";
        let wide = widened_text(text).unwrap();
        assert_eq!(wide.matches("cast[f32]").count(), 2, "{wide}");
        assert_eq!(wide.matches("cast[f16]").count(), 2, "{wide}");
        assert!(
            wide.lines().filter(|line| line.contains("matmul")).all(|line| line.contains("f32"))
        );
    }

    #[test]
    fn a_bf16_vector_and_a_long_chain_of_moves_are_left() {
        let vector = "gt tape 1
%0 = input : bf16[1,6]
%1 = input : bf16[6,5]
%2 = matmul %0, %1
output %2
";
        assert_eq!(widened_text(vector), None);
        let n = 20_000;
        let mut text = String::from("gt tape 1\n%0 = input : bf16[3,3]\n");
        (1..=n).for_each(|i| text += &format!("%{i} = permute[1,0] %{}\n", i - 1));
        text += &format!("%{} = matmul %{n}, %{n}\noutput %{}\n", n + 1, n + 1);
        assert_eq!(widened_text(&text).unwrap().matches("cast[f32]").count(), 1);
    }
}
