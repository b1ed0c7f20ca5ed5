//! Signal scopes: names for stretches of a program, recorded on the tape, which placement and
//! sharding rules refer to.
//!
//! ```text
//! let _scope = signal::scope("stage1").backward("stage1_grad");
//! let h = self.fc1.forward(&x);            // in stage1, and its gradient in stage1_grad
//! let h = signal::tensor(&h, "cut_here");  // this tensor alone
//! // In the signal of the field `fc2`, which `self.fc2.forward(&h)` does not enter.
//! let h = self.fc2(&h);
//! ```
//!
//! What the names mean is said elsewhere, by the [configuration](crate::config); so is the backward
//! signal where the program names none.
//!
//! Guarantees: scopes nest, per thread. A scope in which nothing is recorded leaves no trace.
//! Gradients are recorded in the backward signals of the scopes their instructions were recorded
//! in, inside the scopes that are open where `backward` is called. A name without a configuration
//! changes nothing.
//!
//! Does not: write to a tape; the recorder follows the scopes of the thread that records.

use std::panic::Location;

use gt_ir::Op;

use crate::autograd::custom;
use crate::core::DynTensor;
use crate::core::record::try_record;
pub use crate::scope::{
    Scope, current, current_backward, enter, enter_with_backward, exit, scope, stack,
};
use crate::session::Place;
use crate::typed::AnyTensor;

/// The same tensor, put under a signal by itself: a view of it recorded in a scope of that name, to
/// be placed as its configuration says. So is its gradient, under the backward signal that is
/// configured.
#[must_use]
#[track_caller]
pub fn tensor<T: AnyTensor>(tensor: &T, name: &str) -> T {
    let _scope = scope(name);
    view(tensor)
}

/// As [`tensor`], with its gradient under the signal `backward`.
#[must_use]
#[track_caller]
pub fn tensor_with_backward<T: AnyTensor>(tensor: &T, name: &str, backward: &str) -> T {
    let _scope = scope(name).backward(backward);
    view(tensor)
}

/// A view of the tensor, recorded here, whose gradient is recorded as a view too.
#[track_caller]
fn view<T: AnyTensor>(tensor: &T) -> T {
    let (inner, at) = (tensor.inner(), Location::caller());
    T::like(match inner.is_tracked() {
        true => custom(&[inner], |x| x[0].clone(), move |_, _, grad| vec![Some(same(grad, at))]),
        false => same(inner, at),
    })
}

/// A view of the tensor under its own shape, recorded at a place.
fn same(tensor: &DynTensor, at: &'static Location<'static>) -> DynTensor {
    let op = Op::Reshape(tensor.shape());
    try_record(&op, &[tensor.into()], Place::Caller(at))
        .unwrap_or_else(|error| DynTensor::failed(error, tensor.ty()))
}
