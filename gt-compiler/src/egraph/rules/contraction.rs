//! Matrix products. A rule that changes the order or the number of the additions is not exact: only
//! a product that is repeated as a whole is computed once to the bit.

use egg::Id;
use gt_ir::{Dim, Op, Shape, Type, attr::Perm};

use super::{Cx, Dtypes::Any, Rule, by, rw};
use crate::options::Numerics::{Exact, Reassociate};

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    by("matmul-both-repeat",   "(matmul (expand@e ?a) (expand@f ?b))",          both_repeat,         Exact,       Any),
    by("matmul-transposed",    "(permute@p (matmul ?a ?b))",                    transposed,          Reassociate, Any),
    by("matmul-left",          "(matmul ?a (matmul ?b ?c))",                    left,                Reassociate, Any),
    by("matmul-right",         "(matmul (matmul ?a ?b) ?c)",                    right,               Reassociate, Any),
    by("matmul-outer",         "(matmul ?a ?b)",                                outer,               Reassociate, Any),
    rw("factor-matmul-left",   "(add (matmul ?a ?b) (matmul ?a ?c))",           "(matmul ?a (add ?b ?c))", Reassociate, Any),
    rw("factor-matmul-right",  "(add (matmul ?a ?c) (matmul ?b ?c))",           "(matmul (add ?a ?b) ?c)", Reassociate, Any),
    rw("matmul-neg-left",      "(matmul (neg ?a) ?b)",                          "(neg (matmul ?a ?b))", Reassociate, Any),
    rw("matmul-neg-right",     "(matmul ?a (neg ?b))",                          "(neg (matmul ?a ?b))", Reassociate, Any),
    by("matmul-hoist-left",    "(matmul (mul ?a ?s) ?b)",                       hoist_left,          Reassociate, Any),
    by("matmul-hoist-right",   "(matmul ?a (mul ?b ?s))",                       hoist_right,         Reassociate, Any),
    by("matmul-sink-scale",    "(mul (matmul ?a ?b) ?s)",                       |cx| sink(cx, Op::Mul), Reassociate, Any),
    by("matmul-sink-division", "(div (matmul ?a ?b) ?s)",                       |cx| sink(cx, Op::Div), Reassociate, Any),
    by("normalize-after",      "(matmul (div ?a (expand@e ?z)) ?b)",            normalize_after,     Reassociate, Any),
];

/// A batch in which every product is the same one.
fn both_repeat(cx: &mut Cx<'_>) -> Option<Id> {
    let (a, b, root) = (cx.var(0), cx.var(1), cx.root());
    let (sa, sb) = (cx.ty(a).shape, cx.ty(b).shape);
    let rank = root.shape.rank();
    let own = |s: &Shape, full: &Shape| {
        s.rank() >= 2 && s.sizes()[s.rank() - 2..] == full.sizes()[rank - 2..]
    };
    let (Op::Expand(ea), Op::Expand(eb)) = (cx.attr(0), cx.attr(1)) else { return None };
    if sa.rank() != sb.rank() || !own(&sa, &ea) || !own(&sb, &eb) {
        return None;
    }
    // The same leading axes, or products of one matrix with several would be repeated as well.
    if sa.sizes()[..sa.rank() - 2] != sb.sizes()[..sb.rank() - 2] {
        return None;
    }
    let product = cx.op(Op::MatMul, &[a, b])?;
    cx.op(Op::Expand(root.shape), &[product])
}

/// (A B)' = B' A'.
fn transposed(cx: &mut Cx<'_>) -> Option<Id> {
    let (Op::Permute(perm), a, b) = (cx.attr(0), cx.var(0), cx.var(1)) else { return None };
    let rank = perm.rank();
    if perm != Perm::swap(rank, rank - 2, rank - 1)? {
        return None;
    }
    let (b, a) = (cx.op(Op::Permute(perm), &[b])?, cx.op(Op::Permute(perm), &[a])?);
    cx.op(Op::MatMul, &[b, a])
}

fn work(a: &Shape, b: &Shape) -> f64 {
    a.numel() as f64 * b.sizes().last().copied().unwrap_or(1) as f64
}

