//! Casts that cancel: of two casts in a row the first is dropped if it loses nothing, and both are
//! if the second leads back to the first dtype.

use gt_ir::{DType, Graph, NodeId, Op, OpError, graph::Node};

use super::{Context, Pass, op_of, rebuild};

/// The pass: cancellation of casts.
pub(crate) struct CancelCasts;

impl Pass for CancelCasts {
    fn name(&self) -> &'static str {
        "cancel_casts"
    }

    fn run(&self, graph: &Graph, _: &mut Context<'_>) -> Result<Option<Graph>, OpError> {
        if !graph.ids().any(|id| shorter(graph, graph.node(id), &graph.operands(id)).is_some()) {
            return Ok(None);
        }
        rebuild(graph, |new, node, operands| match shorter(new.made(), node, operands) {
            // Earlier casts are simplified already, so one step is enough.
            Some(from) if new.ty(from).dtype == node.ty.dtype => Ok(from),
            Some(from) => new.copy(node, &[from]),
            None => new.copy(node, operands),
        })
    }
}

/// The operand of a cast that it can skip to.
fn shorter(graph: &Graph, node: &Node, operands: &[NodeId]) -> Option<NodeId> {
    let Some(Op::Cast(to)) = op_of(node) else { return None };
    let from = operands[0];
    let dtype = |id: NodeId| graph.node(id).ty.dtype;
    let inner = match op_of(graph.node(from)) {
        Some(Op::Cast(middle)) => {
            let inner = graph.operands(from)[0];
            skips(dtype(inner), middle, to).then_some(inner)
        }
        Some(_) | None => None,
    };
    inner.or_else(|| (dtype(from) == to).then_some(from))
}

/// Whether a cast by way of `middle` gives what the direct one gives.
pub(crate) fn skips(from: DType, middle: DType, to: DType) -> bool {
    // Integers become halves by way of `f32`, so that a way around it rounds differently.
    let rounds_twice =
        from == DType::I32 && middle == DType::F64 && to.is_float() && to.size() == 2;
    is_lossless(from, middle) && !rounds_twice
}

/// Whether every value of a dtype is a value of another.
fn is_lossless(from: DType, to: DType) -> bool {
    use DType::{Bf16, Bool, F16, F32, F64, I32, I64, U8};
    from == to
        || match to {
            F64 => from != I64,
            F32 => matches!(from, Bf16 | F16 | U8 | Bool),
            I64 => matches!(from, I32 | U8 | Bool),
            I32 | F16 | Bf16 => matches!(from, U8 | Bool),
            U8 => from == Bool,
            Bool => false,
        }
}
