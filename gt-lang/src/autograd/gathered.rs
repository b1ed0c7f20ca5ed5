//! The gradient of one value as it gathers during a walk: a sum, and parts that wait for others.
//!
//! Guarantees: few parts wait; when they are too many, they are joined and added to the sum. Does
//! not: decide what waits, or how parts are joined ([`gt_ir::grad::joined`]).

use std::sync::Arc;

use gt_ir::{Op, Type};

use crate::core::DynTensor;
use crate::core::tensor::Node;

/// Parts that wait at most.
pub(super) const MOST: usize = 256;

/// What an edge delivers.
pub(super) enum Contribution {
    /// A gradient.
    Whole(DynTensor),
    /// What a gradient is made of later.
    Part(Box<Part>),
}

/// A use of a value, and the gradient of the result of this use.
pub(super) struct Part {
    pub(super) op: Op,
    /// The type of the value.
    pub(super) ty: Type,
    /// The other operand that the gradient needs.
    pub(super) with: Option<DynTensor>,
    pub(super) grad: DynTensor,
    /// The use.
    pub(super) node: Arc<Node>,
}

/// The gradient of one value, as far as it has been gathered.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) sum: Option<DynTensor>,
    pub(super) parts: Vec<Part>,
}
