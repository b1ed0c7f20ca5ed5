//! The layers: `Linear`, `LayerNorm`. Structs of tensors with a `forward`.
//!
//! Guarantees: weights have PyTorch's layout, names and default initialization, so its checkpoints
//! fit. The tensors that a layer is built of are its parameters: layers are not built by struct
//! literals.

use gt_ir::DType;

use super::forward::Forward;
use super::hooks::{entering, hooked};
use super::init::{Init, parameter};
use super::module::{Module, Visitor};
use crate::core::DynTensor;
use crate::functional::precision::biased;
use crate::typed::{Create, Dim, Dyn, Features, Sealed as _, StaticDim, Tensor};

/// `x @ weight.T + bias`, over the last dimension. A layer with one output is a `Linear<I, One>`:
/// its result is a `T![Batch, 1]` and broadcasts, which that of a `Linear<I, N<1>>` is only after
/// `.assume()`.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// dims! { Batch }
/// let layer: Linear<N<3>, N<2>> = Linear::new();
/// let x: T![Batch, 3] = Tensor::ones_with([8]);
/// let y: T![Batch, 2] = layer.forward(&x);
///
/// let layer: Linear = Linear::with_sizes(3, 2); // sizes at run time
/// let y: DynTensor = layer.forward(x.as_dyn());
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Linear<I: Dim = Dyn, O: Dim = Dyn> {
    /// The weight, outputs first as in PyTorch.
    pub weight: Tensor<(O, I)>,
    /// The bias, if there is one.
    pub bias: Option<Tensor<(O,)>>,
}

impl<I: Dim, O: Dim> Linear<I, O> {
    /// A layer of these tensors, which become its parameters.
    #[track_caller]
    pub fn from_tensors(weight: Tensor<(O, I)>, bias: Option<Tensor<(O,)>>) -> Self {
        Linear { weight: weight.requires_grad(), bias: bias.map(Tensor::requires_grad) }
    }

    /// A layer without bias.
    #[track_caller]
    pub fn without_bias() -> Self
    where
        I: StaticDim,
        O: StaticDim,
    {
        Linear::with_sizes_without_bias(I::SIZE, O::SIZE)
    }

    /// A layer whose sizes the types do not all know, inputs first. Sizes other than those the
    /// types know are the error of everything computed with it.
    #[track_caller]
    pub fn with_sizes(inputs: usize, outputs: usize) -> Self {
        Linear {
            weight: parameter("Linear", uniform(&[outputs, inputs], inputs)),
            bias: Some(parameter("Linear", uniform(&[outputs], inputs))),
        }
    }

    /// [`Linear::with_sizes`] without bias.
    #[track_caller]
    pub fn with_sizes_without_bias(inputs: usize, outputs: usize) -> Self {
        Linear { weight: parameter("Linear", uniform(&[outputs, inputs], inputs)), bias: None }
    }

    /// The layer applied to the last dimension of `x`.
    #[must_use]
    #[track_caller]
    pub fn forward<X: Features<I, O>>(&self, x: &X) -> X::Out {
        let x = &*entering(self, x.inner());
        let product = x.matmul(&self.weight.as_dyn().t());
        let y = match &self.bias {
            Some(bias) => biased(&product, bias.as_dyn()),
            None => product,
        };
        hooked(self, X::Out::like(y))
    }
}

/// Numbers drawn uniformly from `±1/sqrt(fan_in)`: what PyTorch's `kaiming_uniform_(a=sqrt(5))`
/// comes to.
#[track_caller]
fn uniform(sizes: &[usize], fan_in: usize) -> DynTensor {
    let bound = 1.0 / (fan_in.max(1) as f64).sqrt();
    DynTensor::rand(sizes, DType::F32) * (2.0 * bound) - bound
}

#[diagnostic::do_not_recommend]
impl<I: StaticDim, O: StaticDim> Init for Linear<I, O> {
    fn init() -> Self {
        Linear::with_sizes(I::SIZE, O::SIZE)
    }
}

