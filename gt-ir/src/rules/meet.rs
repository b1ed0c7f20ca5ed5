//! What comes to a place of a base and meets what is there: the largest of it, the smallest, or the
//! product.
//!
//! Engines add at positions and know nothing else. So elements are sorted by where they go, and
//! each takes in the one before it that goes there too, then the one two before, and so on: a
//! segmented scan (Hillis and Steele 1986, "Data Parallel Algorithms"), after which the last
//! element of each place has them all.

use smallvec::smallvec;

use super::{
    derive::{misplaced, value},
    grad::{Out, operand},
    part::is_hit,
};
use crate::{
    attr::{Axis, Order, Slice},
    dtype::DType,
    emit::{Build, Emit, Emitted},
    error::OpError,
    grad::Vjp,
    op::{Op, Operand},
    scalar::Scalar,
    shape::{Dim, Shape, Type},
    tape::ValueId,
};

/// The axis of an op, and how two elements become one.
fn meaning(op: &Op) -> Result<(Axis, Op), OpError> {
    match *op {
        Op::ScatterMax(axis) => Ok((axis, Op::Maximum)),
        Op::ScatterMin(axis) => Ok((axis, Op::Minimum)),
        Op::ScatterMul(axis) => Ok((axis, Op::Mul)),
        _ => Err(misplaced(op)),
    }
}

/// What each place of the base has when all elements have come.
pub(crate) fn scatter(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let (axis, join) = meaning(op)?;
    let (base, index, src) = (value(op, ins, 0)?, value(op, ins, 1)?, value(op, ins, 2)?);
    let ty = e.ty(base);
    // The extrema of `bool` are those of numbers.
    let dtype = if ty.dtype == DType::Bool { DType::U8 } else { ty.dtype };
    let hit = is_hit(e, Op::ScatterAdd(axis), ty.with_dtype(DType::I32), index)?;
    if e.ty(index).shape.numel() == 0 {
        return e.select(hit, base, base);
    }
    let (whole, src) = (e.cast(base, dtype)?, e.cast(src, dtype)?);
    let met =
        Sorted::new(e, axis, index, src)?.joined(e, &join)?.placed(e, &ty.with_dtype(dtype))?;
    let met = e.emit(join, &[whole.into(), met.into()])?;
    let met = e.cast(met, ty.dtype)?;
    e.select(hit, met, base)
}

/// Elements in the order of their places along an axis.
struct Sorted {
    axis: Axis,
    n: u64,
    place: ValueId,
    value: ValueId,
}

/// A range of an axis.
fn part(e: &mut dyn Emit, x: ValueId, axis: Axis, start: u64, stop: u64) -> Emitted {
    e.slice(x, Slice { axis: axis.0, start, stop, step: 1 })
}

impl Sorted {
    fn new(e: &mut dyn Emit, axis: Axis, index: ValueId, src: ValueId) -> Result<Sorted, OpError> {
        let index = e.cast(index, DType::I64)?;
        let n = e.ty(index).shape.sizes()[usize::from(axis.0)] as u64;
        let order = Op::ArgSort(Order { axis: axis.0, descending: false });
        let order = e.emit(order, &[index.into()])?;
        let place = e.gather(index, axis, order.into())?;
        let value = e.gather(src, axis, order.into())?;
        Ok(Sorted { axis, n, place, value })
    }

    /// Each element joined with all of its place before it.
    fn joined(mut self, e: &mut dyn Emit, join: &Op) -> Result<Sorted, OpError> {
        let Sorted { axis, n, place, .. } = self;
        let mut apart = 1;
        while apart < n {
            let early = part(e, self.value, axis, 0, n - apart)?;
            let late = part(e, self.value, axis, apart, n)?;
            let [before, here] =
                [part(e, place, axis, 0, n - apart)?, part(e, place, axis, apart, n)?];
            let meet = e.eq(before, here)?;
            let late = match join {
                // What goes elsewhere is no part of the product, nor of its gradient.
                Op::Mul => {
                    let early = e.select(meet, early, 1)?;
                    e.mul(early, late)?
                }
                _ => {
                    let both = e.emit(*join, &[early.into(), late.into()])?;
                    e.select(meet, both, late)?
                }
            };
            let first = part(e, self.value, axis, 0, apart)?;
            self.value = e.emit(Op::Cat(axis), &[first.into(), late.into()])?;
            apart *= 2;
        }
        Ok(self)
    }

    /// The last element of each place, in a tensor of this type. The others go behind its end.
    fn placed(self, e: &mut dyn Emit, ty: &Type) -> Emitted {
        let Sorted { axis, n, place, value } = self;
        let at = usize::from(axis.0);
        let size = ty.shape.sizes()[at];
        let resized = |shape: &Shape, size: usize| {
            let dims = shape.dims().enumerate();
            Shape::collect(dims.map(|(d, dim)| if d == at { Dim::new(size) } else { dim }))
        };
        let follow = part(e, place, axis, 1, n)?;
        let end = e.ty(place);
        let end = e.full(Type::new(end.dtype, resized(&end.shape, 1)?), -1)?;
        let follow = e.emit(Op::Cat(axis), &[follow.into(), end.into()])?;
        let same = e.eq(place, follow)?;
        let place = e.select(same, size as i64, place)?;
        // A sum with the negative zero has the sign of the other.
        let nothing = if ty.dtype.is_float() { Scalar::F64(-0.0) } else { Scalar::I64(0) };
        let none = e.full(Type::new(ty.dtype, resized(&ty.shape, size + 1)?), nothing)?;
        let all = e.emit(Op::ScatterAdd(axis), &[none.into(), place.into(), value.into()])?;
        part(e, all, axis, 0, size as u64)
    }
}

/// The gradient goes to those that equal the result, in equal shares.
pub(crate) fn extremum_grad(cx: &mut Vjp<'_>) -> Out {
    let (axis, _) = meaning(cx.op)?;
    let (base, src, index) = (cx.tensor(0)?, cx.tensor(2)?, cx.inputs[1]);
    let dtype = cx.e.ty(cx.grad).dtype;
    let own = cx.e.eq(base, cx.output)?;
    let own = cx.e.cast(own, dtype)?;
    let there = cx.e.gather(cx.output, axis, index)?;
    let came = cx.e.eq(src, there)?;
    let came = cx.e.cast(came, dtype)?;
    let sharers = cx.e.emit(Op::ScatterAdd(axis), &[own.into(), index, came.into()])?;
    let share = cx.e.div(cx.grad, sharers)?;
    let of_base = operand(cx, 0, |cx, _| cx.e.mul(own, share))?;
    let of_src = operand(cx, 2, |cx, _| {
        let share = cx.e.gather(share, axis, index)?;
        cx.e.mul(came, share)
    })?;
    Ok(smallvec![of_base, None, of_src])
}
