//! The sweeps over the op table on the native engine, and what only sizes or memory can break.

use gt_compiler::{Arg, Engine};
use gt_ir::{
    DType, HostTensor, Op, Scalar, Type,
    attr::{Axis, Keep, Reduce},
};

use crate::{
    execute,
    random::native,
    sweeps::{self, shape},
};

macro_rules! sweeps {
    ($($name:ident => $sweep:ident on $threads:literal),* $(,)?) => { $(
        #[test]
        fn $name() {
            let mut engine = native($threads);
            sweeps::$sweep(&mut |op, args| execute::op(&mut engine, op, args));
        }
    )* };
}
sweeps! {
    pointwise_ops_at_the_edges => pointwise_ops_at_the_edges on 2,
    casts_between_all_dtypes => casts on 1,
    reductions_over_any_axes => reductions on 2,
    long_reductions_in_pieces => long_reductions on 2,
    movement => movement on 2,
    sources => sources on 2,
    products => products on 2,
    gathers_and_scatters => gathers_and_scatters on 2,
    large_gathers_and_scatters => large_gathers_and_scatters on 2,
    compositions_of_real_sizes => compositions on 2,
}

#[test]
fn a_sum_of_millions_keeps_its_precision() {
    let mut engine = native(2);
    let n = 1 << 22;
    let data: Vec<f32> = (0..n).map(|i| 0.1 + (i % 97) as f32 * 0.01).collect();
    let want: f64 = data.iter().map(|v| f64::from(*v)).sum();
    let x = engine.upload(&HostTensor::from_vec(data, shape(&[n])).unwrap()).unwrap();
    let all = Reduce { axes: [0].into_iter().collect(), keep: Keep::No };
    let y = engine.execute(&Op::Sum(all), &[Arg::Value(&x)]).unwrap();
    let got = engine.download(&y).unwrap().to_f64()[0];
    assert!(((got - want) / want).abs() < 1e-6, "{got} {want}");
}

/// Axes of several chunks, in one piece and in many, against loops.
#[test]
fn scans_of_long_axes() {
    type Make = fn(Axis) -> Op;
    type Rule = fn(i64, i64) -> i64;
    let rules: [(Make, Rule); 4] = [
        (Op::CumSum, i64::wrapping_add),
        (Op::CumProd, i64::wrapping_mul),
        (Op::CumMax, i64::max),
        (Op::CumMin, i64::min),
    ];
    for (outer, n, inner) in [(1, 100_000, 1), (9, 1_500, 1), (1, 1_500, 40), (3, 600, 300)] {
        let count = outer * n * inner;
        let mixed = |i: usize| (i as i64).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> 40;
        let data: Vec<i64> = (0..count).map(mixed).collect();
        for threads in [1, 2] {
            let mut engine = native(threads);
            let x = HostTensor::from_vec(data.clone(), shape(&[outer, n, inner])).unwrap();
            let x = engine.upload(&x).unwrap();
            for (op, rule) in rules {
                let mut want = data.clone();
                for at in (0..count).filter(|at| at / inner % n > 0) {
                    want[at] = rule(want[at - inner], want[at]);
                }
                let y = engine.execute(&op(Axis(1)), &[Arg::Value(&x)]).unwrap();
                let got: Vec<i64> = engine.download(&y).unwrap().to_vec().unwrap();
                assert!(got == want, "{} of {outer} x {n} x {inner}", op(Axis(1)));
            }
        }
    }
}

/// A chunk alone may overflow where a 0 comes before it.
#[test]
fn a_running_product_stays_zero() {
    let mut engine = native(2);
    let n = 3_000;
    let data: Vec<f32> = (0..n).map(|i| if i == 0 { 0.0 } else { 1e30 }).collect();
    let x = engine.upload(&HostTensor::from_vec(data, shape(&[n])).unwrap()).unwrap();
    let y = engine.execute(&Op::CumProd(Axis(0)), &[Arg::Value(&x)]).unwrap();
    assert!(engine.download(&y).unwrap().to_f64().iter().all(|y| *y == 0.0));
}

/// Results beyond the caches take another way to memory.
#[test]
fn results_larger_than_the_caches() {
    let mut engine = native(2);
    let n = (4 << 20) + 1237;
    let data: Vec<i32> = (0..n).collect();
    let x = engine.upload(&HostTensor::from_vec(data, shape(&[n as usize])).unwrap()).unwrap();
    let y = engine.execute(&Op::Mul, &[Arg::Value(&x), Arg::Scalar(Scalar::I64(3))]).unwrap();
    let y: Vec<i32> = engine.download(&y).unwrap().to_vec().unwrap();
    assert!(y.iter().enumerate().all(|(i, v)| *v == 3 * i as i32));
    let row = engine.upload(&HostTensor::from_vec(vec![1u8, 2, 3], shape(&[3])).unwrap()).unwrap();
    let wide = engine.execute(&Op::Expand(shape(&[6 << 20, 3])), &[Arg::Value(&row)]).unwrap();
    let wide: Vec<u8> = engine.download(&wide).unwrap().to_vec().unwrap();
    assert!(wide.iter().enumerate().all(|(i, v)| usize::from(*v) == i % 3 + 1));
}

#[test]
fn values_of_no_elements_have_memory() {
    let text = "gt tape 1
        %0 = input : f32[0,1]
        %1 = input : i64[0,1]
        %2 = scatter_add[0] %0, %1, %0 : f32[0,1]
        %3 = reshape[0] %2 : f32[0]
        %4 = sum[0] %3 : f32[]
        output %4
    ";
    let graph = gt_ir::lower(&gt_ir::text::parse(text).unwrap().0).unwrap();
    let mut engine = native(1);
    let compiled =
        engine.compiler().compile(&graph, &[false; 2], &gt_compiler::Options::default()).unwrap();
    let empty = |dtype| HostTensor::new(Type::new(dtype, shape(&[0, 1])), vec![].into()).unwrap();
    let mut inputs =
        [DType::F32, DType::I64].map(|d| engine.upload(&empty(d)).unwrap()).into_iter().collect();
    let out = engine.run(&compiled.program, &mut inputs, &[]).unwrap();
    assert_eq!(engine.download(&out[0]).unwrap().to_f64(), [0.0]);
}
