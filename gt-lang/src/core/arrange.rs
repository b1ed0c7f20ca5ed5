//! Operations that repeat, turn, shift, cut and replace: what is made of the moves in `movement`,
//! and the rows that replace parts.

use gt_ir::attr::{self, Diagonal, Pad};
use gt_ir::{Dim, Op, OpError, Scalar, Shape, Type};
use smallvec::SmallVec;

use super::arg::resolve_axis;
use super::movement::slice_op;
use super::{Arg, Axes, DynTensor};

/// An axis number as a method of [`DynTensor`] takes it; ranks are at most 8.
fn signed(axis: usize) -> i64 {
    axis as i64
}

impl DynTensor {
    /// The elements of the axes in reverse order; `..` turns all of them, an empty list none.
    #[must_use]
    #[track_caller]
    pub fn flip(&self, axes: impl Into<Axes>) -> DynTensor {
        let axes = axes.into();
        self.record_with(|ty| Ok(Op::Flip(attr::Axes(axes.listed("flip", ty)?))))
    }

    /// The last two axes' elements on and below a diagonal (0 is the main one, positive ones lie
    /// above it), 0 elsewhere.
    #[must_use]
    #[track_caller]
    pub fn tril(&self, diagonal: i64) -> DynTensor {
        DynTensor::record(Op::Tril(Diagonal(diagonal)), &[Arg::Tensor(self)])
    }

    /// The last two axes' elements on and above a diagonal (0 is the main one, positive ones lie
    /// above it), 0 elsewhere.
    #[must_use]
    #[track_caller]
    pub fn triu(&self, diagonal: i64) -> DynTensor {
        DynTensor::record(Op::Triu(Diagonal(diagonal)), &[Arg::Tensor(self)])
    }

