//! The derived ops that stay whole in a device's program.
//!
//! Products along axes have the bits of the native engine, which keeps them, too. Attention has a
//! call of libtorch.
//!
//! Attention by blocks of keys (Dao et al., `FlashAttention`, 2022) never holds its scores: memory
//! grows with the length, not with its square. It sums in another order and rescales what it has
//! summed, so it is for programs compiled with approximate numerics. Only the way a transformer
//! calls it is taken: four dimensions, one width, no mask but the causal one, as many heads of keys
//! as of queries.

use gt_ir::{
    DType, Op, OperandType,
    attr::{Attention, AttentionGrad},
};

use crate::{native::is_product, options::Numerics};

/// The widest head that all of libtorch's calls take, and what its width is a multiple of.
const WIDTH: (usize, usize) = (256, 8);

/// The ops that a program keeps.
pub(super) fn calls(numerics: Numerics) -> fn(&Op, &[OperandType]) -> bool {
    if numerics < Numerics::Approximate {
        return is_product;
    }
    |op, ins| is_product(op, ins) || is_attention(op, ins)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "other ops are no attention")]
fn is_attention(op: &Op, ins: &[OperandType]) -> bool {
    let (kind, operands) = match op {
        Op::ScaledDotProductAttention(kind) => (*kind, ins),
        Op::ScaledDotProductAttentionGrad(AttentionGrad { kind, .. }) => (*kind, &ins[1..]),
        _ => return false,
    };
    let [
        OperandType::Tensor(q),
        OperandType::Tensor(k),
        OperandType::Tensor(v),
        OperandType::Scalar(_),
    ] = operands
    else {
        return false;
    };
    let &[batch, heads, length, width] = q.shape.sizes() else { return false };
    let &[.., positions, _] = k.shape.sizes() else { return false };
    let (most, step) = WIDTH;
    let keys = [batch, heads, positions, width];
    matches!(q.dtype, DType::F32 | DType::F16 | DType::Bf16)
        && k.shape.sizes() == keys
        && v.shape.sizes() == keys
        && width <= most
        && width.is_multiple_of(step)
        && [batch, heads, length, positions, width].iter().all(|&size| size > 0)
        && (kind == Attention::Full || length == positions)
}
