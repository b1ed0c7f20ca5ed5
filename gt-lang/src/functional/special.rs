//! Functions of single elements that are made of the op table's: inverse and hyperbolic functions,
//! those of probability, and sums that neither overflow nor lose digits.
//!
//! Guarantees: values as PyTorch's, infinities and NaN included; integers become the default float;
//! halves are computed in `f32` and rounded once. Gradients follow from the parts, or are written
//! beside the function where the parts would lose digits.

use std::f64::consts::LN_2;

use gt_ir::{DType, OperandType, promote};

use crate::autograd::custom;
use crate::core::{Arg, DynTensor};

/// The coefficients of Lanczos' approximation of the gamma function, for `g = 7`.
const LANCZOS: [f64; 9] = [
    0.999_999_999_999_809_9,
    676.520_368_121_885_1,
    -1_259.139_216_722_402_8,
    771.323_428_777_653_1,
    -176.615_029_162_140_6,
    12.507_343_278_686_905,
    -0.138_571_095_265_720_12,
    9.984_369_578_019_572e-6,
    1.505_632_735_149_311_6e-7,
];

/// The coefficients of the asymptotic series of the digamma function, by powers of `1 / x^2`.
const DIGAMMA: [f64; 7] = [
    1.0 / 12.0,
    -1.0 / 120.0,
    1.0 / 252.0,
    -1.0 / 240.0,
    1.0 / 132.0,
    -691.0 / 32760.0,
    1.0 / 12.0,
];

/// `c[0] + c[1] x + c[2] x^2 + ..`
#[track_caller]
fn polynomial(x: &DynTensor, coefficients: &[f64]) -> DynTensor {
    let zero = x.zeros_like();
    coefficients.iter().rev().fold(zero, |sum, &c| sum * x + c)
}

/// A derivative, at an operand and the function's value there.
type Slope = fn(&DynTensor, &DynTensor) -> DynTensor;

/// `1 - x^2`, precise near 1.
#[track_caller]
fn off_axis(x: &DynTensor) -> DynTensor {
    (1.0 - x) * (1.0 + x)
}

impl DynTensor {
    /// A function of one operand, computed in a float at least as wide as `f32`.
    #[track_caller]
    fn in_floats(&self, f: impl FnOnce(&DynTensor) -> DynTensor) -> DynTensor {
        let x = self.real();
        f(&x.widened()).to_dtype(x.dtype())
    }

    /// A function of two operands, computed in a float at least as wide as `f32`.
    #[track_caller]
    fn in_floats_with(
        &self,
        other: Arg<'_>,
        f: impl FnOnce(&DynTensor, &DynTensor) -> DynTensor,
    ) -> DynTensor {
        let other_type = match other {
            Arg::Tensor(other) => OperandType::Tensor(other.ty()),
            Arg::Scalar(scalar) => OperandType::Scalar(scalar),
        };
        let types = [OperandType::Tensor(self.ty()), other_type];
        let dtype = promote(&types).or_default_float();
        let wide = if dtype == DType::F64 { dtype } else { DType::F32 };
        let x = self.to_dtype(wide);
        let y = match other {
            Arg::Tensor(other) => other.to_dtype(wide),
            Arg::Scalar(scalar) => x.detach().full_like(scalar),
        };
        f(&x, &y).to_dtype(dtype)
    }

    /// A function of one operand, whose derivative at an operand and a value is written down.
    #[track_caller]
    fn sloped(&self, value: fn(&DynTensor) -> DynTensor, slope: Slope) -> DynTensor {
        let back = move |x: &[DynTensor], y: &DynTensor, grad: &DynTensor| {
            x.iter().map(|x| Some(grad * slope(x, y))).collect()
        };
        custom(&[self], move |x| value(&x[0]), back)
    }

    /// A function of one operand, computed in `f64`.
    #[track_caller]
    fn in_doubles(&self, f: impl FnOnce(&DynTensor) -> DynTensor) -> DynTensor {
        let x = self.real();
        f(&x.to_dtype(DType::F64)).to_dtype(x.dtype())
    }

