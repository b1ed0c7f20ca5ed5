//! `Tensor<S, K>`: a dynamic tensor with its shape and kind in the type.
//!
//! Guarantees: the wrapper holds a [`DynTensor`] and nothing else; a typed method is one call of
//! the dynamic method, so that the recorded instruction names the user's line. What types cannot
//! know (names bound to sizes, `?`) is checked here when an operation is recorded; a violation is
//! kept in the result and raised by the next read.

use std::{fmt, marker::PhantomData};

use gt_ir::{Dim as RecordedDim, DimName, Element, OpError, Shape as RecordedShape, Type};

use super::dim::DimSpec;
use super::kind::{Float, Kind};
use super::shape::Shape;
use crate::autograd::HookHandle;
use crate::core::{Arg, DynTensor, Reading};
use crate::error::{Error, Result};

/// A tensor of shape `S` and kind `K`; written `T![Batch, 784]`, or `Tensor<(B, S, H)>` in generic
/// code.
///
/// Cloning copies the handle. See the [module](crate::typed).
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// dims! { Batch }
/// let w: T![784, 10] = Tensor::randn();
/// let x: T![Batch, 784] = Tensor::rand_with([32]); // the size of `Batch`
/// let labels: T![Batch; Int] = Tensor::randint_with(0, 10, [32]);
/// let loss: T![] = x.matmul(&w).cross_entropy(&labels); // shapes are checked by the compiler
/// println!("{}", loss.item()?);
/// # Ok::<(), gt::Error>(())
/// ```
pub struct Tensor<S: Shape, K: Kind = Float> {
    inner: DynTensor,
    marker: PhantomData<fn() -> (S, K)>,
}

// Not derived: a handle can be cloned whatever its shape's types are.
impl<S: Shape, K: Kind> Clone for Tensor<S, K> {
    fn clone(&self) -> Self {
        Tensor { inner: self.inner.clone(), marker: PhantomData }
    }
}

impl<S: Shape, K: Kind> Tensor<S, K> {
    /// Types a result whose shape the dynamic operation has already checked.
    pub(crate) fn wrap(inner: DynTensor) -> Self {
        let inner = if inner.is_failed() { like_type::<S, K>(inner) } else { inner };
        Tensor { inner, marker: PhantomData }
    }

