//! Mixed precision: products in a narrow float, sums and logarithms in `f32`, by PyTorch's lists
//! (Micikevicius et al. 2018).
//!
//! Inside, operands are cast as operations are recorded, by instructions of their own: gradients
//! come back through the casts in the dtype of the leaves, which stay `f32`. Per thread, nested,
//! and off unless asked for. `f64` and integers are left alone. What the lists do not name runs in
//! what its operands promote to.

use std::cell::Cell;
use std::marker::PhantomData;

use gt_ir::{Class, DType, Op, OpError};

thread_local! {
    static NARROW: Cell<Option<DType>> = const { Cell::new(None) };
}

/// Runs `body` with products in `dtype`, [`DType::Bf16`] or [`DType::F16`]: PyTorch's
/// `torch.autocast`. Under any other dtype products fail.
///
/// The backward pass belongs outside, as in PyTorch: it runs in the dtypes of the forward pass
/// anyway.
pub fn autocast<R>(dtype: DType, body: impl FnOnce() -> R) -> R {
    let _guard = Autocast::enter(dtype);
    body()
}

/// Runs `body` as if outside of [`autocast`]: PyTorch's `torch.autocast(enabled=False)`. What comes
/// in stays as narrow as it is.
pub fn no_autocast<R>(body: impl FnOnce() -> R) -> R {
    let _guard = Autocast::switch(None);
    body()
}

/// The dtype products of this thread run in, if [`autocast`] is on.
pub fn autocast_dtype() -> Option<DType> {
    NARROW.get()
}

/// Autocast on this thread until it is dropped; the scope form of [`autocast`].
#[must_use = "autocast ends when this is dropped"]
pub struct Autocast {
    before: Option<DType>,
    // Belongs to the thread it was made on.
    _thread: PhantomData<*const ()>,
}

impl Autocast {
    /// Switches it on.
    pub fn enter(dtype: DType) -> Autocast {
        Autocast::switch(Some(dtype))
    }

    /// Switches it on or off until the guard is dropped.
    pub(crate) fn switch(narrow: Option<DType>) -> Autocast {
        Autocast { before: NARROW.replace(narrow), _thread: PhantomData }
    }
}

impl Drop for Autocast {
    fn drop(&mut self) {
        NARROW.set(self.before);
    }
}

/// What autocast does to the operands of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    /// Casts `f32` down.
    Narrow,
    /// Casts narrow floats up to `f32`.
    Full,
    /// Nothing.
    Leave,
}

/// PyTorch's lists: products; what adds up many numbers, and functions whose error grows;
/// everything else.
#[expect(clippy::wildcard_enum_match_arm, reason = "what is not named runs as it comes")]
fn policy(op: &Op) -> Policy {
    match op {
        op if op.spec().class == Class::Contract => Policy::Narrow,
        Op::Exp | Op::Expm1 | Op::Exp2 | Op::Log | Op::Log1p | Op::Log2 | Op::Log10 | Op::Pow => {
            Policy::Full
        }
        Op::Rsqrt | Op::Softplus => Policy::Full,
        Op::Sum(_) | Op::Prod(_) | Op::CumSum(_) | Op::CumProd(_) | Op::LogSumExp(_) => {
            Policy::Full
        }
        Op::Softmax(_) | Op::LogSoftmax(_) | Op::Norm(_) | Op::Var(_) => Policy::Full,
        Op::LayerNorm(_) | Op::RmsNorm(_) | Op::GroupNorm(_) | Op::BatchNorm => Policy::Full,
        _ => Policy::Leave,
    }
}

/// A cast of operands: floats of these dtypes to that one.
pub(crate) struct Cast {
    pub(crate) from: &'static [DType],
    pub(crate) to: DType,
}

/// What becomes of the operands of `op` on this thread; `None` where they stay as they are.
///
/// # Errors
/// Autocast is on with a dtype that products do not run in.
pub(crate) fn cast_for(op: &Op) -> Option<Result<Cast, OpError>> {
    let narrow = NARROW.get()?;
    let cast = match policy(op) {
        Policy::Leave => return None,
        Policy::Full => Cast { from: &[DType::Bf16, DType::F16], to: DType::F32 },
        Policy::Narrow => Cast { from: &[DType::F32, DType::Bf16, DType::F16], to: narrow },
    };
    if !matches!(narrow, DType::Bf16 | DType::F16) {
        let error = OpError::new(format!("autocast: {} cannot run in {narrow}", op.name()));
        return Some(Err(error.hint("autocast takes bf16 or f16")));
    }
    Some(Ok(cast))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_nest_and_unwind() {
        assert_eq!(autocast_dtype(), None);
        autocast(DType::Bf16, || {
            assert_eq!(autocast_dtype(), Some(DType::Bf16));
            autocast(DType::F16, || assert_eq!(autocast_dtype(), Some(DType::F16)));
            no_autocast(|| assert_eq!(autocast_dtype(), None));
            assert_eq!(autocast_dtype(), Some(DType::Bf16));
        });
        let caught = std::panic::catch_unwind(|| {
            autocast(DType::Bf16, || std::panic::resume_unwind(Box::new(())))
        });
        assert!(caught.is_err());
        assert_eq!(autocast_dtype(), None);
    }
}
