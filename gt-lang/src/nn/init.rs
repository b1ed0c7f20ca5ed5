//! `Init`: parts of a model that can be built without being told anything, with PyTorch's default initialization.
//!
//! Guarantees: parameters are drawn from the session's generator in the order of the fields, so a seed fixes a model.

use crate::typed::{Shape, Tensor};

/// A part of a model with a default initialization: `Mlp::new()`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no default initialization",
    label = "`new` cannot build this: the field needs `#[module(init = ..)]`"
)]
pub trait Init: Sized {
    /// Builds it; what [`Module::new`](super::Module::new) calls.
    #[must_use]
    fn init() -> Self;
}

#[diagnostic::do_not_recommend]
impl<M: Init, const COUNT: usize> Init for [M; COUNT] {
    fn init() -> Self {
        std::array::from_fn(|_| M::init())
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

/// A list of `count` parts, each initialized on its own: `#[module(init = repeat(12))] blocks: Vec<Block>`.
#[must_use]
pub fn repeat<M: Init>(count: usize) -> Vec<M> {
    (0..count).map(|_| M::init()).collect()
}

/// A parameter drawn uniformly from `±1/sqrt(fan_in)`: what PyTorch's `kaiming_uniform_(a=sqrt(5))` comes to.
#[track_caller]
pub(super) fn uniform<S: Shape>(sizes: &[usize], fan_in: usize) -> Tensor<S> {
    let bound = 1.0 / (fan_in.max(1) as f64).sqrt();
    let unit: Tensor<S> = Tensor::rand_with(sizes);
    Tensor::wrap((unit * (2.0 * bound) - bound).into_dyn().detach()).requires_grad()
}
