//! Slicing with ranges, steps and single positions: `x.slice((.., 0, 1..-1, step(0..10, 2)))`.

use super::DynTensor;

/// What one axis is cut to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// One position; the axis disappears. Negative counts from the end.
    At(i64),
    /// From `start` (included) to `stop` (excluded), every `step`-th; `None` is the end of the axis.
    Range {
        /// First position; negative counts from the end.
        start: Option<i64>,
        /// Position behind the last; negative counts from the end.
        stop: Option<i64>,
        /// Distance; at least 1.
        step: i64,
    },
    /// A new axis of size one.
    NewAxis,
    /// As many whole axes as are needed to name them all.
    Ellipsis,
}

/// One [`Index`] for each axis, from the first; missing ones are whole axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexList(pub(crate) Vec<Index>);

/// Every `step`-th position of a range: `step(0..10, 2)`, `step(.., 3)`.
pub fn step(range: impl Into<Index>, step: i64) -> Index {
    match range.into() {
        Index::Range { start, stop, .. } => Index::Range { start, stop, step },
        other @ (Index::At(_) | Index::NewAxis | Index::Ellipsis) => other,
    }
}

impl From<i64> for Index {
    fn from(at: i64) -> Self {
        Index::At(at)
    }
}
impl From<i32> for Index {
    fn from(at: i32) -> Self {
        Index::At(at.into())
    }
}
impl From<usize> for Index {
    fn from(at: usize) -> Self {
        Index::At(i64::try_from(at).unwrap_or(i64::MAX))
    }
}

impl From<std::ops::RangeFull> for Index {
    fn from(_: std::ops::RangeFull) -> Self {
        Index::Range { start: None, stop: None, step: 1 }
    }
}

macro_rules! ranges {
    ($($t:ty),+) => {$(
        impl From<std::ops::Range<$t>> for Index {
            fn from(r: std::ops::Range<$t>) -> Self {
                Index::Range { start: Some(position(r.start)), stop: Some(position(r.end)), step: 1 }
            }
        }
        impl From<std::ops::RangeFrom<$t>> for Index {
            fn from(r: std::ops::RangeFrom<$t>) -> Self {
                Index::Range { start: Some(position(r.start)), stop: None, step: 1 }
            }
        }
        impl From<std::ops::RangeTo<$t>> for Index {
            fn from(r: std::ops::RangeTo<$t>) -> Self {
                Index::Range { start: None, stop: Some(position(r.end)), step: 1 }
            }
        }
    )+};
}
ranges!(i32, i64, usize);

/// A position as it comes; beyond 64 bits is beyond every axis.
fn position<I: TryInto<i64>>(i: I) -> i64 {
    i.try_into().unwrap_or(i64::MAX)
}

macro_rules! tuples {
    ($(($($name:ident),+)),+) => {$(
        impl<$($name: Into<Index>),+> From<($($name,)+)> for IndexList {
            fn from(indices: ($($name,)+)) -> Self {
                #[expect(non_snake_case, reason = "one name for the type and its value")]
                let ($($name,)+) = indices;
                IndexList(vec![$($name.into()),+])
            }
        }
    )+};
}
tuples!((A), (A, B), (A, B, C), (A, B, C, D), (A, B, C, D, E), (A, B, C, D, E, F));

impl<I: Into<Index>> From<I> for IndexList {
    fn from(index: I) -> Self {
        IndexList(vec![index.into()])
    }
}

impl From<&[Index]> for IndexList {
    fn from(indices: &[Index]) -> Self {
        IndexList(indices.to_vec())
    }
}

impl From<Vec<Index>> for IndexList {
    fn from(indices: Vec<Index>) -> Self {
        IndexList(indices)
    }
}

impl DynTensor {
    /// A part of the tensor: one index for each axis, from the first.
    ///
    /// A number picks one position and drops the axis, a range keeps it; `step(.., 2)` takes every second; negative
    /// positions count from the end; ranges are clipped to the axis, as in PyTorch.
    #[must_use]
    #[track_caller]
    pub fn slice(&self, indices: impl Into<IndexList>) -> DynTensor {
        todo!()
    }
}
