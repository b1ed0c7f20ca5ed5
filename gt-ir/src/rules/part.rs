//! Parts of tensors: triangles, reversed axes, and replacing a range or indexed slices without
//! changing the original.

use smallvec::smallvec;

use super::{
    derive::{misplaced, value},
    grad::{Out, one, operand},
    infer::{Result, tensor},
    statistic::{along, ruler},
};
use crate::{
    attr::{Axis, Pad, Slice},
    dtype::DType,
    emit::{Build, Emit, Emitted},
    error::OpError,
    grad::Vjp,
    op::{Op, Operand, OperandType},
    scalar::Scalar,
    shape::Dim,
    shape::{Shape, Type},
    tape::ValueId,
};

/// The type of the operand, which has at least two axes.
pub(crate) fn infer_triangle(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let x = tensor(op, ins, 0)?;
    if x.shape.rank() >= 2 {
        return Ok(x);
    }
    Err(OpError::new(format!("{}: takes matrices, but got {x}", op.name())))
}

/// x where column - row is on the right side of the diagonal, 0 elsewhere.
///
/// The condition is a matrix, which broadcasts over the leading axes.
pub(crate) fn triangle(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let x = value(op, ins, 0)?;
    let shape = e.ty(x).shape;
    let rank = shape.rank();
    let matrix = Shape::collect(shape.dims().skip(rank - 2))?;
    let (row, column) = (ruler(e, &matrix, 0, DType::I64)?, ruler(e, &matrix, 1, DType::I64)?);
    let above = e.sub(column, row)?;
    let kept = match *op {
        Op::Tril(k) => e.le(above, k.0)?,
        Op::Triu(k) => e.ge(above, k.0)?,
        _ => return Err(misplaced(op)),
    };
    // `false` promotes to no other dtype.
    e.select(kept, x, false)
}

/// The type of the operand, which has the axes.
pub(crate) fn infer_flip(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Flip(axes) = op else { return Err(misplaced(op)) };
    let x = tensor(op, ins, 0)?;
    match axes.0.iter().find(|&a| a >= x.shape.rank()) {
        Some(axis) => Err(OpError::new(format!("flip: axis {axis} is out of range for {x}"))),
        None => Ok(x),
    }
}

/// For each axis the slices at n - 1, n - 2, .., 0.
///
/// A slice cannot go backwards, so the positions are an index. It is made from `iota` and never out
/// of range.
pub(crate) fn flip(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::Flip(axes) = op else { return Err(misplaced(op)) };
    let mut x = value(op, ins, 0)?;
    let shape = e.ty(x).shape;
    for axis in axes.0.iter() {
        let line = Shape::from_dims(&[shape.dim(axis)])?;
        let up = e.emit(Op::Iota(Type::new(DType::I64, line)), &[])?;
        let down = e.sub(shape.sizes()[axis] as i64 - 1, up)?;
        x = e.emit(Op::IndexSelect(Axis(axis as u8)), &[x.into(), down.into()])?;
    }
    Ok(x)
}

/// g flipped back: a flip is its own inverse.
pub(crate) fn flip_grad(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, _| cx.e.emit(*cx.op, &[cx.grad.into()]))
}

/// `x, value` to the type of x; the value has the type of the part that the slice names.
pub(crate) fn infer_assign(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::SliceAssign(s) = op else { return Err(misplaced(op)) };
    let (x, v) = (tensor(op, ins, 0)?, tensor(op, ins, 1)?);
    let part = super::infer::slice(&Op::Slice(*s), &ins[..1])?;
    if part.shape.same_sizes(&v.shape) && v.dtype == x.dtype {
        return Ok(x);
    }
    Err(OpError::new(format!("slice_assign: value {v} does not fit the part {part} of {x}"))
        .hint("cast and expand it to the type of the part"))
}

/// x with a strided range of one axis replaced.
///
/// Without a step the result is a concatenation, which moves each element once; with one the value
/// is spread by padding and selected.
pub(crate) fn assign(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::SliceAssign(s) = *op else { return Err(misplaced(op)) };
    let (x, v) = (value(op, ins, 0)?, value(op, ins, 1)?);
    let ty = e.ty(x);
    let size = ty.shape.sizes()[usize::from(s.axis)] as u64;
    match s.len() {
        0 => Ok(x),
        // The whole axis: only the names of dimensions are still those of x.
        n if n == size => e.reshape(v, ty.shape),
        _ if s.step == 1 => joined(e, x, v, s, size),
        _ => interleaved(e, x, v, s, size),
    }
}

/// What comes before, the value, what comes after.
fn joined(e: &mut dyn Emit, x: ValueId, v: ValueId, s: Slice, size: u64) -> Emitted {
    let shape = e.ty(x).shape;
    let mut parts: Vec<Operand> = Vec::new();
    if s.start > 0 {
        parts.push(e.slice(x, Slice { start: 0, stop: s.start, ..s })?.into());
    }
    parts.push(v.into());
    if s.stop < size {
        parts.push(e.slice(x, Slice { start: s.stop, stop: size, ..s })?.into());
    }
    let y = e.emit(Op::Cat(Axis(s.axis)), &parts)?;
    e.reshape(y, shape)
}

