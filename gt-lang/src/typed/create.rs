//! New tensors. Where every size is static, the type is the whole description: `let w: T![784, 10]
//! = Tensor::randn();`.
//!
//! The `_with` forms take the sizes of the named and run-time dimensions, outermost first:
//! `Tensor::zeros_with([32])` is a `T![Batch, 784]` of 32 rows. [`Tensor::from_vec`] infers one
//! such size from the number of elements.

use gt_ir::{DType, Element, OpError, Shape as RecordedShape, Type};

use super::dim::{Dim, DimSpec, StaticDim};
use super::kind::{Bool, Float, Int, Kind};
use super::shape::{Shape, StaticShape};
use super::tensor::{Tensor, named_shape, spell};
use crate::core::DynTensor;
use crate::error::Error;

/// Host element types of a kind.
#[diagnostic::on_unimplemented(
    message = "elements of type `{Self}` do not make a tensor of kind `{K}`",
    label = "elements are `{Self}`"
)]
pub trait ElementOf<K>: Element {}
macro_rules! elements {
    ($($kind:ident: $($t:ty),+;)+) => { $($(
        #[diagnostic::do_not_recommend]
        impl ElementOf<$kind> for $t {}
    )+)+ };
}
elements! {
    Float: f32, f64, half::bf16, half::f16;
    Int: i64, i32, u8;
    Bool: bool;
}

/// Creation functions with run-time sizes. `$make` is the call that records, spelled out in the
/// function itself so that it records the caller's line.
macro_rules! creation {
    ($($(#[$doc:meta])+ $with:ident($($arg:ident: $ty:ty),*) = |$shape:ident| $make:expr;)+) => { $(
        $(#[$doc])+
        ///
        /// `sizes` are those of the named and run-time dimensions, outermost first.
        #[must_use]
        #[track_caller]
        pub fn $with($($arg: $ty,)* sizes: impl AsRef<[usize]>) -> Self {
            match shape_with(stringify!($with), S::DIMS, sizes.as_ref()) {
                Ok($shape) => Tensor::wrap($make),
                Err(error) => failed(error),
            }
        }
    )+ };
}

/// Creation where the type is the whole description: `let w: T![784, 10] = Tensor::randn();`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has a dimension whose size is only known at run time",
    label = "use the `.._with([sizes])` form, which takes the sizes of those dimensions"
)]
pub trait Create: Sized {
    /// All zeros: `f32`, `i64` or `bool` by kind.
    #[must_use]
    fn zeros() -> Self;
    /// All ones: `f32`, `i64` or `bool` by kind.
    #[must_use]
    fn ones() -> Self;
    /// All `value`.
    #[must_use]
    fn full(value: f64) -> Self;
}

/// Random floats where the type is the whole description.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not of floats, or has a dimension whose size is only known at run time",
    label = "use the `.._with([sizes])` form, which takes the sizes of those dimensions"
)]
pub trait Random: Sized {
    /// Uniform in `[0, 1)`, as `f32`; the bits follow from the seed alone.
    #[must_use]
    fn rand() -> Self;
    /// Normal with mean 0 and standard deviation 1, as `f32`; the bits follow from the seed alone.
    #[must_use]
    fn randn() -> Self;
}

#[diagnostic::do_not_recommend]
impl<S: StaticShape, K: Kind> Create for Tensor<S, K> {
    #[track_caller]
    fn zeros() -> Self {
        Tensor::zeros_with([])
    }
    #[track_caller]
    fn ones() -> Self {
        Tensor::ones_with([])
    }
    #[track_caller]
    fn full(value: f64) -> Self {
        Tensor::full_with(value, [])
    }
}

#[diagnostic::do_not_recommend]
impl<S: StaticShape> Random for Tensor<S, Float> {
    #[track_caller]
    fn rand() -> Self {
        Tensor::rand_with([])
    }
    #[track_caller]
    fn randn() -> Self {
        Tensor::randn_with([])
    }
}

impl<S: Shape, K: Kind> Tensor<S, K> {
    creation! {
        /// All zeros: `f32`, `i64` or `bool` by kind.
        zeros_with() = |shape| DynTensor::zeros(shape, K::DEFAULT);
        /// All ones: `f32`, `i64` or `bool` by kind.
        ones_with() = |shape| DynTensor::ones(shape, K::DEFAULT);
        /// All `value`.
        full_with(value: f64) = |shape| DynTensor::full(shape, value, K::DEFAULT);
    }

    /// A tensor of these elements in row-major order; the vector is not copied. One named or
    /// run-time size is inferred.
    #[must_use]
    #[track_caller]
    pub fn from_vec<E: ElementOf<K>>(data: Vec<E>) -> Self {
        match shape_of(S::DIMS, data.len()) {
            Ok(shape) => Tensor::wrap(DynTensor::from_vec(data, shape)),
            Err(error) => failed(error),
        }
    }

