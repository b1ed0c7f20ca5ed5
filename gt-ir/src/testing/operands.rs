//! Operands that fit an instruction: live values, literals, and inputs made for it.
//!
//! The functions draw from the generator's live values first and make new inputs only sometimes, so
//! that the instructions of a tape depend on each other and there is something to fuse.

use smallvec::{SmallVec, smallvec};

use super::generator::{Generator, Known};
use crate::{
    attr::{AxisSet, Keep, Reduce},
    dtype::DType,
    op::{Op, Operand},
    scalar::Scalar,
    shape::{Dim, Shape, Type},
    tape::ValueId,
};

/// The operands of a proposed instruction.
pub(super) type Inputs = SmallVec<[Operand; 4]>;
/// An instruction to try, or `None` if the tape has no value to apply it to.
pub(super) type Proposal = Option<(Op, Inputs)>;

/// A single tensor operand.
pub(super) fn one(x: Known) -> Inputs {
    smallvec![x.id.into()]
}

/// Any live value; `None` if there is none.
pub(super) fn any(g: &mut Generator<'_, '_>) -> Option<Known> {
    g.find(|_| true)
}

/// An op on any live value, whatever its shape and dtype.
pub(super) fn unary(g: &mut Generator<'_, '_>, op: Op) -> Proposal {
    any(g).map(|x| (op, one(x)))
}

/// A value with at least one axis, and one of its axes.
pub(super) fn axis(g: &mut Generator<'_, '_>) -> Option<(Known, u8)> {
    let x = g.find(|known| known.ty.shape.rank() > 0)?;
    Some((x, g.below(x.ty.shape.rank()) as u8))
}

/// Something that broadcasts with `shape`: a literal (unless a dtype is asked for), a live value,
/// or a new input.
pub(super) fn partner(g: &mut Generator<'_, '_>, shape: &Shape, dtype: Option<DType>) -> Operand {
    if dtype.is_none() && g.chance(1, 4) {
        return g.scalar().into();
    }
    let fits = |known: &Known| {
        dtype.is_none_or(|d| d == known.ty.dtype) && known.ty.shape.broadcast(shape).is_some()
    };
    if g.chance(3, 4)
        && let Some(known) = g.find(fits)
    {
        return known.id.into();
    }
    let skipped = g.below(shape.rank() + 1).min(g.below(shape.rank() + 1));
    let dims: Vec<Dim> = shape.dims().skip(skipped).collect();
    let dims: Vec<Dim> =
        dims.into_iter().map(|dim| if g.chance(1, 4) { Dim::new(1) } else { dim }).collect();
    let dtype = dtype.unwrap_or_else(|| g.dtype());
    let shape = g.fit(&dims);
    g.input(Type::new(dtype, shape)).into()
}

/// A live value of this type, or a new input.
pub(super) fn like(g: &mut Generator<'_, '_>, ty: Type) -> ValueId {
    match g.find(|known| known.ty.same_layout(&ty)) {
        Some(known) if g.chance(1, 2) => known.id,
        _ => g.input(ty),
    }
}

/// A reduction over half of the axes, which may be none of them and then folds nothing; a third of
/// the time folded axes stay with size 1.
pub(super) fn reduce(g: &mut Generator<'_, '_>, op: fn(Reduce) -> Op) -> Proposal {
    let x = any(g)?;
    let axes: AxisSet = (0..x.ty.shape.rank()).filter(|_| g.chance(1, 2)).collect();
    let keep = if g.chance(1, 3) { Keep::Yes } else { Keep::No };
    Some((op(Reduce { axes, keep }), one(x)))
}

/// An index as large as `shape` or smaller, with any size along `axis`, into an axis of its size.
pub(super) fn index_within(g: &mut Generator<'_, '_>, shape: &Shape, axis: u8) -> Option<ValueId> {
    let at = usize::from(axis);
    let dims: Vec<Dim> = shape.dims().collect();
    let dims: Vec<Dim> = dims
        .into_iter()
        .enumerate()
        .map(|(i, dim)| match () {
            () if i == at => g.dim(),
            () if dim.size > 0 && g.chance(1, 4) => Dim::new(1 + g.below(dim.size)),
            () => dim,
        })
        .collect();
    index(g, &dims, shape.sizes()[at])
}

/// An index tensor of these dims (random ones when there are none), of numbers below `size`.
///
/// The numbers come from `randint`, so they are in range by construction and differ from run to run
/// of the generator. With [`Config::wild_indices`](super::Config) half of them are inputs of any
/// numbers.
pub(super) fn index(g: &mut Generator<'_, '_>, dims: &[Dim], size: usize) -> Option<ValueId> {
    let dtype = [DType::I64, DType::I64, DType::I32][g.below(3)];
    let ty = if dims.is_empty() {
        g.ty(Some(dtype))
    } else {
        Type::new(dtype, Shape::from_dims(dims).ok()?)
    };
    if ty.shape.numel() > g.config.max_numel || (size == 0 && ty.shape.numel() > 0) {
        return None;
    }
    if g.config.wild_indices && g.chance(1, 2) {
        return Some(g.input(ty));
    }
    let (high, seed) = (g.number(size.max(1) as i64), g.seed());
    g.emit(Op::Randint(ty), &[Scalar::I64(0).into(), high, seed])
}
