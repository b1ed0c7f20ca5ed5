//! Losses: the mean over all examples, as a scalar to call `backward` on.

use super::dim::Dim;
use super::kind::{Float, Int};
use super::relation::Broadcast;
use super::shape::Shape;
use super::tensor::Tensor;
use crate::core::Arg;
use crate::functional;

impl<B: Dim, C: Dim> Tensor<(B, C), Float> {
    /// The mean cross entropy of these logits against the right classes, given as indices.
    #[must_use]
    #[track_caller]
    pub fn cross_entropy(&self, classes: &Tensor<(B,), Int>) -> Tensor<()> {
        let (logits, classes) = (self.as_dyn(), classes.as_dyn());
        Tensor::joined(
            "cross_entropy",
            functional::cross_entropy(logits, classes),
            &[Arg::Tensor(logits), Arg::Tensor(classes)],
        )
    }
}

impl<S: Shape> Tensor<S, Float> {
    /// The mean of the squared differences.
    #[must_use]
    #[track_caller]
    pub fn mse_loss<R: Shape>(&self, target: &Tensor<R, Float>) -> Tensor<()>
    where
        S: Broadcast<R>,
    {
        let (l, r) = (self.as_dyn(), target.as_dyn());
        Tensor::joined("mse_loss", functional::mse_loss(l, r), &[Arg::Tensor(l), Arg::Tensor(r)])
    }
}
