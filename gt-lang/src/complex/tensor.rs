//! The tensor of complex numbers itself: pairs, and what is known about them.
//!
//! Guarantees: the pairs have a last axis of size 2 and are `f32` or `f64`, also if the tensor
//! carries an error.

use std::fmt;

use gt_ir::shape::MAX_RANK;
use gt_ir::{DType, Dim, OpError, Shape, Type};

use crate::core::DynTensor;
use crate::error::{Error, Result};
use crate::session::Session;

/// The dtype of complex numbers, by that of their parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ComplexDType {
    /// Two numbers of `f32`: PyTorch's `complex64`.
    C64,
    /// Two numbers of `f64`: PyTorch's `complex128`.
    C128,
}

impl ComplexDType {
    /// The dtype of the parts.
    pub const fn part(self) -> DType {
        match self {
            ComplexDType::C64 => DType::F32,
            ComplexDType::C128 => DType::F64,
        }
    }

    /// `c64` or `c128`.
    pub const fn name(self) -> &'static str {
        match self {
            ComplexDType::C64 => "c64",
            ComplexDType::C128 => "c128",
        }
    }

    /// The complex numbers whose parts are of this dtype, or are made of it: of `f64` else `c64`.
    pub(super) const fn of(part: DType) -> ComplexDType {
        match part {
            DType::F64 => ComplexDType::C128,
            DType::F32
            | DType::Bf16
            | DType::F16
            | DType::I64
            | DType::I32
            | DType::U8
            | DType::Bool => ComplexDType::C64,
        }
    }
}

impl fmt::Display for ComplexDType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A tensor of complex numbers; see the [module](crate::complex).
#[derive(Clone)]
pub struct ComplexTensor {
    pub(super) pairs: DynTensor,
}

/// Whether tensors of this type are pairs.
fn is_pairs(ty: &Type) -> bool {
    matches!(ty.dtype, DType::F32 | DType::F64) && ty.shape.sizes().last() == Some(&2)
}

impl ComplexTensor {
    /// The complex numbers of pairs of a real and an imaginary part, `[.., 2]` of `f32` or `f64`:
    /// PyTorch's `view_as_complex`. Nothing is computed.
    #[doc(alias = "view_as_complex")]
    #[must_use]
    #[track_caller]
    pub fn from_pairs(pairs: &DynTensor) -> ComplexTensor {
        let ty = pairs.ty();
        if is_pairs(&ty) || pairs.error().is_some() {
            return ComplexTensor::of(pairs.clone());
        }
        let message = format!("from_pairs: takes pairs [.., 2] of f32 or f64, but got {ty}");
        let error = OpError::new(message).hint(match ty.shape.sizes().last() {
            Some(2) => "a cast with `to_dtype` says where digits get lost",
            _ => "`ComplexTensor::new` takes real and imaginary parts, `from_real` real parts only",
        });
        ComplexTensor::of(pairs.record_with(|_| Err(error)))
    }

    /// The pairs of real and imaginary parts, `[.., 2]`: PyTorch's `view_as_real`. Nothing is
    /// computed.
    #[must_use]
    pub fn view_as_real(&self) -> DynTensor {
        self.pairs.clone()
    }

    /// The tensor of these pairs. What carries an error and is none looks as if each of its
    /// elements were one.
    pub(super) fn of(pairs: DynTensor) -> ComplexTensor {
        let ty = pairs.ty();
        match pairs.error() {
            Some(error) if !is_pairs(&ty) => ComplexTensor::failed(error, &ty),
            _ => ComplexTensor { pairs },
        }
    }

    /// A tensor that carries an error, of the shape of this type.
    pub(super) fn failed(error: Error, like: &Type) -> ComplexTensor {
        let kept = like.shape.dims().take(MAX_RANK - 1);
        let dims: Vec<Dim> = kept.chain([Dim::new(2)]).collect();
        let shape = Shape::from_dims(&dims).or_else(|_| Shape::new(&[2]));
        let dtype = ComplexDType::of(like.dtype).part();
        let ty = Type { dtype, shape: shape.unwrap_or(Shape::SCALAR) };
        ComplexTensor { pairs: DynTensor::failed(error, ty) }
    }

