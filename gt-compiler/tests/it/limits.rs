//! Limits that hold, errors that name their cause, results that do not depend on threads.

use gt_compiler::{Arg, Engine, EngineError, Native, NativeConfig};
use gt_ir::{
    DType, HostTensor, Op, Scalar, Shape, Type,
    attr::{Axis, Spectrum},
    expand,
    op::OperandType,
};

use crate::random::native;

fn shape(sizes: &[usize]) -> Shape {
    Shape::new(sizes).unwrap()
}

#[test]
fn memory_is_limited_and_given_back() {
    let mut engine = Native::new(NativeConfig {
        threads: 1,
        memory_limit: 1 << 20,
        cache_capacity: 16,
        store: None,
        guarded: false,
        team: None,
    })
    .unwrap();
    let full = |n: usize| Op::Full(Type::new(DType::F32, shape(&[n])));
    let one = [Arg::Scalar(Scalar::F64(1.0))];
    let held = engine.execute(&full(1 << 17), &one).unwrap();
    let error = engine.execute(&full(1 << 18), &one).unwrap_err();
    assert_eq!(error, EngineError::OutOfMemory { asked: 1 << 20, live: 1 << 19, limit: 1 << 20 });
    assert!(error.to_string().contains("1048576 bytes asked, 524288 bytes live"), "{error}");
    drop(held);
    assert_eq!(engine.stats().live_bytes, 0);
    let again = engine.execute(&full(1 << 18), &one).unwrap();
    assert_eq!(engine.stats().live_bytes, 1 << 20);
    assert_eq!(engine.download(&again).unwrap().to_f64()[77], 1.0);
}

#[test]
fn the_memory_that_a_decomposition_takes_on_its_way_is_limited() {
    let of = |memory_limit: usize| -> Result<(usize, usize), EngineError> {
        let mut engine = Native::new(NativeConfig {
            threads: 1,
            memory_limit,
            cache_capacity: 16,
            store: None,
            guarded: false,
            team: None,
        })
        .unwrap();
        let one = [Arg::Scalar(Scalar::F64(1.0))];
        let full = Op::Full(Type::new(DType::F32, shape(&[1, 128, 128])));
        let matrix = engine.execute(&full, &one).unwrap();
        let values = engine.execute(&Op::Svd(Spectrum::Values), &[Arg::Value(&matrix)])?;
        let first = engine.download(&values).unwrap().to_f64()[0];
        assert!((first - 128.0).abs() < 1e-3, "{first}");
        Ok((engine.stats().live_bytes, engine.stats().peak_bytes))
    };
    let matrix = 128 * 128 * 4;
    let error = of(4 * matrix).unwrap_err();
    assert!(matches!(error, EngineError::OutOfMemory { live: 66_048, .. }), "{error:?}");
    let (live, peak) = of(1 << 24).unwrap();
    assert_eq!(live, matrix + 128 * 4);
    assert!(peak > 16 * matrix, "{peak}");
}

#[test]
fn what_no_machine_has_is_an_error() {
    let mut engine = Native::new(NativeConfig {
        threads: 1,
        memory_limit: usize::MAX,
        cache_capacity: 16,
        store: None,
        guarded: false,
        team: None,
    })
    .unwrap();
    let op = Op::Full(Type::new(DType::F64, shape(&[1 << 24, 1 << 24])));
    let error = engine.execute(&op, &[Arg::Scalar(Scalar::F64(1.0))]).unwrap_err();
    assert!(matches!(error, EngineError::OutOfMemory { .. }), "{error}");
}

#[test]
fn the_cache_is_bounded_and_scalars_are_no_part_of_the_key() {
    let mut engine = Native::new(NativeConfig {
        threads: 1,
        memory_limit: 1 << 24,
        cache_capacity: 8,
        store: None,
        guarded: false,
        team: None,
    })
    .unwrap();
    for round in 0..3 {
        for n in 1..=20 {
            let x = engine
                .upload(&HostTensor::from_vec(vec![2.0f32; n], shape(&[n])).unwrap())
                .unwrap();
            let factor = Scalar::F64(f64::from(round) + 0.5);
            let y = engine.execute(&Op::Mul, &[Arg::Value(&x), Arg::Scalar(factor)]).unwrap();
            assert_eq!(engine.download(&y).unwrap().to_f64(), vec![2.0 * factor.as_f64(); n]);
            assert!(engine.stats().cache_len <= 8);
        }
    }
    assert!(engine.stats().cache_evictions > 0);
    let x = engine.upload(&HostTensor::scalar(1.0f32)).unwrap();
    let before = engine.stats().kernels_compiled;
    for i in 0..100 {
        let y = engine
            .execute(&Op::Add, &[Arg::Value(&x), Arg::Scalar(Scalar::F64(f64::from(i)))])
            .unwrap();
        assert_eq!(engine.download(&y).unwrap().to_f64(), [1.0 + f64::from(i)]);
    }
    assert_eq!(engine.stats().kernels_compiled, before + 1);
}

