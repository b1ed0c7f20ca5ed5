//! The adjoint of windows: elements of overlapping windows added up where they came from.
//!
//! No element is scattered. What is added to a place depends on how many windows reach it, and that
//! changes at a few places only: between them the sum is that of a few slices, which engines
//! compute in one pass. Windows far apart are interleaved from one such sum for each remainder of
//! the place by the step, and windows of many elements are added up along the diagonals of a padded
//! copy, which are windows again.

use super::{
    derive::{misplaced, value, wide},
    grad::{Out, one},
    infer::{Result, tensor},
};
use crate::{
    attr::{Axis, AxisSet, Fold, Keep, Pad, Slice, Window},
    emit::{Build, Emit, Emitted},
    error::OpError,
    grad::Vjp,
    op::{Op, Operand, OperandType},
    shape::{Dim, Shape, Type},
    tape::ValueId,
};

/// Most elements of a window that are added up one by one.
const MAX_SIZE: u64 = 8;
/// Most sums that are interleaved.
const MAX_STEP: u64 = 8;

/// `[.., windows, .., size]` to `[.., len, ..]`.
pub(crate) fn infer(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Fold(f) = op else { return Err(misplaced(op)) };
    let x = tensor(op, ins, 0)?;
    let (axis, rank) = (usize::from(f.window.axis), x.shape.rank());
    let len = usize::try_from(f.len).ok().filter(|_| x.dtype.is_float() && axis + 1 < rank);
    let count = len.and_then(|len| f.window.count(len));
    if count != x.shape.sizes().get(axis).copied()
        || x.shape.sizes().last().map(|n| *n as u64) != Some(f.window.size)
    {
        let what = format!("fold: {x} is not what windows make of axis {axis} of {} floats", f.len);
        return Err(OpError::new(what)
            .hint("the axis counts the windows, the last axis the elements of each"));
    }
    let dims = x.shape.dims().take(rank - 1).enumerate();
    let dims = dims.map(|(a, dim)| if a == axis { Dim::new(f.len as usize) } else { dim });
    Ok(Type::new(x.dtype, Shape::collect(dims)?))
}

/// The gradient of windows.
pub(crate) fn unfold_grad(cx: &mut Vjp<'_>) -> Out {
    let Op::Unfold(window) = *cx.op else { return Err(misplaced(cx.op)) };
    one(cx, |cx, x| {
        let len = cx.e.ty(x).shape.sizes()[usize::from(window.axis)] as u64;
        cx.e.emit(Op::Fold(Fold { window, len }), &[cx.grad.into()])
    })
}

/// The gradient of [`fold`].
pub(crate) fn grad(cx: &mut Vjp<'_>) -> Out {
    let Op::Fold(f) = *cx.op else { return Err(misplaced(cx.op)) };
    one(cx, |cx, _| cx.e.emit(Op::Unfold(f.window), &[cx.grad.into()]))
}

/// Chooses one of three ways by the shape of the windows: windows that do not overlap are laid side
/// by side, few elements are added up slice by slice, and many elements along diagonals.
///
/// The sums are computed in a wide dtype and rounded once.
pub(crate) fn fold(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::Fold(mut f) = *op else { return Err(misplaced(op)) };
    let x = value(op, ins, 0)?;
    if e.ty(x).shape.sizes()[usize::from(f.window.axis)] == 1 {
        // The distance of one window to the next may be any number.
        f.window.step = if f.window.dilation == 1 { f.window.size } else { 1 };
    }
    let narrow = e.ty(x).dtype;
    let x = e.cast(x, wide(narrow))?;
    let w = f.window;
    let y = if w.dilation == 1 && w.step >= w.size {
        beside(e, x, f)?
    } else if w.size <= MAX_SIZE && w.step <= MAX_STEP {
        interleaved(e, x, f)?
    } else {
        diagonals(e, x, f)?
    };
    e.cast(y, narrow)
}

/// A shape with this many axes from `axis` on replaced by others.
///
/// The sizes `by` stand in place of `gone` axes; names of dimensions are kept on all other axes.
fn with(shape: &Shape, axis: usize, gone: usize, by: &[u64]) -> Result<Shape> {
    let by = by.iter().map(|n| Dim::new(*n as usize));
    let (before, after) = (shape.dims().take(axis), shape.dims().skip(axis + gone));
    Shape::collect(before.chain(by).chain(after))
}

/// An axis cut or filled up with zeros at its end.
fn resized(e: &mut dyn Emit, x: ValueId, axis: u8, len: u64) -> Emitted {
    match e.ty(x).shape.sizes()[usize::from(axis)] as u64 {
        n if n == len => Ok(x),
        n if n < len => e.pad(x, Pad { axis, lo: 0, hi: len - n, interior: 0 }),
        _ => e.slice(x, Slice { axis, start: 0, stop: len, step: 1 }),
    }
}

/// Windows that do not overlap lie one behind the other, with gaps between them.
fn beside(e: &mut dyn Emit, x: ValueId, f: Fold) -> Emitted {
    let (w, axis) = (f.window, usize::from(f.window.axis));
    let last = e.ty(x).shape.rank() - 1;
    let x = resized(e, x, last as u8, w.step)?;
    let x = e.movedim(x, last, axis + 1)?;
    let shape = e.ty(x).shape;
    let joined = with(&shape, axis, 2, &[shape.sizes()[axis] as u64 * w.step])?;
    let x = e.reshape(x, joined)?;
    resized(e, x, w.axis, f.len)
}

