//! Operations that move elements without computing: shapes, axes, joining, picking by index.
//!
//! A reshape, a permutation, an expansion and a slice are views for the native engine: they change
//! how a kernel walks over its operand and take no time of their own.

use std::borrow::Borrow;

use gt_ir::attr::{Axis, Classes, Perm, Slice, Swap};
use gt_ir::{Dim, Op, OpError, Shape, Type};
use smallvec::SmallVec;

use super::arg::{is_axis_of_scalar, resolve_among, resolve_axis};
use super::{Arg, DynTensor, Sizes};

impl DynTensor {
    /// The same elements in the same order as another shape; one size may be `-1`.
    #[doc(alias("view", "contiguous"))]
    #[must_use]
    #[track_caller]
    pub fn reshape(&self, sizes: impl Into<Sizes>) -> DynTensor {
        let sizes = sizes.into();
        let out = self.record_with(|ty| reshaped(&sizes, ty).map(Op::Reshape));
        if out.is_failed() { out.or_failed_as(sizes.nearly()) } else { out }
    }

    /// All axes from `start` to `end` (both included) as one.
    #[must_use]
    #[track_caller]
    pub fn flatten(&self, start: i64, end: i64) -> DynTensor {
        if let (Some(line), Some(_)) = (self.line(start), self.line(end)) {
            return line;
        }
        self.record_with(|ty| {
            let (start, end) =
                (resolve_axis("flatten", start, ty)?, resolve_axis("flatten", end, ty)?);
            if start > end {
                let what = format!("flatten: axis {start} comes after axis {end} of {ty}");
                return Err(OpError::new(what).hint("name the first axis to join, then the last"));
            }
            let mut dims: SmallVec<[Dim; 8]> = ty.shape.dims().collect();
            let size = dims.drain(start..=end).map(|d| d.size).product();
            dims.insert(start, if start == end { ty.shape.dim(start) } else { Dim::new(size) });
            Shape::from_dims(&dims).map(Op::Reshape)
        })
    }

    /// A new axis of size one before `axis`; negative axes count in the result.
    #[must_use]
    #[track_caller]
    pub fn unsqueeze(&self, axis: i64) -> DynTensor {
        self.record_with(|ty| inserted("unsqueeze", axis, ty).map(Op::Reshape))
    }

    /// Without `axis`, if its size is one; otherwise the same tensor, as in PyTorch.
    #[must_use]
    #[track_caller]
    pub fn squeeze(&self, axis: i64) -> DynTensor {
        self.record_with(|ty| {
            if ty.shape.rank() == 0 && is_axis_of_scalar(axis) {
                return Ok(Op::Reshape(ty.shape));
            }
            let axis = resolve_axis("squeeze", axis, ty)?;
            let mut dims: SmallVec<[Dim; 8]> = ty.shape.dims().collect();
            if dims[axis].size == 1 {
                dims.remove(axis);
            }
            Shape::from_dims(&dims).map(Op::Reshape)
        })
    }

