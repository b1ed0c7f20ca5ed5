//! The exponential of a matrix: scaling and squaring with a Padé approximant of degree 13 (Higham
//! 2005).

use faer::{Mat, Scale, prelude::Solve as _};

/// Coefficients of the approximant.
const PADE: [f64; 14] = [
    64_764_752_532_480_000.0,
    32_382_376_266_240_000.0,
    7_771_770_303_897_600.0,
    1_187_353_796_428_800.0,
    129_060_195_264_000.0,
    10_559_470_521_600.0,
    670_442_572_800.0,
    33_522_128_640.0,
    1_323_241_920.0,
    40_840_800.0,
    960_960.0,
    16_380.0,
    182.0,
    1.0,
];
/// The largest norm for which the approximant is exact in `f64`.
const NORM: f64 = 5.371_920_351_148_152;

pub(super) fn matrix_exp(n: usize, a: &[f64], out: &mut [f64]) {
    let column = |j: usize| a.iter().skip(j).step_by(n).map(|x| x.abs()).sum::<f64>();
    let largest = (0..n).map(column).fold(0.0, |m: f64, x| if m > x { m } else { x });
    if !largest.is_finite() {
        return out.fill(f64::NAN);
    }
    let squarings = libm::log2(largest / NORM).ceil().max(0.0) as i32;
    let scaled = |i: usize, j: usize| libm::ldexp(a[i * n + j], -squarings);
    let mut power = approximant(&Mat::from_fn(n, n, scaled));
    for _ in 0..squarings {
        power = &power * &power;
    }
    out.iter_mut().enumerate().for_each(|(at, x)| *x = power[(at / n, at % n)]);
}

/// The solution X of `(v - u) X = v + u`, where u has the odd powers and v the even ones.
fn approximant(a: &Mat<f64>) -> Mat<f64> {
    let a2 = a * a;
    let a4 = &a2 * &a2;
    let a6 = &a4 * &a2;
    let one = Mat::<f64>::identity(a.nrows(), a.nrows());
    let weighted = |first: usize| {
        let [x, y, z] = [0, 2, 4].map(|i| Scale(PADE[first + i]));
        &a2 * x + &a4 * y + &a6 * z
    };
    let powers =
        |first: usize| &a6 * weighted(first + 8) + weighted(first + 2) + &one * Scale(PADE[first]);
    let (u, v) = (a * powers(1), powers(0));
    (&v - &u).partial_piv_lu().solve(&v + &u)
}
