//! Arithmetic. A law of real numbers holds to the bit for integers, which wrap, and rarely for
//! floats: x + 0 turns -0 into 0, and x - x is NaN at infinity.

use egg::Id;
use gt_ir::{DType, Op, Scalar, Shape, Type};

use super::{
    Cx,
    Dtypes::{Any, Float, NoFloat},
    Rule, by, number, rw,
};
use crate::{
    options::Numerics::{Approximate, Exact, Reassociate},
    passes::skips,
};

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    rw("neg-neg",            "(neg (neg ?x))",                      "?x",                          Exact,       Any),
    rw("abs-abs",            "(abs (abs ?x))",                      "(abs ?x)",                    Exact,       Any),
    rw("abs-neg",            "(abs (neg ?x))",                      "(abs ?x)",                    Exact,       Float),
    rw("div-one",            "(div ?x 1)",                          "?x",                          Exact,       Float),
    by("cast-cast",          "(cast@b (cast@a ?x))",                cast_cast,                     Exact,       Any),

    rw("add-neg-int",        "(add ?x (neg ?y))",                   "(sub ?x ?y)",                 Exact,       NoFloat),
    rw("sub-neg-int",        "(sub ?x (neg ?y))",                   "(add ?x ?y)",                 Exact,       NoFloat),
    rw("factor-int",         "(add (mul ?x ?y) (mul ?x ?z))",       "(mul ?x (add ?y ?z))",        Exact,       NoFloat),

    rw("max-max",            "(maximum (maximum ?x ?y) ?y)",        "(maximum ?x ?y)",             Reassociate, Float),
    rw("min-min",            "(minimum (minimum ?x ?y) ?y)",        "(minimum ?x ?y)",             Reassociate, Float),
    rw("add-neg",            "(add ?x (neg ?y))",                   "(sub ?x ?y)",                 Reassociate, Float),
    rw("sub-neg",            "(sub ?x (neg ?y))",                   "(add ?x ?y)",                 Reassociate, Float),
    rw("neg-sub",            "(neg (sub ?x ?y))",                   "(sub ?y ?x)",                 Reassociate, Float),
    rw("mul-neg-neg",        "(mul (neg ?x) (neg ?y))",             "(mul ?x ?y)",                 Reassociate, Float),
    rw("factor",             "(add (mul ?x ?y) (mul ?x ?z))",       "(mul ?x (add ?y ?z))",        Reassociate, Float),
    rw("factor-sub",         "(sub (mul ?x ?y) (mul ?x ?z))",       "(mul ?x (sub ?y ?z))",        Reassociate, Float),
    rw("mul-reciprocal",     "(mul ?x (div 1 ?y))",                 "(div ?x ?y)",                 Reassociate, Float),
    rw("div-div",            "(div (div ?x ?y) ?z)",                "(div ?x (mul ?y ?z))",        Reassociate, Float),
    by("scale-scale",        "(mul (mul ?x #a) #b)",                |cx| join(cx, Op::Mul),        Reassociate, Float),
    by("shift-shift",        "(add (add ?x #a) #b)",                |cx| join(cx, Op::Add),        Reassociate, Float),

    rw("exp-log",            "(exp (log ?x))",                      "?x",                          Approximate, Float),
    rw("log-exp",            "(log (exp ?x))",                      "?x",                          Approximate, Float),
    rw("exp-exp",            "(mul (exp ?x) (exp ?y))",             "(exp (add ?x ?y))",           Approximate, Float),
    rw("exp-over-exp",       "(div (exp ?x) (exp ?y))",             "(exp (sub ?x ?y))",           Approximate, Float),
    rw("log-log",            "(add (log ?x) (log ?y))",             "(log (mul ?x ?y))",           Approximate, Float),
    rw("log-minus-log",      "(sub (log ?x) (log ?y))",             "(log (div ?x ?y))",           Approximate, Float),
    rw("sqrt-square",        "(sqrt (mul ?x ?x))",                  "(abs ?x)",                    Approximate, Float),
    rw("square-sqrt",        "(mul (sqrt ?x) (sqrt ?x))",           "?x",                          Approximate, Float),
    rw("sqrt-times-sqrt",    "(mul (sqrt ?x) (sqrt ?y))",           "(sqrt (mul ?x ?y))",          Approximate, Float),
    rw("over-sqrt",          "(div ?x (sqrt ?x))",                  "(sqrt ?x)",                   Approximate, Float),
    by("abs-nonnegative",    "(abs ?x)",                            abs_nonnegative,               Approximate, Float),
    by("relu-nonnegative",   "(maximum ?x 0)",                      abs_nonnegative,               Approximate, Float),
    by("div-constant",       "(div ?x #c)",                         div_constant,                  Approximate, Float),
    by("div-scalar",         "(div ?x #c)",                         div_scalar,                    Approximate, Float),
    by("div-broadcast",      "(div ?x (expand@e ?y))",              div_broadcast,                 Approximate, Float),
];

