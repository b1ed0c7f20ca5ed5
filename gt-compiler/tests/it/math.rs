//! Accuracy of the elementary functions: in `f32` against `f64`, over the whole range, and in `f64`
//! against the platform's.

use gt_compiler::{Arg, Engine};
use gt_ir::{Element, HostTensor, Op, Shape};

use crate::random::native;

/// A function to compare with.
type Exact = fn(f64) -> f64;

/// Distance in units in the last place of the exact result.
fn ulps(got: f32, exact: f64) -> f64 {
    let rounded = exact as f32;
    if got == rounded || got.is_nan() && rounded.is_nan() {
        return 0.0;
    }
    let unit = f64::from(f32::from_bits((rounded.abs().to_bits()).max(0x0080_0000)) * f32::EPSILON)
        .max(1.4e-45)
        / 2.0;
    (f64::from(got) - exact).abs() / (2.0 * unit)
}

/// Every 997th float, and what lies around 1.
fn arguments() -> Vec<f32> {
    let all = (0..=u32::MAX).step_by(997).map(f32::from_bits);
    let dense = (-400_000..400_000).map(|i| i as f32 * 2.5e-5);
    all.chain(dense)
        .chain([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MIN_POSITIVE, f32::MAX])
        .collect()
}

/// What the engine computes of each argument.
fn results<T: Element>(op: Op, x: &[T]) -> Vec<T> {
    let mut engine = native(2);
    let shape = Shape::new(&[x.len()]).unwrap();
    let value = engine.upload(&HostTensor::from_vec(x.to_vec(), shape).unwrap()).unwrap();
    let y = engine.execute(&op, &[Arg::Value(&value)]).unwrap();
    engine.download(&y).unwrap().to_vec().unwrap()
}

fn worst(op: Op, exact: Exact) -> (f64, f32, f32) {
    let x = arguments();
    let y = results(op, &x);
    let distances = x.iter().zip(&y).map(|(x, y)| (ulps(*y, exact(f64::from(*x))), *x, *y));
    distances.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
}

const FUNCTIONS: [(Op, Exact); 7] = [
    (Op::Exp, f64::exp),
    (Op::Exp2, f64::exp2),
    (Op::Log, f64::ln),
    (Op::Tanh, f64::tanh),
    (Op::Erf, libm::erf),
    (Op::Sin, f64::sin),
    (Op::Cos, f64::cos),
];

#[test]
fn elementary_functions_are_accurate() {
    for (op, exact) in FUNCTIONS {
        let (distance, x, y) = worst(op, exact);
        assert!(distance <= 2.0, "{op}: {distance:.2} ulp at {x:e}, which gives {y:e}");
    }
}

/// How many floats lie between two; as far as can be where one is NaN and the other is not.
fn floats_between(a: f64, b: f64) -> u64 {
    // Negative floats are in the opposite order of their bits.
    let place = |v: f64| {
        let bits = v.to_bits().cast_signed();
        if bits < 0 { i64::MIN - bits } else { bits }
    };
    match (a.is_nan(), b.is_nan()) {
        (true, true) => 0,
        (false, false) => place(a).abs_diff(place(b)),
        _ => u64::MAX,
    }
}

/// Doubles of every exponent, those around 1, and those near multiples of a quarter of a turn.
fn doubles() -> Vec<f64> {
    let all = (0..1_500_000_u64).map(|i| f64::from_bits(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let dense = (-400_000..400_000).map(|i| f64::from(i) * 2.501e-5);
    let coarse = (-8000..8000).map(|i| f64::from(i) * 0.0997);
    let turns = (0..200_000).map(|i| f64::from(i * 317) * std::f64::consts::FRAC_PI_2);
    let ends = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MIN_POSITIVE, 5e-324];
    let ends = ends.into_iter().chain([f64::MAX, f64::MIN, 1e8, -1e8, 709.8, -745.2]);
    all.chain(dense).chain(coarse).chain(turns).chain(ends).collect()
}

/// The platform's functions are within a unit of the exact result, and ours within two of it.
#[test]
fn elementary_functions_of_doubles_are_accurate() {
    let x = doubles();
    for (op, exact) in FUNCTIONS {
        let y = results(op, &x);
        let distances = x.iter().zip(&y).map(|(x, y)| (floats_between(*y, exact(*x)), *x, *y));
        let (distance, x, y) = distances.max_by_key(|found| found.0).unwrap();
        assert!(distance <= 3, "{op}: {distance} doubles away at {x:e}, which gives {y:e}");
    }
}

#[test]
fn whole_powers_of_two_are_exact() {
    let x: Vec<f32> = (-160..=130).map(|n| n as f32).collect();
    let exact: Vec<f32> = x.iter().map(|n| n.exp2()).collect();
    assert_eq!(results(Op::Exp2, &x), exact);
    let x: Vec<f64> = (-1090..=1030).map(f64::from).collect();
    let exact: Vec<f64> = x.iter().map(|n| n.exp2()).collect();
    assert_eq!(results(Op::Exp2, &x), exact);
}

#[test]
fn signs_of_zero_survive() {
    for op in [Op::Tanh, Op::Erf, Op::Sin, Op::Sqrt] {
        let y = results(op, &[-0.0f32; 19]);
        assert!(y.iter().all(|v| *v == 0.0 && v.is_sign_negative()), "{op} {y:?}");
        let y = results(op, &[-0.0f64; 19]);
        assert!(y.iter().all(|v| *v == 0.0 && v.is_sign_negative()), "{op} {y:?}");
    }
}
