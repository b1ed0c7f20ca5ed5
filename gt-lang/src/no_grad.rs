//! Whether operations are tracked for gradients: on by default, switched off for a closure or a
//! scope, per thread.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    static ENABLED: Cell<bool> = const { Cell::new(true) };
}

/// Whether operations of this thread are tracked for gradients.
pub fn is_grad_enabled() -> bool {
    ENABLED.get()
}

/// Runs `body` without tracking: its results require no gradient.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// let w = DynTensor::ones([2], DType::F32).requires_grad();
/// w.square().sum(..).backward()?;
/// if let Some(grad) = w.grad() {
///     no_grad(|| w.assign(&(&w - grad * 0.1)))?; // the leaf's value, for all its handles
/// }
/// # Ok::<(), gt::Error>(())
/// ```
pub fn no_grad<R>(body: impl FnOnce() -> R) -> R {
    let _guard = NoGrad::enter();
    body()
}

/// Runs `body` with tracking, inside [`no_grad`] too: PyTorch's `enable_grad`.
pub fn enable_grad<R>(body: impl FnOnce() -> R) -> R {
    let _guard = NoGrad::switch(true);
    body()
}

/// Switches tracking off on this thread until it is dropped; the scope form of [`no_grad`].
#[must_use = "tracking is switched on again when this is dropped"]
pub struct NoGrad {
    before: bool,
    // Belongs to the thread it was made on.
    _thread: PhantomData<*const ()>,
}

impl NoGrad {
    /// Switches tracking off.
    pub fn enter() -> NoGrad {
        NoGrad::switch(false)
    }

    /// Switches tracking on or off until the guard is dropped.
    pub(crate) fn switch(enabled: bool) -> NoGrad {
        NoGrad { before: ENABLED.replace(enabled), _thread: PhantomData }
    }
}

impl Drop for NoGrad {
    fn drop(&mut self) {
        ENABLED.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_nest_and_unwind() {
        assert!(is_grad_enabled());
        no_grad(|| {
            assert!(!is_grad_enabled());
            no_grad(|| assert!(!is_grad_enabled()));
            enable_grad(|| assert!(is_grad_enabled()));
            assert!(!is_grad_enabled());
        });
        let caught =
            std::panic::catch_unwind(|| no_grad(|| std::panic::resume_unwind(Box::new(()))));
        assert!(caught.is_err());
        assert!(is_grad_enabled());
    }
}
