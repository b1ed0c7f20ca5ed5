//! Values and operands: what an instruction computes from, before it is known which op it applies.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{scalar::Scalar, shape::Type};

/// The most operands of an instruction.
pub const MAX_OPERANDS: usize = 1 << 12;

/// The name of a value, unique within its session. Prints as `%3`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ValueId(pub u64);

/// An operand of an instruction: another value, or a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Operand {
    /// A value defined earlier.
    Value(ValueId),
    /// A literal, whose value is a slot of the compiled program.
    Scalar(Scalar),
}

impl Operand {
    /// The value, if it is one.
    pub fn value(&self) -> Option<ValueId> {
        match self {
            Operand::Value(value) => Some(*value),
            Operand::Scalar(_) => None,
        }
    }
}

/// The type of an operand, as type rules take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperandType {
    /// A tensor of this type.
    Tensor(Type),
    /// A literal: weakly typed.
    Scalar(Scalar),
}

impl From<ValueId> for Operand {
    fn from(v: ValueId) -> Self {
        Operand::Value(v)
    }
}

macro_rules! operand_from {
    ($($t:ty),*) => { $(
        impl From<$t> for Operand {
            fn from(v: $t) -> Self {
                Operand::Scalar(v.into())
            }
        }
    )* };
}
operand_from! { Scalar, f64, f32, i64, i32, bool }

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Value(v) => v.fmt(f),
            Operand::Scalar(s) => s.fmt(f),
        }
    }
}

impl fmt::Display for OperandType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OperandType::Tensor(t) => t.fmt(f),
            OperandType::Scalar(s) => s.fmt(f),
        }
    }
}

impl fmt::Display for ValueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl fmt::Debug for ValueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
