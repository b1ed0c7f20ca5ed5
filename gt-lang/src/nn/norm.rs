//! Normalization layers beside `LayerNorm`: `BatchNorm`, `GroupNorm`, `RmsNorm`, with PyTorch's
//! names and defaults.

use super::buffer::Buffer;
use super::forward::Forward;
use super::init::{Init, divisors, fault, unless};
use super::module::{Mode, Module, Visitor};
use crate::functional;
use crate::typed::{Create, Dim, Int, Project, Shape, StaticDim, Tensor};

/// Normalizes channels (axis 1) by the statistics of the batch while training, by running ones in
/// evaluation (Ioffe and Szegedy 2015): PyTorch's `BatchNorm1d` and `BatchNorm2d`, whose states it
/// has.
///
/// While training, the layer changes its running statistics at every call: they move by `momentum`
/// towards the mean and the unbiased variance of the batch. They are buffers and get no gradient.
#[derive(Clone)]
pub struct BatchNorm<C: Dim> {
    /// The scale, ones at first.
    pub weight: Tensor<(C,)>,
    /// The offset, zeros at first.
    pub bias: Tensor<(C,)>,
    /// Added to the variance.
    pub eps: f64,
    /// How far the running statistics move towards those of a batch.
    pub momentum: f64,
    running_mean: Buffer<(C,)>,
    running_var: Buffer<(C,)>,
    num_batches_tracked: Buffer<(), Int>,
    mode: Mode,
}

impl<C: Dim> BatchNorm<C> {
    /// The layer applied to `[batch, C, ..]`.
    #[must_use]
    #[track_caller]
    pub fn forward<S: Shape>(&self, x: &Tensor<S>) -> Tensor<S> {
        let (mean, var) = (self.running_mean.get(), self.running_var.get());
        let running = (mean.as_dyn(), var.as_dyn());
        let affine = (self.weight.as_dyn(), self.bias.as_dyn());
        Tensor::wrap(match self.mode {
            Mode::Eval => functional::batch_norm_eval(x.as_dyn(), running, affine, self.eps),
            Mode::Train => {
                let made =
                    functional::batch_norm(x.as_dyn(), running, affine, self.momentum, self.eps);
                self.running_mean.set(&Tensor::wrap(made.running_mean));
                self.running_var.set(&Tensor::wrap(made.running_var));
                self.num_batches_tracked.set(&(self.num_batches_tracked.get() + 1));
                made.output
            }
        })
    }
}

#[diagnostic::do_not_recommend]
impl<C: StaticDim> Init for BatchNorm<C> {
    fn init() -> Self {
        BatchNorm {
            weight: Tensor::ones().requires_grad(),
            bias: Tensor::zeros().requires_grad(),
            eps: 1e-5,
            momentum: 0.1,
            running_mean: Buffer::new(&Tensor::zeros()),
            running_var: Buffer::new(&Tensor::ones()),
            num_batches_tracked: Buffer::new(&Tensor::zeros()),
            mode: Mode::Train,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<C: Dim> Module for BatchNorm<C> {
    fn describe(&self) -> String {
        format!("BatchNorm({})", self.weight.numel())
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.child("weight", &self.weight);
        visitor.child("bias", &self.bias);
        visitor.child("running_mean", &self.running_mean);
        visitor.child("running_var", &self.running_var);
        visitor.child("num_batches_tracked", &self.num_batches_tracked);
    }
    fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }
}

impl<C: Dim> std::fmt::Debug for BatchNorm<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe())
    }
}

impl<C: Dim, S: Shape> Forward<Tensor<S>> for BatchNorm<C> {
    type Out = Tensor<S>;
    #[track_caller]
    fn forward(&self, x: &Tensor<S>) -> Tensor<S> {
        BatchNorm::forward(self, x)
    }
}