    /// A tensor of this type that carries an error.
    #[track_caller]
    pub(super) fn refused(&self, error: OpError) -> ComplexTensor {
        ComplexTensor::of(self.pairs.record_with(|_| Err(error)))
    }

    /// The error this tensor carries; see [`DynTensor::error`].
    pub fn error(&self) -> Option<Error> {
        self.pairs.error()
    }

    /// The dtype.
    pub fn dtype(&self) -> ComplexDType {
        ComplexDType::of(self.pairs.dtype())
    }

    /// The shape, without the axis of the parts.
    pub fn shape(&self) -> Shape {
        let shape = self.pairs.shape();
        let kept = shape.dims().take(shape.rank().saturating_sub(1));
        Shape::collect(kept).unwrap_or(Shape::SCALAR)
    }

    /// The sizes, outermost first.
    pub fn sizes(&self) -> Vec<usize> {
        self.shape().sizes().to_vec()
    }

    /// The number of dimensions.
    #[doc(alias("dim", "ndim"))]
    pub fn rank(&self) -> usize {
        self.pairs.rank().saturating_sub(1)
    }

    /// The size of one axis, negative axes counting from the end; 0 where there is no such axis.
    pub fn size(&self, axis: i64) -> usize {
        let rank = self.rank() as i64;
        let axis = if axis < 0 { axis + rank } else { axis };
        if (0..rank).contains(&axis) { self.pairs.size(axis) } else { 0 }
    }

    /// The number of complex numbers.
    #[doc(alias = "nelement")]
    pub fn numel(&self) -> usize {
        self.shape().numel()
    }

    /// Dtype and shape as errors name them: `c64[2,3]`.
    pub(super) fn told(&self) -> String {
        format!("{}{}", self.dtype(), self.shape())
    }

    /// The session the tensor lives in; `None` if it carries an error.
    pub fn session(&self) -> Option<Session> {
        self.pairs.session()
    }

    /// The same numbers with parts of another dtype.
    #[doc(alias("to", "cfloat", "cdouble", "type"))]
    #[must_use]
    #[track_caller]
    pub fn to_dtype(&self, dtype: ComplexDType) -> ComplexTensor {
        ComplexTensor::of(self.pairs.to_dtype(dtype.part()))
    }

    /// A leaf that collects a gradient; see [`DynTensor::requires_grad`]. Optimizers take its
    /// [pairs](ComplexTensor::view_as_real), as PyTorch's do.
    #[must_use]
    #[track_caller]
    pub fn requires_grad(&self) -> ComplexTensor {
        ComplexTensor::of(self.pairs.requires_grad())
    }

    /// Whether gradients flow into this tensor.
    pub fn is_tracked(&self) -> bool {
        self.pairs.is_tracked()
    }

    /// Whether this is a leaf made by [`ComplexTensor::requires_grad`].
    pub fn is_leaf(&self) -> bool {
        self.pairs.is_leaf()
    }

    /// The gradient gathered so far: `dL/dre + i dL/dim` of each number, the direction in which the
    /// real loss L grows.
    pub fn grad(&self) -> Option<ComplexTensor> {
        self.pairs.grad().map(ComplexTensor::of)
    }

    /// Forgets the gradient.
    pub fn zero_grad(&self) {
        self.pairs.zero_grad();
    }

    /// The same value without its history.
    #[must_use]
    pub fn detach(&self) -> ComplexTensor {
        ComplexTensor::of(self.pairs.detach())
    }

    /// Replaces the value of a leaf; see [`DynTensor::assign`].
    ///
    /// # Errors
    /// As [`DynTensor::assign`].
    #[doc(alias = "copy_")]
    #[track_caller]
    pub fn assign(&self, value: &ComplexTensor) -> Result<()> {
        self.pairs.assign(&value.pairs)
    }
}
