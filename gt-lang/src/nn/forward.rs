//! Composition: `Forward` is what [`seq!`](gt_macros::seq) and lists of layers call; activations
//! are values that have it.
//!
//! A sequence is an expression, not a type: `seq!(x => self.fc1, Relu, self.fc2)` is three nested
//! calls, and an error points at the layer that does not fit.

use super::hooks::{entering, hooked};
use super::module::{Module, Visitor};
use crate::core::DynTensor;
use crate::typed::{Dim, Dyn, Floats, Sealed as _, Shape, Tensor};

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

/// Parts of a model without tensors or settings.
macro_rules! plain_parts {
    ($($name:ident)+) => { $(
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

macro_rules! activations {
    ($($(#[$doc:meta])+ $name:ident $method:ident;)+) => { $(
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;
        impl<X: Floats> Forward<X> for $name {
            type Out = X::Owned;
            #[track_caller]
            fn forward(&self, x: &X) -> X::Owned {
                X::Owned::like(x.inner().$method())
            }
        }
        plain_parts! { $name }
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
    /// `x * sigmoid(x)`.
    Silu silu;
    /// `log(1 + exp(x))`.
    Softplus softplus;
    /// `x * tanh(softplus(x))`.
    Mish mish;
    /// `x * clamp(x / 6 + 1/2, 0, 1)`.
    Hardswish hardswish;
}

/// Steps that keep the shape and have a setting.
macro_rules! set_steps {
    ($($(#[$doc:meta])+ $name:ident($setting:ty) $method:ident;)+) => { $(
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name(pub $setting);
        impl<X: Floats> Forward<X> for $name {
            type Out = X::Owned;
            #[track_caller]
            fn forward(&self, x: &X) -> X::Owned {
                let x = &*entering(self, x.inner());
                hooked(self, X::Owned::like(x.$method(self.0)))
            }
        }
        #[diagnostic::do_not_recommend]
        impl Module for $name {
            fn describe(&self) -> String {
                format!("{}({})", stringify!($name), self.0)
            }
            fn visit(&self, _: &mut Visitor<'_>) {}
        }
    )+ };
}
set_steps! {
    /// `x` where it is positive, `x` times this slope elsewhere.
    LeakyRelu(f64) leaky_relu;
    /// `x` where it is positive, this number times `exp(x) - 1` elsewhere.
    Elu(f64) elu;
    /// Numbers along this axis as probabilities; -1 is the last axis.
    Softmax(i64) softmax;
    /// The logarithms of [`Softmax`].
    LogSoftmax(i64) log_softmax;
}

impl Default for LeakyRelu {
    /// PyTorch's slope, 0.01.
    fn default() -> Self {
        LeakyRelu(0.01)
    }
}
impl Default for Elu {
    fn default() -> Self {
        Elu(1.0)
    }
}

/// What it is given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity;

impl<X: Clone> Forward<X> for Identity {
    type Out = X;
    fn forward(&self, x: &X) -> X {
        x.clone()
    }
}

/// All axes but the first as one, of a run-time size: `[batch, ..]` as `[batch, features]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flatten;

impl Forward<DynTensor> for Flatten {
    type Out = DynTensor;
    #[track_caller]
    fn forward(&self, x: &DynTensor) -> DynTensor {
        x.flatten(1, -1)
    }
}

macro_rules! flatten {
    ($(($($axis:ident),+))+) => { $(
        impl<Batch: Dim, $($axis: Dim),+> Forward<Tensor<(Batch, $($axis),+)>> for Flatten
        where
            (Batch, $($axis),+): Shape,
        {
            type Out = Tensor<(Batch, Dyn)>;
            #[track_caller]
            fn forward(&self, x: &Tensor<(Batch, $($axis),+)>) -> Self::Out {
                Tensor::conform("flatten", x.as_dyn().flatten(1, -1))
            }
        }
    )+ };
}
impl<X> Forward<&X> for Flatten
where
    Flatten: Forward<X>,
{
    type Out = <Flatten as Forward<X>>::Out;
    #[track_caller]
    fn forward(&self, x: &&X) -> Self::Out {
        Forward::<X>::forward(self, x)
    }
}

flatten! { (A) (A, B) (A, B, C) (A, B, C, D) }

plain_parts! { Identity Flatten }
