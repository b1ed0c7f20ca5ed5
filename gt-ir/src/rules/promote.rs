//! PyTorch's type promotion over tensors, zero-dimensional tensors and literals.
//!
//! Tensors with dimensions come first; a zero-dimensional tensor or a literal changes the dtype
//! only when its category (bool < integer < float) is higher than what stands so far, and a literal
//! then brings its default dtype.

use crate::{dtype::DType, op::OperandType};

#[derive(Clone, Copy)]
struct Tiers {
    dims: Option<DType>,
    zero_dim: Option<DType>,
    literal: Option<DType>,
}

fn join(a: Option<DType>, b: DType) -> Option<DType> {
    Some(a.map_or(b, |a| a.promote(b)))
}

fn outrank(high: Option<DType>, low: Option<DType>) -> Option<DType> {
    match (high, low) {
        (Some(h), Some(l)) if l.category() > h.category() => Some(h.promote(l)),
        (high, low) => high.or(low),
    }
}

/// The dtype operands promote to; `f32` when there are none.
pub fn promote<'a>(ins: impl IntoIterator<Item = &'a OperandType>) -> DType {
    let mut tiers = Tiers { dims: None, zero_dim: None, literal: None };
    for operand in ins {
        match operand {
            OperandType::Tensor(t) if t.shape.rank() > 0 => tiers.dims = join(tiers.dims, t.dtype),
            OperandType::Tensor(t) => tiers.zero_dim = join(tiers.zero_dim, t.dtype),
            OperandType::Scalar(s) => tiers.literal = join(tiers.literal, s.weak_dtype()),
        }
    }
    outrank(outrank(tiers.dims, tiers.zero_dim), tiers.literal).unwrap_or(DType::F32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::Scalar;

    /// Checked against `torch.result_type`.
    #[test]
    fn as_pytorch() {
        let check = |ins: &[&str], want: DType| {
            let ins: Vec<OperandType> = ins
                .iter()
                .map(|s| {
                    s.parse::<Scalar>().map_or_else(
                        |()| OperandType::Tensor(s.parse().unwrap()),
                        OperandType::Scalar,
                    )
                })
                .collect();
            assert_eq!(promote(&ins), want, "{ins:?}");
        };
        check(&["i64[3]", "1.5"], DType::F32);
        check(&["f16[3]", "1.5"], DType::F16);
        check(&["u8[3]", "1000"], DType::U8);
        check(&["bool[3]", "1"], DType::I64);
        check(&["f32[3]", "f64[]"], DType::F32);
        check(&["i32[3]", "f64[]"], DType::F64);
        check(&["i32[3]", "i64[]"], DType::I32);
        check(&["f64[]", "1.5"], DType::F64);
        check(&["bf16[3]", "f16[2]"], DType::F32);
        check(&["bool[2]", "true"], DType::Bool);
    }
}
