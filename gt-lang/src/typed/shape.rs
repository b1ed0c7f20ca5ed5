//! Shapes as types: a [`Shape`] is a tuple of up to six [`Dim`]s, spelled `shape![Batch, 784, ?, {H
//! * 2}]`.
//!
//! Guarantees: a shape type is never instantiated; what it knows is a constant slice of
//! [`DimSpec`]s. [`StaticShape`] marks those whose every size is known, so that creation needs no
//! run-time sizes.

use super::dim::{Dim, DimSpec, StaticDim};

/// A tensor's shape as a type: a tuple of dimensions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a shape",
    label = "not a shape",
    note = "a shape is a tuple of up to six dimensions; write it with `T![Batch, 784]` or \
            `shape![Batch, 784]`"
)]
pub trait Shape: 'static {
    /// What the type says about each dimension, outermost first.
    const DIMS: &'static [DimSpec];
    /// The number of elements, where every size is known.
    const NUMEL: Option<usize> = numel(Self::DIMS);
}

/// A shape without run-time sizes.
#[diagnostic::on_unimplemented(
    message = "shape `{Self}` has a dimension whose size is only known at run time",
    label = "give its sizes: the `.._with([sizes])` form of this function",
    note = "`with` takes the sizes of the named and run-time dimensions, outermost first"
)]
pub trait StaticShape: Shape {}

/// The product of the sizes, where all of them are known.
const fn numel(dims: &[DimSpec]) -> Option<usize> {
    let (mut product, mut axis) = (1, 0);
    while axis < dims.len() {
        match dims[axis] {
            DimSpec::Static(size) => product *= size,
            DimSpec::Named(_) | DimSpec::Open => return None,
        }
        axis += 1;
    }
    Some(product)
}

macro_rules! shapes {
    ($(($($d:ident),*))*) => { $(
        impl<$($d: Dim),*> Shape for ($($d,)*) {
            const DIMS: &'static [DimSpec] = &[$($d::SPEC),*];
        }
        #[diagnostic::do_not_recommend]
        impl<$($d: StaticDim),*> StaticShape for ($($d,)*) {}
    )* };
}
shapes! { () (A) (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, F) }

/// A shape type from dimensions: a literal is a static size (`1` is [`One`](crate::typed::One)),
/// `{expr}` a constant expression, `?` a run-time size, a name a dimension type.
///
/// ```
/// use gt_lang::prelude::*;
/// dims! { Batch }
/// const H: usize = 128;
/// type S = shape![Batch, 784, 1, ?, {H * 2}];
/// assert_eq!(S::DIMS.len(), 5);
/// ```
#[macro_export]
macro_rules! shape {
    (@ [$($out:tt)*]) => { ($($out)*) };
    (@ [$($out:tt)*] 1 $(, $($rest:tt)*)?) => {
        $crate::shape!(@ [$($out)* $crate::typed::One,] $($($rest)*)?)
    };
    (@ [$($out:tt)*] $n:literal $(, $($rest:tt)*)?) => {
        $crate::shape!(@ [$($out)* $crate::typed::N<$n>,] $($($rest)*)?)
    };
    (@ [$($out:tt)*] ? $(, $($rest:tt)*)?) => {
        $crate::shape!(@ [$($out)* $crate::typed::Dyn,] $($($rest)*)?)
    };
    (@ [$($out:tt)*] {$e:expr} $(, $($rest:tt)*)?) => {
        $crate::shape!(@ [$($out)* $crate::typed::N<{ $e }>,] $($($rest)*)?)
    };
    (@ [$($out:tt)*] $t:ty $(, $($rest:tt)*)?) => {
        $crate::shape!(@ [$($out)* $t,] $($($rest)*)?)
    };
    ($($dims:tt)*) => { $crate::shape!(@ [] $($dims)*) };
}
