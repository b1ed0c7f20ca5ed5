//! Reverse-mode gradients: a graph of nodes hanging off the tensors, walked backwards by `backward`.
//!
//! Guarantees: the graph lives exactly as long as tensors that need it, so loops without `backward` grow nothing;
//! walking and dropping are iterative, so length costs no stack; `backward` records plain instructions and is never
//! tracked itself; gradients add up, over uses and over calls.
//!
//! Does not: know any op. Rules come from the op table.

use crate::core::DynTensor;
use crate::error::Result;

/// What `backward` does with the graph it walked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retain {
    /// Free it: values saved for it are released. A second `backward` through it is an error.
    #[default]
    Free,
    /// Keep it, for another `backward`.
    Graph,
}

impl DynTensor {
    /// Makes a leaf of this tensor's value: it collects a gradient, and its value can be replaced with [`DynTensor::assign`].
    #[must_use]
    #[track_caller]
    pub fn requires_grad(&self) -> DynTensor {
        todo!()
    }

    /// Whether gradients flow into this tensor.
    pub fn is_tracked(&self) -> bool {
        todo!()
    }

    /// Whether this is a leaf made by [`DynTensor::requires_grad`].
    pub fn is_leaf(&self) -> bool {
        todo!()
    }

    /// The gradient gathered so far; `None` before the first `backward`, and for anything but a leaf.
    pub fn grad(&self) -> Option<DynTensor> {
        todo!()
    }

    /// Forgets the gradient.
    pub fn zero_grad(&self) {
        todo!()
    }

    /// Replaces the gradient (used to clip or average gradients).
    pub fn set_grad(&self, grad: Option<DynTensor>) {
        todo!()
    }

    /// Replaces the value of a leaf: every clone sees the new one, the old is freed. Shape and dtype must agree; a
    /// mistake becomes the leaf's value and is raised at the next read.
    #[track_caller]
    pub fn assign(&self, value: &DynTensor) {
        todo!()
    }

    /// The same value without its history.
    #[must_use]
    pub fn detach(&self) -> DynTensor {
        todo!()
    }

    /// Adds the gradient of this (a single number) to every leaf it was computed from, and frees the graph.
    ///
    /// # Errors
    /// The tensor carries an error, is not a single number, requires no gradient, or its graph was freed before.
    #[track_caller]
    pub fn backward(&self) -> Result<()> {
        todo!()
    }

    /// [`DynTensor::backward`] with a choice of what becomes of the graph.
    ///
    /// # Errors
    /// As [`DynTensor::backward`].
    #[track_caller]
    pub fn backward_with(&self, retain: Retain) -> Result<()> {
        todo!()
    }
}
