//! `Conv2d`: the convolution as a layer.
//!
//! Guarantees: weights have PyTorch's layout, names and default initialization, so its checkpoints fit. What sizes of windows leave of height
//! and width is arithmetic, so both are run-time sizes afterwards.

use super::forward::Forward;
use super::init::uniform;
use super::module::{Module, Visitor};
use crate::functional::Convolution;
use crate::typed::{Dim, Dyn, StaticDim, Tensor};

/// The convolution over images `[batch, I, height, width]`: PyTorch's `Conv2d`.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::functional::Convolution;
/// dims! { Batch }
/// let same = Convolution { padding: [1, 1], ..Default::default() };
/// let layer: Conv2d<N<3>, N<16>> = Conv2d::with_kernel([3, 3], same);
/// let images: T![Batch, 3, 32, 32] = Tensor::randn_with([8]);
/// let y: T![Batch, 16, ?, ?] = layer.forward(&images);
/// ```
#[derive(Debug)]
pub struct Conv2d<I: Dim, O: Dim> {
    /// The kernels: `[O, I / groups, height, width]`.
    pub weight: Tensor<(O, Dyn, Dyn, Dyn)>,
    /// The bias, if there is one.
    pub bias: Option<Tensor<(O,)>>,
    /// Stride, padding, dilation and groups.
    pub how: Convolution,
    inputs: std::marker::PhantomData<fn(I)>,
}

impl<I: StaticDim, O: StaticDim> Conv2d<I, O> {
    /// A layer with kernels of this height and width; the groups must divide `I` and `O`.
    #[track_caller]
    pub fn with_kernel(size: [usize; 2], how: Convolution) -> Self {
        let layer = Conv2d::without_bias(size, how);
        Conv2d { bias: Some(uniform(&[], fan_in::<I>(size, how))), ..layer }
    }

    /// As [`Conv2d::with_kernel`], without bias: for what is normalized next.
    #[track_caller]
    pub fn without_bias([height, width]: [usize; 2], how: Convolution) -> Self {
        let sizes = [I::SIZE / how.groups.max(1), height, width];
        let weight = uniform(&sizes, fan_in::<I>([height, width], how));
        Conv2d { weight, bias: None, how, inputs: std::marker::PhantomData }
    }
}

/// How many numbers one result is a sum of.
fn fan_in<I: StaticDim>(size: [usize; 2], how: Convolution) -> usize {
    I::SIZE / how.groups.max(1) * size[0] * size[1]
}

impl<I: Dim, O: Dim> Conv2d<I, O> {
    /// The layer applied to images.
    #[must_use]
    #[track_caller]
    pub fn forward<B: Dim, H: Dim, W: Dim>(
        &self,
        x: &Tensor<(B, I, H, W)>,
    ) -> Tensor<(B, O, Dyn, Dyn)> {
        x.conv2d(&self.weight, self.bias.as_ref(), self.how)
    }
}

#[diagnostic::do_not_recommend]
impl<I: Dim, O: Dim> Module for Conv2d<I, O> {
    fn describe(&self) -> String {
        let Convolution { stride, padding, dilation, groups, .. } = self.how;
        let sizes = self.weight.sizes();
        let mut text = match sizes[..] {
            [o, i, h, w] => format!("Conv2d({} -> {o}, {h}x{w}", i * groups),
            _ => "Conv2d(".into(),
        };
        for (what, pair, usual) in
            [("stride", stride, 1), ("padding", padding, 0), ("dilation", dilation, 1)]
        {
            if pair != [usual; 2] {
                text += &format!(", {what} {}x{}", pair[0], pair[1]);
            }
        }
        text += &if groups == 1 { String::new() } else { format!(", {groups} groups") };
        text + if self.bias.is_some() { ")" } else { ", no bias)" }
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.child("weight", &self.weight);
        visitor.child("bias", &self.bias);
    }
}

impl<I: Dim, O: Dim, B: Dim, H: Dim, W: Dim> Forward<Tensor<(B, I, H, W)>> for Conv2d<I, O> {
    type Out = Tensor<(B, O, Dyn, Dyn)>;
    #[track_caller]
    fn forward(&self, x: &Tensor<(B, I, H, W)>) -> Self::Out {
        Conv2d::forward(self, x)
    }
}

impl<I: Dim, O: Dim> Clone for Conv2d<I, O> {
    fn clone(&self) -> Self {
        let (weight, bias) = (self.weight.clone(), self.bias.clone());
        Conv2d { weight, bias, how: self.how, inputs: self.inputs }
    }
}
