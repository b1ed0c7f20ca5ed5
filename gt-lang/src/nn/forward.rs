//! Composition: `Forward` is what [`seq!`](gt_macros::seq) and lists of layers call; activations
//! are values that have it.
//!
//! A sequence is an expression, not a type: `seq!(x => self.fc1, Relu, self.fc2)` is three nested
//! calls, and an error points at the layer that does not fit.

use super::module::{Module, Visitor};
use crate::typed::{Float, Shape, Tensor};

/// Something that makes one tensor of another: a layer, an activation, a closure.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not take a `{X}`",
    label = "does not fit the input"
)]
pub trait Forward<X> {
    /// What comes out.
    type Out;
    /// Applies it.
    fn forward(&self, x: &X) -> Self::Out;
}

impl<X, Y, F: Fn(&X) -> Y> Forward<X> for F {
    type Out = Y;
    #[track_caller]
    fn forward(&self, x: &X) -> Y {
        self(x)
    }
}

macro_rules! activations {
    ($($(#[$doc:meta])+ $name:ident $method:ident;)+) => { $(
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;
        impl<S: Shape> Forward<Tensor<S>> for $name {
            type Out = Tensor<S>;
            #[track_caller]
            fn forward(&self, x: &Tensor<S>) -> Tensor<S> {
                Tensor::<S, Float>::$method(x)
            }
        }
        #[diagnostic::do_not_recommend]
        impl Module for $name {
            fn describe(&self) -> String {
                stringify!($name).into()
            }
            fn visit(&self, _: &mut Visitor<'_>) {}
        }
        #[diagnostic::do_not_recommend]
        impl super::init::Init for $name {
            fn init() -> Self {
                $name
            }
        }
    )+ };
}
activations! {
    /// `max(x, 0)`.
    Relu relu;
    /// The Gaussian error linear unit.
    Gelu gelu;
    /// The hyperbolic tangent.
    Tanh tanh;
    /// `1 / (1 + exp(-x))`.
    Sigmoid sigmoid;
}
