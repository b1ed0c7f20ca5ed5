//! What the op table says of results holds for any operands: their range, their sign, the precision
//! of sums.
//!
//! Operands are random bits, so that all magnitudes occur, infinities, NaN and subnormal numbers
//! among them.

use gt_compiler::{Arg, Engine, Native};
use gt_ir::{DType, Element, HostTensor, Op, Scalar, Shape, testing::Source};
use half::{bf16, f16};

use crate::random::native;

const N: usize = 4096;

/// What a float function gives exactly, and how an integer lies in a narrower dtype.
type Exact = fn(f64) -> f64;
type Wrap = fn(i64) -> i64;

fn vector<T: Element>(values: Vec<T>) -> HostTensor {
    let n = values.len();
    HostTensor::from_vec(values, Shape::new(&[n]).unwrap()).unwrap()
}

/// An operand of a call.
enum Operand<'a> {
    Tensor(&'a HostTensor),
    Number(f64),
}

fn call(engine: &mut Native, op: &str, operands: &[Operand<'_>]) -> HostTensor {
    let op: Op = op.parse().unwrap();
    let values: Vec<_> = operands
        .iter()
        .map(|operand| match operand {
            Operand::Tensor(tensor) => Some(engine.upload(tensor).unwrap()),
            Operand::Number(_) => None,
        })
        .collect();
    let args: Vec<Arg<'_>> = operands
        .iter()
        .zip(&values)
        .map(|(operand, value)| match (operand, value) {
            (Operand::Number(n), _) => Arg::Scalar(Scalar::F64(*n)),
            (Operand::Tensor(_), Some(value)) => Arg::Value(value),
            (Operand::Tensor(_), None) => unreachable!("each tensor was uploaded"),
        })
        .collect();
    let result = engine.execute(&op, &args).unwrap();
    engine.download(&result).unwrap()
}

fn of_two(engine: &mut Native, op: &str, x: &HostTensor, y: &HostTensor) -> HostTensor {
    call(engine, op, &[Operand::Tensor(x), Operand::Tensor(y)])
}

fn of_one(engine: &mut Native, op: &str, x: &HostTensor) -> HostTensor {
    call(engine, op, &[Operand::Tensor(x)])
}

/// Floats of all magnitudes, every fourth one a small number.
fn floats32(source: &mut Source<'_>) -> Vec<f32> {
    let one = |_| match source.below(4) {
        0 => source.below(41) as f32 / 4.0 - 5.0,
        _ => f32::from_bits(source.bits() as u32),
    };
    (0..N).map(one).collect()
}

fn floats64(source: &mut Source<'_>) -> Vec<f64> {
    let one = |_| match source.below(4) {
        0 => source.below(41) as f64 / 4.0 - 5.0,
        _ => f64::from_bits(source.bits()),
    };
    (0..N).map(one).collect()
}

fn integers(source: &mut Source<'_>) -> Vec<i64> {
    (0..N).map(|_| source.bits() as i64 >> source.below(64)).collect()
}

/// Equal to the bit, but for the bits of NaN.
fn same(got: f64, wanted: f64) -> bool {
    got.to_bits() == wanted.to_bits() || got.is_nan() && wanted.is_nan()
}

/// What is left of `x`, with the sign of `y`.
fn modulo(x: f64, y: f64) -> f64 {
    let left = x % y;
    if left != 0.0 && (left < 0.0) != (y < 0.0) { left + y } else { left }
}

#[test]
fn remainders_of_floats_are_exact() {
    let (mut engine, mut source) = (native(1), Source::from_seed(1));
    let (x, y) = (floats32(&mut source), floats32(&mut source));
    let (x64, y64) = (floats64(&mut source), floats64(&mut source));
    let near: Vec<f32> = x.iter().map(|x| x / (1.0 + source.below(1 << 23) as f32)).collect();
    for (x, y) in
        [(vector(x.clone()), vector(y)), (vector(x), vector(near)), (vector(x64), vector(y64))]
    {
        let narrow = |v: f64| if x.ty().dtype == DType::F32 { f64::from(v as f32) } else { v };
        for (op, exact) in [("fmod", (|x, y| x % y) as fn(f64, f64) -> f64), ("remainder", modulo)]
        {
            let got = of_two(&mut engine, op, &x, &y).to_f64();
            for ((x, y), got) in x.to_f64().into_iter().zip(y.to_f64()).zip(got) {
                assert!(same(got, narrow(exact(x, y))), "{x:e} {op} {y:e} is {got:e}");
                let sign_of = if op == "fmod" { x } else { y };
                let fits = got.abs() <= y.abs() && (got == 0.0 || got * sign_of.signum() > 0.0);
                assert!(fits || got.is_nan() || x.is_infinite(), "{x:e} {op} {y:e} is {got:e}");
            }
        }
    }
}

#[test]
fn remainders_of_integers_are_exact() {
    let (mut engine, mut source) = (native(1), Source::from_seed(2));
    let (x, y) = (integers(&mut source), integers(&mut source));
    let left = |x: i64, y: i64| if y == 0 { x } else { x.wrapping_rem(y) };
    let floored = |x: i64, y: i64| match left(x, y) {
        left if left != 0 && (left < 0) != (y < 0) => left.wrapping_add(y),
        left => left,
    };
    let narrow: [(DType, Wrap); 3] = [
        (DType::I64, |v| v),
        (DType::I32, |v| i64::from(v as i32)),
        (DType::U8, |v| i64::from(v as u8)),
    ];
    for (dtype, narrow) in narrow {
        let of = |engine: &mut Native, v: &[i64]| {
            let cast = format!("cast[{dtype}]");
            of_one(engine, &cast, &vector(v.to_vec()))
        };
        let (a, b) = (of(&mut engine, &x), of(&mut engine, &y));
        for (op, exact) in [("fmod", &left as &dyn Fn(i64, i64) -> i64), ("remainder", &floored)] {
            let got = of_two(&mut engine, op, &a, &b);
            let got: Vec<i64> = of_one(&mut engine, "cast[i64]", &got).to_vec().unwrap();
            for ((&x, &y), got) in x.iter().zip(&y).zip(got) {
                let (x, y) = (narrow(x), narrow(y));
                assert_eq!(got, exact(x, y), "{x} {op} {y} in {dtype}");
            }
        }
    }
}

#[test]
fn roundings_are_exact_and_keep_the_sign_of_zero() {
    let (mut engine, mut source) = (native(1), Source::from_seed(3));
    let mut x = floats32(&mut source);
    x.extend([-0.0, 0.0, -0.3, 0.3, -0.5, 0.5, 1.5, 2.5, 8_388_607.5, -8_388_607.5]);
    let mut wide = floats64(&mut source);
    wide.extend([-0.0, -0.3, -0.5, 0.5, 4_503_599_627_370_495.5, -4_503_599_627_370_495.5]);
    let ops: [(&str, Exact); 4] = [
        ("floor", f64::floor),
        ("ceil", f64::ceil),
        ("trunc", f64::trunc),
        ("round", f64::round_ties_even),
    ];
    for (op, exact) in ops {
        for x in [vector(x.clone()), vector(wide.clone())] {
            for (x, got) in x.to_f64().into_iter().zip(of_one(&mut engine, op, &x).to_f64()) {
                assert!(same(got, exact(x)), "{op} {x:e} is {got:e}");
            }
        }
    }
}

#[test]
fn angles_lie_in_their_quadrant() {
    let (mut engine, mut source) = (native(1), Source::from_seed(4));
    let special = [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-40];
    let (mut y, mut x) = (floats32(&mut source), floats32(&mut source));
    for a in special {
        for b in special {
            y.push(a);
            x.push(b);
        }
    }
    let got = of_two(&mut engine, "atan2", &vector(y.clone()), &vector(x.clone())).to_f64();
    for ((y, x), got) in y.into_iter().zip(x).zip(got) {
        let exact = f64::from(y).atan2(f64::from(x));
        let near = (got - exact).abs() <= 4e-7 * exact.abs() || exact.abs() < 1e-37;
        let signed = got.is_sign_negative() == exact.is_sign_negative();
        assert!(got.is_nan() && exact.is_nan() || near && signed, "atan2({y:e}, {x:e}) is {got:e}");
    }
}

#[test]
fn clamped_values_lie_between_their_bounds() {
    let (mut engine, mut source) = (native(1), Source::from_seed(5));
    let (x, low, high) = (floats32(&mut source), floats32(&mut source), floats32(&mut source));
    let operands = [&x, &low, &high].map(|v| vector(v.clone()));
    let got = call(&mut engine, "clamp", &operands.each_ref().map(Operand::Tensor)).to_f64();
    for (i, got) in got.into_iter().enumerate() {
        let (x, low, high) = (f64::from(x[i]), f64::from(low[i]), f64::from(high[i]));
        let exact =
            if [x, low, high].iter().any(|v| v.is_nan()) { f64::NAN } else { x.max(low).min(high) };
        assert!(same(got + 0.0, exact + 0.0), "clamp {x:e}, {low:e}, {high:e} is {got:e}");
    }
}

/// Rows that say where their results lie, and the bounds.
#[test]
fn functions_keep_to_their_ranges() {
    let (mut engine, mut source) = (native(1), Source::from_seed(6));
    let x = floats32(&mut source);
    let pi = std::f64::consts::FRAC_PI_2 + 1e-6;
    let endless = f64::INFINITY;
    let rows: &[(&str, f64, f64)] = &[
        ("abs", 0.0, endless),
        ("exp", 0.0, endless),
        ("exp2", 0.0, endless),
        ("sqrt", 0.0, endless),
        ("sigmoid", 0.0, 1.0),
        ("tanh", -1.0, 1.0),
        ("erf", -1.0, 1.0),
        ("sin", -1.0, 1.0),
        ("cos", -1.0, 1.0),
        ("atan", -pi, pi),
        ("relu", 0.0, endless),
        ("softplus", 0.0, endless),
        ("sign", -1.0, 1.0),
        ("expm1", -1.0, endless),
        ("gelu", -0.17, endless),
        ("gelu_tanh", -0.171, endless),
        ("silu", -0.279, endless),
        ("norm[0]", 0.0, endless),
    ];
    for dtype in [DType::F32, DType::F64, DType::Bf16, DType::F16] {
        let x = of_one(&mut engine, &format!("cast[{dtype}]"), &vector(x.clone()));
        for (op, low, high) in rows {
            let slack = if dtype.size() == 2 { 1.01 } else { 1.0 };
            for got in of_one(&mut engine, op, &x).to_f64() {
                let inside = (low * slack..=high * slack).contains(&got);
                assert!(inside || got.is_nan(), "{op} gives {got:e} in {dtype}");
            }
        }
    }
}

#[test]
fn distributions_keep_to_their_ranges() {
    let mut engine = native(2);
    for dtype in ["f32", "f64", "bf16", "f16"] {
        for seed in 0..8 {
            let op = format!("rand[{dtype}[{N}]]");
            let drawn = call(&mut engine, &op, &[Operand::Number(f64::from(seed))]).to_f64();
            assert!(drawn.iter().all(|v| (0.0..1.0).contains(v)), "{op} {seed}");
        }
    }
    for (low, high) in [(0, 1), (-3, 4), (0, 256)] {
        let numbers = [low, high, 7].map(|n| Operand::Number(f64::from(n)));
        let drawn = call(&mut engine, &format!("randint[i64[{N}]]"), &numbers).to_f64();
        assert!(drawn.iter().all(|v| (f64::from(low)..f64::from(high)).contains(v)));
    }
    let x = vector(floats32(&mut Source::from_seed(7)));
    let finite = call(
        &mut engine,
        "clamp",
        &[Operand::Tensor(&x), Operand::Number(-50.0), Operand::Number(50.0)],
    );
    let known = of_two(&mut engine, "eq", &finite, &finite);
    let finite = call(
        &mut engine,
        "where",
        &[Operand::Tensor(&known), Operand::Tensor(&finite), Operand::Number(0.0)],
    );
    let shares = of_one(&mut engine, "softmax[0]", &finite).to_f64();
    assert!(shares.iter().all(|v| (0.0..=1.0).contains(v)));
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-5);
    assert!(of_one(&mut engine, "log_softmax[0]", &finite).to_f64().iter().all(|v| *v <= 0.0));
}