/// The value spread over the axis, selected where it lies.
fn interleaved(e: &mut dyn Emit, x: ValueId, v: ValueId, s: Slice, size: u64) -> Emitted {
    let shape = e.ty(x).shape;
    let last = s.start + (s.len() - 1) * s.step;
    let pad = Pad { axis: s.axis, lo: s.start, hi: size - last - 1, interior: s.step - 1 };
    let spread = e.pad(v, pad)?;
    let line = Type::new(DType::Bool, Shape::new(&[s.len() as usize])?);
    let here = e.full(line, true)?;
    let here = e.pad(here, Pad { axis: 0, ..pad })?;
    let here = along(e, here, &shape, usize::from(s.axis))?;
    let y = e.select(here, spread, x)?;
    e.reshape(y, shape)
}

/// By x: g without the part; by the value: the part of g.
pub(crate) fn assign_grad(cx: &mut Vjp<'_>) -> Out {
    let Op::SliceAssign(s) = *cx.op else { return Err(misplaced(cx.op)) };
    let value = cx.ty(1)?;
    let gx = operand(cx, 0, |cx, _| {
        let nothing = cx.e.full(value, 0)?;
        cx.e.emit(*cx.op, &[cx.grad.into(), nothing.into()])
    })?;
    let gv = operand(cx, 1, |cx, _| cx.e.slice(cx.grad, s))?;
    Ok(smallvec![gx, gv])
}

/// A dtype that can be added into, for a value that is only moved. In bytes, 256 values of `true`
/// at one place would be `false`.
fn addable(dtype: DType) -> DType {
    if dtype == DType::Bool { DType::I32 } else { dtype }
}

/// The sum of the slices that are put at a position, or else the base. Counting the indices of each
/// position tells which is which.
pub(crate) fn index_copy(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::IndexCopy(axis) = *op else { return Err(misplaced(op)) };
    let (base, index, src) = (value(op, ins, 0)?, value(op, ins, 1)?, value(op, ins, 2)?);
    let (ty, at) = (e.ty(base), usize::from(axis.0));
    let line = Type::new(DType::I64, Shape::from_dims(&[ty.shape.dim(at)])?);
    let hit = is_hit(e, Op::IndexAdd(Axis(0)), line, index)?;
    let hit = along(e, hit, &ty.shape, at)?;
    // One slice is the same at every position, so that nothing but the line of positions is
    // scattered.
    if e.ty(index).shape.numel() == 1 {
        let one = |a| if a == at { Dim::new(1) } else { ty.shape.dim(a) };
        let slice = e.reshape(src, Shape::collect((0..ty.shape.rank()).map(one))?)?;
        let placed = e.expand(slice, ty.shape)?;
        return e.select(hit, placed, base);
    }
    put(e, Op::IndexAdd(axis), base, hit, index, src)
}

/// As [`index_copy`], element by element.
pub(crate) fn scatter(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::Scatter(axis) = *op else { return Err(misplaced(op)) };
    let (base, index, src) = (value(op, ins, 0)?, value(op, ins, 1)?, value(op, ins, 2)?);
    let counted = e.ty(base).with_dtype(DType::I32);
    let hit = is_hit(e, Op::ScatterAdd(axis), counted, index)?;
    put(e, Op::ScatterAdd(axis), base, hit, index, src)
}

/// Whether an index points there, for each position of a type that counts.
pub(super) fn is_hit(e: &mut dyn Emit, op: Op, counted: Type, index: ValueId) -> Emitted {
    let ones = e.full(e.ty(index).with_dtype(counted.dtype), 1)?;
    let none = e.full(counted, 0)?;
    let hits = e.emit(op, &[none.into(), index.into(), ones.into()])?;
    e.gt(hits, 0)
}

/// The base with values in place of what was where they are put.
///
/// Several values for one position are added up. PyTorch leaves the choice among them open; a sum
/// is the same on every engine and has a gradient.
fn put(
    e: &mut dyn Emit,
    op: Op,
    base: ValueId,
    hit: ValueId,
    index: ValueId,
    src: ValueId,
) -> Emitted {
    let ty = e.ty(base);
    let dtype = addable(ty.dtype);
    // Whatever is added to the negative zero keeps its sign.
    let nothing = if dtype.is_float() { Scalar::F64(-0.0) } else { Scalar::I64(0) };
    let nothing = e.full(ty.with_dtype(dtype), nothing)?;
    let (base, src) = (e.cast(base, dtype)?, e.cast(src, dtype)?);
    let rest = e.select(hit, nothing, base)?;
    let placed = e.emit(op, &[rest.into(), index.into(), src.into()])?;
    e.cast(placed, ty.dtype)
}
