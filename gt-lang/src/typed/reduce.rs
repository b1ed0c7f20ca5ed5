//! Reductions with typed results: over everything, over the last axis, over axis `A`; and
//! normalisations along an axis.
//!
//! `x.sum_axis::<1>()` drops the axis, `x.sum_keep::<1>()` leaves a `One` that broadcasts back.

use super::dim::{Dim, Dyn, One, SameDim};
use super::kind::{Bool, Float, Int, Kind};
use super::relation::{Axis, HasLast, SetAxis};
use super::shape::Shape;
use super::tensor::Tensor;
use crate::core::keepdim;

macro_rules! reductions {
    ($(
        $(#[$doc:meta])+
        $name:ident $all:ident $axis:ident $keep:ident $last:ident -> $kind:ty;
    )+) => { $(
        $(#[$doc])+
        ///
        /// Over all elements.
        #[must_use]
        #[track_caller]
        pub fn $all(&self) -> Tensor<(), $kind> {
            Tensor::wrap(self.as_dyn().$name(..))
        }

        $(#[$doc])+
        ///
        /// Along axis `A`, which disappears.
        #[must_use]
        #[track_caller]
        pub fn $axis<const A: usize>(&self) -> Tensor<S::Without, $kind>
        where
            S: Axis<A>,
        {
            Tensor::wrap(self.as_dyn().$name(A))
        }

        $(#[$doc])+
        ///
        /// Along axis `A`, which stays with size one.
        #[must_use]
        #[track_caller]
        pub fn $keep<const A: usize>(&self) -> Tensor<S::Out, $kind>
        where
            S: SetAxis<A, One>,
        {
            Tensor::wrap(self.as_dyn().$name(keepdim(A)))
        }

        $(#[$doc])+
        ///
        /// Along the last axis, which disappears.
        #[must_use]
        #[track_caller]
        pub fn $last(&self) -> Tensor<S::Rest, $kind>
        where
            S: HasLast,
        {
            Tensor::wrap(self.as_dyn().$name(-1))
        }
    )+ };
}

impl<S: Shape, K: Kind> Tensor<S, K> {
    reductions! {
        /// The sum; integers and truth values sum to integers.
        sum sum sum_axis sum_keep sum_last -> K::Summed;
        /// The largest element; in the gradient, ties share equally.
        max max max_axis max_keep max_last -> K;
        /// The smallest element; in the gradient, ties share equally.
        min min min_axis min_keep min_last -> K;
        /// The product; integers and truth values multiply to integers.
        prod prod prod_axis prod_keep prod_last -> K::Summed;
        /// Whether any element is not zero.
        any any any_axis any_keep any_last -> Bool;
        /// Whether all elements are not zero.
        all all all_axis all_keep all_last -> Bool;
    }

    /// The position of the smallest element along axis `A`, the first of equals.
    #[must_use]
    #[track_caller]
    pub fn argmin_axis<const A: usize>(&self) -> Tensor<S::Without, Int>
    where
        S: Axis<A>,
    {
        Tensor::wrap(self.as_dyn().argmin(A as i64))
    }

    /// The position of the smallest element along the last axis, the first of equals.
    #[must_use]
    #[track_caller]
    pub fn argmin_last(&self) -> Tensor<S::Rest, Int>
    where
        S: HasLast,
    {
        Tensor::wrap(self.as_dyn().argmin(-1))
    }

    /// The sums of the elements of axis `A` up to and with each.
    #[must_use]
    #[track_caller]
    pub fn cumsum<const A: usize>(&self) -> Tensor<S, K::Summed>
    where
        S: Axis<A>,
    {
        Tensor::wrap(self.as_dyn().cumsum(A as i64))
    }

    /// The positions along axis `A` in the order of the elements there; equal ones stay in order.
    #[must_use]
    #[track_caller]
    pub fn argsort<const A: usize>(&self, descending: bool) -> Tensor<S, Int>
    where
        S: Axis<A>,
    {
        Tensor::wrap(self.as_dyn().argsort(A as i64, descending))
    }

    /// The elements along axis `A` in order, and where they stood.
    #[must_use]
    #[track_caller]
    pub fn sort<const A: usize>(&self, descending: bool) -> (Self, Tensor<S, Int>)
    where
        S: Axis<A>,
    {
        let (values, places) = self.as_dyn().sort(A as i64, descending);
        (Tensor::wrap(values), Tensor::wrap(places))
    }

    /// The `k` largest elements along axis `A`, the largest first, and where they stand; the axis
    /// gets a run-time size.
    #[must_use]
    #[track_caller]
    pub fn topk<const A: usize>(&self, k: usize) -> (Tensor<S::Out, K>, Tensor<S::Out, Int>)
    where
        S: SetAxis<A, Dyn>,
    {
        let (values, places) = self.as_dyn().topk(k, A as i64);
        (Tensor::conform("topk", values), Tensor::conform("topk", places))
    }

    /// The position of the largest element along axis `A`, the first of equals.
    #[must_use]
    #[track_caller]
    pub fn argmax_axis<const A: usize>(&self) -> Tensor<S::Without, Int>
    where
        S: Axis<A>,
    {
        Tensor::wrap(self.as_dyn().argmax(A as i64))
    }

    /// The position of the largest element along the last axis, the first of equals.
    #[must_use]
    #[track_caller]
    pub fn argmax_last(&self) -> Tensor<S::Rest, Int>
    where
        S: HasLast,
    {
        Tensor::wrap(self.as_dyn().argmax(-1))
    }
}

impl<S: Shape> Tensor<S, Float> {
    reductions! {
        /// The mean.
        mean mean mean_axis mean_keep mean_last -> Float;
        /// The variance, divided by `n - 1`.
        var var var_axis var_keep var_last -> Float;
        /// The square root of the variance.
        std std std_axis std_keep std_last -> Float;
        /// The logarithm of the sum of `exp(x)`, without overflow.
        logsumexp logsumexp logsumexp_axis logsumexp_keep logsumexp_last -> Float;
        /// The Euclidean norm.
        norm norm norm_axis norm_keep norm_last -> Float;
    }

    /// Divides by the root mean square over the last axis, then `* weight`.
    #[must_use]
    #[track_caller]
    pub fn rms_norm<D: Dim>(&self, weight: &Tensor<(D,)>, eps: f64) -> Self
    where
        S: HasLast,
        S::Last: SameDim<D>,
    {
        Tensor::wrap(self.as_dyn().rms_norm(weight.as_dyn(), eps))
    }

    /// Each element zeroed with probability `p`, the others divided by `1 - p`.
    #[must_use]
    #[track_caller]
    pub fn dropout(&self, p: f64) -> Self {
        Tensor::wrap(self.as_dyn().dropout(p))
    }

    /// `exp(x) / sum(exp(x))` along axis `A`.
    #[must_use]
    #[track_caller]
    pub fn softmax<const A: usize>(&self) -> Self
    where
        S: Axis<A>,
    {
        Tensor::wrap(self.as_dyn().softmax(A as i64))
    }

    /// `exp(x) / sum(exp(x))` along the last axis.
    #[must_use]
    #[track_caller]
    pub fn softmax_last(&self) -> Self {
        Tensor::wrap(self.as_dyn().softmax(-1))
    }

    /// The logarithm of [`Tensor::softmax`], without its loss of precision.
    #[must_use]
    #[track_caller]
    pub fn log_softmax<const A: usize>(&self) -> Self
    where
        S: Axis<A>,
    {
        Tensor::wrap(self.as_dyn().log_softmax(A as i64))
    }

    /// The logarithm of [`Tensor::softmax_last`].
    #[must_use]
    #[track_caller]
    pub fn log_softmax_last(&self) -> Self {
        Tensor::wrap(self.as_dyn().log_softmax(-1))
    }

    /// Subtracts the mean and divides by the standard deviation over the last axis, then `* weight
    /// + bias`.
    #[must_use]
    #[track_caller]
    pub fn layer_norm<D: Dim>(&self, weight: &Tensor<(D,)>, bias: &Tensor<(D,)>, eps: f64) -> Self
    where
        S: HasLast,
        S::Last: SameDim<D>,
    {
        Tensor::wrap(self.as_dyn().layer_norm(weight.as_dyn(), bias.as_dyn(), eps))
    }
}
