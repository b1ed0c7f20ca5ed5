//! Losses: the mean over all examples, as a scalar to call `backward` on.

use super::kind::{Float, Int};
use super::relation::{Broadcast, Classify};
use super::shape::Shape;
use super::tensor::Tensor;
use crate::core::Arg;
use crate::functional;

impl<S: Shape> Tensor<S, Float> {
    /// The mean cross entropy of these logits (classes last) against the right classes, given as indices.
    #[must_use]
    #[track_caller]
    pub fn cross_entropy<R: Shape>(&self, classes: &Tensor<R, Int>) -> Tensor<S::Loss>
    where
        S: Classify<R>,
    {
        let (logits, classes) = (self.as_dyn(), classes.as_dyn());
        let loss = functional::cross_entropy(logits, classes);
        Tensor::joined("cross_entropy", loss, &[Arg::Tensor(logits), Arg::Tensor(classes)])
    }

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