#[test]
fn an_index_outside_its_axis_is_named() {
    let mut engine = native(1);
    let x =
        engine.upload(&HostTensor::from_vec(vec![1.0f32; 12], shape(&[4, 3])).unwrap()).unwrap();
    for bad in [3i64, -1, i64::MAX] {
        let index =
            engine.upload(&HostTensor::from_vec(vec![0, bad], shape(&[2, 1])).unwrap()).unwrap();
        let error = engine
            .execute(&Op::Gather(Axis(1)), &[Arg::Value(&x), Arg::Value(&index)])
            .unwrap_err();
        assert_eq!(
            error,
            EngineError::Index { op: "gather[1]".into(), index: bad, axis: 1, size: 3 }
        );
    }
}

#[test]
fn values_are_shared_without_copies() {
    let mut engine = native(1);
    let host = HostTensor::from_vec(vec![1.0f32; 4096], shape(&[64, 64])).unwrap();
    let value = engine.upload(&host).unwrap();
    let flat = engine.execute(&Op::Reshape(shape(&[4096])), &[Arg::Value(&value)]).unwrap();
    let back = engine.download(&flat).unwrap();
    assert_eq!(back.bytes().as_ptr(), host.bytes().as_ptr());
    assert_eq!(engine.stats().live_bytes, 0);
    drop((value, flat, host));
    assert_eq!(back.to_f64(), vec![1.0; 4096]);
}

#[test]
fn a_call_that_does_not_fit_its_program_is_refused() {
    let mut engine = native(1);
    let ty = Type::new(DType::F32, shape(&[4]));
    let program = engine.compile(&expand(&Op::Exp, &[OperandType::Tensor(ty)]).unwrap()).unwrap();
    let wrong =
        engine.upload(&HostTensor::from_vec(vec![1.0f32; 5], shape(&[5])).unwrap()).unwrap();
    assert!(engine.run(&program, &mut vec![wrong.clone()], &[]).is_err());
    assert!(engine.run(&program, &mut Vec::new(), &[]).is_err());
}

/// Results that threads compute together.
fn results(engine: &mut Native) -> Vec<bytes::Bytes> {
    let data: Vec<f32> =
        (0..600_000u64).map(|i| ((i * 7919) % 10_007) as f32 * 1e-3 - 5.0).collect();
    let x = HostTensor::from_vec(data, shape(&[600, 1000])).unwrap();
    let small =
        HostTensor::from_vec(x.to_vec::<f32>().unwrap()[..257_000].to_vec(), shape(&[257, 1000]))
            .unwrap();
    let seed = [Arg::Scalar(Scalar::I64(7))];
    let v = engine.upload(&x).unwrap();
    let w = engine.upload(&small).unwrap();
    let wt = engine.execute(&Op::Transpose(gt_ir::attr::Swap(0, 1)), &[Arg::Value(&w)]).unwrap();
    let mut results = vec![
        engine.execute(&Op::Softmax(Axis(1)), &[Arg::Value(&v)]).unwrap(),
        engine.execute(&Op::MatMul, &[Arg::Value(&v), Arg::Value(&wt)]).unwrap(),
        engine.execute(&Op::Randn(*x.ty()), &seed).unwrap(),
    ];
    for axes in [&[0][..], &[1], &[0, 1]] {
        let reduce = gt_ir::attr::Reduce {
            axes: axes.iter().copied().collect(),
            keep: gt_ir::attr::Keep::No,
        };
        results.push(engine.execute(&Op::Sum(reduce), &[Arg::Value(&v)]).unwrap());
    }
    results.iter().map(|r| engine.download(r).unwrap().into_bytes()).collect()
}

#[test]
fn threads_change_no_bit() {
    let want = results(&mut native(1));
    for n in [2, 3] {
        assert!(results(&mut native(n)) == want, "{n} threads");
    }
    // Engines of a team, alone and together.
    let team = NativeConfig { threads: 3, store: None, ..NativeConfig::host() }.shared_by(2);
    let mut engines = [(); 2].map(|()| Native::new(team.clone()).unwrap());
    assert!(results(&mut engines[1]) == want, "alone");
    std::thread::scope(|scope| {
        for engine in &mut engines {
            scope.spawn(|| (0..3).for_each(|_| assert!(results(engine) == want, "together")));
        }
    });
}

#[test]
fn engines_of_a_team_have_all_threads_and_one_limit_of_memory() {
    let config = NativeConfig { threads: 3, memory_limit: 1 << 20, ..NativeConfig::host() };
    let alone = config.clone().shared_by(1);
    assert_eq!(alone, config, "an engine that shares with no other");
    let team = config.shared_by(2);
    let [mut a, mut b] = [(); 2].map(|()| Native::new(team.clone()).unwrap());
    assert_eq!((a.info().threads, b.info().threads), (3, 3));
    let full = |n: usize| Op::Full(Type::new(DType::F32, shape(&[n])));
    let one = [Arg::Scalar(Scalar::F64(1.0))];
    let held = a.execute(&full(1 << 17), &one).unwrap();
    let error = b.execute(&full(1 << 18), &one).unwrap_err();
    assert_eq!(error, EngineError::OutOfMemory { asked: 1 << 20, live: 1 << 19, limit: 1 << 20 });
    drop(held);
    b.execute(&full(1 << 18), &one).unwrap();
}
