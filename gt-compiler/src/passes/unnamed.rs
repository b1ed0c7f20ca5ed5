//! Types and ops without the names of dimensions, which tell no values apart.

use gt_ir::{Op, Type};

/// The type without names.
pub(crate) fn ty(ty: &Type) -> Type {
    Type::new(ty.dtype, ty.shape.unnamed())
}

/// The op without names in its attribute.
pub(crate) fn op(op: &Op) -> Op {
    match op {
        Op::Reshape(shape) => Op::Reshape(shape.unnamed()),
        Op::Expand(shape) => Op::Expand(shape.unnamed()),
        Op::Iota(t) => Op::Iota(ty(t)),
        Op::Rand(t) => Op::Rand(ty(t)),
        Op::Randn(t) => Op::Randn(ty(t)),
        Op::Randint(t) => Op::Randint(ty(t)),
        _ => *op,
    }
}