    /// The arc sine, NaN outside `-1..=1`.
    #[must_use]
    #[track_caller]
    #[doc(alias = "arcsin")]
    pub fn asin(&self) -> DynTensor {
        self.in_floats(|x| x.sloped(|x| x.atan2(&off_axis(x).sqrt()), |x, _| off_axis(x).rsqrt()))
    }

    /// The arc cosine, NaN outside `-1..=1`.
    #[must_use]
    #[track_caller]
    #[doc(alias = "arccos")]
    pub fn acos(&self) -> DynTensor {
        let slope = |x: &DynTensor, _: &DynTensor| off_axis(x).rsqrt().neg();
        self.in_floats(|x| x.sloped(|x| off_axis(x).sqrt().atan2(x), slope))
    }

    /// The hyperbolic sine.
    #[must_use]
    #[track_caller]
    pub fn sinh(&self) -> DynTensor {
        self.in_floats(|x| x.sloped(sinh_of, |x, _| cosh_of(x)))
    }

    /// The hyperbolic cosine.
    #[must_use]
    #[track_caller]
    pub fn cosh(&self) -> DynTensor {
        self.in_floats(|x| x.sloped(cosh_of, |x, _| sinh_of(x)))
    }

    /// The inverse of [`DynTensor::sinh`].
    #[must_use]
    #[track_caller]
    #[doc(alias = "arcsinh")]
    pub fn asinh(&self) -> DynTensor {
        let value = |x: &DynTensor| {
            let (a, large) = (x.abs(), x.abs().gt(LARGE));
            let low = large.where_(1.0, &a);
            let near = (&low + low.square() / ((low.square() + 1.0).sqrt() + 1.0)).log1p();
            x.sign() * large.where_(&(a.log() + LN_2), &near)
        };
        self.in_floats(|x| x.sloped(value, |x, _| x.hypot(1.0).reciprocal()))
    }

    /// The inverse of [`DynTensor::cosh`], NaN below 1.
    #[must_use]
    #[track_caller]
    #[doc(alias = "arccosh")]
    pub fn acosh(&self) -> DynTensor {
        self.in_floats(|x| {
            let large = x.detach().gt(LARGE);
            let above = large.where_(1.0, x) - 1.0;
            let near = (&above + above.sqrt() * (&above + 2.0).sqrt()).log1p();
            large.where_(&(large.where_(x, 1.0).log() + LN_2), &near)
        })
    }

    /// The inverse of [`DynTensor::tanh`], NaN outside `-1..=1`.
    #[must_use]
    #[track_caller]
    #[doc(alias = "arctanh")]
    pub fn atanh(&self) -> DynTensor {
        self.in_floats(|x| (x.log1p() - x.neg().log1p()) * 0.5)
    }

    /// `1 - erf(x)`, precise for large `x` too.
    #[must_use]
    #[track_caller]
    pub fn erfc(&self) -> DynTensor {
        // For large arguments by the continued fraction of the scaled function, from its end.
        self.in_doubles(|x| {
            let large = x.gt(2.0);
            let z = large.where_(x, 2.0);
            let fraction = (1..=60).rev().fold(z.clone(), |tail, k| &z + f64::from(k) * 0.5 / tail);
            let tail = (z.square().neg()).exp() / (fraction * std::f64::consts::PI.sqrt());
            large.where_(&tail, &(1.0 - x.erf()))
        })
    }

    /// The inverse of [`DynTensor::erf`]: infinite at -1 and 1, NaN outside.
    #[must_use]
    #[track_caller]
    pub fn erfinv(&self) -> DynTensor {
        let slope =
            |_: &DynTensor, y: &DynTensor| y.square().exp() * (std::f64::consts::PI.sqrt() / 2.0);
        self.in_floats(|x| x.sloped(erfinv_of, slope))
    }

    /// The logarithm of the absolute value of the gamma function.
    #[must_use]
    #[track_caller]
    pub fn lgamma(&self) -> DynTensor {
        self.in_doubles(|x| x.sloped(lgamma_of, |x, _| x.digamma()))
    }

