//! A model as a function of its parameters.

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::Arc;

use super::module::Module;
use crate::core::DynTensor;
use crate::core::tensor::substitute;
use crate::error::{Error, ErrorKind, Result};

/// The result of `f`, in which these tensors stand for parameters of the model, by name: PyTorch's
/// `torch.func.functional_call`. The model is as it was afterwards. Gradients go to the tensors and
/// not to the parameters, which makes derivatives of updated parameters (MAML), Hessians of a
/// loss, and models side by side ([`vmap`](crate::autograd::vmap) over stacked parameters).
///
/// Each tensor has its parameter's shape and dtype. Parameters that are not named stand for
/// themselves. Buffers cannot be replaced.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// # let (x, y): (T![8, 3], T![8, 1]) = (Tensor::randn(), Tensor::randn());
/// let net: Linear<N<3>, N<1>> = Linear::new();
/// let loss = || mse_loss(net.forward(&x).as_dyn(), y.as_dyn());
/// # use gt::functional::mse_loss;
/// let slopes = autograd::grad(&loss(), &[net.weight.as_dyn()])?;
/// let moved = net.weight.as_dyn() - &slopes[0] * 0.1;
/// let after = gt::nn::functional_call(&net, [("weight", moved)], loss)?;
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// A name that no parameter has, or a tensor of another shape or dtype than its parameter's.
#[track_caller]
pub fn functional_call<M, S, R>(
    model: &M,
    tensors: impl IntoIterator<Item = (S, DynTensor)>,
    f: impl FnOnce() -> R,
) -> Result<R>
where
    M: Module + ?Sized,
    S: AsRef<str>,
{
    let parameters: BTreeMap<String, DynTensor> = model.named_parameters().into_iter().collect();
    let mut substitutes = BTreeMap::new();
    for (name, tensor) in tensors {
        let name = name.as_ref();
        let Some(parameter) = parameters.get(name) else {
            return Err(unknown(name, &parameters));
        };
        fits(name, parameter, &tensor)?;
        // What is named stands for itself where it is the parameter.
        substitutes.extend(parameter.leaf().map(|leaf| (leaf.order, tensor.present())));
    }
    Ok(substitute::with([Arc::new(substitutes)], f))
}

#[track_caller]
fn fits(name: &str, parameter: &DynTensor, tensor: &DynTensor) -> Result<()> {
    if let Some(error) = tensor.error() {
        return Err(error);
    }
    let (wanted, found) = (parameter.ty(), tensor.ty());
    if wanted.dtype == found.dtype && wanted.shape.same_sizes(&found.shape) {
        return Ok(());
    }
    let message = format!("functional_call: `{name}` is {wanted}, but {found} is to stand for it");
    let error = Error::new(ErrorKind::Operation, message, Location::caller());
    Err(error.hint("give a tensor of the same shape and dtype"))
}

#[track_caller]
fn unknown(name: &str, parameters: &BTreeMap<String, DynTensor>) -> Error {
    let message = format!("functional_call: the model has no parameter `{name}`");
    let error = Error::new(ErrorKind::Operation, message, Location::caller());
    let close = |known: &&String| (strsim::jaro_winkler(known, name) * 1000.0) as u32;
    match parameters.keys().max_by_key(close).filter(|known| close(known) > 750) {
        Some(meant) => error.hint(format!("did you mean `{meant}`?")),
        None => error.hint("`named_parameters` lists them"),
    }
}
