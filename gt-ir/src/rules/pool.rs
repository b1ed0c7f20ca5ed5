//! Windows over images of which one element is left.
//!
//! Channels are the last axis inside, as convolutions compute them, so that engines walk along
//! channels.

use smallvec::smallvec;

use super::{
    derive::{misplaced, value},
    grad::{Out, one},
    infer::{Result, tensor},
};
use crate::{
    attr::{AxisSet, Fold, Keep, Pad, Pool, Reduce, Slice, Window},
    dtype::DType,
    emit::{Build, Emit, Emitted},
    error::OpError,
    grad::Vjp,
    op::{Op, Operand, OperandType},
    shape::{Dim, Shape, Type},
    tape::ValueId,
};

/// Windows over an axis of this size, what is put around included.
///
/// `None` if no window fits, or if the padded size overflows.
fn counted(p: &Pool, i: usize, size: usize) -> Option<usize> {
    over(p, i).count(size.checked_add(2 * p.padding[i] as usize)?)
}

/// The windows along height (0) or width (1).
fn over(p: &Pool, i: usize) -> Window {
    let [size, step, dilation] = [p.size, p.stride, p.dilation].map(|n| n[i].into());
    Window { axis: 0, size, step, dilation }
}

/// `[.., channels, h, w]` to `[.., channels, h', w']`, as many windows as fit.
///
/// Padding is at most half a window, as in PyTorch, so that every window has an element of the
/// image. With a dilation this does not hold for every shape; a window of padding alone gives minus
/// infinity.
pub(crate) fn infer(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::MaxPool2d(p) = op else { return Err(misplaced(op)) };
    let x = tensor(op, ins, 0)?;
    let rank = x.shape.rank();
    let fit = rank >= 3
        && x.dtype.is_float()
        && (0..2).all(|i| 2 * u64::from(p.padding[i]) <= p.size[i].into());
    let sizes = |i: usize| counted(p, i, x.shape.sizes()[rank - 2 + i]);
    let (Some(height), Some(width)) =
        (fit.then(|| sizes(0)).flatten(), fit.then(|| sizes(1)).flatten())
    else {
        return Err(OpError::new(format!("{op}: its windows do not fit {x}")).hint(
            "takes floats [.., channels, height, width] that one window fits, strides of at least \
             1, padding of at most half a window",
        ));
    };
    let dims = x.shape.dims().take(rank - 2).chain([height, width].map(Dim::new));
    Ok(Type::new(x.dtype, Shape::collect(dims)?))
}

/// Images behind one axis at most, whatever stands before their channels: windows add two axes.
fn one_batch(e: &mut dyn Emit, x: ValueId) -> Emitted {
    let shape = e.ty(x).shape;
    let (n, images) = (shape.rank(), shape.rank() - 3);
    if n <= 4 {
        return Ok(x);
    }
    let batch = Dim::new(shape.sizes()[..images].iter().product());
    e.reshape(x, Shape::collect([batch].into_iter().chain(shape.dims().skip(images)))?)
}

/// Channels last.
fn channels_last(e: &mut dyn Emit, x: ValueId) -> Emitted {
    let rank = e.ty(x).shape.rank();
    e.movedim(x, rank - 3, rank - 1)
}

/// Channels back where they were.
fn channels_back(e: &mut dyn Emit, x: ValueId) -> Emitted {
    let rank = e.ty(x).shape.rank();
    e.movedim(x, rank - 1, rank - 3)
}

/// The windows: `[.., height, elements, width, elements, channels]`.
fn windows(e: &mut dyn Emit, p: &Pool, x: ValueId) -> Emitted {
    let mut y = channels_last(e, x)?;
    let height = e.ty(y).shape.rank() - 3;
    for (i, around) in p.padding.into_iter().enumerate().filter(|(_, n)| *n > 0) {
        let around = around.into();
        let pad = Pad { axis: (height + i) as u8, lo: around, hi: around, interior: 0 };
        y = e.emit(Op::Pad(pad), &[y.into(), f64::NEG_INFINITY.into()])?;
    }
    for i in 0..2 {
        let axis = height + 2 * i;
        let window = Window { axis: axis as u8, ..over(p, i) };
        y = e.emit(Op::Unfold(window), &[y.into()])?;
        let last = e.ty(y).shape.rank() - 1;
        y = e.movedim(y, last, axis + 1)?;
    }
    Ok(y)
}

