//! Normalizations as layers: `BatchNorm2d`, `GroupNorm`, `RmsNorm`. (`LayerNorm` stands beside `Linear`.)
//!
//! Guarantees: names, defaults and what is kept are PyTorch's, so its checkpoints fit.

use super::buffer::Buffer;
use super::forward::Forward;
use super::init::Init;
use super::module::{Mode, Module, Visitor};
use crate::functional;
use crate::typed::{Create, Dim, Int, Project, Shape, StaticDim, Tensor};

/// Normalizes each channel of images `[batch, C, height, width]`: in training by the batch, whose statistics the running ones follow; in
/// evaluation by the running ones (Ioffe and Szegedy 2015).
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// dims! { Batch }
/// let mut norm: BatchNorm2d<N<16>> = BatchNorm2d::new();
/// let x: T![Batch, 16, 8, 8] = Tensor::randn_with([4]);
/// let y = norm.forward(&x); // by this batch, which is remembered
/// norm.eval();
/// let z = norm.forward(&x); // by what was remembered
/// ```
#[derive(Debug)]
pub struct BatchNorm2d<C: Dim> {
    /// The scale, ones at first.
    pub weight: Tensor<(C,)>,
    /// The offset, zeros at first.
    pub bias: Tensor<(C,)>,
    /// The mean of what was seen, zeros at first.
    pub running_mean: Buffer<(C,)>,
    /// The variance of what was seen, ones at first.
    pub running_var: Buffer<(C,)>,
    /// How many batches were seen.
    pub num_batches_tracked: Buffer<(), Int>,
    /// Added to the variance; 1e-5 unless changed.
    pub eps: f64,
    /// The share of a batch in the running statistics; 0.1 unless changed.
    pub momentum: f64,
    mode: Mode,
}

impl<C: Dim> BatchNorm2d<C> {
    /// The layer applied to images.
    #[must_use]
    #[track_caller]
    pub fn forward<B: Dim, H: Dim, W: Dim>(
        &self,
        x: &Tensor<(B, C, H, W)>,
    ) -> Tensor<(B, C, H, W)> {
        let (mean, var) = (self.running_mean.get(), self.running_var.get());
        let running = (mean.as_dyn(), var.as_dyn());
        let affine = (self.weight.as_dyn(), self.bias.as_dyn());
        if self.mode == Mode::Eval {
            return Tensor::wrap(functional::batch_norm_eval(
                x.as_dyn(),
                running,
                affine,
                self.eps,
            ));
        }
        let seen = functional::batch_norm(x.as_dyn(), running, affine, self.momentum, self.eps);
        self.running_mean.set(&Tensor::wrap(seen.running_mean));
        self.running_var.set(&Tensor::wrap(seen.running_var));
        self.num_batches_tracked.set(&(self.num_batches_tracked.get() + 1));
        Tensor::wrap(seen.output)
    }
}

#[diagnostic::do_not_recommend]
impl<C: StaticDim> Init for BatchNorm2d<C> {
    fn init() -> Self {
        let (ones, zeros): (Tensor<(C,)>, Tensor<(C,)>) = (Create::ones(), Create::zeros());
        BatchNorm2d {
            running_mean: Buffer::new(&zeros),
            running_var: Buffer::new(&ones),
            num_batches_tracked: Buffer::new(&Create::zeros()),
            weight: ones.requires_grad(),
            bias: zeros.requires_grad(),
            eps: 1e-5,
            momentum: 0.1,
            mode: Mode::Train,
        }
    }
}

