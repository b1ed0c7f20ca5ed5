//! Reverse-mode gradients: a graph of nodes hanging off the tensors, walked backwards by
//! `backward`.
//!
//! Guarantees: the graph lives exactly as long as tensors that need it, so loops without `backward`
//! grow nothing; walking and dropping are iterative, so length costs no stack; `backward` records
//! plain instructions and is never tracked itself; gradients add up, over uses and over calls.
//! [`grad`] hands gradients out instead, and tracks them if asked to, so that they have gradients
//! in turn; [`DynTensor::register_hook`] and [`DynTensor::retain_grad`] look at gradients between;
//! [`apply`] takes gradients written by hand; [`checkpoint`] computes a part again instead
//! of keeping what its gradient needs.
//!
//! Does not: know any op. Rules come from the op table.
//!
//! ```no_run
//! # extern crate gt_lang as gt;
//! use gt::DynTensor;
//! use gt::autograd::{Graph, grad, grad_with};
//! # fn f() -> gt::Result<()> {
//! let x = DynTensor::from_slice(&[0.5], [1]).requires_grad();
//! let slope = grad_with(&x.pow(3), None, &[&x], Graph::Create)?.remove(0); // 3 x^2
//! let curvature = grad(&slope, &[&x])?.remove(0); // 6 x
//! # Ok(())
//! # }
//! ```

mod backward;
mod batching;
mod checkpoint;
mod custom;
mod gathered;
mod grad;
mod hooks;
mod recording;
#[cfg(test)]
pub(crate) mod tests;
mod transforms;

use std::panic::Location;
use std::sync::{Arc, Mutex};

use gt_ir::DType;

use crate::core::DynTensor;
use crate::core::capture::refuse;
use crate::core::operators::tracked_change;
use crate::core::tensor::{Leaf, Repr, TapeValue, Variable, substitute};
use crate::error::{Error, ErrorKind, Result};
use crate::no_grad::is_grad_enabled;
use crate::session::Place;

pub use checkpoint::checkpoint;
pub use custom::{Function, apply, custom};
pub use grad::{grad, grad_with, vjp};
pub use hooks::HookHandle;
pub use transforms::{Outcome, hessian, jacobian, jvp, vmap};
pub(crate) use transforms::{common, refused};

/// What becomes of the graph that gradients were walked back through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Graph {
    /// Free it: values saved for it are released. A second walk through it is an error.
    #[default]
    Free,
    /// Keep it, for another walk: PyTorch's `retain_graph=True`.
    Retain,
    /// Keep it and track the gradients, so that they have gradients in turn: PyTorch's
    /// `create_graph=True`.
    Create,
}

impl DynTensor {
    /// A leaf with this tensor's value: it collects a gradient, and [`DynTensor::assign`] can
    /// replace its value, which all clones of the leaf then see. A tensor gradients flow into
    /// already is returned as it is.
    #[must_use]
    #[track_caller]
    pub fn requires_grad(&self) -> DynTensor {
        let Repr::Plain(value) = &self.0 else { return self.clone() };
        if value.place().is_ok() && !value.ty.dtype.is_float() {
            let message = format!(
                "requires_grad: only floats have gradients, but the tensor is {}",
                value.ty
            );
            let error = Error::new(ErrorKind::Gradient, message, Location::caller());
            return DynTensor::failed(error.hint("convert it first with `to_dtype`"), value.ty);
        }
        DynTensor(Repr::Variable(Arc::new(Variable {
            current: Mutex::new(value.clone()),
            leaf: Leaf::new(),
        })))
    }

    /// Freezes a leaf (`false`), for all its clones, or ends that (`true`): nothing recorded on a
    /// frozen leaf is tracked for its sake, so it costs no gradient and an optimizer leaves it as
    /// it is. It stays a leaf, which [`DynTensor::assign`] and `load_state_dict` can change.
    ///
    /// ```no_run
    /// # extern crate gt_lang as gt;
    /// # use gt::prelude::*;
    /// let w = DynTensor::ones([2], DType::F32).requires_grad();
    /// w.requires_grad_(false)?;
    /// assert!(w.is_leaf() && !w.is_tracked() && !(&w * 2.0).is_tracked());
    /// # Ok::<(), gt::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor is no leaf.
    #[doc(alias("freeze", "unfreeze"))]
    #[track_caller]
    pub fn requires_grad_(&self, on: bool) -> Result<()> {
        if let Some(leaf) = self.leaf() {
            leaf.set_frozen(!on);
            return Ok(());
        }
        let message =
            format!("requires_grad_: only a leaf can be frozen, but {} is none", self.ty());
        let error = Error::new(ErrorKind::Gradient, message, Location::caller());
        Err(error.hint("make a leaf with `.requires_grad()`, or cut a history with `.detach()`"))
    }

    /// Whether gradients flow into this tensor: PyTorch's attribute `requires_grad`. A frozen leaf
    /// has none.
    pub fn is_tracked(&self) -> bool {
        match &self.0 {
            Repr::Plain(_) => false,
            Repr::Tracked(..) => true,
            Repr::Variable(variable) => match substitute::of(variable.leaf.order) {
                Some(substitute) => substitute.is_tracked(),
                None => !variable.leaf.is_frozen(),
            },
        }
    }

    /// Whether this is a leaf made by [`DynTensor::requires_grad`], frozen or not.
    pub fn is_leaf(&self) -> bool {
        matches!(self.0, Repr::Variable(_))
    }

