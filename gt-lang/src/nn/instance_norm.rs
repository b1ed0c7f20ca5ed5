//! `InstanceNorm`: normalization of each channel of each example, with PyTorch's names and
//! defaults.

use gt_ir::{Shape, Type};

use super::buffer::Buffer;
use super::forward::Forward;
use super::hooks::{entering, hooked};
use super::init::{Init, parameter};
use super::module::{Mode, Module, Visitor};
use super::norm::of_channels;
use crate::core::{Axes, DynTensor};
use crate::functional;
use crate::typed::{Create, Dim, Dyn, Floats, Int, Sealed as _, StaticDim, Tensor};

/// Normalizes each channel (axis 1) of each example by its own mean and variance (Ulyanov, Vedaldi
/// and Lempitsky 2016): PyTorch's `InstanceNorm1d`, `2d` and `3d`, which have no scale and offset
/// unless asked to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InstanceNorm<C: Dim = Dyn> {
    /// The scale, if there is one; ones at first.
    pub weight: Option<Tensor<(C,)>>,
    /// The offset, if there is one; zeros at first.
    pub bias: Option<Tensor<(C,)>>,
    /// Added to the variance.
    pub eps: f64,
    /// How far running statistics move towards those of a batch.
    pub momentum: f64,
    channels: usize,
    running: Option<Running<C>>,
    mode: Mode,
}

/// What a layer has seen so far.
#[derive(Clone, Debug)]
struct Running<C: Dim> {
    mean: Buffer<(C,)>,
    var: Buffer<(C,)>,
    /// PyTorch's states have it. It stays 0, as there.
    num_batches_tracked: Buffer<(), Int>,
}

impl<C: Dim> InstanceNorm<C> {
    /// A layer whose number of channels the type does not know.
    #[must_use]
    pub fn with_sizes(channels: usize) -> Self {
        InstanceNorm {
            weight: None,
            bias: None,
            eps: 1e-5,
            momentum: 0.1,
            channels,
            running: None,
            mode: Mode::Train,
        }
    }

    /// This layer with a scale and an offset for each channel: `affine=True`.
    #[must_use]
    #[track_caller]
    pub fn with_affine(self) -> Self {
        let weight = Some(parameter("InstanceNorm", of_channels(self.channels, 1.0)));
        let bias = Some(parameter("InstanceNorm", of_channels(self.channels, 0.0)));
        InstanceNorm { weight, bias, ..self }
    }

    /// This layer with running statistics: `track_running_stats=True`. In training they move by
    /// `momentum` towards the means over the batch of the examples' means and unbiased variances,
    /// and in evaluation they take the place of the examples' own.
    #[must_use]
    #[track_caller]
    pub fn with_running_stats(self) -> Self {
        let buffer = |value| {
            Buffer::new(&Tensor::conform("InstanceNorm", of_channels(self.channels, value)))
        };
        let running = Running {
            mean: buffer(0.0),
            var: buffer(1.0),
            num_batches_tracked: Buffer::new(&Tensor::zeros()),
        };
        InstanceNorm { running: Some(running), ..self }
    }

    /// This layer with another `eps`.
    #[must_use]
    pub fn with_eps(self, eps: f64) -> Self {
        InstanceNorm { eps, ..self }
    }

    /// The parameter, or this number for each channel, in the dtype of `x`.
    #[track_caller]
    fn each(&self, x: &DynTensor, parameter: Option<&Tensor<(C,)>>, value: f64) -> DynTensor {
        match (parameter, Shape::new(&[self.channels])) {
            (Some(parameter), _) => parameter.as_dyn().clone(),
            (None, Ok(shape)) => x.full_of(Type { dtype: x.dtype(), shape }, value.into()),
            (None, Err(error)) => x.record_with(|_| Err(error)),
        }
    }

    /// The layer applied to `[batch, C, ..]`.
    #[must_use]
    #[track_caller]
    pub fn forward<X: Floats>(&self, x: &X) -> X::Owned {
        let x = &*entering(self, x.inner());
        let weight = self.each(x, self.weight.as_ref(), 1.0);
        let bias = self.each(x, self.bias.as_ref(), 0.0);
        let y = match (&self.running, self.mode) {
            (Some(running), Mode::Eval) => {
                let (mean, var) = (running.mean.get(), running.var.get());
                let seen = (mean.as_dyn(), var.as_dyn());
                functional::batch_norm_eval(x, seen, (&weight, &bias), self.eps)
            }
            (running, _) => {
                if let Some(running) = running {
                    running.see(x, self.momentum);
                }
                x.group_norm(self.channels, &weight, &bias, self.eps)
            }
        };
        hooked(self, X::Owned::like(y))
    }
}

impl<C: Dim> Running<C> {
    /// Moves towards the statistics of a batch.
    #[track_caller]
    fn see(&self, x: &DynTensor, momentum: f64) {
        let x = x.detach();
        let axes: Vec<i64> = (2..x.rank() as i64).collect();
        let axes = Axes::from(axes.as_slice());
        let seen = [x.mean(axes.clone()), x.var_with(axes, 1.0)];
        for (buffer, seen) in [&self.mean, &self.var].into_iter().zip(seen) {
            let old = buffer.get().into_dyn();
            let new = seen.mean(0).to_dtype(old.dtype());
            buffer.set(&Tensor::wrap(old * (1.0 - momentum) + new * momentum));
        }
    }
}

#[diagnostic::do_not_recommend]
impl<C: StaticDim> Init for InstanceNorm<C> {
    fn init() -> Self {
        InstanceNorm::with_sizes(C::SIZE)
    }
}

#[diagnostic::do_not_recommend]
impl<C: Dim> Module for InstanceNorm<C> {
    fn describe(&self) -> String {
        format!("InstanceNorm({})", self.channels)
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.child("weight", &self.weight);
        visitor.child("bias", &self.bias);
        if let Some(running) = &self.running {
            visitor.child("running_mean", &running.mean);
            visitor.child("running_var", &running.var);
            visitor.child("num_batches_tracked", &running.num_batches_tracked);
        }
    }
    fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }
}

impl<C: Dim, X: Floats> Forward<X> for InstanceNorm<C> {
    type Out = X::Owned;
    #[track_caller]
    fn forward(&self, x: &X) -> X::Owned {
        InstanceNorm::forward(self, x)
    }
}
