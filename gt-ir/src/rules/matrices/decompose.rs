//! Gradients of decompositions, and the pseudoinverse.

use super::{
    as_column, columns, diagonal_only, inverse_or_zero, product_transposed, rows, sides,
    transposed_product,
};
use crate::{
    attr::{Axis, Diagonal, Eigen, Extent, Spectrum, Triangle},
    emit::{Build, Emit, Emitted},
    error::OpError,
    grad::Vjp,
    op::{Op, Operand},
    rules::{
        derive::{misplaced, value},
        grad::{Out, one},
    },
    tape::ValueId,
};

/// `(g_Q + Q (M + M^T with half the diagonal)) R^-T`, where M is the upper triangle of `g_R R^T -
/// Q^T g_Q`.
///
/// If there are more columns than rows, this holds for the square part, and the rest of R is `Q^T`
/// times the rest of the matrix.
pub(crate) fn qr_grad(cx: &mut Vjp<'_>) -> Out {
    let Op::Qr(extent) = *cx.op else { return Err(misplaced(cx.op)) };
    one(cx, |cx, x| {
        let (m, n) = sides(cx.e, x);
        if extent == Extent::Full && m > n {
            let ty = cx.e.ty(x);
            let message = format!("qr: with whole bases it has no gradient for {ty}");
            return Err(OpError::new(message).hint("use the reduced decomposition"));
        }
        let k = m.min(n);
        let halves = |cx: &mut Vjp<'_>, packed: ValueId| {
            let q = columns(cx.e, packed, 0, m)?;
            Ok::<_, OpError>((cx.e.transpose_last(q)?, columns(cx.e, packed, m, n)?))
        };
        let ((q, r), (mut gq, gr)) = (halves(cx, cx.output)?, halves(cx, cx.grad)?);
        let (r, first) = (columns(cx.e, r, 0, k)?, columns(cx.e, gr, 0, k)?);
        let mut rest = None;
        if n > k {
            let (gr, x) = (columns(cx.e, gr, k, n - k)?, columns(cx.e, x, k, n - k)?);
            let more = product_transposed(cx.e, x, gr)?;
            gq = cx.e.add(gq, more)?;
            rest = Some(cx.e.matmul(q, gr)?);
        }
        let (a, b) = (product_transposed(cx.e, first, r)?, transposed_product(cx.e, q, gq)?);
        let difference = cx.e.sub(a, b)?;
        let upper = cx.e.emit(Op::Triu(Diagonal(0)), &[difference.into()])?;
        let above = cx.e.emit(Op::Triu(Diagonal(1)), &[difference.into()])?;
        let below = cx.e.transpose_last(above)?;
        let symmetric = cx.e.add(upper, below)?;
        let product = cx.e.matmul(q, symmetric)?;
        let sum = cx.e.add(gq, product)?;
        // `X R^T = sum` is `R X^T = sum^T`.
        let turned = cx.e.transpose_last(sum)?;
        let solve = Op::TriangularSolve(Triangle { upper: true, unit: false });
        let solved = cx.e.emit(solve, &[r.into(), turned.into()])?;
        let g = cx.e.transpose_last(solved)?;
        let Some(rest) = rest else { return Ok(g) };
        let axis = Axis((cx.e.ty(x).shape.rank() - 1) as u8);
        cx.e.emit(Op::Cat(axis), &[g.into(), rest.into()])
    })
}

