//! `Buffer`: a tensor of a model that is no parameter but changes, such as a running mean; saved
//! and restored with the model.

use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};

use super::module::{Module, Visitor};
use crate::core::DynTensor;
use crate::core::capture::refuse;
use crate::typed::{Float, Kind, Shape, Tensor};

/// A tensor that a layer replaces while it runs. Clones are the same buffer. No gradient flows
/// through it.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// let mean: Buffer<(N<8>,)> = Buffer::new(&Tensor::zeros());
/// let seen: T![8] = Tensor::randn();
/// mean.set(&(mean.get() * 0.9 + seen * 0.1));
/// ```
pub struct Buffer<S: Shape, K: Kind = Float> {
    cell: Arc<Mutex<DynTensor>>,
    marker: std::marker::PhantomData<fn() -> (S, K)>,
}

impl<S: Shape, K: Kind> Clone for Buffer<S, K> {
    fn clone(&self) -> Self {
        Buffer { cell: self.cell.clone(), marker: self.marker }
    }
}

impl<S: Shape, K: Kind> Buffer<S, K> {
    /// A buffer with this value.
    pub fn new(value: &Tensor<S, K>) -> Self {
        let cell = Arc::new(Mutex::new(value.as_dyn().detach()));
        Buffer { cell, marker: std::marker::PhantomData }
    }

    /// The present value.
    #[must_use]
    pub fn get(&self) -> Tensor<S, K> {
        Tensor::wrap(self.cell.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Replaces the value. Inside of [`vmap`](crate::autograd::vmap) it stays, and that is an
    /// error of the mapped function.
    #[track_caller]
    pub fn set(&self, value: &Tensor<S, K>) {
        let value = value.as_dyn().detach();
        if refuse("sets a buffer", value.ty(), None, Location::caller()).is_err() {
            return;
        }
        let mut cell = self.cell.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *cell, value);
        drop(cell);
        drop(old);
    }
}

impl<S: Shape, K: Kind> std::fmt::Debug for Buffer<S, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Buffer").field(&self.get()).finish()
    }
}

#[diagnostic::do_not_recommend]
impl<S: Shape, K: Kind> Module for Buffer<S, K> {
    fn describe(&self) -> String {
        String::new()
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.buffer(&self.cell);
    }
}
