//! The layers: `Linear`, `Embedding`, `LayerNorm`. Plain structs of tensors with a `forward`.
//!
//! Guarantees: weights have PyTorch's layout, names and default initialization, so its checkpoints
//! fit.

use super::forward::Forward;
use super::init::{Init, fault, unless};
use super::module::{Module, Visitor};
use crate::functional::precision::biased;
use crate::typed::{Append, Create, Dim, DimSpec, Int, Project, Random, Shape, StaticDim, Tensor};

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
/// ```
#[derive(Debug)]
pub struct Linear<I: Dim, O: Dim> {
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
        Linear { weight: uniform(&[], I::SIZE), bias: None }
    }

    /// A layer whose sizes the types do not all know, inputs first. Sizes other than those the
    /// types know are the error of everything computed with it.
    #[track_caller]
    pub fn with_sizes(inputs: usize, outputs: usize) -> Self {
        let open = |size: usize, of: Option<usize>| of.is_none().then_some(size);
        let (i, o) = (open(inputs, known::<I>()), open(outputs, known::<O>()));
        let weight: Vec<usize> = o.into_iter().chain(i).collect();
        let bias: Vec<usize> = o.into_iter().collect();
        let other = |known: Option<usize>, given: usize| known.is_some_and(|known| known != given);
        let fault = if other(known::<I>(), inputs) || other(known::<O>(), outputs) {
            let types =
                [known::<I>(), known::<O>()].map(|n| n.map_or("?".into(), |n| n.to_string()));
            let message = format!(
                "Linear: its type says {} -> {}, but {inputs} -> {outputs} was asked for",
                types[0], types[1]
            );
            fault(message, "give the sizes that the type says, or `Dyn` in the type")
        } else {
            None
        };
        let (weight, bias): (Tensor<(O, I)>, Tensor<(O,)>) =
            (uniform(&weight, inputs), uniform(&bias, inputs));
        Linear {
            weight: Tensor::wrap(unless(fault.as_ref(), weight.into_dyn())),
            bias: Some(Tensor::wrap(unless(fault.as_ref(), bias.into_dyn()))),
        }
    }

    /// The layer applied to the last dimension of `x`.
    #[must_use]
    #[track_caller]
    pub fn forward<S: Shape + Project<I, O>>(&self, x: &Tensor<S>) -> Tensor<S::Out> {
        let product = x.as_dyn().matmul(&self.weight.as_dyn().t());
        Tensor::wrap(match &self.bias {
            Some(bias) => biased(&product, bias.as_dyn()),
            None => product,
        })
    }
}

/// The size that a type says.
fn known<D: Dim>() -> Option<usize> {
    match D::SPEC {
        DimSpec::Static(size) => Some(size),
        DimSpec::Named(_) | DimSpec::Open => None,
    }
}

/// A parameter drawn uniformly from `±1/sqrt(fan_in)`: what PyTorch's `kaiming_uniform_(a=sqrt(5))`
/// comes to.
#[track_caller]
fn uniform<S: Shape>(sizes: &[usize], fan_in: usize) -> Tensor<S> {
    let bound = 1.0 / (fan_in.max(1) as f64).sqrt();
    let unit: Tensor<S> = Tensor::rand_with(sizes);
    Tensor::wrap((unit * (2.0 * bound) - bound).into_dyn().detach()).requires_grad()
}

#[diagnostic::do_not_recommend]
impl<I: StaticDim, O: StaticDim> Init for Linear<I, O> {
    fn init() -> Self {
        Linear { weight: uniform(&[], I::SIZE), bias: Some(uniform(&[], I::SIZE)) }
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

impl<I: Dim, O: Dim, S: Shape + Project<I, O>> Forward<Tensor<S>> for Linear<I, O> {
    type Out = Tensor<S::Out>;
    #[track_caller]
    fn forward(&self, x: &Tensor<S>) -> Tensor<S::Out> {
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

/// A table of `V` rows of width `D`, looked up by index.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// dims! { Batch, Seq }
/// let table: Embedding<N<1000>, N<64>> = Embedding::new();
/// let words: T![Batch, Seq; Int] = Tensor::randint_with(0, 1000, [8, 16]);
/// let x: T![Batch, Seq, 64] = table.forward(&words);
/// ```
#[derive(Debug)]
pub struct Embedding<V: Dim, D: Dim> {
    /// The rows.
    pub weight: Tensor<(V, D)>,
}

impl<V: Dim, D: Dim> Embedding<V, D> {
    /// A table of these rows, which become its parameter.
    #[track_caller]
    pub fn from_tensor(weight: Tensor<(V, D)>) -> Self {
        Embedding { weight: weight.requires_grad() }
    }

    /// The rows that `index` names: one dimension more than the index has.
    #[must_use]
    #[track_caller]
    pub fn forward<S: Shape + Append<D>>(&self, index: &Tensor<S, Int>) -> Tensor<S::Out> {
        self.weight.embedding(index)
    }
}

#[diagnostic::do_not_recommend]
impl<V: StaticDim, D: StaticDim> Init for Embedding<V, D> {
    fn init() -> Self {
        Embedding::from_tensor(Tensor::randn())
    }
}

#[diagnostic::do_not_recommend]
impl<V: Dim, D: Dim> Module for Embedding<V, D> {
    fn describe(&self) -> String {
        match self.weight.sizes()[..] {
            [rows, width] => format!("Embedding({rows} x {width})"),
            _ => "Embedding".into(),
        }
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.child("weight", &self.weight);
    }
}

impl<V: Dim, D: Dim, S: Shape + Append<D>> Forward<Tensor<S, Int>> for Embedding<V, D> {
    type Out = Tensor<S::Out>;
    #[track_caller]
    fn forward(&self, index: &Tensor<S, Int>) -> Tensor<S::Out> {
        Embedding::forward(self, index)
    }
}

impl<V: Dim, D: Dim> Clone for Embedding<V, D> {
    fn clone(&self) -> Self {
        Embedding { weight: self.weight.clone() }
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
pub struct LayerNorm<D: Dim> {
    /// The scale, ones at first.
    pub weight: Tensor<(D,)>,
    /// The offset, zeros at first.
    pub bias: Tensor<(D,)>,
    /// Added to the variance.
    pub eps: f64,
}

impl<D: Dim> LayerNorm<D> {
    /// The layer applied to the last dimension of `x`.
    #[must_use]
    #[track_caller]
    pub fn forward<S: Shape + Project<D, D>>(&self, x: &Tensor<S>) -> Tensor<S::Out> {
        Tensor::wrap(x.as_dyn().layer_norm(self.weight.as_dyn(), self.bias.as_dyn(), self.eps))
    }
}

#[diagnostic::do_not_recommend]
impl<D: StaticDim> Init for LayerNorm<D> {
    fn init() -> Self {
        LayerNorm {
            weight: Tensor::ones().requires_grad(),
            bias: Tensor::zeros().requires_grad(),
            eps: 1e-5,
        }
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

impl<D: Dim, S: Shape + Project<D, D>> Forward<Tensor<S>> for LayerNorm<D> {
    type Out = Tensor<S::Out>;
    #[track_caller]
    fn forward(&self, x: &Tensor<S>) -> Tensor<S::Out> {
        LayerNorm::forward(self, x)
    }
}

impl<D: Dim> Clone for LayerNorm<D> {
    fn clone(&self) -> Self {
        LayerNorm { weight: self.weight.clone(), bias: self.bias.clone(), eps: self.eps }
    }
}
