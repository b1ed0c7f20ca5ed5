//! Mixed precision: products in a narrow float, sums and logarithms in `f32`, by PyTorch's lists
//! (Micikevicius et al. 2018).
//!
//! Inside, operands are cast as operations are recorded, by instructions of their own: gradients
//! come back through the casts in the dtype of the leaves, which stay `f32`. Per thread, nested,
//! and off unless asked for. `f64` and integers are left alone. What the lists do not name runs in
//! what its operands promote to.

use std::borrow::Cow;
use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::Location;

use gt_ir::{Class, DType, Op, OpError};
use smallvec::SmallVec;

use crate::core::record::record_at;
use crate::core::{Arg, DynTensor};

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

/// The operands as autocast wants them; `None` where they are that already, as they are without it.
pub(crate) fn cast_for(
    op: &Op,
    args: &[Arg<'_>],
    at: &'static Location<'static>,
) -> Option<Result<SmallVec<[DynTensor; 3]>, OpError>> {
    let narrow = NARROW.get()?;
    let (from, to): (&[DType], DType) = match policy(op) {
        Policy::Leave => return None,
        Policy::Full => (&[DType::Bf16, DType::F16], DType::F32),
        Policy::Narrow => (&[DType::F32, DType::Bf16, DType::F16], narrow),
    };
    if !matches!(narrow, DType::Bf16 | DType::F16) {
        let error = OpError::new(format!("autocast: {} cannot run in {narrow}", op.name()));
        return Some(Err(error.hint("autocast takes bf16 or f16")));
    }
    let changes = |arg: &Arg<'_>| match arg {
        Arg::Tensor(x) => from.contains(&x.dtype()) && x.dtype() != to,
        Arg::Scalar(_) => false,
    };
    if !args.iter().any(changes) {
        return None;
    }
    let cast = args.iter().filter_map(|arg| match arg {
        Arg::Tensor(x) if changes(arg) => Some(record_at(&Op::Cast(to), &[*arg], at)),
        Arg::Tensor(x) => Some((*x).clone()),
        Arg::Scalar(_) => None,
    });
    Some(Ok(cast.collect()))
}

/// A loss's operand: inside autocast losses are computed in `f32`.
#[track_caller]
pub(crate) fn full(x: &DynTensor) -> Cow<'_, DynTensor> {
    let is_narrow = matches!(x.dtype(), DType::Bf16 | DType::F16);
    if is_narrow && NARROW.get().is_some() {
        Cow::Owned(x.to_dtype(DType::F32))
    } else {
        Cow::Borrowed(x)
    }
}

/// What is added to a product: inside autocast it takes the product's dtype, so that the sum keeps
/// it, as PyTorch's one operation for both does.
#[track_caller]
pub(crate) fn biased(product: &DynTensor, bias: &DynTensor) -> DynTensor {
    match NARROW.get() {
        Some(_) if product.dtype() != bias.dtype() => product.add(&bias.to_dtype(product.dtype())),
        Some(_) | None => product.add(bias),
    }
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
