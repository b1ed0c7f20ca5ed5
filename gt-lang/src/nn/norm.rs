//! Normalization layers beside `LayerNorm` and `InstanceNorm`: `BatchNorm`, `GroupNorm`, `RmsNorm`,
//! with PyTorch's names and defaults.

use gt_ir::DType;

use super::buffer::Buffer;
use super::forward::Forward;
use super::hooks::{entering, hooked};
use super::init::{Init, divisors, fault, parameter, unless};
use super::module::{Mode, Module, Visitor};
use crate::core::DynTensor;
use crate::functional;
use crate::typed::{Create, Dim, Dyn, Features, Floats, Int, Sealed as _, StaticDim, Tensor};

/// Normalizes channels (axis 1) by the statistics of the batch while training, by running ones in
/// evaluation (Ioffe and Szegedy 2015): PyTorch's `BatchNorm1d` and `BatchNorm2d`, whose states it
/// has.
///
/// While training, the layer changes its running statistics at every call: they move by `momentum`
/// towards the mean and the unbiased variance of the batch. They are buffers and get no gradient.
#[derive(Clone)]
#[non_exhaustive]
pub struct BatchNorm<C: Dim = Dyn> {
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
    /// A layer whose number of channels the type does not know.
    #[must_use]
    #[track_caller]
    pub fn with_sizes(channels: usize) -> Self {
        let (zeros, ones) = (of_channels(channels, 0.0), of_channels(channels, 1.0));
        BatchNorm {
            weight: parameter("BatchNorm", ones.clone()),
            bias: parameter("BatchNorm", zeros.clone()),
            eps: 1e-5,
            momentum: 0.1,
            running_mean: Buffer::new(&Tensor::conform("BatchNorm", zeros)),
            running_var: Buffer::new(&Tensor::conform("BatchNorm", ones)),
            num_batches_tracked: Buffer::new(&Tensor::zeros()),
            mode: Mode::Train,
        }
    }

    /// This layer with another `eps`.
    #[must_use]
    pub fn with_eps(self, eps: f64) -> Self {
        BatchNorm { eps, ..self }
    }

    /// The layer applied to `[batch, C, ..]`.
    #[must_use]
    #[track_caller]
    pub fn forward<X: Floats>(&self, x: &X) -> X::Owned {
        let x = &*entering(self, x.inner());
        let (mean, var) = (self.running_mean.get(), self.running_var.get());
        let running = (mean.as_dyn(), var.as_dyn());
        let affine = (self.weight.as_dyn(), self.bias.as_dyn());
        let y = match self.mode {
            Mode::Eval => functional::batch_norm_eval(x, running, affine, self.eps),
            Mode::Train => {
                let made = functional::batch_norm(x, running, affine, self.momentum, self.eps);
                self.running_mean.set(&Tensor::wrap(made.running_mean));
                self.running_var.set(&Tensor::wrap(made.running_var));
                self.num_batches_tracked.set(&(self.num_batches_tracked.get() + 1));
                made.output
            }
        };
        hooked(self, X::Owned::like(y))
    }
}

#[diagnostic::do_not_recommend]
impl<C: StaticDim> Init for BatchNorm<C> {
    fn init() -> Self {
        BatchNorm::with_sizes(C::SIZE)
    }
}

/// One number for each channel.
#[track_caller]
pub(super) fn of_channels(channels: usize, value: f64) -> DynTensor {
    DynTensor::full([channels], value, DType::F32)
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

impl<C: Dim, X: Floats> Forward<X> for BatchNorm<C> {
    type Out = X::Owned;
    #[track_caller]
    fn forward(&self, x: &X) -> X::Owned {
        BatchNorm::forward(self, x)
    }
}

/// Normalizes groups of channels (axis 1) of each example (Wu and He 2018).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GroupNorm<C: Dim = Dyn> {
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
        GroupNorm::with_sizes(C::SIZE, groups)
    }
}

impl<C: Dim> GroupNorm<C> {
    /// A layer whose number of channels the type does not know, with so many groups.
    #[must_use]
    #[track_caller]
    pub fn with_sizes(channels: usize, groups: usize) -> Self {
        let fault = if groups > 0 && channels.is_multiple_of(groups) {
            None
        } else {
            let message =
                format!("GroupNorm: {channels} channels cannot be divided into {groups} groups");
            fault(message, divisors(channels))
        };
        let (weight, bias): (Tensor<(C,)>, Tensor<(C,)>) = (
            parameter("GroupNorm", of_channels(channels, 1.0)),
            parameter("GroupNorm", of_channels(channels, 0.0)),
        );
        GroupNorm {
            weight: Tensor::wrap(unless(fault.as_ref(), weight.into_dyn())),
            bias: Tensor::wrap(unless(fault.as_ref(), bias.into_dyn())),
            eps: 1e-5,
            groups,
        }
    }

    /// This layer with another `eps`.
    #[must_use]
    pub fn with_eps(self, eps: f64) -> Self {
        GroupNorm { eps, ..self }
    }

    /// The layer applied to `[batch, C, ..]`.
    #[must_use]
    #[track_caller]
    pub fn forward<X: Floats>(&self, x: &X) -> X::Owned {
        let (weight, bias) = (self.weight.as_dyn(), self.bias.as_dyn());
        let x = &*entering(self, x.inner());
        hooked(self, X::Owned::like(x.group_norm(self.groups, weight, bias, self.eps)))
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

impl<C: Dim, X: Floats> Forward<X> for GroupNorm<C> {
    type Out = X::Owned;
    #[track_caller]
    fn forward(&self, x: &X) -> X::Owned {
        GroupNorm::forward(self, x)
    }
}

/// Divides by the root mean square over the last dimension, then `* weight` (Zhang and Sennrich
/// 2019).
///
/// Unlike `LayerNorm` it subtracts no mean and has no offset.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RmsNorm<D: Dim = Dyn> {
    /// The scale, ones at first.
    pub weight: Tensor<(D,)>,
    /// Added to the mean square; PyTorch's default is the smallest step of `f32` at 1.
    pub eps: f64,
}

impl<D: Dim> RmsNorm<D> {
    /// A layer of this tensor, which becomes its parameter.
    #[must_use]
    #[track_caller]
    pub fn from_tensor(weight: Tensor<(D,)>) -> Self {
        RmsNorm { weight: weight.requires_grad(), eps: f64::from(f32::EPSILON) }
    }

    /// A layer whose width the type does not know.
    #[must_use]
    #[track_caller]
    pub fn with_sizes(width: usize) -> Self {
        let weight = DynTensor::ones([width], DType::F32);
        RmsNorm { weight: parameter("RmsNorm", weight), eps: f64::from(f32::EPSILON) }
    }

    /// This layer with another `eps`.
    #[must_use]
    pub fn with_eps(self, eps: f64) -> Self {
        RmsNorm { eps, ..self }
    }

    /// The layer applied to the last dimension of `x`.
    #[must_use]
    #[track_caller]
    pub fn forward<X: Features<D, D>>(&self, x: &X) -> X::Out {
        let x = &*entering(self, x.inner());
        hooked(self, X::Out::like(x.rms_norm(self.weight.as_dyn(), self.eps)))
    }
}

#[diagnostic::do_not_recommend]
impl<D: StaticDim> Init for RmsNorm<D> {
    fn init() -> Self {
        RmsNorm::from_tensor(Tensor::ones())
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

impl<D: Dim, X: Features<D, D>> Forward<X> for RmsNorm<D> {
    type Out = X::Out;
    #[track_caller]
    fn forward(&self, x: &X) -> X::Out {
        RmsNorm::forward(self, x)
    }
}