/// (A B) C where it takes fewer multiplications than A (B C).
fn left(cx: &mut Cx<'_>) -> Option<Id> {
    let (a, b, c) = (cx.var(0), cx.var(1), cx.var(2));
    let ab = cx.op(Op::MatMul, &[a, b])?;
    let now = work(&cx.ty(b).shape, &cx.ty(c).shape) + work(&cx.ty(a).shape, &cx.root().shape);
    let then = work(&cx.ty(a).shape, &cx.ty(b).shape) + work(&cx.ty(ab).shape, &cx.ty(c).shape);
    (then < now).then(|| cx.op(Op::MatMul, &[ab, c])).flatten()
}

/// A (B C) where it takes fewer multiplications than (A B) C.
fn right(cx: &mut Cx<'_>) -> Option<Id> {
    let (a, b, c) = (cx.var(0), cx.var(1), cx.var(2));
    let bc = cx.op(Op::MatMul, &[b, c])?;
    let ab =
        Shape::collect(cx.ty(a).shape.dims().take(cx.ty(a).shape.rank() - 1).chain([Dim::new(0)]))
            .ok()?;
    let n = cx.ty(b).shape.sizes().last().copied()?;
    let rows: usize = ab.sizes()[..ab.rank() - 1].iter().product();
    let now = work(&cx.ty(a).shape, &cx.ty(b).shape)
        + (rows * n) as f64 * *cx.ty(c).shape.sizes().last()? as f64;
    let then = work(&cx.ty(b).shape, &cx.ty(c).shape) + work(&cx.ty(a).shape, &cx.ty(bc).shape);
    (then < now).then(|| cx.op(Op::MatMul, &[a, bc])).flatten()
}

/// A column times a row is pointwise.
fn outer(cx: &mut Cx<'_>) -> Option<Id> {
    let (a, b, root) = (cx.var(0), cx.var(1), cx.root());
    if cx.ty(a).shape.sizes().last() != Some(&1) {
        return None;
    }
    let spread = |cx: &mut Cx<'_>, x: Id| {
        if cx.ty(x).shape.same_sizes(&root.shape) {
            Some(x)
        } else {
            cx.op(Op::Expand(root.shape), &[x])
        }
    };
    let (a, b) = (spread(cx, a)?, spread(cx, b)?);
    cx.op(Op::Mul, &[a, b])
}

/// A scale goes to the result where that is smaller than the operand.
fn hoist_left(cx: &mut Cx<'_>) -> Option<Id> {
    let (a, s, b) = (cx.var(0), cx.var(1), cx.var(2));
    hoist(cx, a, s, &[a, b])
}

fn hoist_right(cx: &mut Cx<'_>) -> Option<Id> {
    let (a, b, s) = (cx.var(0), cx.var(1), cx.var(2));
    hoist(cx, b, s, &[a, b])
}

fn hoist(cx: &mut Cx<'_>, scaled: Id, s: Id, operands: &[Id]) -> Option<Id> {
    let root = cx.root();
    if cx.is_uniform(scaled) || root.shape.numel() > cx.ty(scaled).shape.numel() {
        return None;
    }
    let s = cx.uniform_as(s, root)?;
    let product = cx.op(Op::MatMul, operands)?;
    cx.op(Op::Mul, &[product, s])
}

/// A scale goes to the left operand where that is smaller than the result.
fn sink(cx: &mut Cx<'_>, op: Op) -> Option<Id> {
    let (a, b, s, root) = (cx.var(0), cx.var(1), cx.var(2), cx.root());
    let ty = cx.ty(a);
    if ty.shape.numel() >= root.shape.numel() {
        return None;
    }
    let s = cx.uniform_as(s, Type::new(ty.dtype, ty.shape))?;
    let scaled = cx.op(op, &[a, s])?;
    cx.op(Op::MatMul, &[scaled, b])
}

/// Rows that are divided by a number each: the rows of the product are divided instead, where they
/// are shorter, as attention does with its normalizer.
fn normalize_after(cx: &mut Cx<'_>) -> Option<Id> {
    let (a, z, b, root) = (cx.var(0), cx.var(1), cx.var(2), cx.root());
    let by_row =
        cx.ty(z).shape.sizes().last().is_none_or(|&s| s == 1) && cx.ty(z).shape.rank() >= 1;
    if !by_row
        || root.shape.numel() > cx.ty(a).shape.numel()
        || *cx.ty(a).shape.sizes().last()? == 1
    {
        return None;
    }
    let product = cx.op(Op::MatMul, &[a, b])?;
    let z = cx.op(Op::Expand(root.shape), &[z])?;
    cx.op(Op::Div, &[product, z])
}