    /// Types the result of operands that met: each name has one size among them, and static sizes
    /// are what the type says.
    #[track_caller]
    pub(crate) fn joined(op: &str, out: DynTensor, operands: &[Arg<'_>]) -> Self {
        let checked = one_size_a_name(op, operands)
            .and_then(|()| out.with_value(|v| static_sizes(op, S::DIMS, &v.ty.shape)));
        match checked {
            Err(error) if out.error().is_none() => Tensor::wrap(poison(&out, error)),
            Ok(()) | Err(_) => Tensor::wrap(out),
        }
    }

    /// This tensor's place taken by an error of this operation.
    #[track_caller]
    pub(crate) fn refuse(&self, op: &str, message: impl fmt::Display, hint: &str) -> Self {
        Tensor::wrap(poison(&self.inner, OpError::new(format!("{op}: {message}")).hint(hint)))
    }

    /// As [`Tensor::refuse`], for an error that is already whole.
    #[track_caller]
    pub(crate) fn refuse_with(&self, error: OpError) -> Self {
        Tensor::wrap(poison(&self.inner, error))
    }

    /// A typed view of a dynamic tensor. Rank, static sizes and kind are checked now, a mismatch is
    /// raised by the next read; named dimensions of `S` are recorded with the sizes found.
    #[must_use]
    #[track_caller]
    pub fn from_dyn(inner: DynTensor) -> Self {
        Self::conform("from_dyn", inner)
    }

    /// Types a tensor of unknown shape: checked, and named as `S` says.
    #[track_caller]
    pub(crate) fn conform(op: &str, inner: DynTensor) -> Self {
        if inner.error().is_some() {
            return Tensor::wrap(inner);
        }
        match conforming_shape::<S, K>(op, &inner) {
            Err(error) => Tensor::wrap(poison(&inner, error)),
            Ok(shape) if shape == inner.shape() => Tensor::wrap(inner),
            Ok(shape) => Tensor::wrap(inner.reshape(shape)),
        }
    }

    /// The dynamic tensor inside.
    pub fn as_dyn(&self) -> &DynTensor {
        &self.inner
    }

    /// The dynamic tensor inside, without a copy.
    pub fn into_dyn(self) -> DynTensor {
        self.inner
    }

    /// The recorded dtype.
    pub fn dtype(&self) -> gt_ir::DType {
        self.inner.dtype()
    }

    /// The recorded dtype and shape; prints as `f32[Batch=32,784]`. Of a tensor that carries an
    /// error: what its type says, 0 for the sizes it does not know.
    #[doc(alias = "shape")]
    pub fn ty(&self) -> gt_ir::Type {
        self.inner.ty()
    }

    /// The number of dimensions.
    #[doc(alias("dim", "ndim"))]
    pub fn rank(&self) -> usize {
        self.inner.rank()
    }

    /// The size of one axis, negative axes counting from the end; 0 where there is no such axis.
    pub fn size(&self, axis: i64) -> usize {
        self.inner.size(axis)
    }

    /// The sizes, outermost first.
    pub fn sizes(&self) -> Vec<usize> {
        self.inner.shape().sizes().to_vec()
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        self.inner.numel()
    }

    /// The elements in row-major order, once they are computed.
    ///
    /// # Errors
    /// The first error of anything this tensor derives from, with op, shapes and the user's line;
    /// `E` is not the tensor's dtype.
    #[track_caller]
    pub fn to_vec<E: Element>(&self) -> Result<Vec<E>> {
        self.inner.to_vec()
    }

    /// [`to_vec`](Tensor::to_vec) for asynchronous programs: see [`Reading`].
    #[track_caller]
    pub fn to_vec_async<E: Element>(&self) -> Reading<Vec<E>> {
        self.inner.to_vec_async()
    }

    /// The same values without a history: no gradient flows back through the result.
    #[must_use]
    #[track_caller]
    pub fn detach(&self) -> Self {
        Tensor::wrap(self.inner.detach())
    }

    /// The error this tensor carries, if something it derives from could not be recorded; does not
    /// wait.
    pub fn error(&self) -> Option<Error> {
        self.inner.error()
    }
}

impl<S: Shape, K: Kind> From<Tensor<S, K>> for DynTensor {
    fn from(tensor: Tensor<S, K>) -> DynTensor {
        tensor.into_dyn()
    }
}

impl<K: Kind> Tensor<(), K> {
    /// The value of a scalar, once it is computed.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`].
    #[track_caller]
    pub fn item(&self) -> Result<f64> {
        self.inner.item()
    }

    /// [`item`](Tensor::item) for asynchronous programs: see [`Reading`].
    #[track_caller]
    pub fn item_async(&self) -> Reading<f64> {
        self.inner.item_async()
    }
}

impl<S: Shape> Tensor<S, Float> {
    /// The same values as a leaf that collects a gradient.
    #[must_use]
    #[track_caller]
    pub fn requires_grad(self) -> Self {
        Tensor::wrap(self.inner.requires_grad())
    }

    /// Freezes a leaf, or ends that: [`DynTensor::requires_grad_`].
    ///
    /// # Errors
    /// The tensor is no leaf.
    #[track_caller]
    pub fn requires_grad_(&self, on: bool) -> Result<()> {
        self.inner.requires_grad_(on)
    }

    /// The gradient gathered so far, for a leaf that requires one, and for what
    /// [`Tensor::retain_grad`] was called on.
    #[track_caller]
    pub fn grad(&self) -> Option<Self> {
        self.inner.grad().map(Tensor::wrap)
    }

    /// Calls a function with this tensor's gradient in each walk that reaches it:
    /// [`DynTensor::register_hook`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn register_hook(
        &self,
        hook: impl Fn(&DynTensor) -> Option<DynTensor> + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        self.inner.register_hook(hook)
    }

