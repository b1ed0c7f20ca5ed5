//! Structures of tensors: typed or dynamic ones, tuples, vectors and arrays of them, as the pytrees
//! of JAX.

use super::kind::Kind;
use super::relation::{Axis, InsertAxis};
use super::shape::Shape;
use super::tensor::Tensor;
use super::{Dim, Dyn};
use crate::core::DynTensor;

/// Tensors that a function takes and gives as one value.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no structure of tensors",
    label = "expected tensors, or tuples, vectors or arrays of them"
)]
pub trait Tree: Sized {
    /// Adds the tensors, in their order.
    fn leaves<'a>(&'a self, all: &mut Vec<&'a DynTensor>);
    /// The same structure of these tensors, of which there are as many and of the same types.
    fn like(&self, leaves: &mut dyn Iterator<Item = DynTensor>) -> Self;
}

/// Tensors with a common first dimension.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no slices",
    label = "expected tensors with a first dimension, or tuples of them"
)]
pub trait Slices: Tree {
    /// The first dimension.
    type Length: Dim;
    /// What lies at one position of it.
    type Slice: Tree;
    /// The slice of these tensors.
    fn slice_of(&self, leaves: &mut dyn Iterator<Item = DynTensor>) -> Self::Slice;
}

/// Tensors that get a first dimension `L` when they are stacked.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stacked",
    label = "expected tensors with room for one more dimension, tuples of them, or `()`"
)]
pub trait Stacks<L: Dim>: Tree {
    /// All of them along the first dimension.
    type Stacked;
    /// What these stacked tensors are.
    fn stacked(&self, leaves: &mut dyn Iterator<Item = DynTensor>) -> Self::Stacked;
}

impl<S: Shape, K: Kind> Tree for Tensor<S, K> {
    fn leaves<'a>(&'a self, all: &mut Vec<&'a DynTensor>) {
        all.push(self.as_dyn());
    }
    #[track_caller]
    fn like(&self, leaves: &mut dyn Iterator<Item = DynTensor>) -> Self {
        leaves.next().map_or_else(|| self.clone(), |x| Tensor::conform("like", x))
    }
}

impl<S: Shape + Axis<0>, K: Kind> Slices for Tensor<S, K> {
    type Length = S::Dim;
    type Slice = Tensor<S::Without, K>;
    #[track_caller]
    fn slice_of(&self, leaves: &mut dyn Iterator<Item = DynTensor>) -> Self::Slice {
        let first = || self.as_dyn().slice(0);
        Tensor::conform("slice", leaves.next().unwrap_or_else(first))
    }
}

impl<L: Dim, S: Shape + InsertAxis<0, L>, K: Kind> Stacks<L> for Tensor<S, K> {
    type Stacked = Tensor<S::Out, K>;
    #[track_caller]
    fn stacked(&self, leaves: &mut dyn Iterator<Item = DynTensor>) -> Self::Stacked {
        let one = || self.as_dyn().unsqueeze(0);
        Tensor::conform("stack", leaves.next().unwrap_or_else(one))
    }
}

impl Tree for DynTensor {
    fn leaves<'a>(&'a self, all: &mut Vec<&'a DynTensor>) {
        all.push(self);
    }
    fn like(&self, leaves: &mut dyn Iterator<Item = DynTensor>) -> Self {
        leaves.next().unwrap_or_else(|| self.clone())
    }
}

impl Slices for DynTensor {
    type Length = Dyn;
    type Slice = DynTensor;
    #[track_caller]
    fn slice_of(&self, leaves: &mut dyn Iterator<Item = DynTensor>) -> DynTensor {
        leaves.next().unwrap_or_else(|| self.slice(0))
    }
}

impl<L: Dim> Stacks<L> for DynTensor {
    type Stacked = DynTensor;
    #[track_caller]
    fn stacked(&self, leaves: &mut dyn Iterator<Item = DynTensor>) -> DynTensor {
        leaves.next().unwrap_or_else(|| self.unsqueeze(0))
    }
}

