//! Element by element: arithmetic, functions, comparisons, logic, selection, casts.

use gt_ir::{DType, Op, OpError, Scalar};

use super::{Arg, DynTensor};

macro_rules! unary {
    ($($(#[$doc:meta])+ $name:ident => $op:ident;)+) => {
        impl DynTensor {$(
            $(#[$doc])+
            #[must_use]
            #[track_caller]
            pub fn $name(&self) -> DynTensor {
                DynTensor::record(Op::$op, &[Arg::Tensor(self)])
            }
        )+}
    };
}

macro_rules! binary {
    ($($(#[$doc:meta])+ $name:ident => $op:ident;)+) => {
        impl DynTensor {$(
            $(#[$doc])+
            ///
            /// The other operand is a tensor or a number; shapes broadcast and dtypes promote as in
            /// PyTorch.
            #[must_use]
            #[track_caller]
            pub fn $name<'a>(&'a self, other: impl Into<Arg<'a>>) -> DynTensor {
                DynTensor::record(Op::$op, &[Arg::Tensor(self), other.into()])
            }
        )+}
    };
}

unary! {
    /// The negative of each element.
    neg => Neg;
    /// e to the power of each element.
    exp => Exp;
    /// The natural logarithm.
    log => Log;
    /// The square root.
    sqrt => Sqrt;
    /// One over the square root.
    rsqrt => Rsqrt;
    /// The absolute value.
    abs => Abs;
    /// The sine.
    sin => Sin;
    /// The cosine.
    cos => Cos;
    /// The hyperbolic tangent.
    tanh => Tanh;
    /// The error function.
    erf => Erf;
    /// `1 / (1 + exp(-x))`.
    sigmoid => Sigmoid;
    /// `max(x, 0)`.
    relu => Relu;
    /// The Gaussian error linear unit, exact (`x * Phi(x)`).
    gelu => Gelu;
    /// The approximation of [`DynTensor::gelu`] by `tanh`.
    gelu_tanh => GeluTanh;
    /// `x * sigmoid(x)`, also known as swish.
    silu => Silu;
    /// `log(1 + exp(x))`, without overflow.
    softplus => Softplus;
    /// The largest integer that is no larger.
    floor => Floor;
    /// The smallest integer that is no smaller.
    ceil => Ceil;
    /// Without the fraction.
    trunc => Trunc;
    /// The nearest integer, halves going to the even one.
    round => Round;
    /// `log(1 + x)`, precise for small x too.
    log1p => Log1p;
    /// `exp(x) - 1`, precise for small x too.
    expm1 => Expm1;
    /// The arc tangent.
    atan => Atan;
    /// The logarithm to base 2.
    log2 => Log2;
    /// The logarithm to base 10.
    log10 => Log10;
    /// 2 to the power of each element.
    exp2 => Exp2;
    /// The logical opposite, a `bool` tensor.
    logical_not => LogicalNot;
    /// The bits that are 0, of integers; the logical opposite of `bool`. Also written `!x`.
    bitwise_not => BitwiseNot;
}

binary! {
    /// The sum.
    add => Add;
    /// The difference.
    sub => Sub;
    /// The product, element by element.
    mul => Mul;
    /// The quotient; integers are divided as floats, as in PyTorch.
    div => Div;
    /// `self` to the power of `exponent`.
    pow => Pow;
    /// The larger of the two; NaN if either is.
    maximum => Maximum;
    /// The smaller of the two; NaN if either is.
    minimum => Minimum;
    /// `x` where it is positive, `x` times a slope (PyTorch's default is 0.01) elsewhere; a slope
    /// that is a tensor makes it PReLU.
    leaky_relu => LeakyRelu;
    /// `x` where it is positive, `alpha * (exp(x) - 1)` (PyTorch's default is 1.0) elsewhere.
    elu => Elu;
    /// The angle of the point `(other, self)`, from -pi to pi.
    atan2 => Atan2;
    /// Where equal, a `bool` tensor.
    eq => Eq;
    /// Where not equal, a `bool` tensor.
    ne => Ne;
    /// Where less, a `bool` tensor.
    lt => Lt;
    /// Where less or equal, a `bool` tensor.
    le => Le;
    /// Where greater, a `bool` tensor.
    gt => Gt;
    /// Where greater or equal, a `bool` tensor.
    ge => Ge;
    /// Logical and, a `bool` tensor.
    logical_and => LogicalAnd;
    /// Logical or, a `bool` tensor.
    logical_or => LogicalOr;
    /// Logical exclusive or, a `bool` tensor.
    logical_xor => LogicalXor;
    /// The bits that are 1 in both, of integers; logical and of `bool`. Also written `x & y`.
    bitwise_and => BitwiseAnd;
    /// The bits that are 1 in either, of integers; logical or of `bool`. Also written `x | y`.
    bitwise_or => BitwiseOr;
    /// The bits that are 1 in one of the two, of integers; logical exclusive or of `bool`. Also
    /// written `x ^ y`.
    bitwise_xor => BitwiseXor;
    /// The bits of integers moved up by so many places; 0 if a count is negative or not below the
    /// number of bits. Also written `x << y`.
    bitwise_left_shift => LeftShift;
    /// The bits of integers moved down by so many places, `floor(x / 2^y)`; 0 or -1, by the sign,
    /// if a count is negative or not below the number of bits. Also written `x >> y`.
    bitwise_right_shift => RightShift;
}

impl DynTensor {
    /// What division by the other leaves, with the sign of the other, as Python's `%`. Integers are
    /// not divided by the number 0; a tensor's zeros leave them as they are.
    #[must_use]
    #[track_caller]
    pub fn remainder<'a>(&'a self, other: impl Into<Arg<'a>>) -> DynTensor {
        self.divided(Op::Remainder, other.into())
    }

    /// What division by the other leaves, with the sign of this, as C's `fmod`. Divisors of 0 as in
    /// [`DynTensor::remainder`].
    #[must_use]
    #[track_caller]
    pub fn fmod<'a>(&'a self, other: impl Into<Arg<'a>>) -> DynTensor {
        self.divided(Op::Fmod, other.into())
    }

    #[track_caller]
    fn divided(&self, op: Op, by: Arg<'_>) -> DynTensor {
        match by {
            Arg::Scalar(Scalar::I64(0) | Scalar::Bool(false)) if !self.dtype().is_float() => self
                .record_with(|ty| {
                    let error = OpError::new(format!("{}: {ty} cannot be divided by 0", op.name()));
                    Err(error.hint("cast to a float first: its remainder by 0 is NaN"))
                }),
            by => DynTensor::record(op, &[Arg::Tensor(self), by]),
        }
    }

    /// `a` where this (a `bool` tensor) is true, `b` elsewhere; all three broadcast. PyTorch's
    /// `torch.where(self, a, b)`.
    #[doc(alias = "where")]
    #[must_use]
    #[track_caller]
    pub fn where_<'a>(&'a self, a: impl Into<Arg<'a>>, b: impl Into<Arg<'a>>) -> DynTensor {
        DynTensor::record(Op::Where, &[Arg::Tensor(self), a.into(), b.into()])
    }

    /// `value` where `mask` (a `bool` tensor) is true, this tensor elsewhere. The dtype stays:
    /// among `bool` every number but 0 is true.
    #[must_use]
    #[track_caller]
    pub fn masked_fill(&self, mask: &DynTensor, value: impl Into<Scalar>) -> DynTensor {
        match value.into() {
            value if self.dtype() == DType::Bool => mask.where_(value.as_f64() != 0.0, self),
            Scalar::F64(value) if self.dtype().is_int() => self.record_with(|ty| {
                let error =
                    OpError::new(format!("masked_fill: {value} is a float, but the tensor {ty}"));
                Err(error.hint("cast the tensor, or give an integer"))
            }),
            value => mask.where_(value, self),
        }
    }

    /// The same elements as another dtype. Floats are cut towards zero, `bool` is "not zero".
    #[doc(alias("to", "float", "double", "half", "long", "int", "type"))]
    #[must_use]
    #[track_caller]
    pub fn to_dtype(&self, dtype: DType) -> DynTensor {
        if self.dtype() == dtype && self.error().is_none() {
            return self.clone();
        }
        DynTensor::record(Op::Cast(dtype), &[Arg::Tensor(self)])
    }

    /// Another name of [`DynTensor::to_dtype`].
    #[must_use]
    #[track_caller]
    pub fn cast(&self, dtype: DType) -> DynTensor {
        self.to_dtype(dtype)
    }

    /// Each element times itself; `bool` becomes `i64`.
    #[must_use]
    #[track_caller]
    pub fn square(&self) -> DynTensor {
        match self.dtype() == DType::Bool {
            true => self.to_dtype(DType::I64),
            false => self.mul(self),
        }
    }

    /// -1, 0 or 1 by the sign of each element; 0 for NaN. `bool` stays as it is.
    #[must_use]
    #[track_caller]
    pub fn sign(&self) -> DynTensor {
        match self.dtype() == DType::Bool {
            true => self.clone(),
            false => DynTensor::record(Op::Sign, &[Arg::Tensor(self)]),
        }
    }

    /// Each element no smaller than `min` and no larger than `max`. An element on a bound keeps its
    /// gradient, as in PyTorch.
    #[doc(alias = "clip")]
    #[must_use]
    #[track_caller]
    pub fn clamp<'a>(&'a self, min: impl Into<Arg<'a>>, max: impl Into<Arg<'a>>) -> DynTensor {
        DynTensor::record(Op::Clamp, &[Arg::Tensor(self), min.into(), max.into()])
    }

    /// Each element no smaller than `min`; an element on the bound keeps its gradient.
    #[must_use]
    #[track_caller]
    pub fn clamp_min<'a>(&'a self, min: impl Into<Arg<'a>>) -> DynTensor {
        match self.dtype().is_float() {
            true => self.clamp(min, f64::INFINITY),
            false => self.maximum(min),
        }
    }

    /// Each element no larger than `max`; an element on the bound keeps its gradient.
    #[must_use]
    #[track_caller]
    pub fn clamp_max<'a>(&'a self, max: impl Into<Arg<'a>>) -> DynTensor {
        match self.dtype().is_float() {
            true => self.clamp(f64::NEG_INFINITY, max),
            false => self.minimum(max),
        }
    }

    /// One over each element.
    #[must_use]
    #[track_caller]
    pub fn reciprocal(&self) -> DynTensor {
        DynTensor::record(Op::Div, &[Arg::from(1.0), Arg::Tensor(self)])
    }

    /// The tangent.
    #[must_use]
    #[track_caller]
    pub fn tan(&self) -> DynTensor {
        self.sin().div(&self.cos())
    }

    /// `log(sigmoid(x))`, without overflow.
    #[must_use]
    #[track_caller]
    pub fn log_sigmoid(&self) -> DynTensor {
        self.neg().softplus().neg()
    }

    /// `x` between -1 and 1, the nearer of them elsewhere; the gradient on a bound is 0, unlike
    /// that of [`DynTensor::clamp`].
    #[must_use]
    #[track_caller]
    pub fn hardtanh(&self) -> DynTensor {
        self.flat_outside(self, [-1, 1], [-1, 1])
    }

    /// [`DynTensor::hardtanh`] with other bounds.
    #[must_use]
    #[track_caller]
    pub fn hardtanh_with(&self, min: impl Into<Scalar>, max: impl Into<Scalar>) -> DynTensor {
        let bounds = [min.into(), max.into()];
        self.flat_outside(self, bounds, bounds)
    }

    /// `x` between 0 and 6, the nearer of them elsewhere; the gradient on a bound is 0.
    #[must_use]
    #[track_caller]
    pub fn relu6(&self) -> DynTensor {
        self.flat_outside(self, [0, 6], [0, 6])
    }

    /// `clamp(x / 6 + 1/2, 0, 1)`; the gradient on a bound is 0.
    #[must_use]
    #[track_caller]
    pub fn hardsigmoid(&self) -> DynTensor {
        self.flat_outside(&self.div(6.0).add(0.5), [-3, 3], [0, 1])
    }

    /// `inside` where this tensor lies between two bounds; elsewhere the same between two ends,
    /// without a gradient.
    #[track_caller]
    fn flat_outside<S: Into<Scalar>>(
        &self,
        inside: &DynTensor,
        bounds: [S; 2],
        ends: [S; 2],
    ) -> DynTensor {
        let ([low, high], [least, most]) = (bounds.map(Into::into), ends.map(Into::into));
        let is_inside = self.gt(low).logical_and(&self.lt(high));
        is_inside.where_(inside, &inside.detach().clamp(least, most))
    }

    /// `x * hardsigmoid(x)` (Howard et al. 2019).
    #[must_use]
    #[track_caller]
    pub fn hardswish(&self) -> DynTensor {
        self.mul(&self.hardsigmoid())
    }

    /// `x * tanh(softplus(x))` (Misra 2019).
    #[must_use]
    #[track_caller]
    pub fn mish(&self) -> DynTensor {
        self.mul(&self.softplus().tanh())
    }

    /// Where NaN, a `bool` tensor.
    #[must_use]
    #[track_caller]
    pub fn isnan(&self) -> DynTensor {
        self.ne(self)
    }

    /// Where infinite, a `bool` tensor.
    #[must_use]
    #[track_caller]
    pub fn isinf(&self) -> DynTensor {
        match self.dtype().is_float() {
            true => self.abs().eq(f64::INFINITY),
            false => self.ne(self),
        }
    }

    /// Where neither infinite nor NaN, a `bool` tensor.
    #[must_use]
    #[track_caller]
    pub fn isfinite(&self) -> DynTensor {
        match self.dtype().is_float() {
            true => self.abs().lt(f64::INFINITY),
            false => self.eq(self),
        }
    }

    /// Integers and `bool` as the default float, for what divides them up.
    #[track_caller]
    pub(crate) fn real(&self) -> DynTensor {
        self.to_dtype(self.dtype().or_default_float())
    }

    /// What was computed of [`DynTensor::widened`] operands of these dtypes, rounded if they are
    /// one half; else it has the dtype they promote to.
    #[track_caller]
    pub(crate) fn narrowed(&self, dtypes: [DType; 2]) -> DynTensor {
        match dtypes {
            [a, b] if a == b && matches!(a, DType::Bf16 | DType::F16) => self.to_dtype(a),
            _ => self.clone(),
        }
    }

    /// Halves in `f32`, for what takes several steps and is to be rounded once.
    #[track_caller]
    pub(crate) fn widened(&self) -> DynTensor {
        match self.dtype() {
            DType::Bf16 | DType::F16 => self.to_dtype(DType::F32),
            DType::F32 | DType::F64 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
                self.clone()
            }
        }
    }
}