    /// The axes in another order: axis `i` of the result is axis `axes[i]` of this tensor.
    ///
    /// ```no_run
    /// # use gt_lang::DynTensor;
    /// # let images: DynTensor = todo!();
    /// // [batch, channels, height, width] to [batch, height, width, channels].
    /// let last = images.permute([0, 2, 3, 1]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn permute(&self, axes: impl AsRef<[i64]>) -> DynTensor {
        self.record_with(|ty| {
            let bad = || {
                OpError::new(format!(
                    "permute: {:?} is not an order of the axes of {ty}",
                    axes.as_ref()
                ))
            };
            let order = axes.as_ref().iter().map(|&a| resolve_axis("permute", a, ty));
            let order = order.collect::<Result<SmallVec<[usize; 8]>, _>>()?;
            let perm = Perm::new(&order).filter(|p| p.rank() == ty.shape.rank()).ok_or_else(bad)?;
            Ok(Op::Permute(perm))
        })
    }

    /// Two axes exchanged.
    #[doc(alias("swapaxes", "swapdims"))]
    #[must_use]
    #[track_caller]
    pub fn transpose(&self, a: i64, b: i64) -> DynTensor {
        self.record_with(|ty| {
            if ty.shape.rank() == 0 && is_axis_of_scalar(a) && is_axis_of_scalar(b) {
                return Ok(Op::Reshape(ty.shape));
            }
            let (a, b) = (resolve_axis("transpose", a, ty)?, resolve_axis("transpose", b, ty)?);
            Ok(Op::Transpose(Swap(a as u8, b as u8)))
        })
    }

    /// The last two axes exchanged; what has fewer axes stays as it is.
    #[doc(alias("T", "mT"))]
    #[must_use]
    #[track_caller]
    pub fn t(&self) -> DynTensor {
        if self.rank() < 2 { self.clone() } else { self.transpose(-2, -1) }
    }

    /// Repeats axes of size one, and adds axes on the left; `-1` keeps a size.
    ///
    /// ```no_run
    /// # extern crate gt_lang as gt;
    /// # use gt::prelude::*;
    /// let x = DynTensor::ones([3, 1], DType::F32);
    /// assert_eq!(x.expand([2, -1, 4]).sizes(), [2, 3, 4]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn expand(&self, sizes: impl Into<Sizes>) -> DynTensor {
        let sizes = sizes.into();
        let out = self.record_with(|ty| {
            let new_axes = sizes.0.len().saturating_sub(ty.shape.rank());
            let kept = |i: usize, given: i64| {
                let old = i.checked_sub(new_axes).filter(|&a| given == -1 && a < ty.shape.rank());
                old.map(|a| ty.shape.dim(a)).ok_or_else(|| {
                    OpError::new(format!(
                        "expand: size {given} at position {i} names no axis of {ty}"
                    ))
                    .hint("-1 keeps the size of an axis that is there")
                })
            };
            sizes.resolve_with("expand", kept).map(Op::Expand)
        });
        if out.is_failed() { out.or_failed_as(sizes.nearly()) } else { out }
    }

    /// The tensors one after another along `axis`.
    #[doc(alias("concat", "concatenate"))]
    #[must_use]
    #[track_caller]
    pub fn cat(tensors: impl IntoIterator<Item: Borrow<DynTensor>>, axis: i64) -> DynTensor {
        let tensors: Vec<_> = tensors.into_iter().collect();
        let args: Vec<Arg<'_>> = tensors.iter().map(|t| Arg::Tensor(t.borrow())).collect();
        match tensors.first() {
            // The type rule says that one is needed.
            None => DynTensor::record(Op::Cat(Axis(0)), &[]),
            Some(first) => first.borrow().record_with_args(&args, |ty| {
                Ok(Op::Cat(Axis(resolve_axis("cat", axis, ty)? as u8)))
            }),
        }
    }

    /// The tensors one after another along a new axis.
    ///
    /// ```no_run
    /// # extern crate gt_lang as gt;
    /// # use gt::prelude::*;
    /// let rows = vec![DynTensor::zeros([3], DType::F32), DynTensor::ones([3], DType::F32)];
    /// assert_eq!(DynTensor::cat(&rows, 0).sizes(), [6]);
    /// assert_eq!(DynTensor::stack(rows, 0).sizes(), [2, 3]); // borrowed or owned
    /// ```
    #[must_use]
    #[track_caller]
    pub fn stack(tensors: impl IntoIterator<Item: Borrow<DynTensor>>, axis: i64) -> DynTensor {
        let mut apart: Vec<DynTensor> = Vec::new();
        let mut first: Option<Type> = None;
        for tensor in tensors {
            let tensor = tensor.borrow();
            let (first, ty) = (*first.get_or_insert(tensor.ty()), tensor.ty());
            apart.push(tensor.record_with(|_| {
                if !ty.shape.same_sizes(&first.shape) {
                    return Err(OpError::new(format!("stack: {first} and {ty} differ in shape")));
                }
                inserted("stack", axis, &ty).map(Op::Reshape)
            }));
        }
        DynTensor::cat(&apart, axis)
    }

    /// Elements `start..start + length` of `axis`; a negative start counts from the end.
    ///
    /// The range must lie within the axis; a length of 0 is allowed.
    #[must_use]
    #[track_caller]
    pub fn narrow(&self, axis: i64, start: i64, length: usize) -> DynTensor {
        self.record_with(|ty| {
            let axis = resolve_axis("narrow", axis, ty)?;
            let size = ty.shape.sizes()[axis];
            let from = if start < 0 { start.checked_add(size as i64) } else { Some(start) };
            let range = from
                .and_then(|f| usize::try_from(f).ok())
                .and_then(|f| Some((f, f.checked_add(length)?)));
            match range {
                Some((start, stop)) if stop <= size => Ok(slice_op(axis, start, stop, 1)),
                _ => Err(OpError::new(format!(
                    "narrow: {length} elements from {start} do not fit axis {axis} of {ty}"
                ))),
            }
        })
    }

    /// Pieces of `size` along `axis`, the last one maybe smaller.
    #[must_use]
    #[track_caller]
    pub fn split(&self, size: usize, axis: i64) -> Vec<DynTensor> {
        let ty = self.ty();
        let at = match resolve_axis("split", axis, &ty) {
            Ok(_) if size == 0 => {
                let error = OpError::new(format!("split: pieces of {ty} cannot have size 0"));
                Err(error.hint("sizes of pieces are 1 or more"))
            }
            other => other,
        };
        let axis = match at {
            Ok(at) => at,
            // One piece, which carries the error.
            Err(error) => return vec![self.record_with(|_| Err(error))],
        };
        let total = ty.shape.sizes()[axis];
        let mut pieces = Vec::new();
        let mut start = 0;
        while start < total || pieces.is_empty() {
            let stop = start.saturating_add(size).min(total);
            pieces.push(self.record_with(|_| Ok(slice_op(axis, start, stop, 1))));
            start = stop.max(1);
        }
        pieces
    }

    /// `n` pieces of equal size along `axis`, the last one maybe smaller; fewer when there are not
    /// enough elements.
    #[must_use]
    #[track_caller]
    pub fn chunk(&self, n: usize, axis: i64) -> Vec<DynTensor> {
        if n == 0 {
            let error = OpError::new(format!("chunk: {} cannot be cut into 0 pieces", self.ty()));
            return vec![self.record_with(|_| Err(error))];
        }
        self.split(self.size(axis).div_ceil(n).max(1), axis)
    }

    /// `out[i][j] = self[index[i][j]][j]` for `axis` 0, and so on: PyTorch's `gather`.
    ///
    /// The result has the shape of the index. An index out of range is an error of the next read.
    #[must_use]
    #[track_caller]
    pub fn gather(&self, axis: i64, index: &DynTensor) -> DynTensor {
        self.along(axis, Op::Gather, &[index])
    }

    /// This tensor with `src` added at the positions `index` names along `axis`: PyTorch's
    /// `scatter_add`.
    #[must_use]
    #[track_caller]
    pub fn scatter_add(&self, axis: i64, index: &DynTensor, src: &DynTensor) -> DynTensor {
        self.along(axis, Op::ScatterAdd, &[index, src])
    }

    /// The slices of `axis` that `index` (of any rank) names; its shape stands in place of `axis`.
    #[must_use]
    #[track_caller]
    pub fn index_select(&self, axis: i64, index: &DynTensor) -> DynTensor {
        self.along(axis, Op::IndexSelect, &[index])
    }

    /// This tensor with the slices of `src` added at the positions of `axis` that `index` names:
    /// PyTorch's `index_add`.
    #[must_use]
    #[track_caller]
    pub fn index_add(&self, axis: i64, index: &DynTensor, src: &DynTensor) -> DynTensor {
        self.along(axis, Op::IndexAdd, &[index, src])
    }

    /// The rows of this table that `index` names: `index_select` along axis 0.
    #[must_use]
    #[track_caller]
    pub fn embedding(&self, index: &DynTensor) -> DynTensor {
        self.index_select(0, index)
    }

    /// A new last axis of size `classes` with a one where the index says, as `i64`.
    #[must_use]
    #[track_caller]
    pub fn one_hot(&self, classes: usize) -> DynTensor {
        DynTensor::record(Op::OneHot(Classes(classes as u64)), &[Arg::Tensor(self)])
    }
}

