//! Samples of gamma distributions of rate 1, through which gradients flow.
//!
//! A sample is found by refusing proposals, which has no gradient of its own. Its gradient is that
//! of the inverse of the distribution function (implicit reparameterization; Figurnov, Mohamed and
//! Mnih 2018): when the concentration `a` changes, a sample `x` moves so that the probability of
//! less than `x` stays. Divided by the density at `x`, this probability and its derivative are
//! integrals over `u = t / x` of the density at `t`:
//!
//! ```text
//! d log(x) / da = integral of exp(-E(w)) |dw| (c - w), over w = log(u) from minus infinity to 0
//! E(w) = x (exp(w) - 1) - a w
//! c = digamma(a) - log(x)
//! ```
//!
//! The integral over `w` above 0 is the same, with the other sign. The exponents are 0 at `w = 0`,
//! and grow from there below 0 if `x <= a` and above 0 if `x > a`. This side is taken, and its
//! integral is a sum over the nodes of Gauss and Legendre.
//!
//! Guarantees: the relative error of the derivative is below 1e-6, and 1e-10 for concentrations of
//! 0.03 and more. It is computed in `f64` from the logarithm of the sample, which may be too small
//! for a float. It has derivatives of its own.

use gt_ir::DType;

use crate::autograd::custom;
use crate::core::DynTensor;

/// Proposals drawn for each sample of a gamma distribution: that all of them are refused has a
/// probability below `1e-15`.
const PROPOSALS: usize = 12;

/// Where the integral ends: `exp(-38)` is below the precision of `f64`.
const LAST_EXPONENT: f64 = 38.0;

/// The nodes of Gauss and Legendre in the lower half of `0..1`, and their weights. Those of the
/// upper half mirror them.
#[rustfmt::skip]
const NODES: [(f64, f64); 16] = [
    (0.001_368_069_075_259_218_3, 0.003_509_305_004_735_048),
    (0.007_194_244_227_365_833, 0.008_137_197_365_452_835),
    (0.017_618_872_206_246_784, 0.012_696_032_654_631_03),
    (0.032_546_962_031_130_15, 0.017_136_931_456_510_716),
    (0.051_839_422_116_973_94, 0.021_417_949_011_113_34),
    (0.075_316_193_133_715_01, 0.025_499_029_631_188_087),
    (0.102_758_102_016_028_8, 0.029_342_046_739_267_772),
    (0.133_908_940_629_855_17, 0.032_911_111_388_180_925),
    (0.168_477_866_534_892_4, 0.036_172_897_054_424_25),
    (0.206_142_121_379_618_85, 0.039_096_947_893_535_156),
    (0.246_550_045_533_885_3, 0.041_655_962_113_473_374),
    (0.289_324_361_934_682_3, 0.043_826_046_502_201_906),
    (0.334_065_698_858_936_17, 0.045_586_939_347_881_945),
    (0.380_356_318_873_931_45, 0.046_922_199_540_402_28),
    (0.427_764_019_208_601_74, 0.047_819_360_039_637_43),
    (0.475_846_167_156_130_8, 0.048_270_044_257_363_9),
];

/// The logarithms of samples of gamma distributions of rate 1, with gradients. At least `f32`.
#[track_caller]
pub(super) fn log_standard_gamma(concentration: &DynTensor) -> DynTensor {
    custom(
        &[&concentration.widened()],
        |a| drawn(&a[0]),
        |a, y, grad| vec![Some(grad * slope(&a[0], y).to_dtype(grad.dtype()))],
    )
}

/// Samples by Marsaglia and Tsang (2000): of some proposals the first that is taken. Shapes below 1
/// are raised by 1, and the sample is multiplied by a power, which may be too small for a float;
/// its logarithm is not.
#[track_caller]
fn drawn(concentration: &DynTensor) -> DynTensor {
    let small = concentration.lt(1.0);
    let d = small.where_(&(concentration + 1.0), concentration) - 1.0 / 3.0;
    let c = (&d * 9.0).rsqrt();
    let many = [&[PROPOSALS], &d.sizes()[..]].concat();
    let x = d.unsqueeze(0).expand(&many).randn_like();
    let v = (&x * &c + 1.0).pow(3);
    let fits = v.gt(0.0);
    let safe = fits.where_(&v, 1.0);
    let bound = x.square() * 0.5 + &d * (1.0 - &safe + safe.log());
    let taken = fits.logical_and(&x.rand_like().log().lt(&bound));
    let first = taken.to_dtype(DType::U8).argmax(0).unsqueeze(0);
    let sample = safe.gather(0, &first).squeeze(0) * &d;
    // Of numbers above 0, up to 1.
    let power = concentration.rand_like().neg().log1p() / concentration;
    sample.log() + small.where_(&power, 0.0)
}

