//! A graph as something that takes GT's instructions.
//!
//! Guarantees: an instruction that has an operator becomes it; any other derived op becomes what
//! its expansion in the op table emits; a primitive without an operator is an error that names it.
//! Every value has the type that its op's rule gives.

use gt_ir::op::Meaning;
use gt_ir::{Emit, Op, Operand, OperandType, Type, ValueId, infer};

use super::graph::{Emitted, Graph};
use super::rows;

impl Emit for Graph {
    fn emit(&mut self, op: Op, inputs: &[Operand]) -> Emitted {
        if let (Op::Cast(dtype), [Operand::Scalar(scalar)]) = (op, inputs) {
            return self.literal(*scalar, dtype);
        }
        let types: Vec<OperandType> = inputs.iter().map(|x| self.operand_type(*x)).collect();
        let ty = infer(&op, &types)?;
        if let Some(value) = rows::lower(self, &op, inputs, &types, ty)? {
            return Ok(value);
        }
        match op.spec().meaning {
            Meaning::Derived(expansion) => expansion(self, &op, inputs),
            Meaning::Primitive => Err(self.miss(&op)),
        }
    }

    fn ty(&self, value: ValueId) -> Type {
        self.type_of(value)
    }
}