/// Sums of halves are rounded once: they differ from the exact sum by half a unit and what `f32`
/// loses.
#[test]
fn sums_of_halves_are_rounded_once() {
    let (mut engine, mut source) = (native(2), Source::from_seed(8));
    let values: Vec<f64> = (0..N).map(|_| source.below(2001) as f64 / 1000.0 - 0.9).collect();
    let index = vector(vec![0_i64; N]);
    for dtype in [DType::Bf16, DType::F16] {
        let (x, zero, unit) = match dtype {
            DType::Bf16 => {
                let x = values.iter().map(|v| bf16::from_f64(*v)).collect();
                (vector::<bf16>(x), vector(vec![bf16::ZERO]), 1.0 / 256.0)
            }
            _ => {
                let x = values.iter().map(|v| f16::from_f64(*v)).collect();
                (vector::<f16>(x), vector(vec![f16::ZERO]), 1.0 / 2048.0)
            }
        };
        let exact: f64 = x.to_f64().iter().sum();
        let total: f64 = x.to_f64().iter().map(|v| v.abs()).sum();
        let indexed = [&zero, &index, &x].map(Operand::Tensor);
        let sums = [
            ("sum", of_one(&mut engine, "sum[0]", &x), 1.0),
            ("mean", of_one(&mut engine, "mean[0]", &x), N as f64),
            ("matmul", of_two(&mut engine, "matmul", &x, &ones(dtype)), 1.0),
            ("scatter_add", call(&mut engine, "scatter_add[0]", &indexed), 1.0),
            ("index_add", call(&mut engine, "index_add[0]", &indexed), 1.0),
            ("cumsum", of_one(&mut engine, "cumsum[0]", &x), 1.0),
        ];
        for (op, got, divided) in sums {
            let (got, exact) = (got.to_f64(), exact / divided);
            let got = *got.last().unwrap();
            let bound = unit * exact.abs() + 1e-6 * total / divided;
            assert!((got - exact).abs() <= bound, "{op} in {dtype}: {got} for {exact}");
        }
    }
}

