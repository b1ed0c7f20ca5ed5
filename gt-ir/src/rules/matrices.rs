//! Linear algebra: type rules and gradients. The algorithms are in [`matrix`](crate::matrix).
//!
//! Matrices are the last two axes, and all axes before them are a batch. Gradients are those of
//! PyTorch, but where two equal values of a spectrum would divide by zero: there the vectors do not
//! turn into each other.

mod decompose;
mod fourier;
mod solve;

pub(crate) use decompose::{eigh_grad, pinv, pinv_grad, qr_grad, svd_grad};
pub(crate) use fourier::{fft_grad, infer_fft};
pub(crate) use solve::{cholesky_grad, determinant_grad, exp_grad, solve_grad, triangular_grad};

use super::{
    derive::misplaced,
    infer::{Result, literal, tensor},
};
use crate::{
    attr::{Eigen, Extent, Slice, Spectrum},
    dtype::DType,
    emit::{Build, Emit, Emitted},
    error::OpError,
    op::{Op, OperandType},
    shape::{Dim, Shape, Type},
    tape::ValueId,
};

/// Operand `i`, matrices of `f32` or `f64`, with their rows and columns.
fn matrices(op: &Op, ins: &[OperandType], i: usize) -> Result<(Type, usize, usize)> {
    let x = tensor(op, ins, i)?;
    let name = op.name();
    if !matches!(x.dtype, DType::F32 | DType::F64) {
        return Err(OpError::new(format!("{name}: takes f32 or f64, but got {x}"))
            .hint("cast to f32 first"));
    }
    let [.., rows, columns] = *x.shape.sizes() else {
        return Err(OpError::new(format!("{name}: takes matrices, but got {x}"))
            .hint("matrices are the last two axes"));
    };
    Ok((x, rows, columns))
}

/// Operand `i`, square matrices, with their size.
fn squares(op: &Op, ins: &[OperandType], i: usize) -> Result<(Type, usize)> {
    let (x, rows, columns) = matrices(op, ins, i)?;
    if rows != columns {
        return Err(OpError::new(format!("{}: takes square matrices, but got {x}", op.name()))
            .hint("`lstsq` and `pinv` take any matrix"));
    }
    Ok((x, rows))
}

/// The axes before the last two, and these.
fn with_last(x: &Type, last: &[usize]) -> Result<Type> {
    let batch = x.shape.dims().take(x.shape.rank() - 2).collect::<Vec<Dim>>();
    let last: Vec<Dim> = last.iter().map(|n| Dim::new(*n)).collect();
    Ok(Type::new(x.dtype, Shape::from_dims(&[batch, last].concat())?))
}

/// The type of the operand.
pub(crate) fn infer_square(op: &Op, ins: &[OperandType]) -> Result<Type> {
    squares(op, ins, 0).map(|(x, _)| x)
}

/// `[.., n, n] [.., n, k] -> [.., n, k]`.
pub(crate) fn infer_solve(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let ((a, n), (b, rows, _)) = (squares(op, ins, 0)?, matrices(op, ins, 1)?);
    let name = op.name();
    if a.dtype != b.dtype {
        return Err(
            OpError::new(format!("{name}: {a} and {b} differ in dtype")).hint("cast one of them")
        );
    }
    let batch = |ty: &Type| Shape::collect(ty.shape.dims().take(ty.shape.rank() - 2));
    let joined = batch(&a)?.broadcast(&batch(&b)?).filter(|_| rows == n);
    let Some(joined) = joined else {
        return Err(OpError::new(format!("{name}: {b} is no right side of {a}"))
            .hint("takes [.., n, n] and [.., n, columns], whose leading dimensions broadcast"));
    };
    let last = b.shape.dims().skip(b.shape.rank() - 2);
    Ok(Type::new(a.dtype, Shape::from_dims(&joined.dims().chain(last).collect::<Vec<_>>())?))
}

/// `[.., n, n] -> [.., 3]`.
pub(crate) fn infer_determinant(op: &Op, ins: &[OperandType]) -> Result<Type> {
    with_last(&squares(op, ins, 0)?.0, &[3])
}

/// `[.., m, n] -> [.., k, m + n]`, where k is m in full, else the smaller of both.
pub(crate) fn infer_qr(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Qr(extent) = op else { return Err(misplaced(op)) };
    let (x, m, n) = matrices(op, ins, 0)?;
    let k = if *extent == Extent::Full { m } else { m.min(n) };
    with_last(&x, &[k, m + n])
}

