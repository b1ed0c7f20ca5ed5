//! Saving and restoring models: `state_dict` and `load_state_dict` of everything that is a
//! `Module`.
//!
//! Guarantees: names, order and layout are PyTorch's, so its files fit. Restoring is strict, and
//! whole or not at all: missing names, unknown ones and shapes that differ are all listed, and
//! nothing is changed then. Floats are converted to the model's dtype.

use std::sync::{Mutex, PoisonError};

use gt_ir::HostTensor;

use super::module::{Event, Module, walk};
use crate::core::DynTensor;
use crate::error::Result;
use crate::state::{Commit, Misfits, StateDict, Stateful, upload_like};

impl<M: Module + ?Sized> Stateful for M {
    /// Every tensor of the model by its dotted name; one that stands in two places has both names.
    fn state_dict(&self) -> Result<StateDict> {
        let named = self.named_tensors().into_iter();
        named.map(|(name, tensor)| Ok((name, tensor.to_host()?))).collect()
    }

    fn prepare<'a>(&'a mut self, state: &StateDict) -> Result<Commit<'a>> {
        let tensors = self.named_tensors();
        let names: Vec<&str> = tensors.iter().map(|(name, _)| name.as_str()).collect();
        fitting(self, &tensors, state, Misfits::names("model", state, &names))
    }
}

/// What [`load_matching`] could not use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unmatched {
    /// Tensors of the model that the state does not have; they are as they were.
    pub missing: Vec<String>,
    /// Tensors of the state that the model does not have.
    pub unexpected: Vec<String>,
}

/// Restores what a state and a model have in common: PyTorch's `load_state_dict(.., strict=False)`.
///
/// # Errors
/// A tensor of both differs in shape; nothing is changed then.
#[track_caller]
pub fn load_matching<M: Module + ?Sized>(model: &mut M, state: &StateDict) -> Result<Unmatched> {
    let (known, missing): (Vec<_>, Vec<_>) =
        model.named_tensors().into_iter().partition(|(name, _)| state.get(name).is_some());
    let is_known = |name: &str| known.iter().any(|(known, _)| known == name);
    let unexpected = state.iter().map(|(name, _)| name).filter(|name| !is_known(name));
    let unmatched = Unmatched {
        missing: missing.into_iter().map(|(name, _)| name).collect(),
        unexpected: unexpected.map(str::to_owned).collect(),
    };
    fitting(model, &known, state, Misfits::none("model"))?();
    Ok(unmatched)
}

/// What puts these tensors' values in place, if they fit.
#[track_caller]
fn fitting<'a, M: Module + ?Sized>(
    model: &'a M,
    tensors: &[(String, DynTensor)],
    state: &StateDict,
    mut misfits: Misfits<'_>,
) -> Result<Commit<'a>> {
    let buffers = buffer_names(model);
    let mut values = Vec::new();
    for (name, tensor) in tensors {
        misfits.compare(name, state.get(name), tensor);
        let Some(value) = state.get(name) else { continue };
        if !tensor.is_leaf() && !buffers.contains(name) && !is_equal(tensor, value)? {
            misfits.push(format!(
                "{name}: a constant of the model, which differs; make it an `nn::Buffer`"
            ));
        }
        values.push((name.clone(), tensor.clone(), value.clone()));
    }
    misfits.finish()?;
    Ok(Box::new(move || {
        for (name, tensor, value) in values {
            let value = upload_like(&value, &tensor);
            // A leaf takes a value of its type and session, as this one is.
            if !tensor.is_leaf() || tensor.replace(&value).is_err() {
                set_buffer(model, &name, &value);
            }
        }
    }))
}

/// The names of all buffers of a model.
fn buffer_names<M: Module + ?Sized>(model: &M) -> Vec<String> {
    let mut names = Vec::new();
    walk(model, &mut |event| {
        if let Event::Buffer { path, .. } = event {
            names.push(path.to_owned());
        }
    });
    names
}

/// Gives the buffer of this name another value.
fn set_buffer<M: Module + ?Sized>(model: &M, name: &str, value: &DynTensor) {
    walk(model, &mut |event| match event {
        Event::Buffer { path, cell } if path == name => replace(cell, value.clone()),
        _ => (),
    });
}

/// Puts a value in place; the old one is dropped after the lock is released.
fn replace(cell: &Mutex<DynTensor>, value: DynTensor) {
    let mut place = cell.lock().unwrap_or_else(PoisonError::into_inner);
    let old = std::mem::replace(&mut *place, value);
    drop(place);
    drop(old);
}

/// Whether a tensor has these contents.
fn is_equal(tensor: &DynTensor, value: &HostTensor) -> Result<bool> {
    let host = tensor.to_host()?;
    Ok(host.ty().shape.same_sizes(&value.ty().shape) && host.to_f64() == value.to_f64())
}
