//! Pointwise kernels: operands of equal shape, one loop each.
//!
//! Each function takes one closure for each kind of element that the op accepts: floats, which are
//! held as `f64`, integers, which are held as `i64`, and bools. The result is rounded or wrapped to
//! the dtype of `out` by [`Array::new`]. An operand of a kind that the op does not take is an
//! [`EvalError`].

use std::cmp::Ordering;

use super::{
    EvalError,
    array::{Array, Data},
};
use crate::{DType, Type};

/// A function of one float.
pub(super) fn float(out: Type, x: &Array, f: impl Fn(f64) -> f64) -> Result<Array, EvalError> {
    Ok(Array::new(out, Data::Float(x.floats()?.iter().map(|x| f(*x)).collect())))
}

/// A function of one number, given for both categories.
pub(super) fn number(
    out: Type,
    x: &Array,
    float: impl Fn(f64) -> f64,
    int: impl Fn(i64) -> i64,
) -> Result<Array, EvalError> {
    let data = match &x.data {
        Data::Float(v) => Data::Float(v.iter().map(|x| float(*x)).collect()),
        Data::Int(v) => Data::Int(v.iter().map(|x| int(*x)).collect()),
        Data::Bool(_) => return Err(EvalError::Kind { wanted: "numbers", found: x.ty }),
    };
    Ok(Array::new(out, data))
}

/// Logical negation.
pub(super) fn not(out: Type, x: &Array) -> Result<Array, EvalError> {
    Ok(Array::new(out, Data::Bool(x.bools()?.iter().map(|x| !x).collect())))
}

/// A function of two floats.
pub(super) fn float2(
    out: Type,
    x: &Array,
    y: &Array,
    f: impl Fn(f64, f64) -> f64,
) -> Result<Array, EvalError> {
    Ok(Array::new(out, Data::Float(zip(x.floats()?, y.floats()?, f))))
}

/// A function of two numbers, given for both categories.
pub(super) fn number2(
    out: Type,
    x: &Array,
    y: &Array,
    float: impl Fn(f64, f64) -> f64,
    int: impl Fn(i64, i64) -> i64,
) -> Result<Array, EvalError> {
    let data = match &x.data {
        Data::Float(v) => Data::Float(zip(v, y.floats()?, float)),
        Data::Int(v) => Data::Int(zip(v, y.ints()?, int)),
        Data::Bool(_) => return Err(EvalError::Kind { wanted: "numbers", found: x.ty }),
    };
    Ok(Array::new(out, data))
}

/// A function of two integers.
pub(super) fn int2(
    out: Type,
    x: &Array,
    y: &Array,
    f: impl Fn(i64, i64) -> i64,
) -> Result<Array, EvalError> {
    Ok(Array::new(out, Data::Int(zip(x.ints()?, y.ints()?, f))))
}

/// A function of two elements of any category into the same one.
pub(super) fn any2(
    out: Type,
    x: &Array,
    y: &Array,
    float: impl Fn(f64, f64) -> f64,
    int: impl Fn(i64, i64) -> i64,
    bool: impl Fn(bool, bool) -> bool,
) -> Result<Array, EvalError> {
    match &x.data {
        Data::Bool(v) => Ok(Array::new(out, Data::Bool(zip(v, y.bools()?, bool)))),
        Data::Float(_) | Data::Int(_) => number2(out, x, y, float, int),
    }
}

/// A function of two bools.
pub(super) fn logic(
    out: Type,
    x: &Array,
    y: &Array,
    f: impl Fn(bool, bool) -> bool,
) -> Result<Array, EvalError> {
    Ok(Array::new(out, Data::Bool(zip(x.bools()?, y.bools()?, f))))
}

/// A comparison.
///
/// Bools are ordered as 0 and 1.
pub(super) fn compare(
    out: Type,
    x: &Array,
    y: &Array,
    float: impl Fn(f64, f64) -> bool,
    int: impl Fn(i64, i64) -> bool,
) -> Result<Array, EvalError> {
    let data = match &x.data {
        Data::Float(v) => zip(v, y.floats()?, float),
        Data::Int(v) => zip(v, y.ints()?, int),
        Data::Bool(v) => zip(v, y.bools()?, |a, b| int(i64::from(a), i64::from(b))),
    };
    Ok(Array::new(out, Data::Bool(data)))
}

