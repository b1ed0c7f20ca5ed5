//! Movement: compositions, parts of concatenations, and broadcasts that move behind pointwise ops,
//! which are then computed once for each distinct element. All rules are exact.

use egg::Id;
use gt_ir::{Op, OpKind, Shape, Type, attr::Slice};

use super::{Cx, Dtypes::Any, Rule, by};
use crate::{
    options::Numerics::Exact,
    passes::movement::{adds_leading, after, keeps_order, sliced},
};

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    by("permute-permute",  "(permute@q (permute@p ?x))",  permute_permute,  Exact, Any),
    by("permute-identity", "(permute@p ?x)",              permute_identity, Exact, Any),
    by("permute-reshape",  "(permute@p ?x)",              permute_reshape,  Exact, Any),
    by("permute-expand",   "(permute@p (expand@e ?x))",   permute_expand,   Exact, Any),
    by("reshape-reshape",  "(reshape@b (reshape@a ?x))",  reshape_reshape,  Exact, Any),
    by("reshape-identity", "(reshape@a ?x)",              identity,         Exact, Any),
    by("expand-identity",  "(expand@e ?x)",               identity,         Exact, Any),
    by("expand-expand",    "(expand@f (expand@e ?x))",    outer,            Exact, Any),
    by("expand-reshape",   "(expand@e (reshape@a ?x))",   expand_reshape,   Exact, Any),
    by("slice-identity",   "(slice@s ?x)",                identity,         Exact, Any),
    by("slice-slice",      "(slice@t (slice@s ?x))",      slice_slice,      Exact, Any),
    by("slice-expand",     "(slice@s (expand@e ?x))",     slice_expand,     Exact, Any),
    by("slice-pad",        "(slice@s (pad@p ?x ?v))",     slice_pad,        Exact, Any),
    by("slice-cat",        "(slice@s ?x)",                slice_cat,        Exact, Any),
    by("cat-slices",       "(cat@c (slice@s ?x) (slice@t ?x))", cat_slices, Exact, Any),
    by("gather-expand",    "(gather@a (sub@o ?x (expand@e ?y)) ?i)", gather_shifted, Exact, Any),

    by("unary-expand",     "(unary@o (expand@e ?x))",     unary,            Exact, Any),
    by("expand-binary",    "(binary@o (expand@e ?x) ?y)", binary,           Exact, Any),
    by("binary-expand",    "(binary@o ?y (expand@e ?x))", reversed,         Exact, Any),
    by("unary-scalar",     "(unary@o #x)",                scalars,          Exact, Any),
    by("binary-scalars",   "(binary@o #x #y)",            scalars,          Exact, Any),
];

fn permute_permute(cx: &mut Cx<'_>) -> Option<Id> {
    let (Op::Permute(then), Op::Permute(first)) = (cx.attr(0), cx.attr(1)) else { return None };
    let x = cx.var(0);
    cx.op(Op::Permute(after(&first, &then)?), &[x])
}

fn permute_identity(cx: &mut Cx<'_>) -> Option<Id> {
    let Op::Permute(perm) = cx.attr(0) else { return None };
    perm.axes().enumerate().all(|(i, a)| i == a).then(|| cx.var(0))
}

/// Axes of size 1 that change places move nothing.
fn permute_reshape(cx: &mut Cx<'_>) -> Option<Id> {
    let Op::Permute(perm) = cx.attr(0) else { return None };
    let (x, shape) = (cx.var(0), cx.ty(cx.var(0)).shape);
    keeps_order(&perm, &shape).then(|| cx.op(Op::Reshape(cx.root().shape), &[x])).flatten()
}

fn permute_expand(cx: &mut Cx<'_>) -> Option<Id> {
    let (permute, x, root) = (cx.attr(0), cx.var(0), cx.root());
    let moved = cx.op(permute, &[x])?;
    cx.op(Op::Expand(root.shape), &[moved])
}

fn reshape_reshape(cx: &mut Cx<'_>) -> Option<Id> {
    let (x, root) = (cx.var(0), cx.root());
    if root.shape.same_sizes(&cx.ty(x).shape) {
        Some(x)
    } else {
        cx.op(Op::Reshape(root.shape), &[x])
    }
}

/// A movement to the same sizes does nothing.
fn identity(cx: &mut Cx<'_>) -> Option<Id> {
    cx.root().shape.same_sizes(&cx.ty(cx.var(0)).shape).then(|| cx.var(0))
}

fn outer(cx: &mut Cx<'_>) -> Option<Id> {
    let (outer, x) = (cx.attr(0), cx.var(0));
    cx.op(outer, &[x])
}

/// Expanding adds leading axes by itself.
fn expand_reshape(cx: &mut Cx<'_>) -> Option<Id> {
    let (outer, Op::Reshape(middle)) = (cx.attr(0), cx.attr(1)) else { return None };
    let x = cx.var(0);
    adds_leading(&cx.ty(x).shape, &middle).then(|| cx.op(outer, &[x])).flatten()
}

fn slice_slice(cx: &mut Cx<'_>) -> Option<Id> {
    let (Op::Slice(then), Op::Slice(first)) = (cx.attr(0), cx.attr(1)) else { return None };
    let x = cx.var(0);
    (first.axis == then.axis).then(|| cx.op(Op::Slice(sliced(&first, &then)), &[x])).flatten()
}

