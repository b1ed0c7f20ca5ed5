//! Slicing with ranges, steps, single positions and index tensors: `x.slice((.., 0, 1..-1,
//! step(0..10, 2), &index))`.

use gt_ir::{DType, Dim, Op, OpError, Shape, Type};
use smallvec::SmallVec;

use super::DynTensor;
use super::movement::slice_op;

/// What one axis is cut to.
#[derive(Clone)]
pub enum Index {
    /// One position; the axis disappears. Negative counts from the end.
    At(i64),
    /// From `start` (included) to `stop` (excluded), every `step`-th; `None` is the end of the
    /// axis.
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
    /// The positions an integer tensor holds; its shape stands in place of the axis. Negative ones
    /// count from the end.
    Tensor(DynTensor),
}

/// One [`Index`] for each axis, from the first; missing ones are whole axes.
#[derive(Clone)]
pub struct IndexList(pub(crate) Vec<Index>);

/// From `start` (included) to `stop` (excluded). Says what the range `start..stop` says, and reads
/// better than `1..-1`, which lints take for an empty range.
pub fn range(start: i64, stop: i64) -> Index {
    Index::Range { start: Some(start), stop: Some(stop), step: 1 }
}

/// Every `step`-th position of a range: `step(0..10, 2)`, `step(.., 3)`.
pub fn step(range: impl Into<Index>, step: i64) -> Index {
    match range.into() {
        Index::Range { start, stop, .. } => Index::Range { start, stop, step },
        other => other,
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

impl From<&DynTensor> for Index {
    fn from(index: &DynTensor) -> Self {
        Index::Tensor(index.clone())
    }
}
impl From<DynTensor> for Index {
    fn from(index: DynTensor) -> Self {
        Index::Tensor(index)
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
                let (start, stop) = (Some(position(r.start)), Some(position(r.end)));
                Index::Range { start, stop, step: 1 }
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
    /// A number picks one position and drops the axis, a range keeps it; `step(.., 2)` takes every
    /// second; negative positions count from the end; ranges are clipped to the axis, as in
    /// PyTorch.
    ///
    /// An integer tensor picks the positions it holds, along its axis. Several such tensors
    /// broadcast and pick together, as in PyTorch: their common shape stands where the first one
    /// does if they are neighbours, else in front.
    ///
    /// ```no_run
    /// # extern crate gt_lang as gt;
    /// # use gt::prelude::*;
    /// let x = DynTensor::arange(0, 24, 1, DType::I64).reshape([2, 3, 4]);
    /// let (row, last) = (x.slice((0, 1)), x.slice((.., .., -1))); // x[0, 1], x[:, :, -1]
    /// let inner = x.slice((.., range(1, -1), step(.., 2))); // x[:, 1:-1, ::2]
    /// let picked = x.slice((.., &DynTensor::from([0i64, 2, 2]))); // x[:, [0, 2, 2]]
    /// ```
    #[doc(alias("index", "getitem"))]
    #[must_use]
    #[track_caller]
    pub fn slice(&self, indices: impl Into<IndexList>) -> DynTensor {
        let list = indices.into();
        let plan = match Plan::new("slice", &list.0, &self.ty()) {
            Ok(plan) => plan,
            Err(error) => return self.record_with(|_| Err(error)),
        };
        let mut part = self.clone();
        for op in plan.cuts {
            part = part.record_with(|_| Ok(op));
        }
        if part.shape() != plan.shape || part.error().is_some() {
            part = part.record_with(|_| Ok(Op::Reshape(plan.shape)));
        }
        match plan.picks.as_slice() {
            [] => part,
            picks => super::pick::pick(&part, picks),
        }
    }
}

/// The instructions of an indexing expression: one cut for each axis that loses elements, then a
/// reshape, then picking by tensors.
pub(super) struct Plan {
    pub(super) cuts: Vec<Op>,
    pub(super) shape: Shape,
    /// Index tensors with their axes of `shape`.
    pub(super) picks: Vec<(usize, DynTensor)>,
}

impl Plan {
    pub(super) fn new(name: &str, list: &[Index], ty: &Type) -> Result<Plan, OpError> {
        let rank = ty.shape.rank();
        let named = list.iter().filter(|i| !matches!(i, Index::NewAxis | Index::Ellipsis)).count();
        let ellipses = list.iter().filter(|i| matches!(i, Index::Ellipsis)).count();
        if named > rank {
            return Err(OpError::new(format!(
                "{name}: {named} indices for {ty}, which has {rank} axes"
            )));
        }
        if ellipses > 1 {
            let error = OpError::new(format!("{name}: more than one ellipsis for {ty}"));
            return Err(error.hint("one stands for all the axes that are not named"));
        }
        let mut plan = (Vec::new(), SmallVec::<[Dim; 8]>::new());
        let mut picks = Vec::new();
        let mut axis = 0;
        for index in list {
            match index {
                Index::Tensor(index) => {
                    picks.push((plan.1.len(), integers(name, index)?));
                    plan.1.push(ty.shape.dim(axis));
                    axis += 1;
                }
                Index::NewAxis => plan.1.push(Dim::new(1)),
                Index::Ellipsis => {
                    plan.1.extend((axis..axis + rank - named).map(|a| ty.shape.dim(a)));
                    axis += rank - named;
                }
                Index::At(at) => {
                    plan.0.push(pick(name, *at, axis, ty)?);
                    axis += 1;
                }
                Index::Range { start, stop, step } => {
                    let dim = ty.shape.dim(axis);
                    let (cut, size) = cut(name, *start, *stop, *step, axis, ty)?;
                    plan.0.extend(cut);
                    plan.1.push(if size == dim.size { dim } else { Dim::new(size) });
                    axis += 1;
                }
            }
        }
        plan.1.extend((axis..rank).map(|a| ty.shape.dim(a)));
        Ok(Plan { cuts: plan.0, shape: Shape::from_dims(&plan.1)?, picks })
    }
}

/// An index tensor that picks a number of elements its type tells.
fn integers(name: &str, index: &DynTensor) -> Result<DynTensor, OpError> {
    let ty = index.ty();
    let error = OpError::new(format!("{name}: an index tensor must hold integers, but is {ty}"));
    match ty.dtype {
        _ if ty.dtype.is_int() => Ok(index.clone()),
        DType::Bool => Err(error.hint(
            "how many elements a mask names is data, and shapes are not: use `where_`, \
             `masked_fill` or `masked_assign`",
        )),
        _ => Err(error.hint("cast it to i64")),
    }
}

/// The instruction that takes one position of an axis.
fn pick(name: &str, at: i64, axis: usize, ty: &Type) -> Result<Op, OpError> {
    let size = ty.shape.sizes()[axis];
    let from = if at < 0 { at.checked_add(size as i64) } else { Some(at) };
    match from.and_then(|f| usize::try_from(f).ok()).filter(|&f| f < size) {
        Some(from) => Ok(slice_op(axis, from, from + 1, 1)),
        None => {
            let what = format!("{name}: index {at} is out of range for axis {axis} of {ty}");
            let n = size as i64; // sizes fit
            Err(OpError::new(what).hint(match n {
                0 => "the axis is empty".to_owned(),
                _ => format!("indices run from {} to {}", -n, n - 1),
            }))
        }
    }
}

/// The cut a range makes, `None` when it takes everything, and the size it leaves.
fn cut(
    name: &str,
    start: Option<i64>,
    stop: Option<i64>,
    step: i64,
    axis: usize,
    ty: &Type,
) -> Result<(Option<Op>, usize), OpError> {
    let size = ty.shape.sizes()[axis];
    let Some(step) = usize::try_from(step).ok().filter(|&s| s > 0) else {
        let error =
            OpError::new(format!("{name}: step {step} for axis {axis} of {ty} is not positive"));
        return Err(error.hint("steps are 1 or more, as in PyTorch"));
    };
    let clip = |p: i64| {
        (if p < 0 { p.saturating_add(size as i64) } else { p }).clamp(0, size as i64) as usize
    };
    let start = start.map_or(0, clip);
    let stop = stop.map_or(size, clip).max(start);
    let left = (stop - start).div_ceil(step);
    Ok(((left != size).then(|| slice_op(axis, start, stop, step)), left))
}