/// The axes of windows' elements.
fn elements(e: &dyn Emit, x: ValueId) -> [usize; 2] {
    let rank = e.ty(x).shape.rank();
    [rank - 4, rank - 2]
}

/// The maximum over both axes of the windows. The padding is minus infinity, which never wins.
pub(crate) fn max(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::MaxPool2d(p) = *op else { return Err(misplaced(op)) };
    let x = value(op, ins, 0)?;
    let shape = infer(op, &[OperandType::Tensor(e.ty(x))])?.shape;
    let x = one_batch(e, x)?;
    let y = windows(e, &p, x)?;
    let axes = AxisSet::from_iter(elements(e, y));
    let y = e.max(y, axes, Keep::No)?;
    let y = channels_back(e, y)?;
    e.reshape(y, shape)
}

/// To the first element of each window that is the largest.
pub(crate) fn max_grad(cx: &mut Vjp<'_>) -> Out {
    let Op::MaxPool2d(p) = *cx.op else { return Err(misplaced(cx.op)) };
    let (grad, output) = (cx.grad, cx.output);
    let pooled = one(cx, |cx, x| {
        let e = &mut *cx.e;
        let shape = e.ty(x).shape;
        let [x, output, grad] = [x, output, grad].map(|v| one_batch(e, v));
        let (x, output, grad) = (x?, output?, grad?);
        let y = windows(e, &p, x)?;
        let (chosen, apart, image) = (chosen(e, y, output)?, e.ty(y).shape, e.ty(x).shape);
        let grad = channels_last(e, grad)?;
        let grad = one_more(e, grad, &apart)?;
        let grad = e.select(chosen, grad, 0)?;
        let spread = folded(e, &p, grad, image)?;
        let spread = channels_back(e, spread)?;
        e.reshape(spread, shape)
    })?;
    Ok(smallvec![pooled.into_iter().next().flatten()])
}

/// Axes of size 1 for the elements of windows.
fn one_more(e: &mut dyn Emit, x: ValueId, windows: &Shape) -> Emitted {
    let rank = windows.rank();
    let dims = windows.dims().enumerate();
    let dims = dims.map(|(a, dim)| if a == rank - 4 || a == rank - 2 { Dim::new(1) } else { dim });
    e.reshape(x, Shape::collect(dims)?)
}

/// For each element of a window whether it is the first of the largest.
///
/// Each element that is the largest gets its position in the window, and the others one past the
/// end. The smallest of them is the first. In a window with NaN only its NaN elements are
/// candidates.
fn chosen(e: &mut dyn Emit, windows: ValueId, largest: ValueId) -> Emitted {
    let shape = e.ty(windows).shape;
    let [tall, broad] = elements(e, windows);
    let largest = channels_last(e, largest)?;
    let largest = one_more(e, largest, &shape)?;
    let equal = e.eq(windows, largest)?;
    let unknown = e.emit(Op::Ne, &[windows.into(), windows.into()])?;
    let hit = e.logical_or(equal, unknown)?;
    let (rows, columns) = (shape.sizes()[tall], shape.sizes()[broad]);
    let window = Shape::from_dims(&[rows, columns].map(Dim::new))?;
    let place = e.emit(Op::Iota(Type::new(DType::I32, window)), &[])?;
    let place = e.reshape(place, Shape::from_dims(&[rows, 1, columns, 1].map(Dim::new))?)?;
    let places = e.select(hit, place, (rows * columns) as i64)?;
    let axes = AxisSet::from_iter([tall, broad]);
    let first = e.emit(Op::Min(Reduce { axes, keep: Keep::Yes }), &[places.into()])?;
    e.eq(place, first)
}

/// Windows added up where they came from, without what was put around.
fn folded(e: &mut dyn Emit, p: &Pool, grad: ValueId, image: Shape) -> Emitted {
    let rank = image.rank();
    let mut y = grad;
    for i in [1, 0] {
        let axis = rank - 3 + 2 * i;
        let (size, around) = (image.sizes()[rank - 2 + i] as u64, u64::from(p.padding[i]));
        let (window, len) = (Window { axis: axis as u8, ..over(p, i) }, size + 2 * around);
        let last = e.ty(y).shape.rank() - 1;
        y = e.movedim(y, axis + 1, last)?;
        y = e.emit(Op::Fold(Fold { window, len }), &[y.into()])?;
        if around > 0 {
            let (start, stop) = (around, around + size);
            y = e.slice(y, Slice { axis: axis as u8, start, stop, step: 1 })?;
        }
    }
    Ok(y)
}
