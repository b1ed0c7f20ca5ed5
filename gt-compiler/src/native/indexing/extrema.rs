//! Extrema of what meets at positions that are data, as `maximum` and `minimum` have them: NaN if
//! one of them is, and of two zeros the positive one is the larger.
//!
//! Guarantees: the same bits in any order, but for those of a NaN. The order is therefore free.

use gt_ir::DType;
use half::{bf16, f16};

use super::{
    add::{Add, Order},
    one_by_one,
};

/// Of two floats, by the order of all of them. Which one it is has no branch, since nobody could
/// foresee it.
macro_rules! extremum {
    ($float:ty, $int:ty, $choose:ident) => {
        |a: $float, b: $float| {
            if a.is_nan() | b.is_nan() {
                return <$float>::NAN;
            }
            // As integers, whose order is that of the floats; doing it again undoes it.
            let ordered = |bits: $int| bits ^ ((bits >> (<$int>::BITS - 1)) & <$int>::MAX);
            let [a, b] = [a, b].map(|v| ordered(v.to_bits().cast_signed()));
            <$float>::from_bits(ordered(a.$choose(b)).cast_unsigned())
        }
    };
}

/// Whatever comes to a place stays if it is larger than what is there.
pub(super) fn largest(work: &Add<'_>, dtype: DType, base: Option<&[u8]>, to: &mut [u8]) {
    let free = Order::Free;
    match dtype {
        DType::F32 => {
            work.typed(base, to, free, f32::NEG_INFINITY, one_by_one(extremum!(f32, i32, max)));
        }
        DType::F64 => {
            work.typed(base, to, free, f64::NEG_INFINITY, one_by_one(extremum!(f64, i64, max)));
        }
        DType::Bf16 => {
            work.typed(base, to, free, bf16::NEG_INFINITY, one_by_one(extremum!(bf16, i16, max)));
        }
        DType::F16 => {
            work.typed(base, to, free, f16::NEG_INFINITY, one_by_one(extremum!(f16, i16, max)));
        }
        DType::I64 => work.typed(base, to, free, i64::MIN, one_by_one(i64::max)),
        DType::I32 => work.typed(base, to, free, i32::MIN, one_by_one(i32::max)),
        DType::U8 | DType::Bool => work.typed(base, to, free, u8::MIN, one_by_one(u8::max)),
    }
}

/// Whatever comes to a place stays if it is smaller than what is there.
pub(super) fn smallest(work: &Add<'_>, dtype: DType, base: Option<&[u8]>, to: &mut [u8]) {
    let free = Order::Free;
    match dtype {
        DType::F32 => {
            work.typed(base, to, free, f32::INFINITY, one_by_one(extremum!(f32, i32, min)))
        }
        DType::F64 => {
            work.typed(base, to, free, f64::INFINITY, one_by_one(extremum!(f64, i64, min)))
        }
        DType::Bf16 => {
            work.typed(base, to, free, bf16::INFINITY, one_by_one(extremum!(bf16, i16, min)));
        }
        DType::F16 => {
            work.typed(base, to, free, f16::INFINITY, one_by_one(extremum!(f16, i16, min)))
        }
        DType::I64 => work.typed(base, to, free, i64::MAX, one_by_one(i64::min)),
        DType::I32 => work.typed(base, to, free, i32::MAX, one_by_one(i32::min)),
        DType::U8 | DType::Bool => work.typed(base, to, free, u8::MAX, one_by_one(u8::min)),
    }
}