    /// The derivative of [`DynTensor::lgamma`]: -infinity at 0, NaN at negative integers.
    #[must_use]
    #[track_caller]
    pub fn digamma(&self) -> DynTensor {
        self.in_doubles(|x| {
            let mirrored = x.lt(0.5);
            let z = mirrored.where_(&(1.0 - x), x);
            let shifted = &z + 8.0;
            let inverse = shifted.square().reciprocal();
            let series = polynomial(&inverse, &DIGAMMA) * &inverse;
            let steps = (0..8).fold(z.zeros_like(), |sum, k| sum + (&z + k).reciprocal());
            let direct = shifted.log() - shifted.reciprocal() * 0.5 - series - steps;
            let away = mirrored.where_(&(x - x.detach().round()), 0.25);
            let angle = away * std::f64::consts::PI;
            let reflected = &direct - angle.cos() / angle.sin() * std::f64::consts::PI;
            let value = mirrored.where_(&reflected, &direct);
            let at = x.detach();
            let pole = at.eq(&at.round()).logical_and(&at.le(0.0));
            let poles = at.eq(0.0).where_(&at.full_like(f64::NEG_INFINITY), f64::NAN);
            pole.where_(&poles, &value)
        })
    }

    /// `log(p / (1 - p))`, the inverse of [`DynTensor::sigmoid`].
    #[must_use]
    #[track_caller]
    pub fn logit(&self) -> DynTensor {
        let slope =
            |x: &DynTensor, y: &DynTensor| y.isnan().where_(y, &(x * (1.0 - x)).reciprocal());
        self.in_floats(|x| x.sloped(|x| x.log() - x.neg().log1p(), slope))
    }

    /// What is behind the point, with the sign of the element.
    #[must_use]
    #[track_caller]
    pub fn frac(&self) -> DynTensor {
        self - self.trunc()
    }

    /// `log(exp(x) + exp(y))`, without overflow.
    #[must_use]
    #[track_caller]
    pub fn logaddexp<'a>(&'a self, other: impl Into<Arg<'a>>) -> DynTensor {
        self.in_floats_with(other.into(), |x, y| {
            // Equal infinities are 0 apart.
            let apart = x.eq(y).where_(0.0, &(x - y)).abs();
            x.maximum(y) + apart.neg().exp().log1p()
        })
    }

    /// The length of the vector `(x, y)`, without overflow.
    #[must_use]
    #[track_caller]
    pub fn hypot<'a>(&'a self, other: impl Into<Arg<'a>>) -> DynTensor {
        self.in_floats_with(other.into(), |x, y| {
            let scale = x.detach().abs().maximum(&y.detach().abs());
            let plain = scale.eq(0.0).logical_or(&scale.isinf());
            let scale = plain.where_(1.0, &scale);
            let (a, b) = (x / &scale, y / &scale);
            scale * (a.square() + b.square()).sqrt()
        })
    }

    /// `x * log(y)`, 0 where `x` is 0 and `y` is a number. The gradient with respect to `x` is
    /// `log(y)` there too, if `y` is positive.
    #[must_use]
    #[track_caller]
    pub fn xlogy(&self, other: &DynTensor) -> DynTensor {
        self.in_floats_with(Arg::Tensor(other), |x, y| {
            let Some(shape) = x.shape().broadcast(&y.shape()) else { return x * y };
            let (x, y) = (x.expand(shape.sizes()), y.expand(shape.sizes()));
            custom(
                &[&x, &y],
                |x| xlogy_of(&x[0], &x[1]),
                |x, _, grad| {
                    let (x, y) = (&x[0], &x[1]);
                    let nothing = x.eq(0.0).logical_and(&y.le(0.0));
                    let over = nothing.where_(0.0, &(x / nothing.where_(1.0, y)));
                    vec![Some(nothing.where_(0.0, &xlogy_of(grad, y))), Some(grad * over)]
                },
            )
        })
    }

    /// Whether elements are as close as `|x - y| <= atol + rtol * |y|`: `bool`. Equal infinities
    /// are, and NaN is close to nothing.
    #[must_use]
    #[track_caller]
    pub fn isclose(&self, other: &DynTensor, rtol: f64, atol: f64) -> DynTensor {
        let is_float = self.dtype().is_float() || other.dtype().is_float();
        // Differences of small integers and truth values would not fit.
        let whole = |x: &DynTensor| if is_float { x.clone() } else { x.to_dtype(DType::I64) };
        let wide = |x: DynTensor| if is_float { x } else { x.to_dtype(DType::F64) };
        let (x, y) = (whole(self), whole(other));
        let apart = wide(&x - &y);
        let near = apart.abs().le(&(wide(y.clone()).abs() * rtol + atol));
        x.eq(&y).logical_or(&near.logical_and(&apart.isfinite()))
    }

    /// Whether all elements are close, as [`DynTensor::isclose`] says: one `bool`.
    #[must_use]
    #[track_caller]
    pub fn allclose(&self, other: &DynTensor, rtol: f64, atol: f64) -> DynTensor {
        self.isclose(other, rtol, atol).all(..)
    }
}

