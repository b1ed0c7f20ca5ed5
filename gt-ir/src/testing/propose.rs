//! Operands and attributes for an instruction of a given kind. Pointwise ops without an attribute
//! follow from the op table; a test sees to it that every op is proposed.
//!
//! A proposal may be wrong: it chooses operands that usually fit, and the type rule of the op
//! decides. This keeps the arms short, and the rules are then tested with operands that nearly fit
//! as well. Every random number is drawn from the source of the generator, so a tape depends only
//! on its source and its configuration.

use smallvec::smallvec;

use super::{
    derived,
    generator::Generator,
    operands::{
        Inputs, Proposal, any, axis, index, index_within, like, one, partner, reduce, unary,
    },
};
use crate::{
    attr::{Axis, Classes, Keep, Pad, Perm, ReduceOne, Slice, Swap, Trailing},
    dtype::DType,
    op::{Arity, Class, Op, OpKind, Operand},
    scalar::Scalar,
    shape::{Dim, Shape, Type},
};

/// An instruction that probably fits; the type rule has the last word. `None` when there is nothing
/// to apply it to.
#[expect(clippy::too_many_lines, reason = "an arm for each op that needs more than operands")]
pub(super) fn propose(g: &mut Generator<'_, '_>, kind: OpKind) -> Proposal {
    if kind.spec().class == Class::Pointwise
        && let Ok(op) = kind.name().parse::<Op>()
    {
        match kind.spec().arity {
            Arity::Exactly(1) => return unary(g, op),
            Arity::Exactly(2) => return binary(g, op),
            Arity::Exactly(_) | Arity::Between(..) | Arity::Variadic => (),
        }
    }
    match kind {
        OpKind::Where => select(g),
        OpKind::Cast => {
            let to = g.dtype();
            unary(g, Op::Cast(to))
        }
        OpKind::Sum => reduce(g, Op::Sum),
        OpKind::Max => reduce(g, Op::Max),
        OpKind::Min => reduce(g, Op::Min),
        OpKind::Mean => reduce(g, Op::Mean),
        OpKind::Argmax => {
            let (x, axis) = axis(g)?;
            let keep = if g.chance(1, 2) { Keep::Yes } else { Keep::No };
            Some((Op::Argmax(ReduceOne { axis, keep }), one(x)))
        }
        OpKind::MatMul => matmul(g),
        OpKind::Reshape => {
            let x = any(g)?;
            let shape = reshaped(g, &x.ty.shape);
            Some((Op::Reshape(shape), one(x)))
        }
        OpKind::Permute => {
            let x = any(g)?;
            let mut order: Vec<usize> = (0..x.ty.shape.rank()).collect();
            (1..order.len()).for_each(|i| order.swap(i, g.below(i + 1)));
            Some((Op::Permute(Perm::new(&order)?), one(x)))
        }
        OpKind::Transpose => {
            let (x, first) = axis(g)?;
            let second = g.below(x.ty.shape.rank()) as u8;
            Some((Op::Transpose(Swap(first, second)), one(x)))
        }
        OpKind::Expand => {
            let x = any(g)?;
            let shape = expanded(g, &x.ty.shape);
            Some((Op::Expand(shape), one(x)))
        }
        OpKind::Slice => {
            let (x, axis) = axis(g)?;
            let size = x.ty.shape.sizes()[usize::from(axis)];
            let start = g.below(size + 1);
            let stop = start + g.below(size - start + 1);
            let step = 1 + g.below(3) as u64;
            Some((Op::Slice(Slice { axis, start: start as u64, stop: stop as u64, step }), one(x)))
        }
        OpKind::Pad => {
            let (x, axis) = axis(g)?;
            let pad = Pad {
                axis,
                lo: g.below(3) as u64,
                hi: g.below(3) as u64,
                interior: g.below(3) as u64,
            };
            Some((Op::Pad(pad), smallvec![x.id.into(), g.scalar().into()]))
        }
        OpKind::Cat => cat(g),
        OpKind::Gather => {
            let (x, axis) = axis(g)?;
            let index = index_within(g, &x.ty.shape, axis)?;
            Some((Op::Gather(Axis(axis)), smallvec![x.id.into(), index.into()]))
        }
        OpKind::ScatterAdd
        | OpKind::Scatter
        | OpKind::ScatterMax
        | OpKind::ScatterMin
        | OpKind::ScatterMul => {
            let (x, axis) = axis(g)?;
            let index = index_within(g, &x.ty.shape, axis)?;
            let shape = g.find(|known| known.id == index)?.ty.shape;
            let src = like(g, Type::new(x.ty.dtype, shape));
            let op = match kind {
                OpKind::Scatter => Op::Scatter,
                OpKind::ScatterMax => Op::ScatterMax,
                OpKind::ScatterMin => Op::ScatterMin,
                OpKind::ScatterMul => Op::ScatterMul,
                _ => Op::ScatterAdd,
            };
            Some((op(Axis(axis)), smallvec![x.id.into(), index.into(), src.into()]))
        }
        OpKind::IndexSelect => {
            let (x, axis) = axis(g)?;
            let index = index(g, &[], x.ty.shape.sizes()[usize::from(axis)])?;
            Some((Op::IndexSelect(Axis(axis)), smallvec![x.id.into(), index.into()]))
        }
        OpKind::IndexAdd | OpKind::IndexCopy => {
            let (x, axis) = axis(g)?;
            let at = usize::from(axis);
            let index = index(g, &[], x.ty.shape.sizes()[at])?;
            let shape = g.find(|known| known.id == index)?.ty.shape;
            let (before, after) = (x.ty.shape.dims().take(at), x.ty.shape.dims().skip(at + 1));
            let dims: Vec<Dim> = before.chain(shape.dims()).chain(after).collect();
            let src =
                Shape::from_dims(&dims).ok().filter(|shape| shape.numel() <= g.config.max_numel)?;
            let src = like(g, Type::new(x.ty.dtype, src));
            let op = if kind == OpKind::IndexCopy { Op::IndexCopy } else { Op::IndexAdd };
            Some((op(Axis(axis)), smallvec![x.id.into(), index.into(), src.into()]))
        }
        OpKind::OneHot => {
            let x = g.find(|known| known.ty.dtype.is_int())?;
            Some((Op::OneHot(Classes(g.below(5) as u64)), one(x)))
        }
        OpKind::Iota => {
            let dtype = if g.chance(1, 2) { DType::I64 } else { DType::I32 };
            Some((Op::Iota(g.ty(Some(dtype))), Inputs::new()))
        }
        OpKind::Full => {
            let ty = g.ty(None);
            Some((Op::Full(ty), smallvec![g.scalar().into()]))
        }
        OpKind::Arange => {
            let (dtype, dim) = (g.dtype(), g.dim());
            let ty = Type::new(dtype, g.fit(&[dim]));
            Some((Op::Arange(ty), smallvec![g.scalar().into(), g.scalar().into()]))
        }
        OpKind::Rand => random(g, Op::Rand),
        OpKind::Randn => random(g, Op::Randn),
        OpKind::Randint => {
            let ty = g.ty(None);
            let low = g.below(10) as i64;
            let high = low + 1 + g.below(90) as i64;
            let (low, high, seed) = (g.number(low), g.number(high), g.seed());
            Some((Op::Randint(ty), smallvec![low, high, seed]))
        }
        OpKind::Softmax => axis(g).map(|(x, axis)| (Op::Softmax(Axis(axis)), one(x))),
        OpKind::LogSoftmax => axis(g).map(|(x, axis)| (Op::LogSoftmax(Axis(axis)), one(x))),
        OpKind::LayerNorm => layer_norm(g),
        _ => derived::propose(g, kind),
    }
}