/// Elements of `yes` where `condition` holds, of `no` elsewhere.
pub(super) fn select(
    out: Type,
    condition: &Array,
    yes: &Array,
    no: &Array,
) -> Result<Array, EvalError> {
    let c = condition.bools()?;
    let data = match &yes.data {
        Data::Float(v) => Data::Float(choose(c, v, no.floats()?)),
        Data::Int(v) => Data::Int(choose(c, v, no.ints()?)),
        Data::Bool(v) => Data::Bool(choose(c, v, no.bools()?)),
    };
    Ok(Array::new(out, data))
}

/// Conversion to the dtype of `out`: floats to integers truncate and saturate (`nan` gives 0),
/// integers to narrower ones wrap, and everything but zero is `true`.
pub(super) fn cast(out: Type, x: &Array) -> Array {
    let to = out.dtype;
    let data = if to.is_float() {
        Data::Float(match &x.data {
            Data::Float(v) => v.clone(),
            Data::Int(v) if to == DType::F64 => v.iter().map(|x| *x as f64).collect(),
            // One rounding from the integer, not a second one by way of `f64`.
            Data::Int(v) => v.iter().map(|x| f64::from(*x as f32)).collect(),
            Data::Bool(v) => v.iter().map(|x| f64::from(u8::from(*x))).collect(),
        })
    } else if to == DType::Bool {
        Data::Bool(match &x.data {
            Data::Float(v) => v.iter().map(|x| *x != 0.0).collect(),
            Data::Int(v) => v.iter().map(|x| *x != 0).collect(),
            Data::Bool(v) => v.clone(),
        })
    } else {
        Data::Int(match &x.data {
            Data::Float(v) => v.iter().map(|x| truncate(to, *x)).collect(),
            Data::Int(v) => v.clone(),
            Data::Bool(v) => v.iter().map(|x| i64::from(*x)).collect(),
        })
    };
    Array::new(out, data)
}

/// A float to an integer as `cast` does: towards 0, saturating, NaN to 0.
fn truncate(to: DType, x: f64) -> i64 {
    match to {
        DType::I32 => i64::from(x as i32),
        DType::U8 => i64::from(x as u8),
        DType::I64 | DType::F32 | DType::F64 | DType::Bf16 | DType::F16 | DType::Bool => x as i64,
    }
}

/// The larger one; `nan` when either is. Of two zeros the positive is the larger.
pub(super) fn maximum(a: f64, b: f64) -> f64 {
    match (a.is_nan() || b.is_nan(), a.total_cmp(&b)) {
        (true, _) => f64::NAN,
        (false, Ordering::Less) => b,
        (false, _) => a,
    }
}

/// The smaller one; `nan` when either is. Of two zeros the negative is the smaller.
pub(super) fn minimum(a: f64, b: f64) -> f64 {
    -maximum(-a, -b)
}

/// Integer power, wrapping; a negative exponent gives the truncated result: 0 unless the base is 1
/// or -1.
pub(super) fn int_pow(base: i64, exponent: i64) -> i64 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 if exponent % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let (mut result, mut square, mut left) = (1_i64, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left >>= 1;
    }
    result
}

/// The remainder of the division that rounds towards 0; a divisor of 0 leaves `x`.
pub(super) fn int_fmod(x: i64, y: i64) -> i64 {
    if y == 0 { x } else { x.wrapping_rem(y) }
}

/// 0 by a count out of range. A count between the bits of a narrower dtype and 64 leaves nothing in
/// that dtype either.
pub(super) fn left_shift(x: i64, count: i64) -> i64 {
    u32::try_from(count).ok().and_then(|count| x.checked_shl(count)).unwrap_or(0)
}

/// The sign by a count out of range.
pub(super) fn right_shift(x: i64, count: i64) -> i64 {
    x >> u32::try_from(count).map_or(63, |count| count.min(63))
}

/// One function over two arrays.
fn zip<T: Copy, U>(x: &[T], y: &[T], f: impl Fn(T, T) -> U) -> Vec<U> {
    x.iter().zip(y).map(|(x, y)| f(*x, *y)).collect()
}

/// Elements of the first where the condition holds, of the second elsewhere.
fn choose<T: Copy>(c: &[bool], yes: &[T], no: &[T]) -> Vec<T> {
    c.iter().zip(yes.iter().zip(no)).map(|(c, (yes, no))| if *c { *yes } else { *no }).collect()
}
