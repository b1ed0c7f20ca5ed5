//! Data for sweeps over the op table, and the comparison of results.

use gt_ir::{DType, HostTensor, Op, Shape, Type, interp};

pub(crate) fn shape(sizes: &[usize]) -> Shape {
    Shape::new(sizes).unwrap()
}

/// Values that break things: zeros of both signs, infinities, NaN, subnormals, extremes, and
/// ordinary ones.
pub(crate) fn edgy(ty: Type, seed: usize) -> HostTensor {
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
pub(crate) fn plain(ty: Type, seed: usize) -> HostTensor {
    let n = ty.shape.numel();
    let value = |i: usize| ((i * 37 + seed * 11) % 23) as f64 - 9.0;
    let host = HostTensor::from_vec((0..n).map(value).collect(), ty.shape).unwrap();
    interp::eval(&Op::Cast(ty.dtype), &[interp::Arg::Tensor(&host)]).unwrap()
}

/// Units of precision a pointwise op may be off: where one is taken from what is nearly one, the
/// last digits of a library's function come first.
pub(crate) fn units(op: &Op, dtype: DType) -> f64 {
    match (op, dtype) {
        (Op::Gelu | Op::GeluTanh, DType::F32 | DType::F64) => 256.0,
        _ => 4.0,
    }
}

/// Elementwise agreement to a few units of the dtype's precision, zeros with their signs; integers
/// to the bit.
pub(crate) fn agree(what: &str, want: &HostTensor, got: &HostTensor, units: f64) {
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
        let close = if w == 0.0 && g == 0.0 {
            w.is_sign_negative() == g.is_sign_negative()
        } else {
            w == g
                || w.is_nan() && g.is_nan()
                || (w - g).abs() <= units * epsilon * w.abs() + units * smallest
        };
        assert!(close, "{what}: element {i} is {g}, but should be {w}");
    }
}
