//! Reverse-mode differentiation of one instruction: the vector-Jacobian product, as more instructions.
//!
//! Which instruction comes when, and where gradients accumulate, is the caller's.

use smallvec::SmallVec;

use crate::{
    emit::Emit,
    error::OpError,
    op::{Grad, Op, Operand},
    shape::Type,
    tape::ValueId,
};

/// The gradient of each operand; `None` where none flows or none was wanted.
pub type Grads = SmallVec<[Option<ValueId>; 3]>;

/// An instruction being differentiated, and the gradient of its result.
pub struct Vjp<'a> {
    /// Where the gradient's instructions go.
    pub e: &'a mut dyn Emit,
    /// The op.
    pub op: &'a Op,
    /// Its operands.
    pub inputs: &'a [Operand],
    /// Its result.
    pub output: ValueId,
    /// The gradient of the result; same type as the result.
    pub grad: ValueId,
    /// Which operands' gradients are asked for.
    pub wanted: &'a [bool],
}

impl Vjp<'_> {
    /// Whether operand `i` is a value whose gradient is asked for and which can have one.
    pub fn wants(&self, i: usize) -> bool {
        self.wanted.get(i).copied().unwrap_or(false)
            && self.value(i).is_some_and(|v| self.e.ty(v).dtype.is_float())
    }

    /// Operand `i` if it is a value.
    pub fn value(&self, i: usize) -> Option<ValueId> {
        match self.inputs.get(i) {
            Some(Operand::Value(v)) => Some(*v),
            Some(Operand::Scalar(_)) | None => None,
        }
    }

    /// The type of operand `i`, which must be a value.
    ///
    /// # Errors
    /// It is a literal.
    pub fn ty(&self, i: usize) -> Result<Type, OpError> {
        self.tensor(i).map(|v| self.e.ty(v))
    }

    /// Operand `i`, which must be a value.
    ///
    /// # Errors
    /// It is a literal.
    pub fn tensor(&self, i: usize) -> Result<ValueId, OpError> {
        self.value(i)
            .ok_or_else(|| OpError::new(format!("{}: operand {i} is not a tensor", self.op.name())))
    }
}

/// Emits the gradients of an instruction's operands given that of its result.
///
/// # Errors
/// Only if the instruction was not a valid one.
pub fn vjp(mut cx: Vjp<'_>) -> Result<Grads, OpError> {
    match cx.op.spec().grad {
        Grad::Rule(rule) => rule(&mut cx),
        Grad::Zero => Ok(std::iter::repeat_n(None, cx.inputs.len()).collect()),
    }
}

/// Whether any gradient can flow from `op`'s result to its operands.
pub fn is_differentiable(op: &Op) -> bool {
    matches!(op.spec().grad, Grad::Rule(_))
}
