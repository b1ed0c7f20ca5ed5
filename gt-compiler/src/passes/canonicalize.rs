//! One spelling for what can be spelled in several ways: the order of the operands of commutative ops, and ops that do nothing.
//!
//! Floats change places only where the numerics policy lets sums be reordered: of two `nan` operands hardware gives the first one's bits.

use gt_ir::{
    Graph, NodeId, Op, OpError,
    graph::{Node, Rebuild},
};

use super::{Context, Pass, op_of, rebuild};
use crate::options::Numerics;

/// See the module's documentation.
pub(crate) struct Canonicalize;

impl Pass for Canonicalize {
    fn name(&self) -> &'static str {
        "canonicalize"
    }

    fn run(&self, graph: &Graph, cx: &mut Context<'_>) -> Result<Graph, OpError> {
        let numerics = cx.options.numerics;
        rebuild(graph, |new, node, operands| {
            if does_nothing(new, node, operands) {
                return Ok(operands[0]);
            }
            let mut operands = operands.clone();
            if commutes(new, node, &operands, numerics) {
                operands.sort_unstable();
            }
            new.copy(node, &operands)
        })
    }
}

/// Whether the result is the first operand, to the bit.
fn does_nothing(new: &Rebuild, node: &Node, operands: &[NodeId]) -> bool {
    let Some(op) = op_of(node) else { return false };
    let same_sizes = || new.ty(operands[0]).shape.same_sizes(&node.ty.shape);
    match op {
        Op::Reshape(_) | Op::Expand(_) => same_sizes(),
        Op::Slice(s) => same_sizes() && s.step == 1,
        Op::Permute(p) => p.axes().enumerate().all(|(i, axis)| i == axis),
        Op::Cat(_) => operands.len() == 1,
        Op::Pad(p) => (p.lo, p.hi, p.interior) == (0, 0, 0),
        Op::Cast(to) => new.ty(operands[0]).dtype == to,
        Op::Sum(r) => node.ty.dtype.is_int() && r.axes.is_empty(),
        Op::Max(r) | Op::Min(r) => r.axes.is_empty(),
        _ => false,
    }
}

fn commutes(new: &Rebuild, node: &Node, operands: &[NodeId], numerics: Numerics) -> bool {
    let Some(op) = op_of(node) else { return false };
    match op {
        Op::LogicalAnd | Op::LogicalOr | Op::LogicalXor | Op::Eq => true,
        Op::Add | Op::Mul | Op::Maximum | Op::Minimum => {
            !new.ty(operands[0]).dtype.is_float() || numerics >= Numerics::Reassociate
        }
        _ => false,
    }
}
