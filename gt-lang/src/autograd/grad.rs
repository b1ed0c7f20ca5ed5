//! Gradients as values: of any tensors with respect to any others, of any order.

use std::panic::Location;

use super::Graph;
use super::backward::collect;
use crate::core::DynTensor;
use crate::error::Result;
use crate::no_grad::enable_grad;
use crate::session::Place;

/// The gradients of `output` with respect to `inputs`, which are leaves or results between; zeros
/// where it does not depend on one. Leaves gather nothing. An output of several elements counts as
/// their sum.
///
/// # Errors
/// A tensor carries an error or requires no gradient, or the graph was freed before.
#[track_caller]
pub fn grad(output: &DynTensor, inputs: &[&DynTensor]) -> Result<Vec<DynTensor>> {
    grad_with(output, None, inputs, Graph::Free)
}

/// [`grad`] with the gradient of the output (of its type; ones by default), and a choice of what
/// becomes of the graph.
///
/// # Errors
/// As [`grad`]; also when `grad_output` is of another type than the output.
#[track_caller]
pub fn grad_with(
    output: &DynTensor,
    grad_output: Option<&DynTensor>,
    inputs: &[&DynTensor],
    graph: Graph,
) -> Result<Vec<DynTensor>> {
    collect((output, grad_output), inputs, graph, Place::Caller(Location::caller()))
}

/// The value of `f` at `inputs`, and the product of `v` (a gradient of the value) with the Jacobian
/// of `f`: one gradient an input. The inputs need not require gradients. Both results are plain;
/// for higher orders use [`grad_with`]. Gradients of a value that does not depend on the inputs are
/// 0, as in PyTorch's `torch.func.vjp`.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// let (x, w) = (DynTensor::from([1.0, 2.0]), DynTensor::from([3.0, 4.0]));
/// let v = DynTensor::from([1.0, 10.0]);
/// // The gradients are v * w and v * x.
/// let (y, grads) = autograd::vjp(|inputs| &inputs[0] * &inputs[1], &[&x, &w], &v)?;
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// A tensor carries an error, or `v` is of another type than the value.
#[track_caller]
pub fn vjp(
    f: impl FnOnce(&[DynTensor]) -> DynTensor,
    inputs: &[&DynTensor],
    v: &DynTensor,
) -> Result<(DynTensor, Vec<DynTensor>)> {
    let leaves: Vec<DynTensor> = inputs.iter().map(|x| x.detach().requires_grad()).collect();
    let output = enable_grad(|| f(&leaves));
    let fits = v.dtype() == output.dtype() && v.shape().same_sizes(&output.shape());
    if fits && output.error().is_none() && !output.is_tracked() {
        return Ok((output, inputs.iter().map(|x| x.detach().zeros_like()).collect()));
    }
    let grads = grad_with(&output, Some(v), &leaves.iter().collect::<Vec<_>>(), Graph::Free)?;
    Ok((output.detach(), grads))
}