    /// Keeps this tensor's gradient, as a leaf does: [`DynTensor::retain_grad`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn retain_grad(&self) -> Result<()> {
        self.inner.retain_grad()
    }

    /// Replaces the value of a leaf inside [`no_grad`](crate::no_grad()): every clone sees the new
    /// one.
    ///
    /// # Errors
    /// Operations are tracked, this is not a leaf, either tensor carries an error, or the sizes or
    /// dtypes differ.
    #[track_caller]
    pub fn assign(&self, value: &Self) -> Result<()> {
        self.inner.assign(&value.inner)
    }

    /// Forgets the gradient gathered so far.
    pub fn zero_grad(&self) {
        self.inner.zero_grad();
    }
}

impl Tensor<()> {
    /// Records the gradients of this scalar with respect to every leaf it depends on; they add to
    /// what is in `.grad()`.
    ///
    /// # Errors
    /// This tensor carries an error, or nothing it depends on requires a gradient.
    #[track_caller]
    pub fn backward(&self) -> Result<()> {
        self.inner.backward()
    }
}

impl<S: Shape, K: Kind> fmt::Debug for Tensor<S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.inner, f)
    }
}

impl<S: Shape, K: Kind> fmt::Display for Tensor<S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

/// A tensor that carries an error, in the shape and kind that the type says: run-time sizes are 0
/// where the error's own shape has none.
fn like_type<S: Shape, K: Kind>(inner: DynTensor) -> DynTensor {
    let ty = inner.ty();
    let found = ty.shape.sizes();
    let size = |(axis, dim): (usize, &DimSpec)| match dim {
        DimSpec::Static(size) => *size,
        DimSpec::Named(_) | DimSpec::Open if found.len() == S::DIMS.len() => found[axis],
        DimSpec::Named(_) | DimSpec::Open => 0,
    };
    let sizes: Vec<usize> = S::DIMS.iter().enumerate().map(size).collect();
    let named =
        S::DIMS.iter().zip(&sizes).map(|(dim, &size)| RecordedDim { size, name: name_of(dim) });
    let shape = RecordedShape::collect(named).unwrap_or(ty.shape);
    let dtype = if K::has(ty.dtype) { ty.dtype } else { K::DEFAULT };
    match inner.error() {
        Some(error) => DynTensor::failed(error, Type { dtype, shape }),
        None => inner,
    }
}

/// A tensor that carries `error`, placed at the user's line.
#[track_caller]
fn poison(like: &DynTensor, error: OpError) -> DynTensor {
    DynTensor::failed(Error::from_op(error, std::panic::Location::caller()), like.ty())
}

