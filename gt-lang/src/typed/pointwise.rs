//! Element by element: functions (of integers as floats, as in PyTorch), powers, comparisons,
//! logic, selection, and changes of dtype and kind.

use gt_ir::DType;

use super::kind::{Bool, Float, Int, Kind};
use super::operand::Operand;
use super::relation::Broadcast;
use super::shape::Shape;
use super::tensor::Tensor;
use crate::core::Arg;

macro_rules! unary {
    ($kind:ty: $($(#[$doc:meta])+ $name:ident;)+) => { $(
        $(#[$doc])+
        #[must_use]
        #[track_caller]
        pub fn $name(&self) -> Tensor<S, $kind> {
            Tensor::wrap(self.as_dyn().$name())
        }
    )+ };
}
macro_rules! binary {
    ($($(#[$doc:meta])+ $name:ident -> $kind:ty;)+) => { $(
        $(#[$doc])+
        ///
        /// The other operand is a tensor that broadcasts, or a number.
        #[must_use]
        #[track_caller]
        pub fn $name<R: Operand<S, K>>(&self, other: R) -> Tensor<R::Out, $kind> {
            let (l, r) = (self.as_dyn(), other.arg());
            Tensor::joined(stringify!($name), l.$name(r), &[Arg::Tensor(l), r])
        }
    )+ };
}

impl<S: Shape, K: Kind> Tensor<S, K> {
    unary! { Float:
        /// e to the power of each element.
        exp;
        /// The natural logarithm.
        log;
        /// The square root.
        sqrt;
        /// One over the square root.
        rsqrt;
        /// The sine.
        sin;
        /// The cosine.
        cos;
        /// The hyperbolic tangent.
        tanh;
        /// The error function.
        erf;
        /// `1 / (1 + exp(-x))`.
        sigmoid;
        /// The Gaussian error linear unit, exact (`x * Phi(x)`).
        gelu;
        /// The approximation of [`Tensor::gelu`] by `tanh`.
        gelu_tanh;
        /// `x * sigmoid(x)`.
        silu;
        /// `log(1 + exp(x))`, without overflow.
        softplus;
        /// `log(sigmoid(x))`, without overflow.
        log_sigmoid;
        /// `x * tanh(softplus(x))`.
        mish;
        /// `x * clamp(x / 6 + 1/2, 0, 1)`.
        hardswish;
        /// The logarithm to base 2.
        log2;
        /// The logarithm to base 10.
        log10;
        /// `log(1 + x)`, precise for small x too.
        log1p;
        /// 2 to the power of each element.
        exp2;
        /// `exp(x) - 1`, precise for small x too.
        expm1;
        /// The tangent.
        tan;
        /// The arc tangent.
        atan;
        /// One over each element.
        reciprocal;
    }
    unary! { Bool:
        /// Where NaN.
        isnan;
        /// Where infinite.
        isinf;
        /// Where neither infinite nor NaN.
        isfinite;
    }
    unary! { K:
        /// The absolute value.
        abs;
        /// `max(x, 0)`.
        relu;
        /// Each element times itself.
        square;
        /// -1, 0 or 1 by the sign of each element.
        sign;
        /// The largest integer that is no larger.
        floor;
        /// The smallest integer that is no smaller.
        ceil;
        /// Without the fraction.
        trunc;
        /// The nearest integer, halves going to the even one.
        round;
    }
    binary! {
        /// Each element to a power.
        pow -> R::Kind;
        /// The larger of the two; NaN if either is.
        maximum -> R::Kind;
        /// The smaller of the two; NaN if either is.
        minimum -> R::Kind;
        /// What division leaves, with the sign of the divisor, as Python's `%`.
        remainder -> R::Kind;
        /// What division leaves, with the sign of this, as C's `fmod`.
        fmod -> R::Kind;
        /// The angle of the point `(other, self)`.
        atan2 -> Float;
        /// Where the two are equal.
        eq -> Bool;
        /// Where the two differ.
        ne -> Bool;
        /// Where this is less.
        lt -> Bool;
        /// Where this is less or equal.
        le -> Bool;
        /// Where this is greater.
        gt -> Bool;
        /// Where this is greater or equal.
        ge -> Bool;
    }

    /// `x` where it is positive, `slope * x` elsewhere.
    #[must_use]
    #[track_caller]
    pub fn leaky_relu(&self, slope: f64) -> Tensor<S, Float> {
        Tensor::wrap(self.as_dyn().leaky_relu(slope))
    }

    /// `x` where it is positive, `alpha * (exp(x) - 1)` elsewhere.
    #[must_use]
    #[track_caller]
    pub fn elu(&self, alpha: f64) -> Tensor<S, Float> {
        Tensor::wrap(self.as_dyn().elu(alpha))
    }

    /// Each element no smaller than `min` and no larger than `max`.
    #[must_use]
    #[track_caller]
    pub fn clamp(&self, min: f64, max: f64) -> Tensor<S, Float> {
        Tensor::wrap(self.as_dyn().clamp(min, max))
    }

    /// `value` where the mask is true, this tensor elsewhere; the mask broadcasts.
    #[must_use]
    #[track_caller]
    pub fn masked_fill<R: Shape>(&self, mask: &Tensor<R, Bool>, value: f64) -> Self
    where
        S: Broadcast<R, Out = S>,
    {
        let (x, mask) = (self.as_dyn(), mask.as_dyn());
        Tensor::joined(
            "masked_fill",
            x.masked_fill(mask, value),
            &[Arg::Tensor(x), Arg::Tensor(mask)],
        )
    }

    /// The elements as `f32`.
    #[doc(alias = "to")]
    #[must_use]
    #[track_caller]
    pub fn float(&self) -> Tensor<S, Float> {
        Tensor::wrap(self.as_dyn().to_dtype(DType::F32))
    }

    /// The elements as `i64`, floats cut towards zero.
    #[must_use]
    #[track_caller]
    pub fn int(&self) -> Tensor<S, Int> {
        Tensor::wrap(self.as_dyn().to_dtype(DType::I64))
    }

    /// Where the elements are not zero.
    #[must_use]
    #[track_caller]
    pub fn bool(&self) -> Tensor<S, Bool> {
        Tensor::wrap(self.as_dyn().to_dtype(DType::Bool))
    }

    /// The elements as another dtype of this kind, such as `f64` or `bf16`; a dtype of another kind
    /// is refused.
    #[must_use]
    #[track_caller]
    pub fn to_dtype(&self, dtype: DType) -> Self {
        if K::has(dtype) {
            return Tensor::wrap(self.as_dyn().to_dtype(dtype));
        }
        let cure = "`.float()`, `.int()` and `.bool()` change the kind";
        self.refuse("to_dtype", format!("dtype {dtype} is not of kind {}", K::NAME), cure)
    }
}

impl<S: Shape> Tensor<S, Bool> {
    /// Where both are true.
    #[must_use]
    #[track_caller]
    pub fn logical_and<R: Operand<S, Bool>>(&self, other: R) -> Tensor<R::Out, Bool> {
        let (l, r) = (self.as_dyn(), other.arg());
        Tensor::joined("logical_and", l.logical_and(r), &[Arg::Tensor(l), r])
    }

    /// Where either is true.
    #[must_use]
    #[track_caller]
    pub fn logical_or<R: Operand<S, Bool>>(&self, other: R) -> Tensor<R::Out, Bool> {
        let (l, r) = (self.as_dyn(), other.arg());
        Tensor::joined("logical_or", l.logical_or(r), &[Arg::Tensor(l), r])
    }

    /// Where exactly one is true.
    #[must_use]
    #[track_caller]
    pub fn logical_xor<R: Operand<S, Bool>>(&self, other: R) -> Tensor<R::Out, Bool> {
        let (l, r) = (self.as_dyn(), other.arg());
        Tensor::joined("logical_xor", l.logical_xor(r), &[Arg::Tensor(l), r])
    }

    /// The logical opposite.
    #[must_use]
    #[track_caller]
    pub fn logical_not(&self) -> Self {
        Tensor::wrap(self.as_dyn().logical_not())
    }

    /// `a` where this is true, `b` elsewhere; all three broadcast.
    #[must_use]
    #[track_caller]
    pub fn where_<A, B>(&self, a: A, b: B) -> Tensor<B::Out, B::Kind>
    where
        A: Operand<S, Bool>,
        B: Operand<A::Out, A::Kind>,
    {
        let (mask, a, b) = (self.as_dyn(), a.arg(), b.arg());
        Tensor::joined("where", mask.where_(a, b), &[Arg::Tensor(mask), a, b])
    }
}