/// Two operands that broadcast, in either order: most rules treat the left operand differently from
/// the right one, and only one of the two is known to be a tensor.
fn binary(g: &mut Generator<'_, '_>, op: Op) -> Proposal {
    let x = any(g)?;
    let y = partner(g, &x.ty.shape, None);
    let x = Operand::Value(x.id);
    Some((op, if g.chance(1, 2) { smallvec![x, y] } else { smallvec![y, x] }))
}

/// A `bool` condition and two values that broadcast to each other. Condition, x and y may all have
/// different shapes, as in PyTorch.
fn select(g: &mut Generator<'_, '_>) -> Proposal {
    let x = any(g)?;
    let condition = partner(g, &x.ty.shape, Some(DType::Bool));
    let y = partner(g, &x.ty.shape, None);
    let x = Operand::Value(x.id);
    Some((
        Op::Where,
        if g.chance(1, 2) { smallvec![condition, x, y] } else { smallvec![condition, y, x] },
    ))
}

/// A right operand for a live left one: `[.., m, k]` by `[.., k, n]`, or by a vector `[k]`.
///
/// The leading axes of the right operand are some of the left one's last leading axes, a third of
/// them with size 1, so that both kinds of broadcasting occur.
fn matmul(g: &mut Generator<'_, '_>) -> Proposal {
    let x = g.find(|known| known.ty.shape.rank() > 0 && known.ty.dtype != DType::Bool)?;
    let dims: Vec<Dim> = x.ty.shape.dims().collect();
    let (&inner, rest) = dims.split_last()?;
    let mut other: Vec<Dim> = rest.iter().rev().skip(1).rev().copied().collect();
    (0..other.len()).for_each(|i| {
        if g.chance(1, 3) {
            other[i] = Dim::new(1);
        }
    });
    let skipped = g.below(other.len() + 1);
    other.drain(..skipped);
    other.push(inner);
    if g.chance(3, 4) {
        other.push(g.dim());
    } else {
        other = vec![inner];
    }
    let shape =
        Shape::from_dims(&other).ok().filter(|shape| shape.numel() <= g.config.max_numel)?;
    let y = like(g, Type::new(x.ty.dtype, shape));
    Some((Op::MatMul, smallvec![x.id.into(), y.into()]))
}