/// Along a repeated axis every part is the same; along another axis the part is taken before the
/// expansion.
fn slice_expand(cx: &mut Cx<'_>) -> Option<Id> {
    let (Op::Slice(slice), Op::Expand(full)) = (cx.attr(0), cx.attr(1)) else { return None };
    let (x, root) = (cx.var(0), cx.root());
    let from = cx.ty(x).shape;
    let own = usize::from(slice.axis).checked_sub(full.rank() - from.rank());
    let part = match own {
        Some(axis) if from.sizes()[axis] != 1 || full.sizes()[usize::from(slice.axis)] == 1 => {
            cx.op(Op::Slice(Slice { axis: axis as u8, ..slice }), &[x])?
        }
        Some(_) | None => x,
    };
    cx.op(Op::Expand(root.shape), &[part])
}

fn slice_pad(cx: &mut Cx<'_>) -> Option<Id> {
    let (Op::Slice(slice), Op::Pad(pad)) = (cx.attr(0), cx.attr(1)) else { return None };
    let x = cx.var(0);
    let size = cx.ty(x).shape.sizes()[usize::from(pad.axis)] as u64;
    let inside = slice.axis == pad.axis
        && pad.interior == 0
        && slice.start >= pad.lo
        && slice.stop <= pad.lo + size;
    let own = Slice {
        start: slice.start.checked_sub(pad.lo)?,
        stop: slice.stop.checked_sub(pad.lo)?,
        ..slice
    };
    inside.then(|| cx.op(Op::Slice(own), &[x])).flatten()
}

/// A part of a concatenation that lies in one operand.
fn slice_cat(cx: &mut Cx<'_>) -> Option<Id> {
    let Op::Slice(slice) = cx.attr(0) else { return None };
    let (Op::Cat(axis), parts) = cx.made_by(cx.var(0), OpKind::Cat)? else { return None };
    if axis.0 != slice.axis {
        return None;
    }
    let mut start = 0_u64;
    for part in parts {
        let stop = start + cx.ty(part).shape.sizes()[usize::from(axis.0)] as u64;
        if slice.start >= start && slice.stop <= stop && slice.start < stop {
            let own = Slice { start: slice.start - start, stop: slice.stop - start, ..slice };
            return cx.op(Op::Slice(own), &[part]);
        }
        start = stop;
    }
    None
}

/// Neighboring parts, concatenated again.
fn cat_slices(cx: &mut Cx<'_>) -> Option<Id> {
    let (Op::Cat(axis), Op::Slice(a), Op::Slice(b)) = (cx.attr(0), cx.attr(1), cx.attr(2)) else {
        return None;
    };
    let x = cx.var(0);
    let neighbors =
        a.axis == axis.0 && b.axis == axis.0 && (a.step, b.step) == (1, 1) && a.stop == b.start;
    let whole = Slice { stop: b.stop, ..a };
    neighbors.then(|| cx.op(Op::Slice(whole), &[x])).flatten()
}

/// A gather from a difference whose second operand is constant along the axis: the gather comes
/// first, so that only gathered elements are computed.
fn gather_shifted(cx: &mut Cx<'_>) -> Option<Id> {
    let (Op::Gather(axis), x, y, i) = (cx.attr(0), cx.var(0), cx.var(1), cx.var(2)) else {
        return None;
    };
    let (from, root) = (cx.ty(x).shape, cx.root().shape);
    let at = usize::from(axis.0);
    let others =
        from.sizes().iter().zip(root.sizes()).enumerate().all(|(d, (a, b))| d == at || a == b);
    let own = at.checked_sub(from.rank() - cx.ty(y).shape.rank());
    let repeats = own.is_none_or(|own| cx.ty(y).shape.sizes()[own] == 1 && from.sizes()[at] != 1);
    if !others || !repeats {
        return None;
    }
    let picked = cx.op(Op::Gather(axis), &[x, i])?;
    let shift = cx.op(Op::Expand(root), &[y])?;
    cx.op(Op::Sub, &[picked, shift])
}

fn unary(cx: &mut Cx<'_>) -> Option<Id> {
    let (op, spread, x) = (cx.attr(0), cx.attr(1), cx.var(0));
    let small = cx.op(op, &[x])?;
    cx.op(spread, &[small])
}

fn binary(cx: &mut Cx<'_>) -> Option<Id> {
    let (x, y) = (cx.var(0), cx.var(1));
    let y = unspread(cx, y, x)?;
    spread(cx, &[x, y])
}

fn reversed(cx: &mut Cx<'_>) -> Option<Id> {
    let (y, x) = (cx.var(0), cx.var(1));
    let y = unspread(cx, y, x)?;
    spread(cx, &[y, x])
}

fn spread(cx: &mut Cx<'_>, operands: &[Id]) -> Option<Id> {
    let (op, root) = (cx.attr(0), cx.root());
    let small = cx.op(op, operands)?;
    cx.op(Op::Expand(root.shape), &[small])
}

/// The operand that `y` expands, if it has the shape of `like`.
fn unspread(cx: &mut Cx<'_>, y: Id, like: Id) -> Option<Id> {
    let small = Type::new(cx.ty(y).dtype, cx.ty(like).shape);
    if cx.is_uniform(y) {
        return cx.uniform_as(y, small);
    }
    let (_, operands) = cx.made_by(y, OpKind::Expand)?;
    let x = *operands.first()?;
    cx.ty(x).same_layout(&small).then_some(x)
}

/// An op on numbers that are the same everywhere is computed once.
fn scalars(cx: &mut Cx<'_>) -> Option<Id> {
    let root = cx.root();
    if root.shape.rank() == 0 {
        return None;
    }
    let small = |cx: &mut Cx<'_>, id| cx.uniform_as(id, Type::new(cx.ty(id).dtype, Shape::SCALAR));
    let operands =
        (0..cx.found.vars.len()).map(|i| small(cx, cx.var(i))).collect::<Option<Vec<Id>>>()?;
    spread(cx, &operands)
}
