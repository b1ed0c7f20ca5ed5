//! Canonical form: the operands of commutative ops in one order, and no ops that do nothing.
//!
//! Float operands change places only where the numerics policy lets sums be reordered: of two NaN
//! operands hardware keeps the first.

use gt_ir::{Graph, NodeId, Op, OpError, graph::Node};

use super::{Context, Pass, op_of, rebuild};
use crate::options::Numerics;

/// The pass: canonical form.
pub(crate) struct Canonicalize;

impl Pass for Canonicalize {
    fn name(&self) -> &'static str {
        "canonicalize"
    }

    fn run(&self, graph: &Graph, cx: &mut Context<'_>) -> Result<Option<Graph>, OpError> {
        let numerics = cx.options.numerics;
        let is_odd = |id| {
            let (node, operands) = (graph.node(id), graph.operands(id));
            does_nothing(graph, node, &operands)
                || commutes(node, numerics) && !operands.is_sorted()
        };
        if !graph.ids().any(is_odd) {
            return Ok(None);
        }
        rebuild(graph, |new, node, operands| {
            if does_nothing(new.made(), node, operands) {
                return Ok(operands[0]);
            }
            let mut operands = operands.clone();
            if commutes(node, numerics) {
                operands.sort_unstable();
            }
            new.copy(node, &operands)
        })
    }
}

/// Whether the result is the first operand, to the bit.
#[expect(clippy::wildcard_enum_match_arm, reason = "an op that is not named does something")]
fn does_nothing(graph: &Graph, node: &Node, operands: &[NodeId]) -> bool {
    let Some(op) = op_of(node) else { return false };
    let same_sizes = || graph.node(operands[0]).ty.shape.same_sizes(&node.ty.shape);
    match op {
        Op::Reshape(_) | Op::Expand(_) => same_sizes(),
        Op::Slice(s) => same_sizes() && s.step == 1,
        Op::Permute(p) => p.axes().enumerate().all(|(i, axis)| i == axis),
        Op::Cat(_) => operands.len() == 1,
        Op::Pad(p) => (p.lo, p.hi, p.interior) == (0, 0, 0),
        Op::Cast(to) => graph.node(operands[0]).ty.dtype == to,
        Op::Sum(r) => node.ty.dtype.is_int() && r.axes.is_empty(),
        Op::Floor | Op::Ceil | Op::Trunc | Op::Round => node.ty.dtype.is_int(),
        Op::Max(r) | Op::Min(r) => r.axes.is_empty(),
        _ => false,
    }
}

fn commutes(node: &Node, numerics: Numerics) -> bool {
    // A comparison of floats has no NaN to keep.
    let keeps_bits = !node.ty.dtype.is_float() || numerics >= Numerics::Reassociate;
    keeps_bits && op_of(node).is_some_and(|op| op.spec().marks.commutes)
}
