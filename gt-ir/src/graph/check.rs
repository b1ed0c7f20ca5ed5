//! The check of the guarantees a graph makes, for tests and for passes.

use smallvec::SmallVec;

use super::{Graph, NodeId, NodeKind};
use crate::{
    dtype::DType,
    op::{Class, Op, OperandType, infer},
    shape::Type,
};

impl Graph {
    /// Checks that types follow from the ops' rules, ports are numbered and slots exist.
    ///
    /// A graph from [`lower`](super::lower) or [`expand`](super::expand()) always passes. The check
    /// is for passes, which build graphs by hand: the driver runs it after each of them in tests.
    ///
    /// # Errors
    /// The first node that breaks a guarantee, and how: a bug in whatever made the graph.
    pub fn validate(&self) -> Result<(), String> {
        self.ids().try_for_each(|id| self.check_node(id).map_err(|e| format!("{id}: {e}")))
    }

    /// Checks that the graph holds primitives, with casts and broadcasts spelled out, and the
    /// derived ops that its expansion kept as calls.
    ///
    /// # Errors
    /// As [`Graph::validate`].
    pub fn validate_expanded(&self) -> Result<(), String> {
        self.validate()?;
        self.ids().try_for_each(|id| self.check_primitive(id).map_err(|e| format!("{id}: {e}")))
    }

    /// The types of the operands.
    fn types(&self, id: NodeId) -> SmallVec<[Type; 3]> {
        self.operands(id).iter().map(|o| self.node(*o).ty).collect()
    }

    /// Operands come before the node, its type is the one its rule gives, and its input or slot
    /// exists.
    fn check_node(&self, id: NodeId) -> Result<(), String> {
        let node = self.node(id);
        if let Some(later) = self.operands(id).into_iter().find(|o| *o >= id) {
            return Err(format!("uses {later}, which comes later"));
        }
        match node.kind {
            NodeKind::Input(k) if self.inputs.get(k as usize) != Some(&id) => {
                Err(format!("is not input {k}"))
            }
            NodeKind::Scalar(k) if k as usize >= self.slots.len() => {
                Err(format!("reads slot {k}, which does not exist"))
            }
            NodeKind::Input(_) | NodeKind::Scalar(_) | NodeKind::Const(_) => Ok(()),
            NodeKind::Op(op) => {
                let seen =
                    self.operands(id).iter().map(|o| self.seen(*o)).collect::<SmallVec<[_; 3]>>();
                let ty = infer(&op, &seen).map_err(|e| e.to_string())?;
                if ty.same_layout(&node.ty) {
                    Ok(())
                } else {
                    Err(format!("{op} gives {ty}, but the node says {}", node.ty))
                }
            }
        }
    }

    /// What a type rule sees of an operand: a scalar is a literal while it is weak.
    fn seen(&self, id: NodeId) -> OperandType {
        match self.node(id).kind {
            NodeKind::Scalar(k) if self.is_weak(id) => OperandType::Scalar(self.slots[k as usize]),
            NodeKind::Input(_) | NodeKind::Scalar(_) | NodeKind::Const(_) | NodeKind::Op(_) => {
                OperandType::Tensor(self.node(id).ty)
            }
        }
    }

