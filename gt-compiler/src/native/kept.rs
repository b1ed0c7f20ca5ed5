//! The derived ops that a program keeps, because it does better than what they stand for.
//!
//! A long loop is a job (`loops`); a shorter one is unrolled, since its rounds then share kernels
//! and what they have in common. Values that are put at positions, the extrema of those that meet
//! there, and products of integers are a routine, which writes where the base lies. Running
//! products and extrema are routines of one pass over memory. A product over axes is a reduction. A
//! flip is a view, which kernels read against the direction of memory.

use gt_ir::{DType, Op, OperandType};

/// The least number of instructions of a loop that is not unrolled.
const LONG: usize = 2048;

/// Whether an op with these operands stays as it is.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other ops are spelled out")]
pub(super) fn is_kept(op: &Op, ins: &[OperandType]) -> bool {
    match op {
        Op::Scan(scan) => scan.work() >= LONG,
        Op::Flip(_) | Op::CumMax(_) | Op::CumMin(_) => true,
        Op::Scatter(_) | Op::IndexCopy(_) | Op::ScatterMax(_) | Op::ScatterMin(_) => {
            is_put_plainly(ins)
        }
        // The order of multiplying floats decides about bits. Devices have that of the expansion.
        Op::ScatterMul(_) => is_put_plainly(ins) && !is_float(ins),
        _ => is_product(op, ins),
    }
}

/// Whether an op is a product along axes, in a dtype that products are computed in; others are cast
/// first. The order of multiplying decides about bits, so devices keep the same.
pub(crate) fn is_product(op: &Op, ins: &[OperandType]) -> bool {
    let wide = |dtype| matches!(dtype, DType::F32 | DType::F64 | DType::I64);
    matches!(op, Op::Prod(_) | Op::CumProd(_))
        && matches!(ins, [OperandType::Tensor(x)] if wide(x.dtype))
}

fn is_float(ins: &[OperandType]) -> bool {
    matches!(ins, [OperandType::Tensor(x), ..] if x.dtype.is_float())
}

/// Whether values are put into values of their dtype, by positions as routines have them. (`bool`
/// is left to sums of `i32`, which are not zero where `true` is among what meets.)
fn is_put_plainly(ins: &[OperandType]) -> bool {
    let [OperandType::Tensor(base), OperandType::Tensor(index), OperandType::Tensor(src)] = ins
    else {
        return false;
    };
    base.dtype != DType::Bool && src.dtype == base.dtype && index.dtype == DType::I64
}
