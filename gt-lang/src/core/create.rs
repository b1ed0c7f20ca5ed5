//! New tensors: constants, ranges, random numbers. All are recorded in the current session and made
//! by the worker.
//!
//! Every random tensor takes the next seed of its session, which is a literal on the tape. A
//! program that sets the seed with [`manual_seed`](crate::manual_seed) therefore computes the same
//! numbers again, on any engine.

use std::panic::Location;

use gt_ir::{DType, Dim, Op, OpError, Scalar, Shape, Type};

use super::record::record_in;
use super::{DynTensor, Sizes};
use crate::error::Error;
use crate::session::Session;

impl DynTensor {
    /// All zeros.
    #[must_use]
    #[track_caller]
    pub fn zeros(sizes: impl Into<Sizes>, dtype: DType) -> DynTensor {
        make("zeros", &sizes.into(), dtype, Location::caller(), |_, ty| {
            (Op::Full(ty), vec![one_of(dtype, 0)])
        })
    }

    /// All ones.
    #[must_use]
    #[track_caller]
    pub fn ones(sizes: impl Into<Sizes>, dtype: DType) -> DynTensor {
        make("ones", &sizes.into(), dtype, Location::caller(), |_, ty| {
            (Op::Full(ty), vec![one_of(dtype, 1)])
        })
    }

    /// All `value`.
    #[must_use]
    #[track_caller]
    pub fn full(sizes: impl Into<Sizes>, value: impl Into<Scalar>, dtype: DType) -> DynTensor {
        make("full", &sizes.into(), dtype, Location::caller(), |_, ty| {
            (Op::Full(ty), vec![value.into()])
        })
    }

    /// Zeros of this tensor's shape and dtype, in its session.
    #[must_use]
    #[track_caller]
    pub fn zeros_like(&self) -> DynTensor {
        self.full_like(one_of(self.dtype(), 0))
    }

    /// Ones of this tensor's shape and dtype, in its session.
    #[must_use]
    #[track_caller]
    pub fn ones_like(&self) -> DynTensor {
        self.full_like(one_of(self.dtype(), 1))
    }

    /// `value` in this tensor's shape and dtype, in its session.
    #[must_use]
    #[track_caller]
    pub fn full_like(&self, value: impl Into<Scalar>) -> DynTensor {
        self.full_of(self.value().ty, value.into())
    }

    /// One literal everywhere, in this tensor's session.
    #[track_caller]
    pub(crate) fn full_of(&self, ty: Type, value: Scalar) -> DynTensor {
        match self.value().place() {
            Err(error) => DynTensor::failed(error.clone(), ty),
            Ok((session, _)) => record_in(session, &Op::Full(ty), &[value], ty, Location::caller()),
        }
    }

    /// `start`, `start + step`, ... as long as they lie before `stop`.
    ///
    /// ```no_run
    /// # extern crate gt_lang as gt;
    /// # use gt::prelude::*;
    /// let x = DynTensor::arange(0, 1, 0.25, DType::F32);
    /// assert_eq!(x.to_vec::<f32>()?, [0.0, 0.25, 0.5, 0.75]);
    /// # Ok::<(), gt::Error>(())
    /// ```
    ///
    /// A step of 0 is an error, and so is a range of more elements than a tensor may have. A step
    /// in the wrong direction gives no elements, as in NumPy; PyTorch refuses it.
    #[must_use]
    #[track_caller]
    pub fn arange(
        start: impl Into<Scalar>,
        stop: impl Into<Scalar>,
        step: impl Into<Scalar>,
        dtype: DType,
    ) -> DynTensor {
        let (start, stop, step) = (start.into(), stop.into(), step.into());
        let at = Location::caller();
        let ty = count(start, stop, step)
            .and_then(|n| Ok(Type { dtype, shape: Shape::from_dims(&[Dim::new(n)])? }));
        match ty {
            Ok(ty) => with_session(ty, at, |session| {
                record_in(session, &Op::Arange(ty), &[start, step], ty, at)
            }),
            Err(error) => DynTensor::failed(Error::from_op(error, at), empty(dtype)),
        }
    }

