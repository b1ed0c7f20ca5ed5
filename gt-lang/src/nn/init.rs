//! `Init`: parts of a model that can be built without being told anything, with PyTorch's default
//! initialization.
//!
//! Guarantees: parameters are drawn from the session's generator in the order of the fields, so a
//! seed fixes a model. The parameters of a layer that cannot be carry why, with the line that built
//! it, and so does everything computed from them.

use std::panic::Location;

use crate::core::DynTensor;
use crate::error::{Error, ErrorKind};
use crate::typed::{DimSpec, Shape, Tensor, spell};

/// A part of a model with a default initialization: `Mlp::new()`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no default initialization",
    label = "`new` cannot build this: the field needs `#[module(init = ..)]`"
)]
pub trait Init: Sized {
    /// Builds it; what [`Module::new`](super::Module::new) calls.
    #[must_use]
    #[track_caller]
    fn init() -> Self;
}

#[diagnostic::do_not_recommend]
impl<M: Init, const COUNT: usize> Init for [M; COUNT] {
    fn init() -> Self {
        // As many as there is room for; a function for each place would hide where the model is
        // built.
        let mut parts = repeat(COUNT).into_iter();
        std::array::from_fn(|_| parts.next().unwrap_or_else(M::init))
    }
}

#[diagnostic::do_not_recommend]
impl<M: Init> Init for Box<M> {
    fn init() -> Self {
        Box::new(M::init())
    }
}

#[diagnostic::do_not_recommend]
impl<T: ?Sized> Init for std::marker::PhantomData<T> {
    fn init() -> Self {
        std::marker::PhantomData
    }
}

/// A parameter of a layer, in the shape that its type says; another shape is the error of
/// everything computed with it.
#[track_caller]
pub(super) fn parameter<S: Shape>(layer: &str, value: DynTensor) -> Tensor<S> {
    Tensor::conform(layer, value.detach()).requires_grad()
}

/// Why a layer cannot be built, at the user's line.
#[track_caller]
pub(super) fn fault(message: String, hint: impl Into<String>) -> Option<Error> {
    Some(Error::new(ErrorKind::Operation, message, Location::caller()).hint(hint))
}

/// A parameter of a layer, or what carries why there is no such layer.
#[track_caller]
pub(super) fn unless(fault: Option<&Error>, parameter: DynTensor) -> DynTensor {
    match fault {
        None => parameter,
        Some(error) => DynTensor::failed(error.clone(), parameter.ty()).requires_grad(),
    }
}

/// Why there is no layer of these sizes, of which the types know others.
#[track_caller]
pub(super) fn other_sizes(layer: &str, sizes: &[(DimSpec, usize)]) -> Option<Error> {
    let differs =
        |(spec, given): &(DimSpec, usize)| matches!(spec, DimSpec::Static(n) if n != given);
    if !sizes.iter().any(differs) {
        return None;
    }
    let (specs, given): (Vec<DimSpec>, Vec<usize>) = sizes.iter().copied().unzip();
    let message = format!("{layer}: its type says {}, but {given:?} were asked for", spell(&specs));
    fault(message, "give the sizes that the type says, or `Dyn` in the type")
}

/// The numbers that divide another, for hints: `1, 2, 5 and 10 divide 10`.
pub(super) fn divisors(n: usize) -> String {
    let all: Vec<String> =
        (1..=n.min(1 << 16)).filter(|d| n.is_multiple_of(*d)).map(|d| d.to_string()).collect();
    match all.split_last() {
        Some((last, rest)) if !rest.is_empty() => {
            format!("{} and {last} divide {n}", rest.join(", "))
        }
        _ => format!("only 1 divides {n}"),
    }
}

/// A list of `count` parts, each initialized on its own: `#[module(init = repeat(12))] blocks:
/// Vec<Block>`.
#[must_use]
#[track_caller]
pub fn repeat<M: Init>(count: usize) -> Vec<M> {
    let mut parts = Vec::new();
    for _ in 0..count {
        parts.push(M::init());
    }
    parts
}
