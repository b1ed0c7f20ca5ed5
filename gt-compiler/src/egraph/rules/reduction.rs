//! Sums and extrema over axes. The operand's shape and the axes decide the order of the additions
//! of a float sum. A rule is exact for floats only if it keeps both, except for axes of size 1.

use egg::Id;
use gt_ir::{
    Dim, Op, OpKind, Shape,
    attr::{AxisSet, Keep, Perm, Reduce},
};
use smallvec::SmallVec;

use super::{
    Cx,
    Dtypes::{Any, Float, NoFloat},
    Rule, by, number, rw,
};
use crate::options::Numerics::{Exact, Reassociate};

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    by("sum-keep",            "(sum@r ?x)",                        keep_twin,        Exact,       Any),
    by("max-keep",            "(max@r ?x)",                        keep_twin,        Exact,       Any),
    by("min-keep",            "(min@r ?x)",                        keep_twin,        Exact,       Any),
    by("sum-units",           "(sum@r (reshape@s ?x))",            through_units,    Exact,       Any),
    by("max-units",           "(max@r (reshape@s ?x))",            through_units,    Exact,       Any),
    by("min-units",           "(min@r (reshape@s ?x))",            through_units,    Exact,       Any),
    by("max-of-repeated",     "(max@r (expand@e ?x))",             of_repeated,      Exact,       Any),
    by("min-of-repeated",     "(min@r (expand@e ?x))",             of_repeated,      Exact,       Any),
    by("sum-of-repeated-int", "(sum@r (expand@e ?x))",             of_repeated,      Exact,       NoFloat),
    by("sum-sum-int",         "(sum@r (sum@s ?x))",                twice,            Exact,       NoFloat),
    by("max-max-over-int",    "(max@r (max@s ?x))",                twice,            Exact,       NoFloat),
    by("min-min-over-int",    "(min@r (min@s ?x))",                twice,            Exact,       NoFloat),
    by("sum-permute-int",     "(sum@r (permute@p ?x))",            permuted,         Exact,       NoFloat),
    by("max-permute-int",     "(max@r (permute@p ?x))",            permuted,         Exact,       NoFloat),
    by("min-permute-int",     "(min@r (permute@p ?x))",            permuted,         Exact,       NoFloat),
    rw("max-relu",            "(max@r (maximum ?x 0))",            "(maximum (max@r ?x) 0)", Exact, NoFloat),

    by("sum-of-repeated",     "(sum@r (expand@e ?x))",             of_repeated,      Reassociate, Float),
    by("sum-sum",             "(sum@r (sum@s ?x))",                twice,            Reassociate, Float),
    by("max-max-over",        "(max@r (max@s ?x))",                twice,            Reassociate, Float),
    by("min-min-over",        "(min@r (min@s ?x))",                twice,            Reassociate, Float),
    by("sum-permute",         "(sum@r (permute@p ?x))",            permuted,         Reassociate, Float),
    by("max-permute",         "(max@r (permute@p ?x))",            permuted,         Reassociate, Float),
    by("min-permute",         "(min@r (permute@p ?x))",            permuted,         Reassociate, Float),
    rw("sum-neg",             "(sum@r (neg ?x))",                  "(neg (sum@r ?x))", Reassociate, Any),
    by("sum-scaled",          "(sum@r (mul ?x ?y))",               |cx| scaled(cx, Op::Mul), Reassociate, Any),
    by("sum-divided",         "(sum@r (div ?x ?y))",               |cx| scaled(cx, Op::Div), Reassociate, Any),
    by("add-sums",            "(add (sum@r ?x) (sum@s ?y))",       add_sums,         Reassociate, Any),
];

/// A kind of reduction.
type Make = fn(Reduce) -> Op;