/// `[.., n, n] -> [.., n]` or `[.., n, 1 + n]`.
pub(crate) fn infer_eigh(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Eigh(eigen) = op else { return Err(misplaced(op)) };
    let (x, n) = squares(op, ins, 0)?;
    match eigen {
        Eigen::Values => with_last(&x, &[n]),
        Eigen::Vectors => with_last(&x, &[n, 1 + n]),
    }
}

/// `[.., m, n] -> [.., k]` or `[.., k, 1 + m + n]`, where k is the larger of both in full, else the
/// smaller.
pub(crate) fn infer_svd(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Svd(spectrum) = op else { return Err(misplaced(op)) };
    let (x, m, n) = matrices(op, ins, 0)?;
    match spectrum {
        Spectrum::Values => with_last(&x, &[m.min(n)]),
        Spectrum::Reduced => with_last(&x, &[m.min(n), 1 + m + n]),
        Spectrum::Full => with_last(&x, &[m.max(n), 1 + m + n]),
    }
}

/// `[.., m, n] -> [.., n, m]`.
pub(crate) fn infer_pinv(op: &Op, ins: &[OperandType]) -> Result<Type> {
    literal(op, ins, 1)?;
    let (x, m, n) = matrices(op, ins, 0)?;
    with_last(&x, &[n, m])
}

/// The number of rows and of columns.
fn sides(e: &dyn Emit, x: ValueId) -> (usize, usize) {
    let shape = e.ty(x).shape;
    let rank = shape.rank();
    (shape.sizes()[rank - 2], shape.sizes()[rank - 1])
}

/// Some elements of the last axis.
fn columns(e: &mut dyn Emit, x: ValueId, start: usize, n: usize) -> Emitted {
    let axis = e.ty(x).shape.rank() - 1;
    part(e, x, axis, start, n)
}

/// Some elements of the axis before the last.
fn rows(e: &mut dyn Emit, x: ValueId, start: usize, n: usize) -> Emitted {
    let axis = e.ty(x).shape.rank() - 2;
    part(e, x, axis, start, n)
}

fn part(e: &mut dyn Emit, x: ValueId, axis: usize, start: usize, n: usize) -> Emitted {
    if e.ty(x).shape.sizes()[axis] == n {
        return Ok(x);
    }
    let (start, stop) = (start as u64, (start + n) as u64);
    e.slice(x, Slice { axis: axis as u8, start, stop, step: 1 })
}

/// The value with a last axis of size 1.
fn as_column(e: &mut dyn Emit, x: ValueId) -> Emitted {
    let shape = e.ty(x).shape;
    e.reshape(x, Shape::collect(shape.dims().chain([Dim::new(1)]).collect::<Vec<_>>().into_iter())?)
}

/// The unit matrix of a size, in a dtype.
fn unit(e: &mut dyn Emit, n: usize, dtype: DType) -> Emitted {
    let on = on_diagonal(e, n)?;
    e.cast(on, dtype)
}

/// Where rows and columns of an `n` by `n` matrix are equal.
fn on_diagonal(e: &mut dyn Emit, n: usize) -> Emitted {
    let line = e.emit(Op::Iota(Type::new(DType::I64, Shape::new(&[n])?)), &[])?;
    let column = e.reshape(line, Shape::new(&[n, 1])?)?;
    e.eq(line, column)
}

/// The elements on the diagonal of square matrices, and 0 elsewhere.
fn diagonal_only(e: &mut dyn Emit, x: ValueId) -> Emitted {
    let n = sides(e, x).0;
    let on = on_diagonal(e, n)?;
    e.select(on, x, false)
}

/// `a^T b`.
fn transposed_product(e: &mut dyn Emit, a: ValueId, b: ValueId) -> Emitted {
    let at = e.transpose_last(a)?;
    e.matmul(at, b)
}

/// `a b^T`.
fn product_transposed(e: &mut dyn Emit, a: ValueId, b: ValueId) -> Emitted {
    let bt = e.transpose_last(b)?;
    e.matmul(a, bt)
}

/// `1 / x`, and 0 where x is 0. Its gradient is finite there.
fn inverse_or_zero(e: &mut dyn Emit, x: ValueId) -> Emitted {
    let is_zero = e.eq(x, 0)?;
    let divisor = e.select(is_zero, 1, x)?;
    let inverse = e.div(1, divisor)?;
    e.select(is_zero, 0, inverse)
}