/// A shape of as many elements: dims joined, split off, and ones put in.
///
/// Up to four random steps are applied one after the other. A step that does not fit is skipped, so
/// the number of elements never changes.
fn reshaped(g: &mut Generator<'_, '_>, shape: &Shape) -> Shape {
    let mut dims: Vec<Dim> = shape.dims().collect();
    for _ in 0..=g.below(3) {
        let at = g.below(dims.len() + 1);
        match g.below(4) {
            0 if dims.len() < g.config.max_rank => dims.insert(at, Dim::new(1)),
            1 if dims.get(at).is_some_and(|dim| dim.size == 1) => {
                dims.remove(at);
            }
            2 if at + 1 < dims.len() => {
                let joined = dims.remove(at).size * dims[at].size;
                dims[at] = Dim::new(joined);
            }
            3 if dims.len() < g.config.max_rank
                && dims.get(at).is_some_and(|dim| dim.size > 2 && dim.size % 2 == 0) =>
            {
                let half = dims[at].size / 2;
                dims[at] = Dim::new(2);
                dims.insert(at + 1, Dim::new(half));
            }
            _ => {}
        }
    }
    Shape::from_dims(&dims).unwrap_or(*shape)
}

/// A shape to which `shape` broadcasts: two thirds of its axes of size 1 get another size, and half
/// of the time an axis is put in front.
fn expanded(g: &mut Generator<'_, '_>, shape: &Shape) -> Shape {
    let mut dims: Vec<Dim> = shape
        .dims()
        .map(|dim| if dim.size == 1 && g.chance(2, 3) { g.dim() } else { dim })
        .collect();
    if dims.len() < g.config.max_rank && g.chance(1, 2) {
        dims.insert(0, g.dim());
    }
    Shape::from_dims(&dims).unwrap_or(*shape)
}

/// One to four operands that are equal outside one axis. A quarter of the further ones have another
/// dtype, which the result promotes.
fn cat(g: &mut Generator<'_, '_>) -> Proposal {
    let (x, axis) = axis(g)?;
    let mut inputs = one(x);
    for _ in 0..g.below(4) {
        let mut dims: Vec<Dim> = x.ty.shape.dims().collect();
        dims[usize::from(axis)] = g.dim();
        let dtype = if g.chance(1, 4) { g.dtype() } else { x.ty.dtype };
        let shape =
            Shape::from_dims(&dims).ok().filter(|shape| shape.numel() <= g.config.max_numel)?;
        inputs.push(like(g, Type::new(dtype, shape)).into());
    }
    Some((Op::Cat(Axis(axis)), inputs))
}

/// A source of random floats: the type is free, and the seed is the only operand.
fn random(g: &mut Generator<'_, '_>, op: fn(Type) -> Op) -> Proposal {
    let dtype = g.float()?;
    let ty = g.ty(Some(dtype));
    Some((op(ty), smallvec![g.seed()]))
}

/// x, and a weight and a bias over its last one or more axes. The epsilon is large, so that engines
/// which sum in another order still agree on rows of equal elements.
fn layer_norm(g: &mut Generator<'_, '_>) -> Proposal {
    let x = g.find(|known| known.ty.shape.rank() > 0 && known.ty.dtype.is_float())?;
    let rank = x.ty.shape.rank();
    let n = 1 + g.below(rank);
    let dims: Vec<Dim> = x.ty.shape.dims().skip(rank - n).collect();
    let ty = Type::new(x.ty.dtype, Shape::from_dims(&dims).ok()?);
    let (weight, bias) = (like(g, ty), like(g, ty));
    let eps = Scalar::F64(0.01);
    Some((
        Op::LayerNorm(Trailing(n as u8)),
        smallvec![x.id.into(), weight.into(), bias.into(), eps.into()],
    ))
}
