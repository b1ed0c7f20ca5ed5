//! Gradients of solutions, of Cholesky's factor, of determinants and of exponentials.

use smallvec::smallvec;

use super::{as_column, columns, product_transposed, rows, sides, transposed_product, unit};
use crate::{
    attr::{Axis, Diagonal, Triangle},
    emit::{Build, Emit, Emitted},
    grad::Vjp,
    op::Op,
    rules::{
        derive::misplaced,
        grad::{Out, one, operand},
    },
    shape::Type,
    tape::ValueId,
};

/// With `L = cholesky(A)` it is `L^-T S L^-1`, where S is symmetric and has the lower triangle of
/// `L^T g`.
pub(crate) fn cholesky_grad(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, _| {
        let (l, g) = (cx.output, cx.grad);
        let product = transposed_product(cx.e, l, g)?;
        let lower = cx.e.emit(Op::Tril(Diagonal(0)), &[product.into()])?;
        let below = cx.e.emit(Op::Tril(Diagonal(-1)), &[product.into()])?;
        let above = cx.e.transpose_last(below)?;
        let sum = cx.e.add(lower, above)?;
        let half = cx.e.mul(sum, 0.5)?;
        let transposed = cx.e.transpose_last(l)?;
        let upper = Op::TriangularSolve(Triangle { upper: true, unit: false });
        let left = cx.e.emit(upper, &[transposed.into(), half.into()])?;
        // From the right: the transposed system has the same matrix.
        let turned = cx.e.transpose_last(left)?;
        let right = cx.e.emit(upper, &[transposed.into(), turned.into()])?;
        cx.e.transpose_last(right)
    })
}

/// With X the solution of `A X = B`: by B it is `G = A^-T g`, by A it is `-G X^T`.
pub(crate) fn solve_grad(cx: &mut Vjp<'_>) -> Out {
    through_solution(cx, Op::Solve, |_, g| Ok(g))
}

/// As [`solve_grad`], of the triangle that was read.
pub(crate) fn triangular_grad(cx: &mut Vjp<'_>) -> Out {
    let Op::TriangularSolve(triangle) = *cx.op else { return Err(misplaced(cx.op)) };
    through_solution(cx, Op::TriangularSolve(triangle.transposed()), |e, g| {
        let offset = i64::from(triangle.unit);
        let read =
            if triangle.upper { Op::Triu(Diagonal(offset)) } else { Op::Tril(Diagonal(-offset)) };
        e.emit(read, &[g.into()])
    })
}

/// `adjoint` is the op with the transposed matrix; `read` leaves the elements that the op reads.
fn through_solution(
    cx: &mut Vjp<'_>,
    adjoint: Op,
    read: impl FnOnce(&mut dyn Emit, ValueId) -> Emitted,
) -> Out {
    let (a, x) = (cx.tensor(0)?, cx.output);
    let at = cx.e.transpose_last(a)?;
    let solved = cx.e.emit(adjoint, &[at.into(), cx.grad.into()])?;
    let ga = operand(cx, 0, |cx, _| {
        let product = product_transposed(cx.e, solved, x)?;
        let negative = cx.e.neg(product)?;
        read(cx.e, negative)
    })?;
    let gb = operand(cx, 1, |_, _| Ok(solved))?;
    Ok(smallvec![ga, gb])
}

/// With `d = det A` it is `(g d + h) A^-T`, where g and h are the gradients of d and of `log |d|`.
///
/// At a singular matrix g contributes 0, and h NaN if it is not 0.
pub(crate) fn determinant_grad(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, a| {
        let n = sides(cx.e, a).0;
        let dtype = cx.e.ty(a).dtype;
        let number = |cx: &mut Vjp<'_>, of: ValueId, at: usize| {
            let one = columns(cx.e, of, at, 1)?;
            as_column(cx.e, one)
        };
        let (det, sign) = (number(cx, cx.output, 0)?, number(cx, cx.output, 1)?);
        let (g, h) = (number(cx, cx.grad, 0)?, number(cx, cx.grad, 2)?);
        let is_singular = cx.e.eq(sign, 0)?;
        let one = unit(cx.e, n, dtype)?;
        let regular = cx.e.select(is_singular, one, a)?;
        let transposed = cx.e.transpose_last(regular)?;
        let inverse = cx.e.emit(Op::Solve, &[transposed.into(), one.into()])?;
        // 0 / 0 is for a logarithm that is asked for, and for nothing else.
        let is_asked = cx.e.emit(Op::Ne, &[h.into(), 0.into()])?;
        let is_undefined = cx.e.logical_and(is_singular, is_asked)?;
        let h = cx.e.select(is_undefined, f64::NAN, h)?;
        // A determinant beyond the dtype is infinite, and of `slogdet` g is 0: nothing comes of it.
        let size = cx.e.emit(Op::Abs, &[det.into()])?;
        let (is_beyond, is_idle) = (cx.e.eq(size, f64::INFINITY)?, cx.e.eq(g, 0)?);
        let is_dropped = cx.e.logical_and(is_beyond, is_idle)?;
        let det = cx.e.select(is_dropped, 0, det)?;
        let product = cx.e.mul(g, det)?;
        let factor = cx.e.add(product, h)?;
        cx.e.mul(inverse, factor)
    })
}

/// With G the gradient by `exp A`: the block beside the diagonal of the exponential of `[[A^T, G],
/// [0, A^T]]` (Mathias 1996).
pub(crate) fn exp_grad(cx: &mut Vjp<'_>) -> Out {
    one(cx, |cx, a| {
        let ty = cx.e.ty(a);
        let (n, rank) = (sides(cx.e, a).0, ty.shape.rank());
        let at = cx.e.transpose_last(a)?;
        let zero = cx.e.full(Type::new(ty.dtype, cx.e.ty(at).shape), 0)?;
        let beside = Op::Cat(Axis((rank - 1) as u8));
        let upper = cx.e.emit(beside, &[at.into(), cx.grad.into()])?;
        let lower = cx.e.emit(beside, &[zero.into(), at.into()])?;
        let whole = cx.e.emit(Op::Cat(Axis((rank - 2) as u8)), &[upper.into(), lower.into()])?;
        let exp = cx.e.emit(Op::MatrixExp, &[whole.into()])?;
        let upper = rows(cx.e, exp, 0, n)?;
        columns(cx.e, upper, n, n)
    })
}