    /// The elements moved along `axis` by `shift`, those pushed out at one end coming in at the
    /// other.
    ///
    /// ```no_run
    /// # use gt_lang::DynTensor;
    /// let x = DynTensor::from([1i64, 2, 3, 4]);
    /// assert_eq!(x.roll(1, 0).to_vec::<i64>()?, [4, 1, 2, 3]);
    /// # Ok::<(), gt_lang::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn roll(&self, shift: i64, axis: i64) -> DynTensor {
        let at = match resolve_axis("roll", axis, &self.ty()) {
            Ok(at) => at,
            Err(error) => return self.record_with(|_| Err(error)),
        };
        let size = self.shape().sizes()[at];
        let front = size as i64 - shift.rem_euclid(size.max(1) as i64);
        if size == 0 || front == size as i64 {
            return self.clone();
        }
        let front = front as usize;
        let head = self.record_with(|_| Ok(slice_op(at, 0, front, 1)));
        let tail = self.record_with(|_| Ok(slice_op(at, front, size, 1)));
        DynTensor::cat([&tail, &head], signed(at))
    }

    /// The tensor laid out again and again: `times[i]` copies along axis `i`, axes aligned from the
    /// right, new ones in front.
    #[must_use]
    #[track_caller]
    pub fn repeat(&self, times: impl AsRef<[usize]>) -> DynTensor {
        let (times, shape) = (times.as_ref(), self.shape());
        let Some(new) = times.len().checked_sub(shape.rank()) else {
            let e = format!("repeat: {} numbers of copies for {}", times.len(), self.ty());
            return self.record_with(|_| Err(OpError::new(e).hint("give one for each axis")));
        };
        let sizes: Vec<usize> =
            std::iter::repeat_n(1, new).chain(shape.sizes().iter().copied()).collect();
        let mut x = if new > 0 { self.reshape(&sizes) } else { self.clone() };
        let mut sizes = sizes;
        // From the last axis on, so that what is copied again is in one piece.
        for (axis, &n) in times.iter().enumerate().rev().filter(|(_, n)| **n != 1) {
            let (outer, inner) = (sizes[..axis].iter().product(), sizes[axis..].iter().product());
            sizes[axis] *= n;
            x = x.reshape([outer, 1, inner]).expand([outer, n, inner]).reshape(&sizes);
        }
        x
    }

    /// Each element along `axis` `times` times, one after the other.
    ///
    /// ```no_run
    /// # use gt_lang::DynTensor;
    /// let x = DynTensor::from([1i64, 2]);
    /// assert_eq!(x.repeat_interleave(2, 0).to_vec::<i64>()?, [1, 1, 2, 2]);
    /// assert_eq!(x.repeat([2]).to_vec::<i64>()?, [1, 2, 1, 2]);
    /// # Ok::<(), gt_lang::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn repeat_interleave(&self, times: usize, axis: i64) -> DynTensor {
        let at = match resolve_axis("repeat_interleave", axis, &self.ty()) {
            Ok(at) => at,
            Err(error) => return self.record_with(|_| Err(error)),
        };
        let mut sizes: Vec<usize> = self.shape().sizes().to_vec();
        let apart = self.unsqueeze(signed(at) + 1);
        sizes.insert(at + 1, times);
        let spread = apart.expand(&sizes);
        let joined = sizes.remove(at + 1) * sizes[at];
        sizes[at] = joined;
        spread.reshape(&sizes)
    }

    /// Axis `from` moved to position `to`; the others keep their order.
    #[must_use]
    #[track_caller]
    pub fn movedim(&self, from: i64, to: i64) -> DynTensor {
        let ty = self.ty();
        let ends = resolve_axis("movedim", from, &ty)
            .and_then(|from| Ok((from, resolve_axis("movedim", to, &ty)?)));
        match ends {
            Err(error) => self.record_with(|_| Err(error)),
            Ok((from, to)) => {
                let mut order: Vec<i64> = (0..signed(ty.shape.rank())).collect();
                let moved = order.remove(from);
                order.insert(to, moved);
                self.permute(order)
            }
        }
    }

    /// One axis as several, whose sizes multiply to its size.
    ///
    /// It is the inverse of [`DynTensor::flatten`]: heads of attention are made this way.
    #[must_use]
    #[track_caller]
    pub fn unflatten(&self, axis: i64, sizes: impl AsRef<[usize]>) -> DynTensor {
        self.record_with(|ty| {
            let axis = resolve_axis("unflatten", axis, ty)?;
            let mut dims: SmallVec<[Dim; 8]> = ty.shape.dims().collect();
            dims.remove(axis);
            dims.insert_many(axis, sizes.as_ref().iter().map(|&s| Dim::new(s)));
            Shape::from_dims(&dims).map(Op::Reshape)
        })
    }

    /// Pieces of these sizes along `axis`, which they must add up to.
    #[must_use]
    #[track_caller]
    pub fn split_sizes(&self, sizes: impl AsRef<[usize]>, axis: i64) -> Vec<DynTensor> {
        let (sizes, ty) = (sizes.as_ref(), self.ty());
        let total = sizes.iter().try_fold(0_usize, |sum, s| sum.checked_add(*s));
        let at = resolve_axis("split_sizes", axis, &ty).and_then(|at| {
            if total == Some(ty.shape.sizes()[at]) {
                return Ok(at);
            }
            Err(OpError::new(format!(
                "split_sizes: {sizes:?} do not add up to axis {axis} of {ty}"
            )))
        });
        let at = match at {
            Ok(at) => at,
            // As many pieces as asked for, each with the error.
            Err(error) => {
                return sizes.iter().map(|_| self.record_with(|_| Err(error.clone()))).collect();
            }
        };
        let mut stop = 0;
        let piece = |&size: &usize| {
            let start = stop;
            stop += size;
            self.record_with(|_| Ok(slice_op(at, start, stop, 1)))
        };
        sizes.iter().map(piece).collect()
    }

    /// Elements put around: `pads[i]` is how many `value`s come before and after axis `i`, from the
    /// first axis (PyTorch counts from the last); negative numbers cut off instead.
    #[must_use]
    #[track_caller]
    pub fn pad(&self, pads: impl AsRef<[(i64, i64)]>, value: impl Into<Scalar>) -> DynTensor {
        let (value, mut x) = (value.into(), self.clone());
        for (axis, &(before, after)) in pads.as_ref().iter().enumerate() {
            if before < 0 || after < 0 {
                x = x.record_with(|ty| cut_off(axis, before, after, ty));
            }
            if before > 0 || after > 0 {
                let (lo, hi) = (before.max(0) as u64, after.max(0) as u64);
                let args = [Arg::Tensor(&x), Arg::Scalar(value)];
                x = x.record_with_args(&args, |ty| {
                    let axis = resolve_axis("pad", signed(axis), ty)? as u8;
                    Ok(Op::Pad(Pad { axis, lo, hi, interior: 0 }))
                });
            }
        }
        x
    }

    /// This tensor with the slices at the positions of `axis` that `index` names replaced by those
    /// of `src`; positions must differ from each other.
    #[must_use]
    #[track_caller]
    pub fn index_copy(&self, axis: i64, index: &DynTensor, src: &DynTensor) -> DynTensor {
        self.along(axis, Op::IndexCopy, &[index, src])
    }

    /// This tensor with the elements at the positions `index` names along `axis` replaced by those
    /// of `src`; positions must differ from each other.
    #[must_use]
    #[track_caller]
    pub fn scatter(&self, axis: i64, index: &DynTensor, src: &DynTensor) -> DynTensor {
        self.along(axis, Op::Scatter, &[index, src])
    }

    /// As [`DynTensor::embedding`]; into the row `padding_idx` flows no gradient.
    #[must_use]
    #[track_caller]
    pub fn embedding_with_padding(&self, index: &DynTensor, padding_idx: i64) -> DynTensor {
        let rows = self.embedding(index);
        let padding = index.eq(padding_idx).unsqueeze(-1);
        padding.where_(&rows.detach(), &rows)
    }

    /// The size-one axes listed removed; `..` removes all of them, an empty list none.
    #[must_use]
    #[track_caller]
    pub fn squeeze_axes(&self, axes: impl Into<Axes>) -> DynTensor {
        let axes = axes.into();
        self.record_with(|ty| {
            let listed = axes.listed("squeeze_axes", ty)?;
            let kept = |(axis, dim): &(usize, Dim)| !(listed.contains(*axis) && dim.size == 1);
            let dims = ty.shape.dims().enumerate().filter(kept).map(|(_, dim)| dim);
            Shape::collect(dims).map(Op::Reshape)
        })
    }
}

/// What negative padding leaves of an axis.
fn cut_off(axis: usize, before: i64, after: i64, ty: &Type) -> Result<Op, OpError> {
    let axis = resolve_axis("pad", signed(axis), ty)?;
    let size = signed(ty.shape.sizes()[axis]);
    let (start, stop) = (-before.min(0), size + after.min(0));
    if start > stop {
        return Err(OpError::new(format!(
            "pad: {} elements cannot be cut off axis {axis} of {ty}",
            start + size - stop
        )));
    }
    Ok(slice_op(axis, start as usize, stop as usize, 1))
}