fn ones(dtype: DType) -> HostTensor {
    match dtype {
        DType::Bf16 => vector(vec![bf16::ONE; N]),
        _ => vector(vec![f16::ONE; N]),
    }
}

/// Running sums are those of a loop in `f64`, however the axis is cut, along any axis.
#[test]
fn running_sums_do_not_drift() {
    let (mut engine, mut source) = (native(2), Source::from_seed(9));
    let one_row = [[1, 40_000, 1], [1, 70_000, 2]];
    let rows = [[3, 513, 1], [17, 531, 1], [8, 15, 1], [2, 1025, 70], [5, 1, 3], [0, 4, 2]];
    for sizes in one_row.into_iter().chain(rows) {
        let n: usize = sizes.iter().product();
        let x: Vec<f32> = (0..n).map(|_| source.below(2001) as f32 / 1000.0 - 0.3).collect();
        let shape = Shape::new(&sizes).unwrap();
        let tensor = HostTensor::from_vec(x.clone(), shape).unwrap();
        let got = of_one(&mut engine, "cumsum[1]", &tensor).to_f64();
        let whole: Vec<i64> = x.iter().map(|v| (v * 1000.0).round() as i64).collect();
        let tensor = HostTensor::from_vec(whole.clone(), shape).unwrap();
        let integers: Vec<i64> = of_one(&mut engine, "cumsum[1]", &tensor).to_vec().unwrap();
        let [_, axis, inner] = sizes;
        for first in (0..n).filter(|at| (at / inner).is_multiple_of(axis)) {
            let (mut sum, mut whole_sum) = (0.0, 0);
            for at in (0..axis).map(|a| first + a * inner) {
                (sum, whole_sum) = (sum + f64::from(x[at]), whole_sum + whole[at]);
                assert!((got[at] - sum).abs() <= 1e-7 * sum.abs() + 1e-9, "{sizes:?} {at}");
                assert_eq!(integers[at], whole_sum, "{sizes:?} {at}");
            }
        }
    }
}

