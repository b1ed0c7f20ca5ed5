//! The kernel of each primitive, by exhaustive matches.
//!
//! This is the list of primitives that the interpreter implements, and it has no wildcard: a new
//! row of the table does not compile until it has a kernel here. The functions of single elements
//! come from `libm`, which gives the same bits on every machine.

use super::{
    EvalError,
    array::Array,
    gather, matrices, movement,
    pointwise::{self as point, any2, compare, float, float2, number, number2},
    reduce, source,
};
use crate::{
    Type,
    attr::{AxisSet, Pad, Slice},
    op::{Binary, Op, Primitive, Unary},
};

/// The value of a primitive of type `out`. Operands are as expansion leaves them: pointwise ones of
/// equal shape and dtype, matrices of equal rank and batch.
///
/// An operand of another kind is an [`EvalError`] and not a panic: graphs can be built by hand.
pub(super) fn primitive(op: &Op, args: &[&Array], out: Type) -> Result<Array, EvalError> {
    let arg = |i: usize| {
        args.get(i).copied().ok_or(EvalError::Kind { wanted: "one more operand", found: out })
    };
    let Some(primitive) = op.primitive() else {
        return Err(EvalError::Kind { wanted: "a primitive op, not a derived one", found: out });
    };
    match &primitive {
        Primitive::Unary(op) => unary(*op, arg(0)?, out),
        Primitive::Binary(op) => binary(*op, arg(0)?, arg(1)?, out),
        Primitive::Where => point::select(out, arg(0)?, arg(1)?, arg(2)?),
        Primitive::Cast(_) => Ok(point::cast(out, arg(0)?)),
        Primitive::Sum(r) => Ok(reduce::sum(out, arg(0)?, &axes(r.axes))),
        Primitive::Max(r) => Ok(reduce::max(out, arg(0)?, &axes(r.axes))),
        Primitive::Min(r) => Ok(reduce::min(out, arg(0)?, &axes(r.axes))),
        Primitive::ArgSort(order) => {
            Ok(reduce::argsort(out, arg(0)?, usize::from(order.axis), order.descending))
        }
        Primitive::CumSum(axis) => Ok(reduce::cumsum(out, arg(0)?, usize::from(axis.0))),
        Primitive::MatMul => reduce::matmul(out, arg(0)?, arg(1)?),
        Primitive::Cholesky
        | Primitive::TriangularSolve(_)
        | Primitive::Solve
        | Primitive::Determinant
        | Primitive::Qr(_)
        | Primitive::Eigh(_)
        | Primitive::Svd(_)
        | Primitive::MatrixExp
        | Primitive::Fft(_) => matrices::run(op, out, args),
        Primitive::Reshape(_) => Ok(movement::reshape(out, arg(0)?)),
        Primitive::Permute(perm) => {
            Ok(movement::permute(out, arg(0)?, &perm.axes().collect::<Vec<_>>()))
        }
        Primitive::Expand(_) => Ok(movement::expand(out, arg(0)?)),
        Primitive::Slice(Slice { axis, start, step, .. }) => {
            Ok(movement::slice(out, arg(0)?, usize::from(*axis), *start as usize, *step as usize))
        }
        Primitive::Unfold(w) => Ok(movement::unfold(
            out,
            arg(0)?,
            usize::from(w.axis),
            w.step as usize,
            w.dilation as usize,
        )),
        Primitive::Cat(axis) => movement::cat(out, args, usize::from(axis.0)),
        Primitive::Pad(Pad { axis, lo, interior, .. }) => movement::pad(
            out,
            arg(0)?,
            arg(1)?,
            usize::from(*axis),
            *lo as usize,
            *interior as usize,
        ),
        Primitive::Gather(axis) => gather::gather(out, arg(0)?, arg(1)?, usize::from(axis.0)),
        Primitive::ScatterAdd(axis) => {
            gather::scatter_add(out, arg(0)?, arg(1)?, arg(2)?, usize::from(axis.0))
        }
        Primitive::IndexSelect(axis) => {
            gather::index_select(out, arg(0)?, arg(1)?, usize::from(axis.0))
        }
        Primitive::IndexAdd(axis) => {
            gather::index_add(out, arg(0)?, arg(1)?, arg(2)?, usize::from(axis.0))
        }
        Primitive::Iota(_) => Ok(source::iota(out)),
        Primitive::Rand(_) => source::rand(out, arg(0)?),
        Primitive::Randn(_) => source::randn(out, arg(0)?),
        Primitive::Randint(_) => source::randint(out, arg(0)?, arg(1)?, arg(2)?),
    }
}

/// The axes of a set, in ascending order.
fn axes(set: AxisSet) -> Vec<usize> {
    set.iter().collect()
}

/// Functions of one operand. Those that only floats have refuse integers, which expansion casts.
fn unary(op: Unary, x: &Array, out: Type) -> Result<Array, EvalError> {
    match op {
        Unary::Neg => number(out, x, |x| -x, i64::wrapping_neg),
        Unary::Abs => number(out, x, f64::abs, i64::wrapping_abs),
        Unary::Exp => float(out, x, libm::exp),
        Unary::Exp2 => float(out, x, libm::exp2),
        Unary::Log => float(out, x, libm::log),
        Unary::Sqrt => float(out, x, f64::sqrt),
        Unary::Sin => float(out, x, libm::sin),
        Unary::Cos => float(out, x, libm::cos),
        Unary::Tanh => float(out, x, libm::tanh),
        Unary::Erf => float(out, x, libm::erf),
        Unary::Floor => number(out, x, f64::floor, |x| x),
        Unary::Ceil => number(out, x, f64::ceil, |x| x),
        Unary::Trunc => number(out, x, f64::trunc, |x| x),
        Unary::Round => number(out, x, f64::round_ties_even, |x| x),
        Unary::LogicalNot => point::not(out, x),
    }
}

/// Functions of two operands. Where a function takes `bool`, it is the logical one that agrees with
/// the numbers 0 and 1.
fn binary(op: Binary, a: &Array, b: &Array, out: Type) -> Result<Array, EvalError> {
    match op {
        Binary::Add => any2(out, a, b, |x, y| x + y, i64::wrapping_add, |x, y| x | y),
        Binary::Sub => number2(out, a, b, |x, y| x - y, i64::wrapping_sub),
        Binary::Mul => any2(out, a, b, |x, y| x * y, i64::wrapping_mul, |x, y| x & y),
        Binary::Div => float2(out, a, b, |x, y| x / y),
        Binary::Pow => number2(out, a, b, libm::pow, point::int_pow),
        Binary::Fmod => number2(out, a, b, |x, y| x % y, point::int_fmod),
        Binary::Maximum => any2(out, a, b, point::maximum, i64::max, |x, y| x | y),
        Binary::Minimum => any2(out, a, b, point::minimum, i64::min, |x, y| x & y),
        Binary::Eq => compare(out, a, b, |x, y| x == y, |x, y| x == y),
        Binary::Lt => compare(out, a, b, |x, y| x < y, |x, y| x < y),
        Binary::LogicalAnd => point::logic(out, a, b, |x, y| x & y),
        Binary::LogicalOr => point::logic(out, a, b, |x, y| x | y),
        Binary::LogicalXor => point::logic(out, a, b, |x, y| x ^ y),
        Binary::BitwiseAnd => point::int2(out, a, b, |x, y| x & y),
        Binary::LeftShift => point::int2(out, a, b, point::left_shift),
        Binary::RightShift => point::int2(out, a, b, point::right_shift),
    }
}
