//! Parts replaced and turned, and what looks at windows and positions: convolution, pooling,
//! attention. Sizes of windows are arithmetic, so heights and widths are run-time sizes afterwards.

use super::dim::{Dim, Dyn};
use super::kind::{Float, Kind};
use super::relation::Axis;
use super::shape::Shape;
use super::tensor::Tensor;
use crate::core::IndexList;
use crate::functional::{self, Attention, Convolution, Pooling};

impl<S: Shape, K: Kind> Tensor<S, K> {
    /// The elements of axis `A` in reverse order.
    #[must_use]
    #[track_caller]
    pub fn flip<const A: usize>(&self) -> Self
    where
        S: Axis<A>,
    {
        Tensor::wrap(self.as_dyn().flip(A))
    }

    /// The elements moved along axis `A` by `shift`, those pushed out at one end coming in at the
    /// other.
    #[must_use]
    #[track_caller]
    pub fn roll<const A: usize>(&self, shift: i64) -> Self
    where
        S: Axis<A>,
    {
        Tensor::wrap(self.as_dyn().roll(shift, A as i64))
    }

    /// The last two axes' elements on and below a diagonal, 0 elsewhere.
    #[must_use]
    #[track_caller]
    pub fn tril(&self, diagonal: i64) -> Self {
        Tensor::wrap(self.as_dyn().tril(diagonal))
    }

    /// The last two axes' elements on and above a diagonal, 0 elsewhere.
    #[must_use]
    #[track_caller]
    pub fn triu(&self, diagonal: i64) -> Self {
        Tensor::wrap(self.as_dyn().triu(diagonal))
    }

    /// This tensor with a part replaced, as
    /// [`DynTensor::slice_assign`](crate::DynTensor::slice_assign); whether the value fits the part
    /// is checked when recorded.
    #[must_use]
    #[track_caller]
    pub fn slice_assign<R: Shape>(&self, part: impl Into<IndexList>, value: &Tensor<R, K>) -> Self {
        Tensor::wrap(self.as_dyn().slice_assign(part, value.as_dyn()))
    }
}

impl<B: Dim, C: Dim, H: Dim, W: Dim> Tensor<(B, C, H, W), Float> {
    /// The convolution with kernels `[out channels, channels / groups, height, width]`, plus one
    /// number of `bias` for each out channel.
    #[must_use]
    #[track_caller]
    pub fn conv2d<O: Dim, I: Dim, P: Dim, Q: Dim>(
        &self,
        weight: &Tensor<(O, I, P, Q)>,
        bias: Option<&Tensor<(O,)>>,
        how: Convolution,
    ) -> Tensor<(B, O, Dyn, Dyn)> {
        let bias = bias.map(Tensor::as_dyn);
        Tensor::conform("conv2d", functional::conv2d(self.as_dyn(), weight.as_dyn(), bias, how))
    }

    /// The largest element of each window.
    #[must_use]
    #[track_caller]
    pub fn max_pool2d(&self, how: Pooling) -> Tensor<(B, C, Dyn, Dyn)> {
        Tensor::conform("max_pool2d", functional::max_pool2d(self.as_dyn(), how))
    }

    /// The mean of each window.
    #[must_use]
    #[track_caller]
    pub fn avg_pool2d(&self, how: Pooling) -> Tensor<(B, C, Dyn, Dyn)> {
        Tensor::conform("avg_pool2d", functional::avg_pool2d(self.as_dyn(), how))
    }

    /// As queries `[batch, heads, length, width]`: the attention paid to keys and values, which may
    /// have fewer heads.
    #[must_use]
    #[track_caller]
    pub fn scaled_dot_product_attention<G: Dim, N: Dim, V: Dim>(
        &self,
        key: &Tensor<(B, G, N, W)>,
        value: &Tensor<(B, G, N, V)>,
        how: Attention<'_>,
    ) -> Tensor<(B, C, H, V)> {
        let (q, k, v) = (self.as_dyn(), key.as_dyn(), value.as_dyn());
        let y = functional::scaled_dot_product_attention_with(q, k, v, how);
        Tensor::conform("scaled_dot_product_attention", y)
    }
}
