//! Casts that cancel: of two in a row the first goes if it loses nothing, and both do if they lead back to where they started.

use gt_ir::{DType, Graph, Op, OpError};

use super::{Context, Pass, op_of, rebuild};

/// See the module's documentation.
pub(crate) struct CancelCasts;

impl Pass for CancelCasts {
    fn name(&self) -> &'static str {
        "cancel_casts"
    }

    fn run(&self, graph: &Graph, _: &mut Context<'_>) -> Result<Graph, OpError> {
        rebuild(graph, |new, node, operands| {
            let Some(Op::Cast(to)) = op_of(node) else { return new.copy(node, operands) };
            let mut from = operands[0];
            // Earlier casts are simplified already, so one step is enough.
            if let Some(Op::Cast(middle)) = op_of(new.node(from)) {
                let inner = new.operands(from)[0];
                if skips(new.ty(inner).dtype, middle, to) {
                    from = inner;
                }
            }
            if new.ty(from).dtype == to { Ok(from) } else { new.copy(node, &[from]) }
        })
    }
}

/// Whether a cast by way of `middle` gives what the direct one gives.
pub(crate) fn skips(from: DType, middle: DType, to: DType) -> bool {
    // Integers become halves by way of `f32`, so that a way around it rounds differently.
    let rounds_twice =
        from == DType::I32 && middle == DType::F64 && to.is_float() && to.size() == 2;
    is_lossless(from, middle) && !rounds_twice
}

/// Whether every value of a dtype is a value of another.
fn is_lossless(from: DType, to: DType) -> bool {
    use DType::{Bf16, Bool, F16, F32, F64, I32, I64, U8};
    from == to
        || match to {
            F64 => from != I64,
            F32 => matches!(from, Bf16 | F16 | U8 | Bool),
            I64 => matches!(from, I32 | U8 | Bool),
            I32 | F16 | Bf16 => matches!(from, U8 | Bool),
            U8 => from == Bool,
            Bool => false,
        }
}