    /// As [`Tensor::from_vec`] with the sizes of the named and run-time dimensions given, outermost
    /// first.
    #[must_use]
    #[track_caller]
    pub fn from_vec_with<E: ElementOf<K>>(data: Vec<E>, sizes: impl AsRef<[usize]>) -> Self {
        match shape_with("from_vec", S::DIMS, sizes.as_ref()) {
            Ok(shape) => Tensor::wrap(DynTensor::from_vec(data, shape)),
            Err(error) => failed(error),
        }
    }

    /// Zeros of this tensor's sizes and dtype.
    #[must_use]
    #[track_caller]
    pub fn zeros_like(&self) -> Self {
        Tensor::wrap(self.as_dyn().zeros_like())
    }

    /// Ones of this tensor's sizes and dtype.
    #[must_use]
    #[track_caller]
    pub fn ones_like(&self) -> Self {
        Tensor::wrap(self.as_dyn().ones_like())
    }
}

impl<S: Shape> Tensor<S, Float> {
    creation! {
        /// Uniform in `[0, 1)`, as `f32`; the bits follow from the seed alone.
        rand_with() = |shape| DynTensor::rand(shape, DType::F32);
        /// Normal with mean 0 and standard deviation 1, as `f32`; the bits follow from the seed
        /// alone.
        randn_with() = |shape| DynTensor::randn(shape, DType::F32);
    }
}

impl<S: Shape> Tensor<S, Int> {
    creation! {
        /// Uniform integers in `[low, high)`, as `i64`.
        randint_with(low: i64, high: i64) = |shape| {
            DynTensor::randint(low, high, shape, DType::I64)
        };
    }
}

impl<D: Dim> Tensor<(D,), Int> {
    /// `0, 1, ...` up to the size of the dimension.
    #[must_use]
    #[track_caller]
    pub fn arange() -> Self
    where
        D: StaticDim,
    {
        Tensor::arange_with([D::SIZE])
    }

    /// `0, 1, ...` up to the given size.
    #[must_use]
    #[track_caller]
    pub fn arange_with(size: [usize; 1]) -> Self {
        let size = i64::try_from(size[0]).unwrap_or(i64::MAX);
        Tensor::conform("arange", DynTensor::arange(0i64, size, 1i64, DType::I64))
    }
}

/// A tensor that was never made, for this reason.
#[track_caller]
fn failed<S: Shape, K: Kind>(error: OpError) -> Tensor<S, K> {
    let error = Error::from_op(error, std::panic::Location::caller());
    Tensor::wrap(DynTensor::failed(error, Type::scalar(K::DEFAULT)))
}

/// The recorded shape of a type whose open sizes are given: either those alone, or all sizes.
pub(crate) fn shape_with(
    op: &str,
    dims: &[DimSpec],
    sizes: &[usize],
) -> Result<RecordedShape, OpError> {
    let n_open = dims.iter().filter(|d| !matches!(d, DimSpec::Static(_))).count();
    if sizes.len() != n_open {
        let message = format!(
            "{op}: shape {} takes {n_open} sizes, but {} were given: {sizes:?}",
            spell(dims),
            sizes.len()
        );
        return Err(OpError::new(message)
            .hint("give those of the named and run-time dimensions, outermost first"));
    }
    let mut open = sizes.iter().copied();
    let full: Vec<usize> = dims
        .iter()
        .map(|d| if let DimSpec::Static(s) = d { *s } else { open.next().unwrap_or(0) })
        .collect();
    named_shape(op, dims, &full)
}

/// The recorded shape of `numel` elements; one open size is inferred.
fn shape_of(dims: &[DimSpec], numel: usize) -> Result<RecordedShape, OpError> {
    let fixed: usize = dims
        .iter()
        .filter_map(|d| if let DimSpec::Static(s) = d { Some(*s) } else { None })
        .product();
    let n_open = dims.iter().filter(|d| !matches!(d, DimSpec::Static(_))).count();
    let open: &[usize] = match n_open {
        0 => &[],
        1 if fixed > 0 => &[numel / fixed],
        1 => &[0],
        _ => {
            let what = format!(
                "from_vec: {numel} elements do not tell the {n_open} run-time sizes of {}",
                spell(dims)
            );
            return Err(OpError::new(what).hint("give the sizes: `from_vec_with(data, [sizes])`"));
        }
    };
    let shape = shape_with("from_vec", dims, open)?;
    if shape.numel() != numel {
        return Err(OpError::new(format!(
            "from_vec: {numel} elements do not make a tensor of shape {}",
            spell(dims)
        )));
    }
    Ok(shape)
}