impl<T: Tree> Tree for Vec<T> {
    fn leaves<'a>(&'a self, all: &mut Vec<&'a DynTensor>) {
        self.iter().for_each(|x| x.leaves(all));
    }
    fn like(&self, leaves: &mut dyn Iterator<Item = DynTensor>) -> Self {
        self.iter().map(|x| x.like(leaves)).collect()
    }
}

impl<T: Slices> Slices for Vec<T> {
    type Length = T::Length;
    type Slice = Vec<T::Slice>;
    fn slice_of(&self, leaves: &mut dyn Iterator<Item = DynTensor>) -> Self::Slice {
        self.iter().map(|x| x.slice_of(leaves)).collect()
    }
}

impl<L: Dim, T: Stacks<L>> Stacks<L> for Vec<T> {
    type Stacked = Vec<T::Stacked>;
    fn stacked(&self, leaves: &mut dyn Iterator<Item = DynTensor>) -> Self::Stacked {
        self.iter().map(|x| x.stacked(leaves)).collect()
    }
}

impl<T: Tree, const N: usize> Tree for [T; N] {
    fn leaves<'a>(&'a self, all: &mut Vec<&'a DynTensor>) {
        self.iter().for_each(|x| x.leaves(all));
    }
    fn like(&self, leaves: &mut dyn Iterator<Item = DynTensor>) -> Self {
        self.each_ref().map(|x| x.like(leaves))
    }
}

impl<T: Slices, const N: usize> Slices for [T; N] {
    type Length = T::Length;
    type Slice = [T::Slice; N];
    fn slice_of(&self, leaves: &mut dyn Iterator<Item = DynTensor>) -> Self::Slice {
        self.each_ref().map(|x| x.slice_of(leaves))
    }
}

impl<L: Dim, T: Stacks<L>, const N: usize> Stacks<L> for [T; N] {
    type Stacked = [T::Stacked; N];
    fn stacked(&self, leaves: &mut dyn Iterator<Item = DynTensor>) -> Self::Stacked {
        self.each_ref().map(|x| x.stacked(leaves))
    }
}

impl Tree for () {
    fn leaves<'a>(&'a self, _: &mut Vec<&'a DynTensor>) {}
    fn like(&self, _: &mut dyn Iterator<Item = DynTensor>) -> Self {}
}

impl<L: Dim> Stacks<L> for () {
    type Stacked = ();
    fn stacked(&self, _: &mut dyn Iterator<Item = DynTensor>) {}
}

macro_rules! tuples {
    ($($first:ident $zero:tt $($rest:ident $i:tt)*;)+) => { $(
        impl<$first: Tree $(, $rest: Tree)*> Tree for ($first, $($rest,)*) {
            fn leaves<'a>(&'a self, all: &mut Vec<&'a DynTensor>) {
                self.$zero.leaves(all);
                $(self.$i.leaves(all);)*
            }
            fn like(&self, leaves: &mut dyn Iterator<Item = DynTensor>) -> Self {
                (self.$zero.like(leaves), $(self.$i.like(leaves),)*)
            }
        }
        impl<$first: Slices $(, $rest: Slices<Length = $first::Length>)*> Slices
            for ($first, $($rest,)*)
        {
            type Length = $first::Length;
            type Slice = ($first::Slice, $($rest::Slice,)*);
            fn slice_of(&self, leaves: &mut dyn Iterator<Item = DynTensor>) -> Self::Slice {
                (self.$zero.slice_of(leaves), $(self.$i.slice_of(leaves),)*)
            }
        }
        impl<Length: Dim, $first: Stacks<Length> $(, $rest: Stacks<Length>)*> Stacks<Length>
            for ($first, $($rest,)*)
        {
            type Stacked = ($first::Stacked, $($rest::Stacked,)*);
            fn stacked(&self, leaves: &mut dyn Iterator<Item = DynTensor>) -> Self::Stacked {
                (self.$zero.stacked(leaves), $(self.$i.stacked(leaves),)*)
            }
        }
    )+ };
}
tuples! {
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
}
