//! Memory that runs out, transfers of any size, values that cross threads.

use gt_compiler::{Arg, Engine, EngineError};
use gt_ir::{DType, HostTensor, Op, Scalar, Shape, Type};

use crate::{config, device, ramp};

fn full(numel: usize) -> Op {
    Op::Full(Type::new(DType::F32, Shape::new(&[numel]).unwrap()))
}

fn filled(engine: &mut dyn Engine, numel: usize) -> Result<gt_compiler::Value, EngineError> {
    engine.execute(&full(numel), &[Arg::Scalar(Scalar::F64(0.5))])
}

#[test]
fn out_of_memory_is_an_error_and_the_engine_lives_on() {
    // Not the whole device, which other tests use too.
    let mut config = config();
    config.memory_limit = Some(2 << 30);
    let Some(mut engine) = device(&config) else { return };
    let limit = engine.info().memory_limit;
    let kept = engine.upload(&ramp(DType::F32, &[1000], 3)).unwrap();
    let error = filled(engine.as_mut(), limit / 2).unwrap_err();
    assert!(matches!(error, EngineError::OutOfMemory { .. }), "{error}");
    // As much as there is, a 32nd at a time.
    let mut held = Vec::new();
    let error = loop {
        match filled(engine.as_mut(), limit / 4 / 32) {
            Ok(value) => held.push(value),
            Err(error) => break error,
        }
        assert!(held.len() <= 33);
    };
    assert!(matches!(error, EngineError::OutOfMemory { .. }), "{error}");
    let double = |engine: &mut dyn Engine| {
        let y = engine.execute(&Op::Mul, &[Arg::Value(&kept), Arg::Scalar(Scalar::F64(2.0))]);
        y.and_then(|y| engine.download(&y))
    };
    held.pop();
    let before = double(engine.as_mut()).unwrap();
    drop(held);
    let value = filled(engine.as_mut(), limit / 4 / 32).unwrap();
    assert!(engine.download(&value).unwrap().to_f64().iter().all(|v| *v == 0.5));
    assert_eq!(double(engine.as_mut()).unwrap().to_f64(), before.to_f64());
}

/// Small ones through the ring, large ones in parts beside running kernels, one after the other
/// without waiting.
#[test]
fn transfers_of_any_size_arrive_in_order() {
    let Some(mut engine) = device(&config()) else { return };
    for numel in [0, 1, 3, 32 << 10, (32 << 10) + 1, 1 << 20, (3 << 20) + 7, 9 << 20] {
        let data: Vec<i32> = (0..numel).map(|i| i as i32 ^ 0x5bd1).collect();
        let data = HostTensor::from_vec(data, Shape::new(&[numel]).unwrap()).unwrap();
        let value = engine.upload(&data).unwrap();
        let next = engine.execute(&Op::Add, &[Arg::Value(&value), Arg::Scalar(Scalar::I64(1))]);
        let next: Vec<i32> = engine.download(&next.unwrap()).unwrap().to_vec().unwrap();
        assert!(next.iter().enumerate().all(|(i, v)| *v == (i as i32 ^ 0x5bd1) + 1), "{numel}");
        assert_eq!(engine.download(&value).unwrap().bytes(), data.bytes(), "{numel}");
    }
    // More than the ring holds, and memory that is taken over at once.
    let mut sums = Vec::new();
    for i in 0..4000 {
        let data = HostTensor::from_vec(vec![i; 1500], Shape::new(&[1500]).unwrap()).unwrap();
        let value = engine.upload(&data).unwrap();
        let sum = engine.execute(&Op::Add, &[Arg::Value(&value), Arg::Scalar(Scalar::I64(1))]);
        sums.push(sum.unwrap());
    }
    for (i, sum) in sums.iter().enumerate() {
        let got: Vec<i32> = engine.download(sum).unwrap().to_vec().unwrap();
        assert!(got.iter().all(|v| *v == i as i32 + 1), "upload {i}");
    }
}

/// A value may be dropped by any thread while the device still works with it.
#[test]
fn values_are_dropped_anywhere() {
    let Some(mut engine) = device(&config()) else { return };
    let x = engine.upload(&ramp(DType::F32, &[1 << 20], 1)).unwrap();
    let (send, receive) = std::sync::mpsc::channel::<gt_compiler::Value>();
    let dropper = std::thread::spawn(move || receive.iter().count());
    for i in 0..200 {
        let factor = Arg::Scalar(Scalar::F64(f64::from(i)));
        let y = engine.execute(&Op::Mul, &[Arg::Value(&x), factor]).unwrap();
        let z = engine.execute(&Op::Add, &[Arg::Value(&y), Arg::Value(&x)]).unwrap();
        send.send(y).unwrap();
        let first = engine.download(&z).unwrap().to_f64()[5];
        let want = ramp(DType::F32, &[6], 1).to_f64()[5] * f64::from(i + 1);
        assert!((first - want).abs() <= want.abs() * 1e-6, "{first} {want}");
    }
    drop(send);
    assert_eq!(dropper.join().unwrap(), 200);
}