    /// The conditions that engines rely on, by class of op.
    ///
    /// Each condition is one that an engine would otherwise have to handle in every kernel:
    /// operands of a pointwise op can be read side by side, and a product finds its batches in
    /// equal order.
    fn check_primitive(&self, id: NodeId) -> Result<(), String> {
        let NodeKind::Op(op) = self.node(id).kind else { return Ok(()) };
        let (ty, ins) = (self.node(id).ty, self.types(id));
        let ensure = |holds: bool, what: &str| {
            if holds { Ok(()) } else { Err(format!("{op} {ins:?}: {what}")) }
        };
        if !op.kind().is_primitive() {
            return ensure(self.calls.contains(&op), "neither a primitive nor a call");
        }
        match op.spec().class {
            Class::Pointwise => {
                ensure(
                    ins.iter().all(|t| t.shape.same_sizes(&ty.shape)),
                    "a broadcast is not spelled out",
                )?;
                let like = if op == Op::Where { &ins[1..] } else { &ins[..] };
                ensure(like.iter().all(|t| t.dtype == like[0].dtype), "a cast is not spelled out")?;
                let logical =
                    matches!(op, Op::LogicalAnd | Op::LogicalOr | Op::LogicalXor | Op::LogicalNot);
                ensure(!logical || ins[0].dtype == DType::Bool, "logic on numbers")?;
                let free = logical || matches!(op, Op::Where | Op::Eq | Op::Cast(_));
                ensure(free || ins[0].dtype != DType::Bool, "arithmetic on bool")
            }
            Class::Reduce => ensure(ins[0].dtype != DType::Bool, "a reduction of bool"),
            Class::Contract | Class::Matrix => {
                let is_one_batch = ins.iter().all(|t| t.shape.same_batch(&ins[0].shape));
                ensure(is_one_batch, "leading sizes differ")?;
                ensure(ins.iter().all(|t| t.dtype == ty.dtype), "a cast is not spelled out")
            }
            Class::Gather => ensure(ins[1].dtype == DType::I64, "the index is not i64"),
            Class::Move => {
                ensure(ins.iter().all(|t| t.dtype == ty.dtype), "a cast is not spelled out")
            }
            Class::Source => ensure(
                ins.iter().all(|t| *t == Type::scalar(DType::I64)),
                "seeds and bounds are i64",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{graph::expand, op::OperandType, scalar::Scalar};

    /// Expands `op operands` and returns the graph's text.
    fn check(op: &str, ins: &[&str]) -> String {
        let ins: Vec<OperandType> = ins
            .iter()
            .map(|s| {
                s.parse::<Scalar>()
                    .map_or_else(|()| OperandType::Tensor(s.parse().unwrap()), OperandType::Scalar)
            })
            .collect();
        let graph = expand(&op.parse().unwrap(), &ins).unwrap();
        graph.validate_expanded().unwrap();
        let (want, got) =
            (infer(&op.parse().unwrap(), &ins).unwrap(), graph.node(graph.outputs()[0]).ty);
        assert!(want.same_layout(&got), "{op}: {want} {got}");
        graph.to_string()
    }

    #[test]
    fn operands_are_cast_and_broadcast() {
        let text = check("add", &["i32[2,1]", "f16[3]"]);
        assert_eq!(
            text,
            "n0 = input 0 : i32[2,1]\nn1 = input 1 : f16[3]\nn2 = cast[f16] n0 : f16[2,1]\nn3 = \
             expand[2,3] n2 : f16[2,3]\nn4 = expand[2,3] n1 : f16[2,3]\nn5 = add n3, n4 : \
             f16[2,3]\noutput 0 n5\n"
        );
    }

    #[test]
    fn literals_take_the_dtype_beside_them() {
        let text = check("mul", &["bf16[2]", "2.5"]);
        assert!(text.contains("scalar 0 = 2.5 : bf16[]"), "{text}");
    }

    #[test]
    fn every_kind_of_op_expands() {
        for (op, ins) in [
            ("add", &["bool[2]", "bool[2]"][..]),
            ("maximum", &["bool[2]", "true"]),
            ("lt", &["bool[2]", "bool[]"]),
            ("logical_and", &["f32[2]", "3"]),
            ("where", &["bool[2,1]", "1", "i32[3]"]),
            ("div", &["i64[2]", "u8[2]"]),
            ("pow", &["f32[2]", "2"]),
            ("sum[0]", &["bool[2,3]"]),
            ("max[0,1,keep]", &["bool[2,3]"]),
            ("argmax[1]", &["bool[2,3]"]),
            ("mean[0,1]", &["bf16[2,3]"]),
            ("matmul", &["f32[3]", "f32[3]"]),
            ("matmul", &["f32[3]", "f32[2,3,4]"]),
            ("matmul", &["f32[2,1,5,3]", "f32[7,3,4]"]),
            ("matmul", &["f32[2,7,5,3]", "f32[3]"]),
            ("matmul", &["f16[2,5,3]", "f32[3,4]"]),
            ("cat[1]", &["f32[2,3]", "i64[2,1]"]),
            ("pad[0,1,2,3]", &["i32[4]", "1.5"]),
            ("gather[1]", &["f32[2,3]", "i32[2,2]"]),
            ("scatter_add[1]", &["f32[2,3]", "i64[2,2]", "f32[2,2]"]),
            ("index_select[0]", &["f32[9,3]", "u8[2,2]"]),
            ("index_add[0]", &["f32[9,3]", "i64[2,2]", "f32[2,2,3]"]),
            ("iota[i64[3]]", &[]),
            ("rand[f32[3]]", &["7"]),
            ("randint[i64[3]]", &["0", "10", "7"]),
            ("full[bf16[3]]", &["1"]),
            ("full[f32[]]", &["1"]),
            ("arange[f32[3]]", &["0.5", "2"]),
            ("arange[i32[3]]", &["5", "-1"]),
            ("ge", &["f32[2]", "i64[2]"]),
            ("rsqrt", &["i64[2]"]),
            ("sigmoid", &["bf16[2]"]),
            ("relu", &["i32[2]"]),
            ("gelu", &["i32[2]"]),
            ("gelu_tanh", &["f64[2]"]),
            ("softmax[0]", &["f16[2,3]"]),
            ("softmax[0]", &["f32[0,3]"]),
            ("log_softmax[1]", &["f64[2,3]"]),
            ("layer_norm[1]", &["bf16[2,3]", "bf16[3]", "bf16[3]", "1e-5"]),
            ("transpose[0,1]", &["f32[2,3]"]),
            ("one_hot[4]", &["u8[2,3]"]),
            ("one_hot[4]", &["i64[]"]),
        ] {
            check(op, ins);
        }
    }
}
