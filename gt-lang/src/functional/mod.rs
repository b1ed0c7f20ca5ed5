//! Functions of tensors built from operations alone, with PyTorch's names and defaults: losses,
//! attention, normalization, `einsum`.
//!
//! Each loss has a plain form, the mean over all elements, and a form `_with` that takes what
//! PyTorch's keyword arguments say.

mod attention;
mod classes;
mod conv;
mod conv_transpose;
mod ctc;
mod einsum;
mod interpolate;
mod loss;
mod margin_loss;
mod normalization;
mod pooling;
pub(crate) mod precision;
mod probability;
mod ranking_loss;
mod resize;
mod scatter;
mod special;
#[cfg(test)]
mod tests;

pub use attention::{
    Attention, attention_weights, rotary_embedding, rotary_tables, scaled_dot_product_attention,
    scaled_dot_product_attention_with,
};
pub use classes::{CrossEntropy, cross_entropy, cross_entropy_with, nll_loss, nll_loss_with};
pub use conv::{Convolution, conv1d, conv2d, conv3d};
pub use conv_transpose::{conv_transpose1d, conv_transpose2d};
pub use ctc::{Ctc, ctc_loss};
pub use einsum::einsum;
pub use interpolate::{
    Corners, Interpolation, Resize, interpolate, upsample_bilinear2d, upsample_nearest2d,
};
pub use loss::{
    huber_loss, l1_loss, l1_loss_with, mse_loss, mse_loss_with, smooth_l1_loss, smooth_l1_loss_with,
};
pub use margin_loss::{
    MultiMargin, hinge_embedding_loss, multi_margin_loss, multilabel_margin_loss,
    multilabel_soft_margin_loss, soft_margin_loss,
};
pub use normalization::{
    BatchNorm, batch_norm, batch_norm_eval, cosine_similarity, instance_norm, normalize,
    pairwise_distance,
};
pub use pooling::{
    Pooling, avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d,
};
pub use probability::{
    BceWithLogits, KlTarget, binary_cross_entropy, binary_cross_entropy_with,
    binary_cross_entropy_with_logits, binary_cross_entropy_with_logits_with, kl_div,
};
pub use ranking_loss::{
    GaussianNll, PoissonNll, TripletMargin, cosine_embedding_loss, gaussian_nll_loss,
    margin_ranking_loss, poisson_nll_loss, triplet_margin_loss, triplet_margin_with_distance_loss,
};
pub use resize::{PadMode, adaptive_avg_pool2d, pad_with, pixel_shuffle, pixel_unshuffle};
pub use scatter::ScatterReduce;

use crate::core::DynTensor;

/// What becomes of the losses of the elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// Their mean; a weighted one where there are weights of classes.
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// Their sum, divided by the size of the first axis: PyTorch's `batchmean`, the divergence as
    /// mathematicians define it.
    BatchMean,
    /// They stay as they are.
    None,
}

impl Reduction {
    /// The losses reduced.
    #[track_caller]
    fn of(self, losses: &DynTensor) -> DynTensor {
        match self {
            Reduction::Mean => losses.mean(..),
            Reduction::Sum => losses.sum(..),
            Reduction::BatchMean => losses.sum(..).div(losses.size(0) as f64),
            Reduction::None => losses.clone(),
        }
    }
}