/// The derivative of the logarithm `y` of a sample by the concentration `a`, in `f64`.
#[track_caller]
fn slope(a: &DynTensor, y: &DynTensor) -> DynTensor {
    let (a, y) = (&a.to_dtype(DType::F64), &y.to_dtype(DType::F64));
    let (x, c) = (&y.exp(), a.digamma() - y);
    let below = &x.le(a).detach();
    let end = end(&a.detach(), &x.detach(), below).unsqueeze(0);
    let along = |numbers: fn(f64, f64) -> f64| nodes(a, numbers);
    // The cubes below 0 are closer together where the function of a small concentration bends.
    let at = below.where_(&along(|u, _| u.powi(3)), &along(|u, _| u)) * &end;
    let weight = below.where_(&along(|u, w| 3.0 * u * u * w), &along(|_, w| w)) * &end;
    let sign = below.where_(&x.detach().full_like(1.0), -1.0);
    let w = at.neg() * &sign;
    let exponent = a * &w - x * w.expm1();
    ((c - w) * exponent.exp() * weight).sum(0) * sign
}

/// How far from 0 the exponents are [`LAST_EXPONENT`] or more.
#[track_caller]
fn end(a: &DynTensor, x: &DynTensor, below: &DynTensor) -> DynTensor {
    // By E(w) >= (a - x) |w| + x w^2 / (2 + |w|) below 0.
    let b = LAST_EXPONENT - (a - x) * 2.0;
    let lower = (&b + (b.square() + a * (8.0 * LAST_EXPONENT)).sqrt()) / (a * 2.0);
    // By E(w) >= (x - a) w + x w^2 / 2 above 0, and of numbers up to that by their largest a w.
    let d = x - a;
    let root = (d.square() + x * (2.0 * LAST_EXPONENT)).sqrt();
    let upper = (d + root).reciprocal() * (2.0 * LAST_EXPONENT);
    let nearer = ((a * &upper + LAST_EXPONENT) / x).log1p();
    below.where_(&lower, &upper.minimum(&nearer))
}

/// A number for each node, along a first axis in front of those of `like`.
#[track_caller]
fn nodes(like: &DynTensor, number: fn(f64, f64) -> f64) -> DynTensor {
    let mirrored = NODES.iter().map(|&(u, w)| (1.0 - u, w));
    let numbers = NODES.iter().copied().chain(mirrored).map(|(u, w)| number(u, w));
    let numbers: Vec<f64> = numbers.collect();
    let sizes = [&[numbers.len()], &vec![1; like.rank()][..]].concat();
    like.on_own(|| DynTensor::from_vec(numbers, sizes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autograd::{Graph, grad, grad_with};
    use crate::reference::Reference;

    /// Concentrations, logarithms of samples, and the derivatives: integrals with 30 digits, by
    /// mpmath.
    const KNOWN: [(f64, f64, f64); 8] = [
        (0.001, -900.0, 899_424.428_068_189_7),
        (0.01, -3.0, 261.303_631_954_437_9),
        (0.5, -1.203_972_804_325_936_1, 3.366_006_486_496_182_3),
        (2.0, 1.098_612_288_668_109_8, 0.440_599_506_059_320_95),
        (7.0, 1.609_437_912_434_100_3, 0.172_268_218_534_728_35),
        (1000.0, 6.897_704_943_128_636, 0.001_005_201_107_040_290_5),
        (1e6, 13.817_508_560_626_948, 9.990_014_978_367_442e-7),
        (1e6, 13.814_510_057_630_69, 1.000_500_500_333_600_6e-6),
    ];

    #[test]
    fn derivatives_are_the_known_ones() {
        let (session, _system) = Reference::session();
        let _entered = session.enter();
        let a = DynTensor::from_vec(KNOWN.map(|(a, _, _)| a).to_vec(), [8]);
        let y = DynTensor::from_vec(KNOWN.map(|(_, y, _)| y).to_vec(), [8]);
        let found: Vec<f64> = slope(&a, &y).to_vec().unwrap();
        for (found, (a, y, known)) in found.iter().zip(KNOWN) {
            assert!((found / known - 1.0).abs() < 1e-9, "{a}, {y}: {found} is not {known}");
        }
    }

    /// The second derivative of the logarithm of a sample of concentration 2 that is 3, by mpmath.
    #[test]
    fn derivatives_have_derivatives() {
        let (session, _system) = Reference::session();
        let _entered = session.enter();
        let a = DynTensor::from(2.0).requires_grad();
        let back = |a: &[DynTensor], y: &DynTensor, g: &DynTensor| vec![Some(g * slope(&a[0], y))];
        let y = custom(&[&a], |_| DynTensor::from(3.0_f64.ln()), back);
        let first = grad_with(&y, None, &[&a], Graph::Create).unwrap().remove(0);
        let second = grad(&first, &[&a]).unwrap().remove(0).item().unwrap();
        assert!((second + 0.224_415_873_535_861_64).abs() < 1e-9, "{second}");
    }
}