/// With V the vectors, S the skew part of `V^T g_V` and E the differences of eigenvalues: `V (S / E
/// + g_values) V^T`.
pub(crate) fn eigh_grad(cx: &mut Vjp<'_>) -> Out {
    let Op::Eigh(wanted) = *cx.op else { return Err(misplaced(cx.op)) };
    one(cx, |cx, x| {
        let n = sides(cx.e, x).0;
        let packed = match wanted {
            Eigen::Vectors => cx.output,
            Eigen::Values => cx.e.emit(Op::Eigh(Eigen::Vectors), &[x.into()])?,
        };
        // Rows are vectors: V^T.
        let vt = columns(cx.e, packed, 1, n)?;
        if wanted == Eigen::Values {
            let g = as_column(cx.e, cx.grad)?;
            let weighted = cx.e.mul(g, vt)?;
            return transposed_product(cx.e, vt, weighted);
        }
        let (values, g) = (columns(cx.e, packed, 0, 1)?, columns(cx.e, cx.grad, 0, 1)?);
        let gvt = columns(cx.e, cx.grad, 1, n)?;
        let product = product_transposed(cx.e, vt, gvt)?;
        let turned = cx.e.transpose_last(product)?;
        let skew = cx.e.sub(product, turned)?;
        let inner = cx.e.mul(skew, 0.5)?;
        let turned = cx.e.transpose_last(values)?;
        let differences = cx.e.sub(turned, values)?;
        let inverse = inverse_or_zero(cx.e, differences)?;
        let off = cx.e.mul(inner, inverse)?;
        let on = cx.e.expand(g, cx.e.ty(off).shape)?;
        let on = diagonal_only(cx.e, on)?;
        let middle = cx.e.add(off, on)?;
        let right = cx.e.matmul(middle, vt)?;
        transposed_product(cx.e, vt, right)
    })
}

/// The vectors as rows, the values as a column.
struct Parts {
    values: ValueId,
    left: ValueId,
    right: ValueId,
}

impl Parts {
    fn of(e: &mut dyn Emit, packed: ValueId, m: usize, n: usize) -> Result<Parts, OpError> {
        let packed = rows(e, packed, 0, m.min(n))?;
        Ok(Parts {
            values: columns(e, packed, 0, 1)?,
            left: columns(e, packed, 1, m)?,
            right: columns(e, packed, 1 + m, n)?,
        })
    }
}

/// With `x = U S V^T` and E the differences of squared singular values: `U (skew(U^T g_U) / E S + S
/// skew(V^T g_V) / E + g_S) V^T`, and what changes the space of the vectors: `(1 - U U^T) g_U / S
/// V^T` if there are more rows than columns, and the same of V if there are fewer.
pub(crate) fn svd_grad(cx: &mut Vjp<'_>) -> Out {
    let Op::Svd(spectrum) = *cx.op else { return Err(misplaced(cx.op)) };
    one(cx, |cx, x| {
        let (m, n) = sides(cx.e, x);
        let packed = match spectrum {
            Spectrum::Values => cx.e.emit(Op::Svd(Spectrum::Reduced), &[x.into()])?,
            // Vectors without a value are arbitrary, so nothing depends on them.
            Spectrum::Reduced | Spectrum::Full => cx.output,
        };
        let svd = Parts::of(cx.e, packed, m, n)?;
        if spectrum == Spectrum::Values {
            let g = as_column(cx.e, cx.grad)?;
            let weighted = cx.e.mul(g, svd.right)?;
            return transposed_product(cx.e, svd.left, weighted);
        }
        let grads = Parts::of(cx.e, cx.grad, m, n)?;
        turned(cx.e, m, n, &svd, &grads)
    })
}