/// Remainders of integers of all magnitudes, those next to powers of two and to each other's
/// multiples among them.
#[test]
fn remainders_of_integers_next_to_multiples() {
    let mut source = Source::from_seed(27);
    let mut engine = native(2);
    let integer = |source: &mut Source<'_>| {
        let (apart, shift) = (source.below(5) as i64 - 2, source.below(64));
        match source.below(4) {
            0 => apart,
            1 => (i64::MIN >> shift).wrapping_add(apart),
            2 => (i64::MIN >> shift).wrapping_neg().wrapping_add(apart),
            _ => source.below(1 << 62).wrapping_shl(2) as i64 >> shift,
        }
    };
    let (mut all_x, mut all_y) = (Vec::new(), Vec::new());
    for _ in 0..16 * N {
        let (mut x, y) = (integer(&mut source), integer(&mut source));
        if source.chance(1, 3) {
            x = x.wrapping_mul(y).wrapping_add(source.below(3) as i64 - 1);
        }
        all_x.push(x);
        all_y.push(y);
    }
    let remainder = |(x, y): (&i64, &i64)| if *y == 0 { *x } else { x.wrapping_rem(*y) };
    let want: Vec<i64> = all_x.iter().zip(&all_y).map(remainder).collect();
    let (x, y) = (vector(all_x.clone()), vector(all_y.clone()));
    let got = of_two(&mut engine, "fmod", &x, &y).to_vec::<i64>().unwrap();
    let differs = (0..want.len()).find(|i| want[*i] != got[*i]);
    let shown = differs.map(|i| (all_x[i], all_y[i], want[i], got[i]));
    assert_eq!(shown, None, "x, y, x % y, and the engine's");
}
