//! Which kernel each primitive is: one exhaustive match.

use super::{
    EvalError,
    array::Array,
    gather, movement,
    pointwise::{self as point, any2, compare, float, float2, number, number2},
    reduce, source,
};
use crate::{
    Type,
    attr::{AxisSet, Pad, ReduceOne, Slice},
    op::{Op, Primitive},
};

/// The value of a primitive of type `out`. Operands are as expansion leaves them: pointwise ones of
/// equal shape and dtype, matrices of equal rank and batch.
#[expect(clippy::too_many_lines, reason = "an arm for each primitive")]
pub(super) fn primitive(op: &Op, args: &[&Array], out: Type) -> Result<Array, EvalError> {
    let arg = |i: usize| {
        args.get(i).copied().ok_or(EvalError::Kind { wanted: "one more operand", found: out })
    };
    let Some(primitive) = op.primitive() else {
        return Err(EvalError::Kind { wanted: "a primitive op, not a derived one", found: out });
    };
    match &primitive {
        Primitive::Neg => number(out, arg(0)?, |x| -x, i64::wrapping_neg),
        Primitive::Abs => number(out, arg(0)?, f64::abs, i64::wrapping_abs),
        Primitive::Exp => float(out, arg(0)?, libm::exp),
        Primitive::Log => float(out, arg(0)?, libm::log),
        Primitive::Sqrt => float(out, arg(0)?, f64::sqrt),
        Primitive::Sin => float(out, arg(0)?, libm::sin),
        Primitive::Cos => float(out, arg(0)?, libm::cos),
        Primitive::Tanh => float(out, arg(0)?, libm::tanh),
        Primitive::Erf => float(out, arg(0)?, libm::erf),
        Primitive::Add => {
            any2(out, arg(0)?, arg(1)?, |x, y| x + y, i64::wrapping_add, |x, y| x | y)
        }
        Primitive::Sub => number2(out, arg(0)?, arg(1)?, |x, y| x - y, i64::wrapping_sub),
        Primitive::Mul => {
            any2(out, arg(0)?, arg(1)?, |x, y| x * y, i64::wrapping_mul, |x, y| x & y)
        }
        Primitive::Div => float2(out, arg(0)?, arg(1)?, |x, y| x / y),
        Primitive::Pow => number2(out, arg(0)?, arg(1)?, libm::pow, point::int_pow),
        Primitive::Fmod => number2(out, arg(0)?, arg(1)?, |x, y| x % y, point::int_fmod),
        Primitive::Maximum => any2(out, arg(0)?, arg(1)?, point::maximum, i64::max, |x, y| x | y),
        Primitive::Minimum => any2(out, arg(0)?, arg(1)?, point::minimum, i64::min, |x, y| x & y),
        Primitive::Eq => compare(out, arg(0)?, arg(1)?, |x, y| x == y, |x, y| x == y),
        Primitive::Lt => compare(out, arg(0)?, arg(1)?, |x, y| x < y, |x, y| x < y),
        Primitive::LogicalAnd => point::logic(out, arg(0)?, arg(1)?, |x, y| x & y),
        Primitive::LogicalOr => point::logic(out, arg(0)?, arg(1)?, |x, y| x | y),
        Primitive::LogicalXor => point::logic(out, arg(0)?, arg(1)?, |x, y| x ^ y),
        Primitive::LogicalNot => point::not(out, arg(0)?),
        Primitive::Where => point::select(out, arg(0)?, arg(1)?, arg(2)?),
        Primitive::Cast(_) => Ok(point::cast(out, arg(0)?)),
        Primitive::Sum(r) => Ok(reduce::sum(out, arg(0)?, &axes(r.axes))),
        Primitive::Max(r) => Ok(reduce::max(out, arg(0)?, &axes(r.axes))),
        Primitive::Min(r) => Ok(reduce::min(out, arg(0)?, &axes(r.axes))),
        Primitive::Argmax(ReduceOne { axis, .. }) => {
            Ok(reduce::argmax(out, arg(0)?, &[usize::from(*axis)]))
        }
        Primitive::ArgSort(order) => {
            Ok(reduce::argsort(out, arg(0)?, usize::from(order.axis), order.descending))
        }
        Primitive::CumSum(axis) => Ok(reduce::cumsum(out, arg(0)?, usize::from(axis.0))),
        Primitive::MatMul => reduce::matmul(out, arg(0)?, arg(1)?),
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

fn axes(set: AxisSet) -> Vec<usize> {
    set.iter().collect()
}
