//! Every primitive on every dtype it takes, over shapes that exercise whole vectors, remainders, broadcasts and nothing at all.

use gt_compiler::{Arg, Engine, Native};
use gt_ir::{
    DType, HostTensor, Op, OpKind, OperandType, Scalar, Shape, Type,
    attr::{Axis, AxisSet, Keep, Pad, Perm, Reduce, ReduceOne, Slice},
    infer, interp,
};

use crate::random::native;

fn shape(sizes: &[usize]) -> Shape {
    Shape::new(sizes).unwrap()
}

/// Values that break things: zeros of both signs, infinities, NaN, subnormals, extremes, and ordinary ones.
fn edgy(ty: Type, seed: usize) -> HostTensor {
    const FLOATS: [f64; 16] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -2.5,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1e-40,
        -3e-39,
        88.0,
        -90.0,
        1e30,
        65504.0,
        3.0,
    ];
    const INTS: [i64; 12] =
        [0, 1, -1, 2, 255, 256, i64::MIN, i64::MAX, i32::MIN as i64, i32::MAX as i64, 7, -13];
    let float = |i: usize| FLOATS[(i * 7 + seed * 5 + i / 16) % 16];
    let int = |i: usize| INTS[(i * 5 + seed * 7 + i / 12) % 12];
    let n = ty.shape.numel();
    let tensor = |bytes: Vec<u8>| HostTensor::new(ty, bytes.into()).unwrap();
    match ty.dtype {
        DType::F32 => {
            HostTensor::from_vec((0..n).map(|i| float(i) as f32).collect(), ty.shape).unwrap()
        }
        DType::F64 => HostTensor::from_vec((0..n).map(float).collect(), ty.shape).unwrap(),
        DType::Bf16 => {
            HostTensor::from_vec((0..n).map(|i| half::bf16::from_f64(float(i))).collect(), ty.shape)
                .unwrap()
        }
        DType::F16 => {
            HostTensor::from_vec((0..n).map(|i| half::f16::from_f64(float(i))).collect(), ty.shape)
                .unwrap()
        }
        DType::I64 => HostTensor::from_vec((0..n).map(int).collect(), ty.shape).unwrap(),
        DType::I32 => {
            HostTensor::from_vec((0..n).map(|i| int(i) as i32).collect(), ty.shape).unwrap()
        }
        DType::U8 => tensor((0..n).map(|i| int(i) as u8).collect()),
        DType::Bool => tensor((0..n).map(|i| int(i) as u8 & 1).collect()),
    }
}

/// Ordinary values, for sums and products.
fn plain(ty: Type, seed: usize) -> HostTensor {
    let n = ty.shape.numel();
    let value = |i: usize| ((i * 37 + seed * 11) % 23) as f64 - 9.0;
    let host = HostTensor::from_vec((0..n).map(value).collect(), ty.shape).unwrap();
    interp::eval(&Op::Cast(ty.dtype), &[interp::Arg::Tensor(&host)]).unwrap()
}

/// Elementwise agreement to a few units of the dtype's precision; integers to the bit.
fn agree(what: &str, want: &HostTensor, got: &HostTensor, units: f64) {
    assert_eq!(want.ty(), got.ty(), "{what}");
    let epsilon = match want.ty().dtype {
        DType::F32 => f64::from(f32::EPSILON),
        DType::F64 => f64::EPSILON,
        DType::Bf16 => 1.0 / 128.0,
        DType::F16 => 1.0 / 1024.0,
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
            return assert_eq!(want.bytes(), got.bytes(), "{what}");
        }
    };
    let smallest = if want.ty().dtype == DType::F16 { 6e-8 } else { 1e-44 };
    for (i, (w, g)) in want.to_f64().into_iter().zip(got.to_f64()).enumerate() {
        let close = w == g
            || w.is_nan() && g.is_nan()
            || (w - g).abs() <= units * epsilon * w.abs() + units * smallest;
        assert!(close, "{what}: element {i} is {g}, the interpreter says {w}");
    }
}

fn check(engine: &mut Native, op: Op, args: &[&HostTensor], units: f64) {
    let types: Vec<OperandType> = args.iter().map(|a| OperandType::Tensor(*a.ty())).collect();
    if infer(&op, &types).is_err() {
        return;
    }
    let what = format!("{op} {:?}", args.iter().map(|a| a.ty().to_string()).collect::<Vec<_>>());
    let want = interp::eval(&op, &args.iter().map(|a| interp::Arg::Tensor(a)).collect::<Vec<_>>())
        .unwrap();
    let values: Vec<_> = args.iter().map(|a| engine.upload(a).unwrap()).collect();
    let got = engine.execute(&op, &values.iter().map(Arg::Value).collect::<Vec<_>>()).unwrap();
    agree(&what, &want, &engine.download(&got).unwrap(), units);
}

