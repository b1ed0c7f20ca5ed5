//! Strength reduction: a division by a constant power of two becomes a product with its reciprocal.
//!
//! Exact: where the reciprocal is a number of the dtype, both round the same real number. It comes
//! after the e-graph, whose patterns spell means as divisions.

use gt_ir::{DType, Graph, NodeId, NodeKind, Op, OpError, Scalar, Type};

use super::{Context, Pass, fold::constant, op_of, rebuild};

/// The pass: divisions by powers of two to products.
pub(crate) struct Reciprocals;

impl Pass for Reciprocals {
    fn name(&self) -> &'static str {
        "reciprocals"
    }

    fn run(&self, graph: &Graph, _: &mut Context<'_>) -> Result<Option<Graph>, OpError> {
        let applies = |id: NodeId| {
            op_of(graph.node(id)) == Some(Op::Div)
                && reciprocal(graph, graph.operands(id)[1]).is_some()
        };
        if !graph.ids().any(applies) {
            return Ok(None);
        }
        rebuild(graph, |new, node, operands| {
            let factor = match node.kind {
                NodeKind::Op(Op::Div) => reciprocal(new.made(), operands[1]),
                NodeKind::Op(_) | NodeKind::Input(_) | NodeKind::Scalar(_) | NodeKind::Const(_) => {
                    None
                }
            };
            let Some(factor) = factor else { return new.copy(node, operands) };
            let scalar = Type::scalar(node.ty.dtype);
            let mut factor = new.leaf(NodeKind::Const(Scalar::F64(factor)), scalar);
            if node.ty.shape.rank() > 0 {
                factor = new.op(Op::Expand(node.ty.shape), &[factor])?;
            }
            let product = new.op(Op::Mul, &[operands[0], factor])?;
            new.name(product, &node.ty);
            Ok(product)
        })
    }
}

/// One over a constant, where that is exact in its dtype.
fn reciprocal(graph: &Graph, divisor: NodeId) -> Option<f64> {
    let dtype = graph.node(divisor).ty.dtype;
    let value = constant(graph, divisor)?.as_f64();
    let largest = if dtype == DType::F16 { 1 << 14 } else { 1_u64 << 60 } as f64;
    let is_power = value.to_bits() << 12 == 0;
    let is_normal = value.abs() <= largest && value.abs() >= 1.0 / largest;
    (dtype.is_float() && is_power && is_normal).then(|| 1.0 / value)
}
