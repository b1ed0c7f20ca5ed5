//! Fourier transforms: the type rule and the gradient.

use super::matrices;
use crate::{
    error::OpError,
    grad::Vjp,
    op::{Op, OperandType},
    rules::{
        derive::misplaced,
        grad::{Out, one},
        infer::Result,
    },
    shape::Type,
};

/// `[.., n, 2]`, the type of the operand.
pub(crate) fn infer_fft(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (x, _, parts) = matrices(op, ins, 0)?;
    if parts != 2 {
        return Err(OpError::new(format!("fft: takes complex numbers [.., n, 2], but got {x}"))
            .hint("the last axis has the real and the imaginary part"));
    }
    Ok(x)
}

/// The adjoint of a transform is the one in the other direction.
pub(crate) fn fft_grad(cx: &mut Vjp<'_>) -> Out {
    let Op::Fft(direction) = *cx.op else { return Err(misplaced(cx.op)) };
    one(cx, |cx, _| cx.e.emit(Op::Fft(direction.turned()), &[cx.grad.into()]))
}
