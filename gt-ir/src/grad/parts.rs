//! Gradients that wait for others of the same value, because all together cost less than one by
//! one: those of ranges of an axis are laid side by side, and those of a matrix that many left
//! sides were multiplied by are one product.
//!
//! Guarantees: one part alone becomes what the op's own rule makes of it. Several become their sum,
//! whose products are added up in another order. What waits, and how it is joined, depends on ops
//! and shapes alone.

use crate::{
    attr::{Axis, Slice},
    emit::{Build, Emit, Emitted},
    error::OpError,
    op::{Op, Operand},
    rules::grad::{padding, rows},
    shape::{Dim, Shape, Type},
    tape::ValueId,
};

/// A use of a value, and the gradient of the result of this use.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The op that used the value.
    pub op: Op,
    /// The other operand that the gradient needs, if it needs one.
    pub with: Option<ValueId>,
    /// The gradient of the op's result.
    pub grad: ValueId,
}

/// What a gradient that waits needs besides the gradient of the op's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing.
    Alone,
    /// The operand with this number.
    With(usize),
}

/// Whether the gradient of operand `i` waits for others of the same value; `ty` gives the types of
/// operands.
///
/// A product waits if its rows are so few that keeping them costs less than adding one more matrix
/// to a sum of matrices.
pub fn waits<'t>(op: &Op, i: usize, ty: impl Fn(usize) -> Option<&'t Type>) -> Option<Wait> {
    match (op, i) {
        (Op::Slice(s), 0) => (s.step == 1 && !s.is_empty()).then_some(Wait::Alone),
        (Op::MatMul, 1) => {
            let (a, b) = (ty(0)?, ty(1)?);
            let ([k, n], [.., last]) = (b.shape.sizes(), a.shape.sizes()) else { return None };
            let kept = (a.shape.numel() / (*last).max(1)).checked_mul(k + n)?;
            let is_matrix = a.shape.rank() >= 2 && a.dtype == b.dtype && b.dtype.is_float();
            (is_matrix && kept <= k * n).then_some(Wait::With(0))
        }
        _ => None,
    }
}

/// The gradient of a value of this type: the sum of the parts, of which there is at least one.
///
/// # Errors
/// Only if the parts are not of uses of such a value.
pub fn joined(e: &mut dyn Emit, ty: Type, parts: &[Part]) -> Emitted {
    let mut ranges: Vec<Vec<(Slice, ValueId)>> = Vec::new();
    let mut products: Vec<[ValueId; 2]> = Vec::new();
    for part in parts {
        match (part.op, part.with) {
            (Op::Slice(s), None) => match ranges.iter_mut().find(|r| r[0].0.axis == s.axis) {
                Some(known) => known.push((s, part.grad)),
                None => ranges.push(vec![(s, part.grad)]),
            },
            (Op::MatMul, Some(left)) => products.push([left, part.grad]),
            (op, _) => return Err(misjoined(&op)),
        }
    }
    let mut sum = None;
    if !products.is_empty() {
        let product = product(e, ty, &products)?;
        sum = Some(product);
    }
    for layer in ranges.into_iter().flat_map(layers) {
        let whole = side_by_side(e, ty, &layer)?;
        sum = Some(match sum {
            Some(sum) => e.add(sum, whole)?,
            None => whole,
        });
    }
    sum.ok_or_else(|| OpError::new("a gradient of no parts"))
}

fn misjoined(op: &Op) -> OpError {
    OpError::new(format!("{}: its gradient waits for no others", op.name()))
}

/// Ranges in groups of which none overlap, each in ascending order.
fn layers(mut ranges: Vec<(Slice, ValueId)>) -> Vec<Vec<(Slice, ValueId)>> {
    ranges.sort_by_key(|(s, _)| s.start);
    let mut layers: Vec<Vec<(Slice, ValueId)>> = Vec::new();
    for range in ranges {
        let fits = |layer: &&mut Vec<(Slice, ValueId)>| {
            layer.last().is_some_and(|(before, _)| before.stop <= range.0.start)
        };
        match layers.iter_mut().find(fits) {
            Some(layer) => layer.push(range),
            None => layers.push(vec![range]),
        }
    }
    layers
}

/// The gradients of ranges that do not overlap, with zeros between them.
fn side_by_side(e: &mut dyn Emit, ty: Type, ranges: &[(Slice, ValueId)]) -> Emitted {
    let [(first, _), ..] = *ranges else { return e.full(ty, 0) };
    let axis = usize::from(first.axis);
    let size = ty.shape.sizes()[axis] as u64;
    if let [(slice, grad)] = *ranges {
        return e.pad(grad, padding(&slice, size));
    }
    let mut laid: Vec<Operand> = Vec::with_capacity(ranges.len());
    let mut end = 0;
    let rest = Slice { axis: first.axis, start: size, stop: size, step: 1 };
    for (slice, grad) in ranges.iter().map(|(s, g)| (*s, Some(*g))).chain([(rest, None)]) {
        if slice.start > end {
            let gap = Dim::new((slice.start - end) as usize);
            let dims =
                ty.shape.dims().enumerate().map(|(d, dim)| if d == axis { gap } else { dim });
            laid.push(e.full(Type::new(ty.dtype, Shape::collect(dims)?), 0)?.into());
        }
        laid.extend(grad.map(Operand::from));
        end = slice.stop;
    }
    let whole = e.emit(Op::Cat(Axis(first.axis)), &laid)?;
    e.reshape(whole, ty.shape)
}

/// The sum of the products of left sides, transposed, and gradients: one product over the rows of
/// all of them. Rows of equal position lie together, so that where rows are spread over workers,
/// each worker's rows stay its own.
fn product(e: &mut dyn Emit, ty: Type, parts: &[[ValueId; 2]]) -> Emitted {
    let mut sides = [Vec::new(), Vec::new()];
    for part in parts.iter().rev() {
        for (side, value) in sides.iter_mut().zip(part) {
            side.push(rows(e, *value)?);
        }
    }
    let n_rows = |e: &dyn Emit, v: &ValueId| e.ty(*v).shape.sizes()[0];
    let same = sides[0].iter().all(|v| n_rows(e, v) == n_rows(e, &sides[0][0]));
    let [a, g] = sides;
    let (a, g) = (together(e, &a, same)?, together(e, &g, same)?);
    let at = e.transpose_last(a)?;
    let sum = e.matmul(at, g)?;
    e.reshape(sum, ty.shape)
}

/// The rows of several matrices; `same` if all have equally many.
fn together(e: &mut dyn Emit, all: &[ValueId], same: bool) -> Emitted {
    if let [one] = *all {
        return Ok(one);
    }
    let mut laid: Vec<Operand> = Vec::with_capacity(all.len());
    for &matrix in all {
        let shape = e.ty(matrix).shape;
        let dims = [shape.dim(0), Dim::new(1), shape.dim(1)];
        laid.push(if same { e.reshape(matrix, Shape::from_dims(&dims)?)? } else { matrix }.into());
    }
    let whole = e.emit(Op::Cat(Axis(u8::from(same))), &laid)?;
    rows(e, whole)
}
