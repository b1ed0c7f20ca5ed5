//! What the methods of a tensor accept: operands, axes and sizes, each convertible from the
//! spellings people use.
//!
//! Guarantees: every conversion is total. A value that makes no sense (an axis out of range, two
//! `-1` in a shape) is kept as it was given and refused when the instruction is recorded, so that
//! the error carries the user's line.

use gt_ir::attr::{AxisSet, Keep, Reduce};
use gt_ir::shape::MAX_RANK;
use gt_ir::{Dim, OpError, Scalar, Shape, Type};
use smallvec::SmallVec;

use super::DynTensor;

/// One operand of an operation: a tensor or a plain number.
#[derive(Clone, Copy)]
pub enum Arg<'a> {
    /// A tensor.
    Tensor(&'a DynTensor),
    /// A number; it takes part in dtype promotion as a number does in PyTorch (it never widens
    /// within its kind).
    Scalar(Scalar),
}

impl<'a> From<&'a DynTensor> for Arg<'a> {
    fn from(tensor: &'a DynTensor) -> Self {
        Arg::Tensor(tensor)
    }
}

impl From<Scalar> for Arg<'_> {
    fn from(scalar: Scalar) -> Self {
        Arg::Scalar(scalar)
    }
}

macro_rules! number_args {
    ($($t:ty => $variant:ident as $wide:ty),+ $(,)?) => {$(
        impl From<$t> for Arg<'_> {
            fn from(number: $t) -> Self {
                Arg::Scalar(Scalar::$variant(<$wide>::from(number)))
            }
        }
    )+};
}
number_args! {
    f32 => F64 as f64, f64 => F64 as f64, i32 => I64 as i64, i64 => I64 as i64, bool => Bool as bool
}

/// A size as a literal: none is larger than an `i64`.
pub(super) fn size_literal(size: usize) -> Scalar {
    Scalar::I64(i64::try_from(size).unwrap_or(i64::MAX))
}

impl From<usize> for Arg<'_> {
    fn from(size: usize) -> Self {
        Arg::Scalar(size_literal(size))
    }
}

/// The axes of a reduction, and whether the reduced axes stay with size one.
///
/// `..` is all of them; one axis is a number, several are an array; negative axes count from the
/// end. [`keepdim`] keeps the reduced axes.
///
/// ```no_run
/// # use gt_lang::{DynTensor, keepdim};
/// # let x: DynTensor = todo!();
/// let (all, last, several, kept) = (x.sum(..), x.sum(-1), x.mean([0, 2]), x.max(keepdim(-1)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axes {
    pub(crate) list: Option<SmallVec<[i64; 8]>>,
    pub(crate) keep: Keep,
}

/// These axes, kept with size one: `x.sum(keepdim(-1))` is PyTorch's `x.sum(-1, keepdim=True)`.
pub fn keepdim(axes: impl Into<Axes>) -> Axes {
    Axes { keep: Keep::Yes, ..axes.into() }
}

impl From<std::ops::RangeFull> for Axes {
    fn from(_: std::ops::RangeFull) -> Self {
        Axes { list: None, keep: Keep::No }
    }
}

impl<A: Into<Axes>> From<(A, Keep)> for Axes {
    fn from((axes, keep): (A, Keep)) -> Self {
        Axes { keep, ..axes.into() }
    }
}

/// The sizes of a new shape: an array, slice or vector of integers, or a [`Shape`].
///
/// In `reshape` one size may be `-1`; in `expand` `-1` keeps the size that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(pub(crate) SmallVec<[Size; 8]>);

/// One size of [`Sizes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// A number, `-1` included.
    Plain(i64),
    /// A size with its name.
    Dim(Dim),
}

impl From<Shape> for Sizes {
    fn from(shape: Shape) -> Self {
        Sizes(shape.dims().map(Size::Dim).collect())
    }
}

impl From<&Shape> for Sizes {
    fn from(shape: &Shape) -> Self {
        Sizes(shape.dims().map(Size::Dim).collect())
    }
}

impl From<()> for Sizes {
    fn from((): ()) -> Self {
        Sizes(SmallVec::new())
    }
}

/// Whether PyTorch takes the number for an axis of a tensor that has none.
pub(crate) fn is_axis_of_scalar(axis: i64) -> bool {
    matches!(axis, 0 | -1)
}

/// The axis a signed number means, negative ones counting from the end.
pub(crate) fn resolve_axis(op: &str, axis: i64, ty: &Type) -> Result<usize, OpError> {
    resolve_among(op, axis, ty, ty.shape.rank())
}

/// As [`resolve_axis`], for an op that counts axes of its result, of which there are `rank`.
pub(crate) fn resolve_among(op: &str, axis: i64, ty: &Type, rank: usize) -> Result<usize, OpError> {
    let n = rank as i64; // at most MAX_RANK + 1
    let found = if axis < 0 { axis.checked_add(n) } else { Some(axis) };
    found.filter(|a| (0..n).contains(a)).map(|a| a as usize).ok_or_else(|| {
        let error = OpError::new(format!("{op}: axis {axis} is out of range for {ty}"));
        if n == 0 {
            error.hint("it has no axes")
        } else {
            error.hint(format!("axes run from {} to {}", -n, n - 1))
        }
    })
}

