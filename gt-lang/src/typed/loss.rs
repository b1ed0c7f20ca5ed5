//! Losses: the mean over all examples, as a scalar to call `backward` on.

use super::kind::{Float, Int};
use super::relation::{Broadcast, Classify};
use super::shape::Shape;
use super::tensor::Tensor;
use crate::core::Arg;
use crate::functional::{self, CrossEntropy};

macro_rules! losses {
    ($($(#[$doc:meta])+ $name:ident = $function:path;)+) => { $(
        $(#[$doc])+
        #[must_use]
        #[track_caller]
        pub fn $name<R: Shape>(&self, target: &Tensor<R, Float>) -> Tensor<()>
        where
            S: Broadcast<R>,
        {
            let (l, r) = (self.as_dyn(), target.as_dyn());
            Tensor::joined(stringify!($name), $function(l, r), &[Arg::Tensor(l), Arg::Tensor(r)])
        }
    )+ };
}

impl<S: Shape> Tensor<S, Float> {
    /// The mean cross entropy of these logits (classes last) against the right classes, given as
    /// indices.
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

    /// [`Tensor::cross_entropy`] with class weights, ignored examples or smoothed labels. Without a
    /// reduction the losses are no scalar, which is refused here; use
    /// [`functional::cross_entropy_with`].
    #[must_use]
    #[track_caller]
    pub fn cross_entropy_with<R: Shape>(
        &self,
        classes: &Tensor<R, Int>,
        options: &CrossEntropy,
    ) -> Tensor<S::Loss>
    where
        S: Classify<R>,
    {
        let (logits, classes) = (self.as_dyn(), classes.as_dyn());
        let loss = functional::cross_entropy_with(logits, classes, options);
        Tensor::joined("cross_entropy", loss, &[Arg::Tensor(logits), Arg::Tensor(classes)])
    }

    losses! {
        /// The mean of the squared differences.
        mse_loss = functional::mse_loss;
        /// The mean of the absolute differences.
        l1_loss = functional::l1_loss;
        /// The mean of `d^2 / 2` of differences smaller than 1, of `|d| - 1/2` of the others.
        smooth_l1_loss = functional::smooth_l1_loss;
        /// The mean binary cross entropy of these probabilities.
        binary_cross_entropy = functional::binary_cross_entropy;
        /// The mean binary cross entropy of these logits.
        binary_cross_entropy_with_logits = functional::binary_cross_entropy_with_logits;
    }
}