/// Normalizes groups of channels (axis 1) of each example (Wu and He 2018).
#[derive(Clone, Debug)]
pub struct GroupNorm<C: Dim> {
    /// The scale, ones at first.
    pub weight: Tensor<(C,)>,
    /// The offset, zeros at first.
    pub bias: Tensor<(C,)>,
    /// Added to the variance.
    pub eps: f64,
    groups: usize,
}

impl<C: StaticDim> GroupNorm<C> {
    /// A layer with so many groups, which must divide `C`; if they do not, that is the error of
    /// everything computed with it.
    #[must_use]
    #[track_caller]
    pub fn with_groups(groups: usize) -> Self {
        let fault = if groups > 0 && C::SIZE.is_multiple_of(groups) {
            None
        } else {
            let message =
                format!("GroupNorm: {} channels cannot be divided into {groups} groups", C::SIZE);
            fault(message, divisors(C::SIZE))
        };
        let (weight, bias): (Tensor<(C,)>, Tensor<(C,)>) = (Tensor::ones(), Tensor::zeros());
        let parameter = |tensor: Tensor<(C,)>| {
            Tensor::wrap(unless(fault.as_ref(), tensor.requires_grad().into_dyn()))
        };
        GroupNorm { weight: parameter(weight), bias: parameter(bias), eps: 1e-5, groups }
    }
}

impl<C: Dim> GroupNorm<C> {
    /// The layer applied to `[batch, C, ..]`.
    #[must_use]
    #[track_caller]
    pub fn forward<S: Shape>(&self, x: &Tensor<S>) -> Tensor<S> {
        let (weight, bias) = (self.weight.as_dyn(), self.bias.as_dyn());
        Tensor::wrap(x.as_dyn().group_norm(self.groups, weight, bias, self.eps))
    }
}

#[diagnostic::do_not_recommend]
impl<C: Dim> Module for GroupNorm<C> {
    fn describe(&self) -> String {
        format!("GroupNorm({} in {} groups)", self.weight.numel(), self.groups)
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.child("weight", &self.weight);
        visitor.child("bias", &self.bias);
    }
}

impl<C: Dim, S: Shape> Forward<Tensor<S>> for GroupNorm<C> {
    type Out = Tensor<S>;
    #[track_caller]
    fn forward(&self, x: &Tensor<S>) -> Tensor<S> {
        GroupNorm::forward(self, x)
    }
}

/// Divides by the root mean square over the last dimension, then `* weight` (Zhang and Sennrich
/// 2019).
///
/// Unlike `LayerNorm` it subtracts no mean and has no offset.
#[derive(Clone, Debug)]
pub struct RmsNorm<D: Dim> {
    /// The scale, ones at first.
    pub weight: Tensor<(D,)>,
    /// Added to the mean square; PyTorch's default is the smallest step of `f32` at 1.
    pub eps: f64,
}

impl<D: Dim> RmsNorm<D> {
    /// The layer applied to the last dimension of `x`.
    #[must_use]
    #[track_caller]
    pub fn forward<S: Shape + Project<D, D>>(&self, x: &Tensor<S>) -> Tensor<S::Out> {
        Tensor::wrap(x.as_dyn().rms_norm(self.weight.as_dyn(), self.eps))
    }
}

#[diagnostic::do_not_recommend]
impl<D: StaticDim> Init for RmsNorm<D> {
    fn init() -> Self {
        RmsNorm { weight: Tensor::ones().requires_grad(), eps: f64::from(f32::EPSILON) }
    }
}

#[diagnostic::do_not_recommend]
impl<D: Dim> Module for RmsNorm<D> {
    fn describe(&self) -> String {
        format!("RmsNorm({})", self.weight.numel())
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.child("weight", &self.weight);
    }
}

impl<D: Dim, S: Shape + Project<D, D>> Forward<Tensor<S>> for RmsNorm<D> {
    type Out = Tensor<S::Out>;
    #[track_caller]
    fn forward(&self, x: &Tensor<S>) -> Tensor<S::Out> {
        RmsNorm::forward(self, x)
    }
}