    /// Uniform in `[0, 1)`.
    #[must_use]
    #[track_caller]
    pub fn rand(sizes: impl Into<Sizes>, dtype: DType) -> DynTensor {
        make("rand", &sizes.into(), dtype, Location::caller(), |s, ty| {
            (Op::Rand(ty), vec![seed(s)])
        })
    }

    /// Normal with mean 0 and standard deviation 1.
    #[must_use]
    #[track_caller]
    pub fn randn(sizes: impl Into<Sizes>, dtype: DType) -> DynTensor {
        make("randn", &sizes.into(), dtype, Location::caller(), |s, ty| {
            (Op::Randn(ty), vec![seed(s)])
        })
    }

    /// Uniform integers in `[low, high)`.
    #[must_use]
    #[track_caller]
    pub fn randint(low: i64, high: i64, sizes: impl Into<Sizes>, dtype: DType) -> DynTensor {
        let args = |s: &Session| vec![Scalar::I64(low), Scalar::I64(high), seed(s)];
        make("randint", &sizes.into(), dtype, Location::caller(), |s, ty| {
            (Op::Randint(ty), args(s))
        })
    }
}

/// A seed of the session, as the literal that a random op takes.
fn seed(session: &Session) -> Scalar {
    Scalar::I64(session.next_seed())
}

/// A small number as a literal of the kind of `dtype`.
fn one_of(dtype: DType, n: i64) -> Scalar {
    match dtype {
        DType::F32 | DType::F64 | DType::Bf16 | DType::F16 => Scalar::F64(n as f64),
        DType::I64 | DType::I32 | DType::U8 => Scalar::I64(n),
        DType::Bool => Scalar::Bool(n != 0),
    }
}

/// Runs in the current session; without one the tensor says why.
fn with_session(
    like: Type,
    at: &'static Location<'static>,
    make: impl FnOnce(&Session) -> DynTensor,
) -> DynTensor {
    match Session::current() {
        Ok(session) => make(&session),
        Err(error) => DynTensor::failed(error.or_at(at), like),
    }
}

/// Records one op in the current session, if the sizes are a shape. A tensor that cannot be made
/// carries the error and looks as if it had nearly these sizes.
fn make(
    name: &str,
    sizes: &Sizes,
    dtype: DType,
    at: &'static Location<'static>,
    op: impl FnOnce(&Session, Type) -> (Op, Vec<Scalar>),
) -> DynTensor {
    match sizes.resolve(name) {
        Err(error) => {
            DynTensor::failed(Error::from_op(error, at), Type { dtype, shape: sizes.nearly() })
        }
        Ok(shape) => with_session(Type { dtype, shape }, at, |session| {
            let ty = Type { dtype, shape };
            let (op, args) = op(session, ty);
            record_in(session, &op, &args, ty, at)
        }),
    }
}

/// A line without elements: what an `arange` that cannot be pretends to be.
fn empty(dtype: DType) -> Type {
    Type { dtype, shape: Sizes::from([0_usize]).nearly() }
}

/// How many numbers `arange` makes.
fn count(start: Scalar, stop: Scalar, step: Scalar) -> Result<usize, OpError> {
    let what = || format!("arange: from {start} to {stop} in steps of {step}");
    if let (Scalar::I64(a), Scalar::I64(b), Scalar::I64(s)) = (start, stop, step) {
        let (a, b, s) = (i128::from(a), i128::from(b), i128::from(s));
        if s == 0 {
            return Err(OpError::new(format!("{} never ends", what())));
        }
        let n = if (b - a).signum() == s.signum() {
            ((b - a).abs() + s.abs() - 1) / s.abs()
        } else {
            0
        };
        return usize::try_from(n)
            .map_err(|_| OpError::new(format!("{} has too many elements", what())));
    }
    let n = ((stop.as_f64() - start.as_f64()) / step.as_f64()).ceil();
    if n.is_nan() || n > gt_ir::shape::MAX_NUMEL as f64 {
        return Err(OpError::new(format!("{} never ends, or nearly so", what())));
    }
    Ok(n.max(0.0) as usize)
}
