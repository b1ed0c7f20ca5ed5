//! Elements picked by integer tensors, and replaced or added to at the positions that one names.
//!
//! What the types know is that shapes fit; whether a position is in range only a run can see, which
//! names index and size.

use super::dim::{Dim, StaticDim};
use super::kind::{Float, Int, Kind};
use super::relation::{Append, Axis, SetAxis};
use super::shape::Shape;
use super::tensor::Tensor;
use crate::core::Arg;

impl<S: Shape, K: Kind> Tensor<S, K> {
    /// `out[i][j] = self[index[i][j]][j]` for `A = 0`, and so on: PyTorch's `gather`.
    #[must_use]
    #[track_caller]
    pub fn gather<const A: usize, R: Shape + Axis<A>>(&self, index: &Tensor<R, Int>) -> Tensor<R, K>
    where
        S: Axis<A>,
    {
        Tensor::conform("gather", self.as_dyn().gather(A as i64, index.as_dyn()))
    }

    /// The slices of axis `A` that `index` names, in its order.
    #[must_use]
    #[track_caller]
    pub fn index_select<const A: usize, J: Dim>(
        &self,
        index: &Tensor<(J,), Int>,
    ) -> Tensor<S::Out, K>
    where
        S: SetAxis<A, J>,
    {
        Tensor::wrap(self.as_dyn().index_select(A as i64, index.as_dyn()))
    }
}

/// Writes of slices where an index says: `name`, which says with the doc what becomes of what is
/// there.
macro_rules! writes_of_slices {
    ($($(#[$doc:meta])+ $name:ident;)+) => {
        impl<S: Shape, K: Kind> Tensor<S, K> { $(
            $(#[$doc])+
            #[must_use]
            #[track_caller]
            pub fn $name<const A: usize, J: Dim>(
                &self,
                index: &Tensor<(J,), Int>,
                src: &Tensor<S::Out, K>,
            ) -> Tensor<S, K>
            where
                S: SetAxis<A, J>,
            {
                let [x, i, src] = [self.as_dyn(), index.as_dyn(), src.as_dyn()];
                let out = x.$name(A as i64, i, src);
                Tensor::joined(stringify!($name), out, &[x, i, src].map(Arg::Tensor))
            }
        )+ }
    };
}
writes_of_slices! {
    /// This tensor with the slices at the positions of axis `A` that `index` names replaced by
    /// those of `src`; positions must differ from each other. PyTorch's `index_copy`.
    index_copy;
    /// This tensor with the slices of `src` added at the positions of axis `A` that `index` names;
    /// what goes to one position twice is added twice. PyTorch's `index_add`.
    index_add;
}

impl<V: Dim, D: Dim> Tensor<(V, D), Float> {
    /// The rows of this table that `index` names.
    #[must_use]
    #[track_caller]
    pub fn embedding<R: Shape + Append<D>>(&self, index: &Tensor<R, Int>) -> Tensor<R::Out> {
        Tensor::wrap(self.as_dyn().embedding(index.as_dyn()))
    }
}

impl<S: Shape> Tensor<S, Int> {
    /// A new last axis of `C` classes with a one where the index says.
    #[must_use]
    #[track_caller]
    pub fn one_hot<C: StaticDim>(&self) -> Tensor<S::Out, Int>
    where
        S: Append<C>,
    {
        Tensor::wrap(self.as_dyn().one_hot(C::SIZE))
    }
}