/// The attribute of a reduction, and its kind.
#[expect(clippy::wildcard_enum_match_arm, reason = "other ops are no folds over axes")]
fn parts(op: Op) -> Option<(Reduce, Make)> {
    match op {
        Op::Sum(r) => Some((r, Op::Sum)),
        Op::Max(r) => Some((r, Op::Max)),
        Op::Min(r) => Some((r, Op::Min)),
        _ => None,
    }
}

/// A reduction that exists with and without its axes is done once.
fn keep_twin(cx: &mut Cx<'_>) -> Option<Id> {
    let ((reduce, make), x, root) = (parts(cx.attr(0))?, cx.var(0), cx.root());
    if reduce.keep == Keep::No {
        return None;
    }
    let twin = cx.existing(make(Reduce { keep: Keep::No, ..reduce }), &[x])?;
    cx.op(Op::Reshape(root.shape), &[twin])
}

/// Axes of size 1 that a reshape put in or took out.
fn through_units(cx: &mut Cx<'_>) -> Option<Id> {
    let ((reduce, make), x, root) = (parts(cx.attr(0))?, cx.var(0), cx.root());
    let Op::Reshape(middle) = cx.attr(1) else { return None };
    let from = cx.ty(x).shape;
    let real =
        |s: &Shape| (0..s.rank()).filter(|&i| s.sizes()[i] != 1).collect::<SmallVec<[usize; 8]>>();
    let (own, seen) = (real(&from), real(&middle));
    let same = own.len() == seen.len()
        && own.iter().zip(&seen).all(|(a, b)| from.sizes()[*a] == middle.sizes()[*b]);
    // Axes of size 0 may correspond in several ways.
    if !same || from.numel() == 0 || reduce.axes.iter().any(|a| middle.sizes()[a] == 1) {
        return None;
    }
    let axes: AxisSet =
        own.iter().zip(&seen).filter(|(_, s)| reduce.axes.contains(**s)).map(|(o, _)| *o).collect();
    let reduced = cx.op(make(Reduce { axes, keep: Keep::No }), &[x])?;
    cx.op(Op::Reshape(root.shape), &[reduced])
}

/// Over axes along which the operand repeats, a sum is a product and an extremum does nothing.
fn of_repeated(cx: &mut Cx<'_>) -> Option<Id> {
    let ((reduce, make), x, root) = (parts(cx.attr(0))?, cx.var(0), cx.root());
    let Op::Expand(full) = cx.attr(1) else { return None };
    let from = cx.ty(x).shape;
    let lead = full.rank() - from.rank();
    if full.numel() == 0 || from.numel() == full.numel() {
        return None;
    }
    let repeats = |axis: usize| axis < lead || from.sizes()[axis - lead] != full.sizes()[axis];
    let own: AxisSet = reduce.axes.iter().filter(|&a| !repeats(a)).map(|a| a - lead).collect();
    let times: usize =
        reduce.axes.iter().filter(|&a| repeats(a)).map(|a| full.sizes()[a]).product();
    let mut value = x;
    if !own.is_empty() {
        value = cx.op(make(Reduce { axes: own, keep: Keep::Yes }), &[value])?;
    }
    if times != 1 && matches!(cx.attr(0), Op::Sum(_)) {
        let ty = cx.ty(value);
        let times = cx.full(number(times as f64, ty.dtype), ty);
        value = cx.op(Op::Mul, &[value, times])?;
    }
    // Sizes in the rank of the root: reduced axes are gone, others are repeated again.
    let sizes: SmallVec<[Dim; 8]> = (0..full.rank())
        .filter(|a| reduce.keep == Keep::Yes || !reduce.axes.contains(*a))
        .map(|a| {
            Dim::new(if a < lead || reduce.axes.contains(a) { 1 } else { from.sizes()[a - lead] })
        })
        .collect();
    let value = cx.op(Op::Reshape(Shape::from_dims(&sizes).ok()?), &[value])?;
    cx.op(Op::Expand(root.shape), &[value])
}

