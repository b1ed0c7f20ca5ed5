//! Mixed precision: products in a narrow float, sums and logarithms in `f32`, by PyTorch's lists
//! (Micikevicius et al. 2018).
//!
//! Inside, operands are cast as operations are recorded, by instructions of their own: gradients
//! come back through the casts in the dtype of the leaves, which stay `f32`. Per thread, nested,
//! and off unless asked for. `f64` and integers are left alone. The op table says which op computes
//! in which precision; an op without an entry computes in the dtype its operands promote to.

use std::cell::Cell;
use std::marker::PhantomData;

use gt_ir::op::Precision;
use gt_ir::{DType, Op, OpError};

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
    let cast = match op.spec().marks.precision {
        Precision::AsGiven => return None,
        Precision::Full => Cast { from: &[DType::Bf16, DType::F16], to: DType::F32 },
        Precision::Narrow => Cast { from: &[DType::F32, DType::Bf16, DType::F16], to: narrow },
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