impl Axes {
    /// As [`Axes::resolve`], for an op that does nothing to an empty list.
    pub(crate) fn listed(&self, op: &str, ty: &Type) -> Result<AxisSet, OpError> {
        match self.list.as_deref() {
            Some([]) => Ok(AxisSet::default()),
            None | Some(_) => Ok(self.resolve(op, ty)?.axes),
        }
    }

    /// The axes of a tensor of this type that are meant.
    pub(crate) fn resolve(&self, op: &str, ty: &Type) -> Result<Reduce, OpError> {
        let mut axes = AxisSet::default();
        match self.list.as_deref() {
            // As in PyTorch, no axes are all axes.
            None | Some([]) => axes = AxisSet::all(ty.shape.rank()),
            Some(&[axis]) if ty.shape.rank() == 0 && is_axis_of_scalar(axis) => (),
            Some(list) => {
                for &axis in list {
                    if !axes.insert(resolve_axis(op, axis, ty)?) {
                        return Err(OpError::new(format!(
                            "{op}: axis {axis} is listed twice for {ty}"
                        )));
                    }
                }
            }
        }
        Ok(Reduce { axes, keep: self.keep })
    }
}

impl Sizes {
    /// The shape meant, where no size may be missing.
    pub(crate) fn resolve(&self, op: &str) -> Result<Shape, OpError> {
        self.resolve_with(op, |_, given| {
            Err(OpError::new(format!("{op}: {given} is not a size")).hint("sizes are 0 or more"))
        })
    }

    /// The shape that bad sizes pretend to: of their rank, with 0 for each that is not a size.
    pub(crate) fn nearly(&self) -> Shape {
        let size = |size: &Size| match *size {
            Size::Dim(dim) => dim,
            Size::Plain(size) => Dim::new(usize::try_from(size).unwrap_or(0)),
        };
        let dims: SmallVec<[Dim; 8]> = self.0.iter().take(MAX_RANK).map(size).collect();
        let empty = |_| Shape::new(&[0; MAX_RANK][..dims.len()]);
        Shape::from_dims(&dims).or_else(empty).unwrap_or(Shape::SCALAR)
    }

    /// The shape meant; `missing` finds the sizes given as negative numbers, by position.
    pub(crate) fn resolve_with(
        &self,
        op: &str,
        mut missing: impl FnMut(usize, i64) -> Result<Dim, OpError>,
    ) -> Result<Shape, OpError> {
        let mut dims: SmallVec<[Dim; 8]> = SmallVec::new();
        for (i, size) in self.0.iter().enumerate() {
            dims.push(match *size {
                Size::Dim(dim) => dim,
                Size::Plain(size) => match usize::try_from(size) {
                    Ok(size) => Dim::new(size),
                    Err(_) => missing(i, size)?,
                },
            });
        }
        Shape::from_dims(&dims)
            .map_err(|e| OpError { message: format!("{op}: {}", e.message), ..e })
    }
}

/// An integer as it comes; what does not fit 64 bits becomes a number no axis or size can be.
fn wide<I: TryInto<i64>>(i: I) -> i64 {
    i.try_into().unwrap_or(i64::MIN)
}

macro_rules! integer_args {
    ($($t:ty),+) => {$(
        impl From<$t> for Axes {
            fn from(axis: $t) -> Self {
                Axes { list: Some(SmallVec::from_slice(&[wide(axis)])), keep: Keep::No }
            }
        }
        impl From<&[$t]> for Axes {
            fn from(axes: &[$t]) -> Self {
                Axes { list: Some(axes.iter().map(|&a| wide(a)).collect()), keep: Keep::No }
            }
        }
        impl<const N: usize> From<[$t; N]> for Axes {
            fn from(axes: [$t; N]) -> Self {
                Axes::from(axes.as_slice())
            }
        }
        impl<const N: usize> From<&[$t; N]> for Axes {
            fn from(axes: &[$t; N]) -> Self {
                Axes::from(axes.as_slice())
            }
        }
        impl From<&[$t]> for Sizes {
            fn from(sizes: &[$t]) -> Self {
                Sizes(sizes.iter().map(|&s| Size::Plain(wide(s))).collect())
            }
        }
        impl<const N: usize> From<[$t; N]> for Sizes {
            fn from(sizes: [$t; N]) -> Self {
                Sizes::from(sizes.as_slice())
            }
        }
        impl<const N: usize> From<&[$t; N]> for Sizes {
            fn from(sizes: &[$t; N]) -> Self {
                Sizes::from(sizes.as_slice())
            }
        }
        impl From<Vec<$t>> for Sizes {
            fn from(sizes: Vec<$t>) -> Self {
                Sizes::from(sizes.as_slice())
            }
        }
        impl From<&Vec<$t>> for Sizes {
            fn from(sizes: &Vec<$t>) -> Self {
                Sizes::from(sizes.as_slice())
            }
        }
    )+};
}
integer_args!(i32, i64, usize);