/// The pointwise ops without attributes, from the table.
fn pointwise() -> Vec<Op> {
    let ops = OpKind::ALL.iter().filter(|k| k.spec().class == gt_ir::Class::Pointwise);
    ops.filter_map(|k| k.spec().name.parse().ok()).collect()
}

#[test]
fn pointwise_ops_at_the_edges() {
    let mut engine = native(2);
    let unary = [shape(&[67]), shape(&[]), shape(&[0, 3]), shape(&[2, 1, 33])];
    let pairs = [
        [shape(&[67]), shape(&[67])],
        [shape(&[5, 1]), shape(&[1, 39])],
        [shape(&[]), shape(&[18])],
        [shape(&[3, 0]), shape(&[1, 1])],
        [shape(&[2, 3, 20]), shape(&[3, 20])],
    ];
    for op in pointwise() {
        for dtype in DType::ALL {
            for s in &unary {
                check(&mut engine, op, &[&edgy(Type::new(dtype, *s), 1)], 4.0);
            }
            for other in DType::ALL {
                for [a, b] in &pairs {
                    check(
                        &mut engine,
                        op,
                        &[&edgy(Type::new(dtype, *a), 1), &edgy(Type::new(other, *b), 2)],
                        4.0,
                    );
                }
            }
            let condition = edgy(Type::new(DType::Bool, shape(&[67])), 3);
            let (x, y) =
                (edgy(Type::new(dtype, shape(&[67])), 1), edgy(Type::new(dtype, shape(&[1])), 2));
            check(&mut engine, op, &[&condition, &x, &y], 4.0);
        }
    }
}

#[test]
fn casts_between_all_dtypes() {
    let mut engine = native(1);
    for from in DType::ALL {
        for to in DType::ALL {
            check(&mut engine, Op::Cast(to), &[&edgy(Type::new(from, shape(&[53])), 0)], 1.0);
        }
    }
}

#[test]
fn reductions_over_any_axes() {
    let mut engine = native(2);
    let shapes = [
        shape(&[3, 40, 5]),
        shape(&[70]),
        shape(&[17, 64]),
        shape(&[2, 1, 9]),
        shape(&[4, 0]),
        shape(&[]),
    ];
    for (dtype, s) in DType::ALL.into_iter().flat_map(|d| shapes.iter().map(move |s| (d, *s))) {
        for mask in 0..1usize << s.rank() {
            let axes: AxisSet = (0..s.rank()).filter(|a| mask >> a & 1 == 1).collect();
            for keep in [Keep::No, Keep::Yes] {
                let reduce = Reduce { axes, keep };
                for op in [Op::Sum(reduce), Op::Max(reduce), Op::Min(reduce), Op::Mean(reduce)] {
                    check(&mut engine, op, &[&plain(Type::new(dtype, s), 1)], 8.0);
                }
                for op in [Op::Max(reduce), Op::Min(reduce)] {
                    check(&mut engine, op, &[&edgy(Type::new(dtype, s), 1)], 0.0);
                }
            }
        }
        for axis in 0..s.rank() {
            check(
                &mut engine,
                Op::Argmax(ReduceOne { axis: axis as u8, keep: Keep::No }),
                &[&edgy(Type::new(dtype, s), 2)],
                0.0,
            );
        }
    }
}

#[test]
fn long_reductions_in_pieces() {
    let mut engine = native(2);
    for sizes in [&[100_003][..], &[5000, 33], &[3, 40_000], &[20_000, 2, 3]] {
        for dtype in DType::ALL {
            for axis in 0..sizes.len() {
                let reduce = Reduce { axes: [axis].into_iter().collect(), keep: Keep::No };
                let x = plain(Type::new(dtype, shape(sizes)), axis);
                for op in [Op::Sum(reduce), Op::Max(reduce), Op::Min(reduce)] {
                    check(&mut engine, op, &[&x], 16.0);
                }
            }
        }
    }
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
fn movement() {
    let mut engine = native(2);
    for dtype in DType::ALL {
        let x = edgy(Type::new(dtype, shape(&[6, 5, 14])), 0);
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1], [2, 0, 1]] {
            check(&mut engine, Op::Permute(Perm::new(&order).unwrap()), &[&x], 0.0);
        }
        for slice in [(0, 1, 6, 2), (1, 0, 5, 1), (2, 3, 14, 5), (2, 4, 4, 1)] {
            let (axis, start, stop, step) = slice;
            check(&mut engine, Op::Slice(Slice { axis, start, stop, step }), &[&x], 0.0);
        }
        check(&mut engine, Op::Reshape(shape(&[30, 14])), &[&x], 0.0);
        check(&mut engine, Op::Expand(shape(&[2, 6, 5, 14])), &[&x], 0.0);
        for axis in 0..3 {
            let mut sizes = [6, 5, 14];
            sizes[axis] = 3;
            check(
                &mut engine,
                Op::Cat(Axis(axis as u8)),
                &[&x, &edgy(Type::new(dtype, shape(&sizes)), 4), &x],
                0.0,
            );
            for (lo, hi, interior) in [(1, 2, 0), (0, 0, 2), (0, 0, 0), (3, 0, 1)] {
                pad(&mut engine, Pad { axis: axis as u8, lo, hi, interior }, &x);
            }
        }
    }
}

