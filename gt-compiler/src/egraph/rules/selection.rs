//! Conditions, comparisons and logic. All rules are exact.

use egg::Id;
use gt_ir::{DType, Op};

use super::{
    Cx,
    Dtypes::{Any, Bool},
    Rule, by, rw,
};
use crate::options::Numerics::Exact;

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    rw("where-not",      "(where (logical_not ?c) ?x ?y)",                    "(where ?c ?y ?x)",                 Exact, Any),
    rw("where-same",     "(where ?c ?x ?x)",                                  "?x",                               Exact, Any),
    rw("where-true",     "(where 1 ?x ?y)",                                   "?x",                               Exact, Any),
    rw("where-false",    "(where 0 ?x ?y)",                                   "?y",                               Exact, Any),
    rw("where-then",     "(where ?c (where ?c ?x ?y) ?z)",                    "(where ?c ?x ?z)",                 Exact, Any),
    rw("where-else",     "(where ?c ?x (where ?c ?y ?z))",                    "(where ?c ?x ?z)",                 Exact, Any),
    rw("where-and",      "(where ?c (where ?d ?x ?y) ?y)",                    "(where (logical_and ?c ?d) ?x ?y)", Exact, Any),
    by("where-bool",     "(where ?c 1 0)",                                    condition,                          Exact, Any),
    by("where-not-bool", "(where ?c 0 1)",                                    opposite,                           Exact, Any),
    rw("not-not",        "(logical_not (logical_not ?x))",                    "?x",                               Exact, Bool),
    rw("and-self",       "(logical_and ?x ?x)",                               "?x",                               Exact, Bool),
    rw("or-self",        "(logical_or ?x ?x)",                                "?x",                               Exact, Bool),
    rw("and-true",       "(logical_and ?x 1)",                                "?x",                               Exact, Bool),
    rw("and-false",      "(logical_and ?x 0)",                                "0",                                Exact, Bool),
    rw("or-true",        "(logical_or ?x 1)",                                 "1",                                Exact, Bool),
    rw("or-false",       "(logical_or ?x 0)",                                 "?x",                               Exact, Bool),
    rw("and-or",         "(logical_and ?x (logical_or ?x ?y))",               "?x",                               Exact, Bool),
    rw("or-and",         "(logical_or ?x (logical_and ?x ?y))",               "?x",                               Exact, Bool),
    rw("and-not",        "(logical_and ?x (logical_not ?x))",                 "0",                                Exact, Bool),
    rw("or-not",         "(logical_or ?x (logical_not ?x))",                  "1",                                Exact, Bool),
    rw("not-and",        "(logical_and (logical_not ?x) (logical_not ?y))",   "(logical_not (logical_or ?x ?y))", Exact, Bool),
    rw("not-or",         "(logical_or (logical_not ?x) (logical_not ?y))",    "(logical_not (logical_and ?x ?y))", Exact, Bool),
    rw("eq-true",        "(eq ?x 1)",                                         "?x",                               Exact, Bool),
    rw("eq-false",       "(eq ?x 0)",                                         "(logical_not ?x)",                 Exact, Bool),
    by("cast-is-zero",   "(eq (cast@c ?x) 0)",                                is_zero,                            Exact, Bool),
    by("cast-above-zero", "(lt 0 (cast@c ?x))",                               is_one,                             Exact, Bool),
];

/// A choice between true and false is the condition.
fn condition(cx: &mut Cx<'_>) -> Option<Id> {
    (cx.root().dtype == DType::Bool).then(|| cx.var(0))
}

fn opposite(cx: &mut Cx<'_>) -> Option<Id> {
    let c = condition(cx)?;
    cx.op(Op::LogicalNot, &[c])
}

/// A `bool` as a number is zero where it is false.
fn is_zero(cx: &mut Cx<'_>) -> Option<Id> {
    let x = cx.var(0);
    cx.op(Op::LogicalNot, &[x])
}

fn is_one(cx: &mut Cx<'_>) -> Option<Id> {
    Some(cx.var(0))
}