fn turned(e: &mut dyn Emit, m: usize, n: usize, svd: &Parts, grads: &Parts) -> Emitted {
    let squares = e.mul(svd.values, svd.values)?;
    let across = e.transpose_last(squares)?;
    let differences = e.sub(across, squares)?;
    let inverse = inverse_or_zero(e, differences)?;
    let skew = |e: &mut dyn Emit, rows: ValueId, g: ValueId| {
        let product = product_transposed(e, rows, g)?;
        let turned = e.transpose_last(product)?;
        let difference = e.sub(product, turned)?;
        e.mul(difference, inverse)
    };
    let (left, right) = (skew(e, svd.left, grads.left)?, skew(e, svd.right, grads.right)?);
    let across = e.transpose_last(svd.values)?;
    let (left, right) = (e.mul(left, across)?, e.mul(svd.values, right)?);
    let both = e.add(left, right)?;
    let on = e.expand(grads.values, e.ty(both).shape)?;
    let on = diagonal_only(e, on)?;
    let middle = e.add(both, on)?;
    let right = e.matmul(middle, svd.right)?;
    let mut g = transposed_product(e, svd.left, right)?;
    let beyond = |e: &mut dyn Emit, rows: ValueId, g: ValueId| {
        let inverse = inverse_or_zero(e, svd.values)?;
        let scaled = e.mul(g, inverse)?;
        let inner = product_transposed(e, scaled, rows)?;
        let within = e.matmul(inner, rows)?;
        e.sub(scaled, within)
    };
    if m > n {
        let more = beyond(e, svd.left, grads.left)?;
        let more = transposed_product(e, more, svd.right)?;
        g = e.add(g, more)?;
    }
    if n > m {
        let more = beyond(e, svd.right, grads.right)?;
        let more = transposed_product(e, svd.left, more)?;
        g = e.add(g, more)?;
    }
    Ok(g)
}

/// `V S^-1 U^T` without the singular values that count as 0.
pub(crate) fn pinv(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let x = value(op, ins, 0)?;
    let (m, n) = sides(e, x);
    let rtol = *ins.get(1).ok_or_else(|| misplaced(op))?;
    let packed = e.emit(Op::Svd(Spectrum::Reduced), &[x.into()])?;
    let svd = Parts::of(e, packed, m, n)?;
    if m.min(n) == 0 {
        return transposed_product(e, svd.right, svd.left);
    }
    let largest = rows(e, svd.values, 0, 1)?;
    let least = e.mul(largest, rtol)?;
    let counts = e.gt(svd.values, least)?;
    let kept = e.select(counts, svd.values, 0)?;
    let inverse = inverse_or_zero(e, kept)?;
    let right = e.mul(svd.right, inverse)?;
    transposed_product(e, right, svd.left)
}

/// The derivative of the pseudoinverse (Golub and Pereyra 1973), at a matrix of constant rank.
pub(crate) fn pinv_grad(cx: &mut Vjp<'_>) -> Out {
    let mut grads = one(cx, |cx, a| {
        let (e, p) = (&mut *cx.e, cx.output);
        let (m, n) = sides(e, a);
        let (pt, gt) = (e.transpose_last(p)?, e.transpose_last(cx.grad)?);
        let terms: [(ValueId, bool); 4] = if m <= n {
            let k = e.matmul(gt, p)?;
            let k_pt = e.matmul(k, pt)?;
            let pk = e.matmul(p, k)?;
            let ap = e.matmul(a, p)?;
            let ka = e.matmul(k, a)?;
            let (second, rest) = (e.matmul(ap, k_pt)?, e.sub(gt, ka)?);
            let pt_p = e.matmul(pt, p)?;
            let last = e.matmul(pt_p, rest)?;
            [(e.transpose_last(pk)?, false), (k_pt, true), (second, false), (last, true)]
        } else {
            let k = e.matmul(p, gt)?;
            let pt_k = e.matmul(pt, k)?;
            let kp = e.matmul(k, p)?;
            let ak = e.matmul(a, k)?;
            let (rest, pt_kp) = (e.sub(gt, ak)?, e.matmul(pt_k, p)?);
            let rest = e.matmul(rest, p)?;
            let last = e.matmul(rest, pt)?;
            [
                (e.transpose_last(kp)?, false),
                (last, true),
                (pt_k, true),
                (e.matmul(pt_kp, a)?, false),
            ]
        };
        let mut sum = e.neg(terms[0].0)?;
        for (term, adds) in &terms[1..] {
            sum = if *adds { e.add(sum, *term)? } else { e.sub(sum, *term)? };
        }
        Ok(sum)
    })?;
    grads.push(None);
    Ok(grads)
}