#[diagnostic::do_not_recommend]
impl<I: Dim, O: Dim> Module for Linear<I, O> {
    fn describe(&self) -> String {
        let (sizes, bias) =
            (self.weight.sizes(), if self.bias.is_some() { "" } else { ", no bias" });
        match sizes[..] {
            [outputs, inputs] => format!("Linear({inputs} -> {outputs}{bias})"),
            _ => "Linear".into(),
        }
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.child("weight", &self.weight);
        visitor.child("bias", &self.bias);
    }
}

impl<I: Dim, O: Dim, X: Features<I, O>> Forward<X> for Linear<I, O> {
    type Out = X::Out;
    #[track_caller]
    fn forward(&self, x: &X) -> X::Out {
        Linear::forward(self, x)
    }
}

// Not derived, here as below: a layer is a handle of its parameters, whatever the types of its
// dimensions are.
impl<I: Dim, O: Dim> Clone for Linear<I, O> {
    fn clone(&self) -> Self {
        Linear { weight: self.weight.clone(), bias: self.bias.clone() }
    }
}

/// Subtracts the mean and divides by the standard deviation over the last dimension, then `* weight
/// + bias`.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// dims! { Batch, Seq }
/// let norm: LayerNorm<N<64>> = LayerNorm::new();
/// let x: T![Batch, Seq, 64] = Tensor::randn_with([8, 16]);
/// let y: T![Batch, Seq, 64] = norm.forward(&x);
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct LayerNorm<D: Dim = Dyn> {
    /// The scale, ones at first.
    pub weight: Tensor<(D,)>,
    /// The offset, zeros at first.
    pub bias: Tensor<(D,)>,
    /// Added to the variance.
    pub eps: f64,
}

impl<D: Dim> LayerNorm<D> {
    /// A layer of these tensors, which become its parameters.
    #[must_use]
    #[track_caller]
    pub fn from_tensors(weight: Tensor<(D,)>, bias: Tensor<(D,)>) -> Self {
        LayerNorm { weight: weight.requires_grad(), bias: bias.requires_grad(), eps: 1e-5 }
    }

    /// A layer whose width the type does not know.
    #[must_use]
    #[track_caller]
    pub fn with_sizes(width: usize) -> Self {
        LayerNorm {
            weight: parameter("LayerNorm", DynTensor::ones([width], DType::F32)),
            bias: parameter("LayerNorm", DynTensor::zeros([width], DType::F32)),
            eps: 1e-5,
        }
    }

    /// This layer with another `eps`.
    #[must_use]
    pub fn with_eps(self, eps: f64) -> Self {
        LayerNorm { eps, ..self }
    }

    /// The layer applied to the last dimension of `x`.
    #[must_use]
    #[track_caller]
    pub fn forward<X: Features<D, D>>(&self, x: &X) -> X::Out {
        let x = &*entering(self, x.inner());
        let (weight, bias) = (self.weight.as_dyn(), self.bias.as_dyn());
        hooked(self, X::Out::like(x.layer_norm(weight, bias, self.eps)))
    }
}

#[diagnostic::do_not_recommend]
impl<D: StaticDim> Init for LayerNorm<D> {
    fn init() -> Self {
        LayerNorm::from_tensors(Tensor::ones(), Tensor::zeros())
    }
}

#[diagnostic::do_not_recommend]
impl<D: Dim> Module for LayerNorm<D> {
    fn describe(&self) -> String {
        format!("LayerNorm({})", self.weight.numel())
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.child("weight", &self.weight);
        visitor.child("bias", &self.bias);
    }
}

impl<D: Dim, X: Features<D, D>> Forward<X> for LayerNorm<D> {
    type Out = X::Out;
    #[track_caller]
    fn forward(&self, x: &X) -> X::Out {
        LayerNorm::forward(self, x)
    }
}

impl<D: Dim> Clone for LayerNorm<D> {
    fn clone(&self) -> Self {
        LayerNorm { weight: self.weight.clone(), bias: self.bias.clone(), eps: self.eps }
    }
}
