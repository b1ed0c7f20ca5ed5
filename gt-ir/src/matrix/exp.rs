//! The exponential of a matrix: scaling and squaring with a Padé approximant of degree 13 (Higham
//! 2005).

use super::{
    lu::Lu,
    rows::{add_rows, add_scaled},
};

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
    let a: Vec<f64> = a.iter().map(|x| libm::ldexp(*x, -squarings)).collect();
    approximant(n, &a, out);
    for _ in 0..squarings {
        let square = product(n, out, out);
        out.copy_from_slice(&square);
    }
}

/// The solution X of `(v - u) X = v + u`, where u has the odd powers and v the even ones.
fn approximant(n: usize, a: &[f64], out: &mut [f64]) {
    let a2 = product(n, a, a);
    let a4 = product(n, &a2, &a2);
    let a6 = product(n, &a4, &a2);
    let weighted = |first: usize| {
        let mut sum = vec![0.0; n * n];
        for (i, power) in [&a2, &a4, &a6].into_iter().enumerate() {
            add_scaled(&mut sum, PADE[first + 2 * i], power);
        }
        sum
    };
    let powers = |first: usize| {
        let mut sum = product(n, &a6, &weighted(first + 8));
        add_scaled(&mut sum, 1.0, &weighted(first + 2));
        sum.iter_mut().step_by(n + 1).for_each(|x| *x += PADE[first]);
        sum
    };
    let (u, v) = (product(n, a, &powers(1)), powers(0));
    let plus = |sign: f64| {
        let mut sum = v.clone();
        add_scaled(&mut sum, sign, &u);
        sum
    };
    Lu::new(n, &plus(-1.0)).solve(n, &plus(1.0), out);
}

fn product(n: usize, a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; n * n];
    for (row, out) in a.chunks_exact(n.max(1)).zip(out.chunks_exact_mut(n.max(1))) {
        add_rows(out, row, b, n);
    }
    out
}