/// A reduction of a reduction is one over the axes of both.
fn twice(cx: &mut Cx<'_>) -> Option<Id> {
    let ((then, make), (first, _)) = (parts(cx.attr(0))?, parts(cx.attr(1))?);
    let (x, root) = (cx.var(0), cx.root());
    let rank = cx.ty(x).shape.rank();
    let left: SmallVec<[usize; 8]> =
        (0..rank).filter(|a| first.keep == Keep::Yes || !first.axes.contains(*a)).collect();
    let axes: AxisSet = then.axes.iter().map(|a| left[a]).chain(first.axes.iter()).collect();
    let reduced = cx.op(make(Reduce { axes, keep: Keep::No }), &[x])?;
    cx.op(Op::Reshape(root.shape), &[reduced])
}

/// The axes of the operand that a permutation renamed.
fn permuted(cx: &mut Cx<'_>) -> Option<Id> {
    let ((reduce, make), Op::Permute(perm)) = (parts(cx.attr(0))?, cx.attr(1)) else { return None };
    let (x, root) = (cx.var(0), cx.root());
    let from: SmallVec<[usize; 8]> = perm.axes().collect();
    let axes: AxisSet = reduce.axes.iter().map(|a| from[a]).collect();
    let reduced = cx.op(make(Reduce { axes, keep: Keep::No }), &[x])?;
    // The axes of the operand that are left, in the order the permutation wants.
    let left: SmallVec<[usize; 8]> = (0..from.len()).filter(|a| !axes.contains(*a)).collect();
    let wanted = from.iter().filter(|a| !axes.contains(**a));
    let order: SmallVec<[usize; 8]> =
        wanted.filter_map(|a| left.iter().position(|l| l == a)).collect();
    let ordered = if order.is_sorted() {
        reduced
    } else {
        cx.op(Op::Permute(Perm::new(&order)?), &[reduced])?
    };
    cx.op(Op::Reshape(root.shape), &[ordered])
}

/// A factor that is constant along the summed axes is taken out of the sum.
fn scaled(cx: &mut Cx<'_>, op: Op) -> Option<Id> {
    let (Op::Sum(reduce), x, y, root) = (cx.attr(0), cx.var(0), cx.var(1), cx.root()) else {
        return None;
    };
    let full = cx.ty(x).shape;
    if reduce.axes.is_empty() || cx.is_uniform(x) || root.shape.numel() * 2 > full.numel() {
        return None;
    }
    let sum = |cx: &mut Cx<'_>| cx.op(Op::Sum(reduce), &[x]);
    if cx.is_uniform(y) {
        let (sum, scale) = (sum(cx)?, cx.uniform_as(y, root)?);
        return cx.op(op, &[sum, scale]);
    }
    let (_, small) = cx.made_by(y, OpKind::Expand)?;
    let small = *small.first()?;
    let from = cx.ty(small).shape;
    let lead = full.rank() - from.rank();
    let own = |axis: usize| if axis < lead { 1 } else { from.sizes()[axis - lead] };
    if reduce.axes.iter().any(|a| own(a) != 1) {
        return None;
    }
    let sizes: SmallVec<[Dim; 8]> = (0..full.rank())
        .filter(|a| reduce.keep == Keep::Yes || !reduce.axes.contains(*a))
        .map(|a| Dim::new(own(a)))
        .collect();
    let sum = sum(cx)?;
    let scale = cx.op(Op::Reshape(Shape::from_dims(&sizes).ok()?), &[small])?;
    let scale = cx.op(Op::Expand(root.shape), &[scale])?;
    cx.op(op, &[sum, scale])
}

/// Two sums over the same axes are one.
fn add_sums(cx: &mut Cx<'_>) -> Option<Id> {
    let (r, s, x, y) = (cx.attr(0), cx.attr(1), cx.var(0), cx.var(1));
    if r != s || !cx.ty(x).same_layout(&cx.ty(y)) {
        return None;
    }
    let sum = cx.op(Op::Add, &[x, y])?;
    cx.op(r, &[sum])
}
