//! Accuracy of the elementary functions in `f32`, against `f64`, over the whole range.

use gt_compiler::{Arg, Engine};
use gt_ir::{HostTensor, Op, Shape};

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

fn worst(op: Op, exact: Exact) -> (f64, f32, f32) {
    let mut engine = native(2);
    let x = arguments();
    let n = x.len();
    let value = engine
        .upload(&HostTensor::from_vec(x.clone(), Shape::new(&[n]).unwrap()).unwrap())
        .unwrap();
    let y = engine.execute(&op, &[Arg::Value(&value)]).unwrap();
    let y: Vec<f32> = engine.download(&y).unwrap().to_vec().unwrap();
    let distances = x.iter().zip(&y).map(|(x, y)| (ulps(*y, exact(f64::from(*x))), *x, *y));
    distances.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
}

#[test]
fn elementary_functions_are_accurate() {
    let functions: [(Op, Exact); 7] = [
        (Op::Exp, f64::exp),
        (Op::Exp2, f64::exp2),
        (Op::Log, f64::ln),
        (Op::Tanh, f64::tanh),
        (Op::Erf, libm::erf),
        (Op::Sin, f64::sin),
        (Op::Cos, f64::cos),
    ];
    for (op, exact) in functions {
        let (distance, x, y) = worst(op, exact);
        assert!(distance <= 2.0, "{op}: {distance:.2} ulp at {x:e}, which gives {y:e}");
    }
}

#[test]
fn whole_powers_of_two_are_exact() {
    let mut engine = native(1);
    let x: Vec<f32> = (-160..=130).map(|n| n as f32).collect();
    let exact: Vec<f32> = x.iter().map(|n| n.exp2()).collect();
    let shape = Shape::new(&[x.len()]).unwrap();
    let value = engine.upload(&HostTensor::from_vec(x, shape).unwrap()).unwrap();
    let y = engine.execute(&Op::Exp2, &[Arg::Value(&value)]).unwrap();
    assert_eq!(engine.download(&y).unwrap().to_vec::<f32>().unwrap(), exact);
}

#[test]
fn signs_of_zero_survive() {
    let mut engine = native(1);
    let zeros = vec![-0.0f32; 19];
    let value =
        engine.upload(&HostTensor::from_vec(zeros, Shape::new(&[19]).unwrap()).unwrap()).unwrap();
    for op in [Op::Tanh, Op::Erf, Op::Sin, Op::Sqrt] {
        let y = engine.execute(&op, &[Arg::Value(&value)]).unwrap();
        let y: Vec<f32> = engine.download(&y).unwrap().to_vec().unwrap();
        assert!(y.iter().all(|v| *v == 0.0 && v.is_sign_negative()), "{op} {y:?}");
    }
}