/// Elements `start`, `start + step`, ... before `stop` of one axis.
pub(super) fn slice_op(axis: usize, start: usize, stop: usize, step: usize) -> Op {
    Op::Slice(Slice { axis: axis as u8, start: start as u64, stop: stop as u64, step: step as u64 })
}

/// The shape with a new axis of size one before `axis`, which counts in the result.
fn inserted(op: &str, axis: i64, ty: &Type) -> Result<Shape, OpError> {
    let axis = resolve_among(op, axis, ty, ty.shape.rank() + 1)?;
    let mut dims: SmallVec<[Dim; 9]> = ty.shape.dims().collect();
    dims.insert(axis, Dim::new(1));
    Shape::from_dims(&dims).map_err(|e| OpError { message: format!("{op}: {}", e.message), ..e })
}

/// The shape `reshape` makes of a tensor, with the one size given as `-1` filled in.
fn reshaped(sizes: &Sizes, ty: &Type) -> Result<Shape, OpError> {
    let mut unknown = None;
    let shape = sizes.resolve_with("reshape", |i, given| match given {
        -1 if unknown.replace(i).is_none() => Ok(Dim::new(1)),
        -1 => Err(OpError::new(format!("reshape: only one size of the shape for {ty} can be -1"))),
        other => Err(OpError::new(format!("reshape: {other} is not a size"))
            .hint("sizes are 0 or more, one may be -1")),
    })?;
    let Some(unknown) = unknown else { return Ok(shape) };
    let known = shape.numel();
    let missing =
        ty.shape.numel().checked_div(known).filter(|m| m * known == ty.shape.numel()).ok_or_else(
            || {
                OpError::new(format!(
                    "reshape: no size in place of -1 makes the {} elements of {ty} fit",
                    ty.shape.numel()
                ))
            },
        )?;
    Shape::collect(
        shape.dims().enumerate().map(|(i, d)| if i == unknown { Dim::new(missing) } else { d }),
    )
}
