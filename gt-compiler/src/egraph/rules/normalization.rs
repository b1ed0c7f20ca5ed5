//! Patterns of whole layers, as their expansions spell them. Patterns that share work are
//! rewritten; the others are counted for the report. The engine fuses by structure, so that
//! recognition alone gains nothing.

use super::{Cx, Dtypes::Float, Rule, known, known_if, rw};
use crate::options::Numerics::Approximate;

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    rw("softmax-of-log-softmax", "(exp (sub ?s (expand@e (log (sum@r (exp ?s))))))", "(div (exp ?s) (expand@e (sum@r (exp ?s))))", Approximate, Float),
    rw("log-of-softmax",         "(log (div (exp ?s) (expand@e (sum@r (exp ?s)))))", "(sub ?s (expand@e (log (sum@r (exp ?s)))))", Approximate, Float),

    known("softmax",     "(div (exp ?s) (expand@e (sum@r (exp ?s))))"),
    known("log_softmax", "(sub ?s (expand@e (log (sum@r (exp ?s)))))"),
    known("nll",         "(gather@a (sub ?s (expand@e (log (sum@r (exp ?s))))) ?i)"),
    known("softmax_backward", "(mul (div (exp ?s) (expand@e (sum@r (exp ?s)))) (sub ?g (expand@f ?t)))"),
    known("layer_norm",  "(mul (sub ?x (expand@e ?mean)) (expand@f (div 1 (sqrt (add (div (sum@s (mul (sub ?x (expand@g ?mean)) (sub ?x (expand@g ?mean)))) ?n) ?eps)))))"),
    known_if("rms_norm", "(mul ?x (expand@f (div 1 (sqrt (add (div (sum@s (mul ?x ?x)) ?n) ?eps)))))", is_not_centered),
    known("gelu",        "(mul (mul ?x 0.5) (add (erf (mul ?x 0.7071067811865476)) 1))"),
    known("gelu_tanh",   "(mul (mul ?x 0.5) (add (tanh ?t) 1))"),
    known("silu",        "(mul ?x (div 1 (add (exp (neg ?x)) 1)))"),
    known("sigmoid",     "(div 1 (add (exp (neg ?x)) 1))"),
    known("attention",   "(matmul (div (exp ?s) (expand@e (sum@r (exp ?s)))) ?v)"),
    known_if("adamw",    "(sub (mul ?p ?a) (div (mul ?m ?b) (add (div (sqrt ?v) ?c) ?d)))", are_scalars),
    known_if("sgd",      "(sub ?p (mul ?g ?lr))", has_rate),
];

/// An operand that was centered makes it a layer norm; an operand of another block may be centered.
fn is_not_centered(cx: &Cx<'_>) -> bool {
    cx.made_by(cx.var(0), gt_ir::OpKind::Sub).is_none() && !cx.is_external(cx.var(0))
}

/// Everything but the parameter and its moments is a number.
fn are_scalars(cx: &Cx<'_>) -> bool {
    [1, 3, 5, 6].into_iter().all(|i| cx.is_uniform(cx.var(i)))
}

/// The gradient is scaled by a number, and the parameter is given.
fn has_rate(cx: &Cx<'_>) -> bool {
    cx.is_uniform(cx.var(2)) && !cx.is_uniform(cx.var(1)) && cx.is_external(cx.var(0))
}
