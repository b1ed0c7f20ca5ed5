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
    op::Op,
};

/// The value of a primitive of type `out`. Operands are as expansion leaves them: pointwise ones of equal shape and
/// dtype, matrices of equal rank and batch.
#[expect(clippy::too_many_lines, reason = "an exhaustive match over the op table")]
pub(super) fn primitive(op: &Op, args: &[&Array], out: Type) -> Result<Array, EvalError> {
    let arg = |i: usize| {
        args.get(i).copied().ok_or(EvalError::Kind { wanted: "one more operand", found: out })
    };
    match op {
        Op::Neg => number(out, arg(0)?, |x| -x, i64::wrapping_neg),
        Op::Abs => number(out, arg(0)?, f64::abs, i64::wrapping_abs),
        Op::Exp => float(out, arg(0)?, libm::exp),
        Op::Log => float(out, arg(0)?, libm::log),
        Op::Sqrt => float(out, arg(0)?, f64::sqrt),
        Op::Sin => float(out, arg(0)?, libm::sin),
        Op::Cos => float(out, arg(0)?, libm::cos),
        Op::Tanh => float(out, arg(0)?, libm::tanh),
        Op::Erf => float(out, arg(0)?, libm::erf),
        Op::Add => any2(out, arg(0)?, arg(1)?, |x, y| x + y, i64::wrapping_add, |x, y| x | y),
        Op::Sub => number2(out, arg(0)?, arg(1)?, |x, y| x - y, i64::wrapping_sub),
        Op::Mul => any2(out, arg(0)?, arg(1)?, |x, y| x * y, i64::wrapping_mul, |x, y| x & y),
        Op::Div => float2(out, arg(0)?, arg(1)?, |x, y| x / y),
        Op::Pow => number2(out, arg(0)?, arg(1)?, libm::pow, point::int_pow),
        Op::Maximum => any2(out, arg(0)?, arg(1)?, point::maximum, i64::max, |x, y| x | y),
        Op::Minimum => any2(out, arg(0)?, arg(1)?, point::minimum, i64::min, |x, y| x & y),
        Op::Eq => compare(out, arg(0)?, arg(1)?, |x, y| x == y, |x, y| x == y),
        Op::Lt => compare(out, arg(0)?, arg(1)?, |x, y| x < y, |x, y| x < y),
        Op::LogicalAnd => point::logic(out, arg(0)?, arg(1)?, |x, y| x & y),
        Op::LogicalOr => point::logic(out, arg(0)?, arg(1)?, |x, y| x | y),
        Op::LogicalXor => point::logic(out, arg(0)?, arg(1)?, |x, y| x ^ y),
        Op::LogicalNot => point::not(out, arg(0)?),
        Op::Where => point::select(out, arg(0)?, arg(1)?, arg(2)?),
        Op::Cast(_) => Ok(point::cast(out, arg(0)?)),
        Op::Sum(r) => Ok(reduce::sum(out, arg(0)?, &axes(r.axes))),
        Op::Max(r) => Ok(reduce::max(out, arg(0)?, &axes(r.axes))),
        Op::Min(r) => Ok(reduce::min(out, arg(0)?, &axes(r.axes))),
        Op::Argmax(ReduceOne { axis, .. }) => {
            Ok(reduce::argmax(out, arg(0)?, &[usize::from(*axis)]))
        }
        Op::MatMul => reduce::matmul(out, arg(0)?, arg(1)?),
        Op::Reshape(_) => Ok(movement::reshape(out, arg(0)?)),
        Op::Permute(perm) => Ok(movement::permute(out, arg(0)?, &perm.axes().collect::<Vec<_>>())),
        Op::Expand(_) => Ok(movement::expand(out, arg(0)?)),
        Op::Slice(Slice { axis, start, step, .. }) => {
            Ok(movement::slice(out, arg(0)?, usize::from(*axis), *start as usize, *step as usize))
        }
        Op::Cat(axis) => movement::cat(out, args, usize::from(axis.0)),
        Op::Pad(Pad { axis, lo, interior, .. }) => movement::pad(
            out,
            arg(0)?,
            arg(1)?,
            usize::from(*axis),
            *lo as usize,
            *interior as usize,
        ),
        Op::Gather(axis) => gather::gather(out, arg(0)?, arg(1)?, usize::from(axis.0)),
        Op::ScatterAdd(axis) => {
            gather::scatter_add(out, arg(0)?, arg(1)?, arg(2)?, usize::from(axis.0))
        }
        Op::IndexSelect(axis) => gather::index_select(out, arg(0)?, arg(1)?, usize::from(axis.0)),
        Op::IndexAdd(axis) => {
            gather::index_add(out, arg(0)?, arg(1)?, arg(2)?, usize::from(axis.0))
        }
        Op::Iota(_) => Ok(source::iota(out)),
        Op::Rand(_) => source::rand(out, arg(0)?),
        Op::Randn(_) => source::randn(out, arg(0)?),
        Op::Randint(_) => source::randint(out, arg(0)?, arg(1)?, arg(2)?),
        Op::Full(_)
        | Op::Arange(_)
        | Op::Ne
        | Op::Gt
        | Op::Ge
        | Op::Le
        | Op::Rsqrt
        | Op::Sigmoid
        | Op::Relu
        | Op::Gelu
        | Op::GeluTanh
        | Op::Mean(_)
        | Op::Softmax(_)
        | Op::LogSoftmax(_)
        | Op::LayerNorm(_)
        | Op::Transpose(_)
        | Op::OneHot(_) => {
            Err(EvalError::Kind { wanted: "a primitive op, not a derived one", found: out })
        }
    }
}

fn axes(set: AxisSet) -> Vec<usize> {
    set.iter().collect()
}