/// Within one operation a name has one size.
fn one_size_a_name(op: &str, operands: &[Arg<'_>]) -> Result<(), OpError> {
    for (position, operand) in operands.iter().enumerate() {
        let Arg::Tensor(later) = operand else { continue };
        for earlier in &operands[..position] {
            let Arg::Tensor(earlier) = earlier else { continue };
            let clash =
                later.with_value(|l| earlier.with_value(|e| clash(&e.ty.shape, &l.ty.shape)));
            if let Some((dim, size)) = clash {
                return Err(two_sizes(op, dim, size, operands));
            }
        }
    }
    Ok(())
}

/// A dimension of `later` whose name has another size in `earlier`, and that size.
fn clash(earlier: &RecordedShape, later: &RecordedShape) -> Option<(RecordedDim, usize)> {
    let mut named = later.dims().filter(|d| d.name.is_named());
    named.find_map(|d| {
        let mut before = earlier.dims();
        before.find(|e| e.name == d.name && e.size != d.size).map(|e| (d, e.size))
    })
}

fn two_sizes(op: &str, dim: RecordedDim, before: usize, operands: &[Arg<'_>]) -> OpError {
    let shapes: Vec<_> = operands
        .iter()
        .filter_map(|a| if let Arg::Tensor(t) = a { Some(t.shape().to_string()) } else { None })
        .collect();
    OpError::new(format!(
        "{op}: dimension {} is both {before} and {} in {}",
        dim.name,
        dim.size,
        shapes.join(" and ")
    ))
    .hint("a named dimension has one size in an operation; `?` dimensions may differ")
}

/// Static sizes are what the type says; broadcasting against a `?` may have found otherwise.
fn static_sizes(op: &str, dims: &[DimSpec], shape: &RecordedShape) -> Result<(), OpError> {
    let wrong = dims
        .iter()
        .zip(shape.sizes())
        .any(|(dim, &size)| matches!(dim, DimSpec::Static(s) if *s != size));
    if wrong || dims.len() != shape.rank() {
        return Err(OpError::new(format!(
            "{op}: the result has shape {shape}, its type says {}",
            spell(dims)
        )));
    }
    Ok(())
}

/// The shape of `inner` with the names of `S`, if rank, static sizes and kind agree.
fn conforming_shape<S: Shape, K: Kind>(
    op: &str,
    inner: &DynTensor,
) -> Result<RecordedShape, OpError> {
    let ty = inner.ty();
    if !K::has(ty.dtype) {
        return Err(OpError::new(format!(
            "{op}: a tensor of type {ty} is not of kind {}",
            K::NAME
        ))
        .hint("`.float()`, `.int()` and `.bool()` change the kind"));
    }
    let agree = |(dim, &size): (&DimSpec, &usize)| !matches!(dim, DimSpec::Static(s) if *s != size);
    if S::DIMS.len() != ty.shape.rank() || !S::DIMS.iter().zip(ty.shape.sizes()).all(agree) {
        let (found, wanted) = (ty.shape, spell(S::DIMS));
        let error = format!("{op}: the tensor has shape {found}, but its type says {wanted}");
        return Err(
            OpError::new(error).hint("both need as many axes, and the sizes that the type knows")
        );
    }
    named_shape(op, S::DIMS, ty.shape.sizes())
}

/// A recorded shape of these sizes, named as the type says; one name with two sizes is refused.
pub(crate) fn named_shape(
    op: &str,
    dims: &[DimSpec],
    sizes: &[usize],
) -> Result<RecordedShape, OpError> {
    let named = dims.iter().zip(sizes).map(|(dim, &size)| RecordedDim { size, name: name_of(dim) });
    let shape =
        RecordedShape::collect(named).map_err(|e| OpError::new(format!("{op}: {}", e.message)))?;
    for (axis, dim) in shape.dims().enumerate().filter(|(_, d)| d.name.is_named()) {
        if let Some(other) =
            shape.dims().take(axis).find(|d| d.name == dim.name && d.size != dim.size)
        {
            return Err(OpError::new(format!(
                "{op}: dimension {} is both {} and {} in {shape}",
                dim.name, other.size, dim.size
            )));
        }
    }
    Ok(shape)
}

/// The name that a recorded dimension gets.
fn name_of(dim: &DimSpec) -> DimName {
    match dim {
        DimSpec::Static(_) => DimName::NONE,
        DimSpec::Open => DimName::DYN,
        DimSpec::Named(name) => DimName::new(name).unwrap_or(DimName::DYN),
    }
}

/// A shape type as people write it: `[Batch,784,?]`.
pub(crate) fn spell(dims: &[DimSpec]) -> String {
    let words = dims.iter().map(|dim| match dim {
        DimSpec::Static(size) => size.to_string(),
        DimSpec::Named(name) => (*name).to_string(),
        DimSpec::Open => "?".to_string(),
    });
    format!("[{}]", words.collect::<Vec<_>>().join(","))
}

/// A tensor type: `T![Batch, 784]` is `Tensor<(Batch, N<784>)>`, `T![Batch; Int]` is
/// `Tensor<(Batch,), Int>`.
#[macro_export]
macro_rules! T {
    (@ [$($dims:tt)*]) => { $crate::typed::Tensor<$crate::shape![$($dims)*]> };
    (@ [$($dims:tt)*] ; $kind:ty) => { $crate::typed::Tensor<$crate::shape![$($dims)*], $kind> };
    (@ [$($dims:tt)*] $next:tt $($rest:tt)*) => { $crate::T!(@ [$($dims)* $next] $($rest)*) };
    ($($dims:tt)*) => { $crate::T!(@ [] $($dims)*) };
}
