//! The sweeps over the op table on the native engine, and what only sizes or memory can break.

use gt_compiler::{Arg, Engine};
use gt_ir::{
    DType, HostTensor, Op, Scalar, Type,
    attr::{Keep, Reduce},
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