#[diagnostic::do_not_recommend]
impl<C: Dim> Module for BatchNorm2d<C> {
    fn describe(&self) -> String {
        format!("BatchNorm2d({})", self.weight.numel())
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

impl<C: Dim, B: Dim, H: Dim, W: Dim> Forward<Tensor<(B, C, H, W)>> for BatchNorm2d<C> {
    type Out = Tensor<(B, C, H, W)>;
    #[track_caller]
    fn forward(&self, x: &Tensor<(B, C, H, W)>) -> Self::Out {
        BatchNorm2d::forward(self, x)
    }
}

/// Normalizes groups of channels of each image `[batch, C, height, width]` by themselves (Wu and He 2018).
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// dims! { Batch }
/// let norm: GroupNorm<N<16>> = GroupNorm::with_groups(4);
/// let x: T![Batch, 16, 8, 8] = Tensor::randn_with([2]);
/// let y = norm.forward(&x);
/// ```
#[derive(Debug)]
pub struct GroupNorm<C: Dim> {
    /// The scale, ones at first.
    pub weight: Tensor<(C,)>,
    /// The offset, zeros at first.
    pub bias: Tensor<(C,)>,
    /// How many groups there are.
    pub groups: usize,
    /// Added to the variance; 1e-5 unless changed.
    pub eps: f64,
}

impl<C: Dim> GroupNorm<C> {
    /// A layer with so many groups, which must divide `C`.
    #[track_caller]
    pub fn with_groups(groups: usize) -> Self
    where
        C: StaticDim,
    {
        let (weight, bias): (Tensor<(C,)>, Tensor<(C,)>) = (Create::ones(), Create::zeros());
        GroupNorm { weight: weight.requires_grad(), bias: bias.requires_grad(), groups, eps: 1e-5 }
    }

    /// The layer applied to images.
    #[must_use]
    #[track_caller]
    pub fn forward<B: Dim, H: Dim, W: Dim>(
        &self,
        x: &Tensor<(B, C, H, W)>,
    ) -> Tensor<(B, C, H, W)> {
        let (weight, bias) = (self.weight.as_dyn(), self.bias.as_dyn());
        Tensor::wrap(x.as_dyn().group_norm(self.groups, weight, bias, self.eps))
    }
}

#[diagnostic::do_not_recommend]
impl<C: Dim> Module for GroupNorm<C> {
    fn describe(&self) -> String {
        format!("GroupNorm({} groups of {})", self.groups, self.weight.numel() / self.groups.max(1))
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.child("weight", &self.weight);
        visitor.child("bias", &self.bias);
    }
}

impl<C: Dim, B: Dim, H: Dim, W: Dim> Forward<Tensor<(B, C, H, W)>> for GroupNorm<C> {
    type Out = Tensor<(B, C, H, W)>;
    #[track_caller]
    fn forward(&self, x: &Tensor<(B, C, H, W)>) -> Self::Out {
        GroupNorm::forward(self, x)
    }
}

/// Divides by the root mean square over the last dimension, then `* weight` (Zhang and Sennrich 2019).
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// dims! { Batch, Seq }
/// let norm: RmsNorm<N<64>> = RmsNorm::new();
/// let x: T![Batch, Seq, 64] = Tensor::randn_with([8, 16]);
/// let y: T![Batch, Seq, 64] = norm.forward(&x);
/// ```
#[derive(Debug)]
pub struct RmsNorm<D: Dim> {
    /// The scale, ones at first.
    pub weight: Tensor<(D,)>,
    /// Added to the mean square; the distance from 1 to the next `f32` unless changed, as in PyTorch.
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
        let weight: Tensor<(D,)> = Create::ones();
        RmsNorm { weight: weight.requires_grad(), eps: f64::from(f32::EPSILON) }
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

/// Layers are handles of their parameters, whatever the types of their dimensions are.
macro_rules! handles {
    ($($layer:ident<$dim:ident> { $($field:ident),+ } { $($plain:ident),+ })+) => {$(
        impl<$dim: Dim> Clone for $layer<$dim> {
            fn clone(&self) -> Self {
                $layer { $($field: self.$field.clone(),)+ $($plain: self.$plain,)+ }
            }
        }
    )+};
}
handles! {
    BatchNorm2d<C> { weight, bias, running_mean, running_var, num_batches_tracked } { eps, momentum, mode }
    GroupNorm<C> { weight, bias } { groups, eps }
    RmsNorm<D> { weight } { eps }
}
