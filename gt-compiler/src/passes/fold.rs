//! Constant folding: ops on constants are computed now, if every engine rounds them alike.
//!
//! Constants belong to the definitions of ops. Scalar slots are not constants: their values come
//! with each call. A NaN is left to the engine, which decides its bits.

use gt_ir::{
    DType, Graph, HostTensor, NodeId, NodeKind, Op, OpError, OpKind, Scalar, Type, graph::Node,
    interp,
};
use smallvec::SmallVec;

use super::{Context, Operands, Pass, op_of, rebuild};

/// The pass: constant folding.
pub(crate) struct Fold;

impl Pass for Fold {
    fn name(&self) -> &'static str {
        "fold"
    }

    fn run(&self, graph: &Graph, _: &mut Context<'_>) -> Result<Option<Graph>, OpError> {
        if !graph.ids().any(|id| folded(graph, graph.node(id), &graph.operands(id)).is_some()) {
            return Ok(None);
        }
        rebuild(graph, |new, node, operands| match folded(new.made(), node, operands) {
            Some(value) => {
                let scalar = new.leaf(NodeKind::Const(value), Type::scalar(node.ty.dtype));
                if node.ty.shape.rank() == 0 {
                    Ok(scalar)
                } else {
                    new.op(Op::Expand(node.ty.shape), &[scalar])
                }
            }
            None => new.copy(node, operands),
        })
    }
}

fn folded(graph: &Graph, node: &Node, operands: &Operands) -> Option<Scalar> {
    let op = op_of(node).filter(|op| rounds_alike(op.kind()))?;
    let constants = operands.iter().map(|o| Some((constant(graph, *o)?, graph.node(*o).ty.dtype)));
    let constants: SmallVec<[(Scalar, DType); 3]> = constants.collect::<Option<_>>()?;
    evaluate(&op, &constants)
}

/// The value a node has everywhere, if it is a constant.
pub(super) fn constant(graph: &Graph, id: NodeId) -> Option<Scalar> {
    match graph.node(id).kind {
        NodeKind::Const(value) => Some(value),
        NodeKind::Op(Op::Expand(_)) => match graph.node(*graph.operands(id).first()?).kind {
            NodeKind::Const(value) => Some(value),
            NodeKind::Input(_) | NodeKind::Scalar(_) | NodeKind::Op(_) => None,
        },
        NodeKind::Input(_) | NodeKind::Scalar(_) | NodeKind::Op(_) => None,
    }
}

/// Ops whose results IEEE 754 or integer arithmetic define to the bit.
fn rounds_alike(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Neg
            | OpKind::Abs
            | OpKind::Sqrt
            | OpKind::Add
            | OpKind::Sub
            | OpKind::Mul
            | OpKind::Div
            | OpKind::Eq
            | OpKind::Lt
            | OpKind::LogicalAnd
            | OpKind::LogicalOr
            | OpKind::LogicalXor
            | OpKind::LogicalNot
            | OpKind::BitwiseAnd
            | OpKind::LeftShift
            | OpKind::RightShift
            | OpKind::Where
            | OpKind::Cast
    )
}

/// A primitive on numbers of these dtypes; `None` when it is not to be folded.
pub(crate) fn evaluate(op: &Op, operands: &[(Scalar, DType)]) -> Option<Scalar> {
    let tensors: SmallVec<[HostTensor; 3]> =
        operands.iter().map(|(value, dtype)| tensor(*value, *dtype)).collect::<Option<_>>()?;
    let args: SmallVec<[interp::Arg<'_>; 3]> = tensors.iter().map(interp::Arg::Tensor).collect();
    let result = interp::eval(op, &args).ok()?;
    let dtype = result.ty().dtype;
    if dtype == DType::I64 {
        return Some(Scalar::I64(i64::from_ne_bytes(result.bytes().as_ref().try_into().ok()?)));
    }
    let value = *result.to_f64().first()?;
    if dtype == DType::Bool {
        Some(Scalar::Bool(value != 0.0))
    } else if dtype.is_float() {
        (!value.is_nan()).then_some(Scalar::F64(value))
    } else {
        Some(Scalar::I64(value as i64))
    }
}

/// One number as a tensor without dimensions.
fn tensor(value: Scalar, dtype: DType) -> Option<HostTensor> {
    let full = Op::Full(Type::scalar(dtype));
    interp::eval(&full, &[interp::Arg::Scalar(value)]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_computed_in_their_dtype() {
        let f = |op, x: f64, y: f64, dtype| evaluate(&op, &[(x.into(), dtype), (y.into(), dtype)]);
        assert_eq!(f(Op::Add, 1.0, 1e-9, DType::F32), Some(Scalar::F64(1.0)));
        assert_eq!(f(Op::Div, 1.0, 3.0, DType::F16), Some(Scalar::F64(0.333_251_953_125)));
        assert_eq!(f(Op::Div, 0.0, 0.0, DType::F32), None);
        let big = (Scalar::I64(i64::MAX), DType::I64);
        assert_eq!(evaluate(&Op::Neg, &[big]), Some(Scalar::I64(-i64::MAX)));
    }
}
