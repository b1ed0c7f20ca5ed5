//! Which values a gradient rule reads, found by running the rule on types alone.

use smallvec::SmallVec;

use super::{Vjp, vjp};
use crate::{
    dtype::DType,
    emit::Emit,
    error::OpError,
    op::{Op, infer},
    operand::{Operand, OperandType, ValueId},
    shape::Type,
};

/// Which of its operands, and last whether the result, the rule of an op reads when these gradients
/// of its operands are wanted. Equal operands count as different ones.
///
/// # Errors
/// That of the rule.
pub fn reads(
    op: &Op,
    operands: &[OperandType],
    output: Type,
    wanted: &[bool],
) -> Result<Vec<bool>, OpError> {
    let n = operands.len();
    // Names: operands 0..n, the result n, its gradient n + 1.
    let mut probe = Probe { types: Vec::with_capacity(n + 16), read: vec![false; n + 2] };
    let name = |i: usize| ValueId(i as u64);
    let mut inputs: SmallVec<[Operand; 4]> = SmallVec::new();
    for (i, operand) in operands.iter().enumerate() {
        let (ty, input) = match operand {
            OperandType::Tensor(ty) => (*ty, Operand::Value(name(i))),
            OperandType::Scalar(scalar) => {
                (Type::scalar(scalar.weak_dtype()), Operand::Scalar(*scalar))
            }
        };
        probe.types.push(ty);
        inputs.push(input);
    }
    probe.types.extend([output, output]);
    let (e, output, grad) = (&mut probe, name(n), name(n + 1));
    let grads = vjp(Vjp { e, op, inputs: &inputs, output, grad, wanted })?;
    // A rule may also hand back an operand or the result as a gradient.
    grads.into_iter().flatten().for_each(|grad| probe.mark(grad));
    probe.read.truncate(n + 1);
    Ok(probe.read)
}

/// Takes instructions and keeps only their types.
struct Probe {
    types: Vec<Type>,
    read: Vec<bool>,
}

impl Probe {
    /// Notes that a value is read.
    fn mark(&mut self, value: ValueId) {
        if let Some(read) = self.read.get_mut(value.0 as usize) {
            *read = true;
        }
    }
}

impl Emit for Probe {
    fn emit(&mut self, op: Op, inputs: &[Operand]) -> Result<ValueId, OpError> {
        let types: SmallVec<[OperandType; 4]> =
            inputs.iter().map(|&o| self.operand_type(o)).collect();
        let ty = infer(&op, &types)?;
        for input in inputs {
            if let Operand::Value(value) = input {
                self.mark(*value);
            }
        }
        self.types.push(ty);
        Ok(ValueId(self.types.len() as u64 - 1))
    }

    /// No rule names a value that is not its own; such a value has the type of a number.
    fn ty(&self, value: ValueId) -> Type {
        self.types.get(value.0 as usize).copied().unwrap_or(Type::scalar(DType::F32))
    }
}