fn cast_cast(cx: &mut Cx<'_>) -> Option<Id> {
    let (Op::Cast(to), Op::Cast(middle)) = (cx.attr(0), cx.attr(1)) else { return None };
    let (x, from) = (cx.var(0), cx.ty(cx.var(0)).dtype);
    if !skips(from, middle, to) {
        return None;
    }
    if from == to { Some(x) } else { cx.op(Op::Cast(to), &[x]) }
}

fn div_constant(cx: &mut Cx<'_>) -> Option<Id> {
    let (x, c) = (cx.var(0), cx.var(1));
    let value = cx.constant(c)?.as_f64();
    let inverse = 1.0 / value;
    (inverse.is_normal() && inverse.abs() < 1e4 && inverse.abs() > 1e-4)
        .then(|| times(cx, x, inverse))
        .flatten()
}

fn times(cx: &mut Cx<'_>, x: Id, factor: f64) -> Option<Id> {
    let ty = cx.ty(x);
    let factor = cx.full(number(factor, ty.dtype), ty);
    cx.op(Op::Mul, &[x, factor])
}

/// A division by one number everywhere: its reciprocal is computed once.
fn div_scalar(cx: &mut Cx<'_>) -> Option<Id> {
    let (x, ty) = (cx.var(0), cx.root());
    if ty.shape.rank() == 0 || cx.constant(cx.var(1)).is_some() {
        return None;
    }
    let scalar = cx.uniform_as(cx.var(1), Type::new(ty.dtype, Shape::SCALAR))?;
    times_reciprocal(cx, x, scalar, Op::Expand(ty.shape))
}

/// A division by repeated elements: one reciprocal for each of them.
fn div_broadcast(cx: &mut Cx<'_>) -> Option<Id> {
    let (x, y, spread) = (cx.var(0), cx.var(1), cx.attr(0));
    if cx.ty(y).shape.numel() * 4 > cx.root().shape.numel() {
        return None;
    }
    times_reciprocal(cx, x, y, spread)
}

/// x / y as `x * s * (1 / (y * s))`, where s is 1, or large where y is so small that its reciprocal
/// would not be finite.
fn times_reciprocal(cx: &mut Cx<'_>, x: Id, y: Id, spread: Op) -> Option<Id> {
    let ty = cx.ty(y);
    let (tiny, large) = match ty.dtype {
        DType::F32 => (2.0_f64.powi(-100), 2.0_f64.powi(64)),
        DType::F64 => (2.0_f64.powi(-1000), 2.0_f64.powi(512)),
        DType::Bf16 | DType::F16 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
            return None;
        }
    };
    let [one, tiny, large] = [1.0, tiny, large].map(|v| cx.full(Scalar::F64(v), ty));
    let size = cx.op(Op::Abs, &[y])?;
    let small = cx.op(Op::Lt, &[size, tiny])?;
    let scale = cx.op(Op::Where, &[small, large, one])?;
    let scaled = cx.op(Op::Mul, &[y, scale])?;
    let inverse = cx.op(Op::Div, &[one, scaled])?;
    let (scale, inverse) = (cx.op(spread, &[scale])?, cx.op(spread, &[inverse])?);
    let x = cx.op(Op::Mul, &[x, scale])?;
    cx.op(Op::Mul, &[x, inverse])
}

/// Two numbers are combined before they meet a tensor.
fn join(cx: &mut Cx<'_>, op: Op) -> Option<Id> {
    let (x, ty) = (cx.var(0), cx.root());
    let scalar = Type::new(ty.dtype, Shape::SCALAR);
    if ty.shape.rank() == 0 || cx.is_uniform(x) {
        return None;
    }
    let (a, b) = (cx.uniform_as(cx.var(1), scalar)?, cx.uniform_as(cx.var(2), scalar)?);
    let joined = cx.op(op, &[a, b])?;
    let joined = cx.op(Op::Expand(ty.shape), &[joined])?;
    cx.op(op, &[x, joined])
}

fn abs_nonnegative(cx: &mut Cx<'_>) -> Option<Id> {
    let x = cx.var(0);
    cx.is_nonnegative(x).then_some(x)
}