fn pad(engine: &mut Native, pad: Pad, x: &HostTensor) {
    let op = Op::Pad(pad);
    let filler = Scalar::I64(3);
    let Ok(want) = interp::eval(&op, &[interp::Arg::Tensor(x), interp::Arg::Scalar(filler)]) else {
        return;
    };
    let value = engine.upload(x).unwrap();
    let got = engine.execute(&op, &[Arg::Value(&value), Arg::Scalar(filler)]).unwrap();
    agree(&format!("{op} {}", x.ty()), &want, &engine.download(&got).unwrap(), 0.0);
}

#[test]
fn products() {
    let mut engine = native(2);
    let pairs: [(&[usize], &[usize]); 9] = [
        (&[7, 5], &[5, 9]),
        (&[130, 70], &[70, 65]),
        (&[5], &[5]),
        (&[4, 3, 5], &[5, 6]),
        (&[2, 1, 3, 5], &[4, 5, 2]),
        (&[3, 0], &[0, 4]),
        (&[0, 3], &[3, 4]),
        (&[1, 40], &[40, 1]),
        (&[8, 16, 12], &[8, 12, 20]),
    ];
    for dtype in DType::ALL {
        for (a, b) in pairs {
            check(
                &mut engine,
                Op::MatMul,
                &[&plain(Type::new(dtype, shape(a)), 1), &plain(Type::new(dtype, shape(b)), 2)],
                32.0,
            );
        }
    }
}

#[test]
fn gathers_and_scatters() {
    let mut engine = native(2);
    let index = |sizes: &[usize], bound: i64| {
        let s = shape(sizes);
        HostTensor::from_vec((0..s.numel() as i64).map(|i| (i * 7 + 3) % bound).collect(), s)
            .unwrap()
    };
    for dtype in DType::ALL {
        let x = plain(Type::new(dtype, shape(&[4, 6, 5])), 1);
        for axis in 0..3u8 {
            let bound = [4, 6, 5][usize::from(axis)];
            let same = index(&[3, 4, 5], bound);
            let src = plain(Type::new(dtype, shape(&[3, 4, 5])), 5);
            check(&mut engine, Op::Gather(Axis(axis)), &[&x, &same], 0.0);
            check(&mut engine, Op::ScatterAdd(Axis(axis)), &[&x, &same, &src], 4.0);
            let flat = index(&[2, 3], bound);
            check(&mut engine, Op::IndexSelect(Axis(axis)), &[&x, &flat], 0.0);
            let mut sizes: Vec<usize> = vec![4, 6, 5];
            sizes.splice(usize::from(axis)..usize::from(axis) + 1, [2, 3]);
            let src = plain(Type::new(dtype, shape(&sizes)), 6);
            check(&mut engine, Op::IndexAdd(Axis(axis)), &[&x, &flat, &src], 4.0);
        }
    }
}

#[test]
fn compositions_of_real_sizes() {
    let mut engine = native(2);
    let x = |sizes: &[usize], seed: usize| {
        let s = shape(sizes);
        let value = |i: usize| (((i * 2_654_435_761 + seed) >> 7) % 4001) as f32 * 1e-3 - 2.0;
        HostTensor::from_vec((0..s.numel()).map(value).collect(), s).unwrap()
    };
    let tokens = x(&[3, 37, 130], 1);
    for axis in 0..3 {
        check(&mut engine, Op::Softmax(Axis(axis)), &[&tokens], 16.0);
        check(&mut engine, Op::LogSoftmax(Axis(axis)), &[&tokens], 64.0);
    }
    for op in [Op::Gelu, Op::GeluTanh, Op::Sigmoid, Op::Rsqrt, Op::Relu] {
        check(&mut engine, op, &[&tokens], 64.0);
    }
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