/// One sum for each remainder of the place by the step, joined place by place.
///
/// The elements of windows that reach place p are those k with k * dilation = p modulo the step.
/// Places with one remainder therefore meet the same elements, and their sums are sums of slices.
fn interleaved(e: &mut dyn Emit, x: ValueId, f: Fold) -> Emitted {
    let (step, axis) = (f.window.step.min(f.len.max(1)), f.window.axis);
    let most = f.len.div_ceil(step);
    if step == 1 {
        return places(e, x, f, 0, f.len);
    }
    let mut parts: Vec<Operand> = Vec::new();
    for remainder in 0..step {
        let part = places(e, x, f, remainder, (f.len - remainder).div_ceil(step))?;
        let part = resized(e, part, axis, most)?;
        let shape = with(&e.ty(part).shape, usize::from(axis), 1, &[most, 1])?;
        parts.push(e.reshape(part, shape)?.into());
    }
    let y = joined(e, axis + 1, &parts)?;
    let whole = with(&e.ty(y).shape, usize::from(axis), 2, &[most * step])?;
    let y = e.reshape(y, whole)?;
    resized(e, y, axis, f.len)
}

/// The sums at `n` places, those of this remainder: cut where a window's element begins or ends to
/// reach them.
///
/// Between two cuts every place is reached by the same elements of windows, so a stretch is one sum
/// of slices, or zeros if no window reaches it.
fn places(e: &mut dyn Emit, x: ValueId, f: Fold, remainder: u64, n: u64) -> Emitted {
    let (w, axis) = (f.window, usize::from(f.window.axis));
    let shape = e.ty(x).shape;
    let count = shape.sizes()[axis] as u64;
    // Which element of windows meets these places, and at which of them that of window 0 lies.
    let meets = |k: u64| {
        let from = (k * w.dilation).checked_sub(remainder)?;
        from.is_multiple_of(w.step).then_some((k, from / w.step))
    };
    let reaching: Vec<(u64, u64)> = (0..w.size).filter_map(meets).collect();
    let mut cuts: Vec<u64> = reaching
        .iter()
        .flat_map(|(_, at)| [*at, at + count])
        .chain([0, n])
        .filter(|c| *c <= n)
        .collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut parts: Vec<Operand> = Vec::new();
    for (start, stop) in cuts.iter().zip(cuts.iter().skip(1)) {
        let mut sum = None;
        for &(k, at) in reaching.iter().filter(|(_, at)| at <= start && *stop <= at + count) {
            let term =
                e.slice(x, Slice { axis: w.axis, start: start - at, stop: stop - at, step: 1 })?;
            let last = shape.rank() as u8 - 1;
            let term = e.slice(term, Slice { axis: last, start: k, stop: k + 1, step: 1 })?;
            sum = Some(match sum {
                Some(before) => e.add(before, term)?,
                None => term,
            });
        }
        let dims = with(&shape, axis, 1, &[stop - start])?;
        let flat = with(&dims, shape.rank() - 1, 1, &[])?;
        parts.push(match sum {
            Some(sum) => e.reshape(sum, flat)?.into(),
            None => e.full(Type::new(e.ty(x).dtype, flat), 0)?.into(),
        });
    }
    joined(e, w.axis, &parts)
}

/// One `cat`, or none for one part.
fn joined(e: &mut dyn Emit, axis: u8, parts: &[Operand]) -> Emitted {
    match parts {
        [Operand::Value(only)] => Ok(*only),
        _ => e.emit(Op::Cat(Axis(axis)), parts),
    }
}

/// With zeros around and between, the elements of windows that meet at a place lie on a diagonal
/// over window and element: evenly spaced in memory, so a window.
fn diagonals(e: &mut dyn Emit, x: ValueId, f: Fold) -> Emitted {
    let (w, axis) = (f.window, f.window.axis);
    let rank = e.ty(x).shape.rank();
    let reach = (w.size - 1) * w.dilation;
    let at = usize::from(axis);
    // Elements, then windows.
    let x = e.movedim(x, rank - 1, at)?;
    let n = e.ty(x).shape.sizes()[at + 1] as u64;
    let spread = (n - 1) * w.step + 1;
    let pad = Pad { axis: axis + 1, lo: reach, hi: f.len - spread, interior: w.step - 1 };
    let x = e.pad(x, pad)?;
    let row = f.len + reach;
    let flat = with(&e.ty(x).shape, at, 2, &[w.size * row])?;
    let x = e.reshape(x, flat)?;
    let apart = row - w.dilation.min(row - 1);
    let stop = reach + (w.size - 1) * apart + f.len;
    let x = e.slice(x, Slice { axis, start: reach, stop, step: 1 })?;
    let x =
        e.emit(Op::Unfold(Window { axis, size: w.size, step: 1, dilation: apart }), &[x.into()])?;
    e.sum(x, AxisSet::from_iter([rank - 1]), Keep::No)
}