/// Above this, `x^2 + 1` and `x^2 - 1` are `x^2` in every float.
const LARGE: f64 = 1e10;

/// `2 sinh(x/2) cosh(x/2)`, which overflows only where the value does.
#[track_caller]
fn sinh_of(x: &DynTensor) -> DynTensor {
    let half = x * 0.5;
    (half.expm1() - half.neg().expm1()) * ((half.exp() + half.neg().exp()) * 0.5)
}

/// `1 + 2 sinh(x/2)^2`, likewise.
#[track_caller]
fn cosh_of(x: &DynTensor) -> DynTensor {
    let half = x * 0.5;
    let twice = half.expm1() - half.neg().expm1();
    &twice * (&twice * 0.5) + 1.0
}

/// `x * log(y)`, 0 where `x` is 0 and `y` is a number.
#[track_caller]
fn xlogy_of(x: &DynTensor, y: &DynTensor) -> DynTensor {
    let zero = x.eq(0.0).logical_and(&y.isnan().logical_not());
    zero.where_(0.0, &(x * zero.where_(1.0, y).log()))
}

/// A rational approximation, and two steps of Newton's method.
#[track_caller]
fn erfinv_of(y: &DynTensor) -> DynTensor {
    let z = y.square();
    let near = y * polynomial(&z, &[0.886226899, -1.645349621, 0.914624893, -0.140543331])
        / polynomial(&z, &[1.0, -2.118377725, 1.442710462, -0.329097515, 0.012229801]);
    let z = ((1.0 - y.abs()) * 0.5).log().neg().sqrt();
    let far = y.sign() * polynomial(&z, &[-1.970840454, -1.624906493, 3.429567803, 1.641345311])
        / polynomial(&z, &[1.0, 3.543889200, 1.637067800]);
    let mut x = y.abs().le(0.7).where_(&near, &far);
    for _ in 0..2 {
        let slope = x.square().neg().exp() * (2.0 / std::f64::consts::PI.sqrt());
        x = &x - (x.erf() - y) / slope;
    }
    y.abs().eq(1.0).where_(&(y * f64::INFINITY), &x)
}

/// Lanczos' approximation, and Euler's reflection below a half.
#[track_caller]
fn lgamma_of(x: &DynTensor) -> DynTensor {
    let mirrored = x.lt(0.5);
    let z = mirrored.where_(&(1.0 - x), x) - 1.0;
    let series = LANCZOS[1..].iter().zip(1..);
    let first = z.full_like(LANCZOS[0]);
    let series = series.fold(first, |sum, (&c, i)| sum + c / (&z + f64::from(i)));
    let t = &z + 7.5;
    let half_log_tau = (2.0 * std::f64::consts::PI).ln() / 2.0;
    let direct = (&z + 0.5) * t.log() - &t + series.log() + half_log_tau;
    // Elsewhere than below a half at a point without trouble.
    let away = mirrored.where_(&(x - x.round()), 0.25);
    let sine = (away * std::f64::consts::PI).sin().abs();
    let reflected = std::f64::consts::PI.ln() - sine.log() - &direct;
    let value = mirrored.where_(&reflected, &direct);
    x.isinf().where_(f64::INFINITY, &value)
}