    /// Whether both are the same tensor, not merely equal ones.
    pub fn is(&self, other: &DynTensor) -> bool {
        match (&self.0, &other.0) {
            (Repr::Variable(a), Repr::Variable(b)) => Arc::ptr_eq(a, b),
            (Repr::Variable(_), _) | (_, Repr::Variable(_)) => false,
            _ => Arc::ptr_eq(&self.value(), &other.value()),
        }
    }

    /// The gradient gathered so far; `None` before the first `backward`, and for anything but a
    /// leaf and what [`DynTensor::retain_grad`] was called on.
    pub fn grad(&self) -> Option<DynTensor> {
        match &self.0 {
            Repr::Plain(_) => None,
            Repr::Tracked(_, node) => node.watched().and_then(|watch| watch.retained()),
            Repr::Variable(variable) => variable.leaf.grad(),
        }
    }

    /// Forgets the gradient.
    pub fn zero_grad(&self) {
        if let Repr::Tracked(_, node) = &self.0
            && let Some(watch) = node.watched()
        {
            watch.set_retained(None);
        }
        self.set_grad(None);
    }

    /// Replaces the gradient of a leaf, to clip it or average it; anything but a leaf has none to
    /// replace.
    #[track_caller]
    pub fn set_grad(&self, grad: Option<DynTensor>) {
        if let Some(leaf) = self.leaf() {
            let keeps = grad.as_ref().map_or(Ok(()), |g| {
                refuse("sets the gradient of a leaf", g.ty(), Some(leaf), Location::caller())
            });
            if keeps.is_ok() {
                leaf.set(grad.map(|g| g.detach()));
            }
        }
    }

    pub(crate) fn leaf(&self) -> Option<&Arc<Leaf>> {
        match &self.0 {
            Repr::Variable(variable) => Some(&variable.leaf),
            Repr::Plain(_) | Repr::Tracked(..) => None,
        }
    }

    /// Replaces the value of a leaf: every clone sees the new one, the old is freed once nothing
    /// needs it. Not tracked, and so only inside [`no_grad`](crate::no_grad()), as PyTorch's
    /// `w.copy_(v)` and `w += v`. A value that carries an error hands it to the leaf.
    ///
    /// ```no_run
    /// # extern crate gt_lang as gt;
    /// # use gt::prelude::*;
    /// let w = DynTensor::ones([2], DType::F32).requires_grad();
    /// no_grad(|| w.assign(&(&w * 0.5)))?;
    /// # Ok::<(), gt::Error>(())
    /// ```
    ///
    /// # Errors
    /// Operations are tracked, this is not a leaf, or `value` has another dtype or shape, or
    /// belongs to another session.
    #[doc(alias("copy_", "set_data"))]
    #[track_caller]
    pub fn assign(&self, value: &DynTensor) -> Result<()> {
        if self.is_leaf() && is_grad_enabled() {
            return Err(tracked_change("assign", Location::caller()));
        }
        self.replace(value)
    }

    /// [`DynTensor::assign`], whether operations are tracked or not.
    #[track_caller]
    pub(crate) fn replace(&self, value: &DynTensor) -> Result<()> {
        let at = Location::caller();
        let fail = |message: String| Error::new(ErrorKind::Gradient, message, at);
        let Repr::Variable(variable) = &self.0 else {
            let error = fail(format!(
                "assign: only a leaf can be given another value, but this {} is none",
                self.ty()
            ));
            return Err(error.hint("make a leaf with `.requires_grad()`"));
        };
        let (old, new) = (variable.get(), value.value());
        if let (Ok((here, _)), Ok((there, _))) = (old.place(), new.place()) {
            if !here.is(there) {
                return Err(fail("assign: the value belongs to another session".to_owned()));
            }
            if old.ty.dtype != new.ty.dtype || !old.ty.shape.same_sizes(&new.ty.shape) {
                return Err(fail(format!(
                    "assign: the leaf is {}, but the value is {}",
                    old.ty, new.ty
                )));
            }
        }
        refuse("assigns to a leaf", old.ty, Some(&variable.leaf), at)?;
        variable.set(new);
        Ok(())
    }

    /// Gives a leaf, for all its clones, its value and its gradient in another float; anything else
    /// stays as it is.
    #[track_caller]
    pub(crate) fn recast(&self, dtype: DType) {
        let Repr::Variable(variable) = &self.0 else { return };
        let value = DynTensor::plain(variable.get()).to_dtype(dtype);
        variable.set(value.value());
        if let Some(grad) = self.grad() {
            self.set_grad(Some(grad.to_dtype(dtype)));
        }
    }

    /// The same value without its history: nothing computed from it reaches what it was computed
    /// from.
    #[must_use]
    pub fn detach(&self) -> DynTensor {
        let value: Arc<TapeValue> = self.value();
        DynTensor::plain(value)
    }

    /// Adds the gradient of this (a single number) to every leaf it was computed from, and frees
    /// the graph.
    ///
    /// # Errors
    /// The tensor carries an error, is not a single number, requires no gradient, or its graph was
    /// freed before.
    #[track_caller]
    pub fn backward(&self) -> Result<()> {
        self.backward_with(Graph::Free)
    }

    /// [`DynTensor::backward`] with a choice of what becomes of the graph. After [`Graph::Create`]
    /// a leaf and its gradient, which remembers what it was computed from, hold each other until
    /// [`DynTensor::zero_grad`], as in PyTorch; [`grad_with`] hands gradients out instead.
    ///
    /// # Errors
    /// As [`DynTensor::backward`].
    #[track_caller]
    pub fn backward_with(&self, graph: Graph) -> Result<()> {
        backward::run(self, graph, Place::Caller(Location::caller()))
    }
}
