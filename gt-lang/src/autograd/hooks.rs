//! Gradients of tensors that are no leaves, and functions of gradients on their way: PyTorch's
//! `retain_grad` and `register_hook`.

use std::panic::Location;
use std::sync::{Arc, Weak};

use crate::core::DynTensor;
use crate::core::tensor::{Edge, Watch, edge};
use crate::error::{Error, ErrorKind, Result};

/// A function registered by [`DynTensor::register_hook`]. Dropping this keeps the function; it
/// goes with the tensor's history.
#[derive(Clone)]
pub struct HookHandle {
    watch: Weak<Watch>,
    number: u64,
}

impl HookHandle {
    /// Removes the function: later walks do not call it.
    pub fn remove(&self) {
        if let Some(watch) = self.watch.upgrade() {
            watch.remove(self.number);
        }
    }
}

impl std::fmt::Debug for HookHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HookHandle({})", self.number)
    }
}

impl DynTensor {
    /// Calls a function with this tensor's gradient in each walk that reaches it, before anything
    /// is computed of the gradient; what the function gives takes its place, in the same dtype and
    /// sizes. Of a leaf it gets what one walk brings, before that is added to
    /// [`grad`](DynTensor::grad). Functions run in the order of registration, also in
    /// [`grad`](crate::autograd::grad()).
    ///
    /// The function only records, as everything does; a read inside of it waits. It must not hold
    /// the tensor itself, which would keep both alive for ever.
    ///
    /// ```no_run
    /// # extern crate gt_lang as gt;
    /// # use gt::prelude::*;
    /// # let w = DynTensor::ones([2], DType::F32).requires_grad();
    /// let h = w.exp();
    /// let hook = h.register_hook(|grad| Some(grad.clamp(-1.0, 1.0)))?;
    /// h.sum(..).backward()?;
    /// hook.remove();
    /// # Ok::<(), gt::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor carries an error, or no gradient flows into it. A gradient of another type is an
    /// error of the walk.
    #[track_caller]
    pub fn register_hook(
        &self,
        hook: impl Fn(&DynTensor) -> Option<DynTensor> + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        let watch = self.watch("register_hook")?;
        let number = watch.add(Arc::new(hook));
        Ok(HookHandle { watch: Arc::downgrade(&watch), number })
    }

    /// Keeps this tensor's gradient, as a leaf does: [`grad`](DynTensor::grad) has it after a walk,
    /// and gradients add up until [`zero_grad`](DynTensor::zero_grad). It holds for all clones of
    /// the tensor. A leaf keeps its gradient anyway.
    ///
    /// ```no_run
    /// # extern crate gt_lang as gt;
    /// # use gt::prelude::*;
    /// # let w = DynTensor::ones([2], DType::F32).requires_grad();
    /// let h = w.exp();
    /// h.retain_grad()?;
    /// h.square().sum(..).backward()?;
    /// let slope = h.grad(); // 2 h
    /// # Ok::<(), gt::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor carries an error, or no gradient flows into it.
    #[track_caller]
    pub fn retain_grad(&self) -> Result<()> {
        let watch = self.watch("retain_grad")?;
        if !self.is_leaf() {
            watch.retain();
        }
        Ok(())
    }

    /// The watch over this tensor's gradient, made if there is none.
    #[track_caller]
    fn watch(&self, what: &str) -> Result<Arc<Watch>> {
        match edge(self) {
            Some(Edge::Node(node)) => Ok(node.watch().clone()),
            Some(Edge::Leaf(leaf)) => Ok(leaf.watch().clone()),
            None => Err(self.error().unwrap_or_else(|| {
                let message = format!("{what}: no gradient flows into {}", self.ty());
                let error = Error::new(ErrorKind::Gradient, message, Location::caller());
                error.hint("compute it from a leaf made with `.requires_grad()`, not frozen")
            })),
        }
    }
}
