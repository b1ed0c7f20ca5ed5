//! Operands and attributes for instructions of derived kinds that more is needed for than a tensor
//! or two.
//!
//! Primitives are in `propose`; the two files are one list, divided where it became too long. The
//! restrictions on attributes here are those of the type rules, plus the few that keep results
//! comparable between engines.

use smallvec::smallvec;

use super::{
    generator::{Generator, Known},
    operands::{Inputs, Proposal, any, axis, like, one, partner, reduce},
};
use crate::{
    attr::{
        Attention, AttentionGrad, AttentionInput, Axes, Axis, Conv, Diagonal, Direction, Eigen,
        Extent, Fold, Groups, Keep, Order, Pool, ReduceOne, Slice, Spectrum, Trailing, Triangle,
        Window,
    },
    body::{Cond, Scan},
    dtype::DType,
    op::{Op, OpKind, Operand, OperandType, infer},
    scalar::Scalar,
    shape::{Dim, Shape, Type},
};

/// As [`super::propose::propose`], for the ops of this file. `None` for any other op: the test that
/// every op occurs in random tapes then fails.
pub(super) fn propose(g: &mut Generator<'_, '_>, kind: OpKind) -> Proposal {
    match kind {
        OpKind::Clamp => clamp(g),
        OpKind::Dropout => dropout(g),
        OpKind::Tril => triangle(g, Op::Tril),
        OpKind::Triu => triangle(g, Op::Triu),
        OpKind::Argmin => {
            let (x, axis) = axis(g)?;
            let keep = if g.chance(1, 2) { Keep::Yes } else { Keep::No };
            Some((Op::Argmin(ReduceOne { axis, keep }), one(x)))
        }
        OpKind::Any => reduce(g, Op::Any),
        OpKind::All => reduce(g, Op::All),
        OpKind::LogSumExp => reduce(g, Op::LogSumExp),
        OpKind::Norm => reduce(g, Op::Norm),
        OpKind::Var => {
            let (op, mut inputs) = reduce(g, Op::Var)?;
            inputs.push(Scalar::I64(g.below(2) as i64).into());
            Some((op, inputs))
        }
        OpKind::RmsNorm => rms_norm(g),
        OpKind::GroupNorm => group_norm(g),
        OpKind::BatchNorm => batch_norm(g),
        OpKind::ScaledDotProductAttention => attention(g),
        OpKind::ScaledDotProductAttentionGrad => attention_grad(g),
        OpKind::Flip => {
            let x = any(g)?;
            let axes = (0..x.ty.shape.rank()).filter(|_| g.chance(1, 2)).collect();
            Some((Op::Flip(Axes(axes)), one(x)))
        }
        OpKind::SliceAssign => assign(g),
        OpKind::Scan => scan(g),
        OpKind::Cond => cond(g),
        OpKind::Prod => reduce(g, Op::Prod),
        OpKind::CumSum => axis(g).map(|(x, axis)| (Op::CumSum(Axis(axis)), one(x))),
        OpKind::CumMax => axis(g).map(|(x, axis)| (Op::CumMax(Axis(axis)), one(x))),
        OpKind::CumMin => axis(g).map(|(x, axis)| (Op::CumMin(Axis(axis)), one(x))),
        OpKind::CumProd => axis(g).map(|(x, axis)| (Op::CumProd(Axis(axis)), one(x))),
        OpKind::ArgSort => {
            let (x, axis) = axis(g)?;
            Some((Op::ArgSort(Order { axis, descending: g.chance(1, 2) }), one(x)))
        }
        OpKind::Unfold => {
            let (x, axis) = axis(g)?;
            let [size, step, dilation] = [(); 3].map(|()| 1 + g.below(3) as u64);
            Some((Op::Unfold(Window { axis, size, step, dilation }), one(x)))
        }
        OpKind::Fold => folded(g),
        OpKind::MaxPool2d => pool(g),
        OpKind::Conv2d => conv(g),
        OpKind::Cholesky => square(g, Op::Cholesky),
        OpKind::Determinant => square(g, Op::Determinant),
        OpKind::MatrixExp => square(g, Op::MatrixExp),
        OpKind::Fft => fourier(g),
        OpKind::Solve => system(g, Op::Solve),
        OpKind::TriangularSolve => {
            let [upper, unit] = [(); 2].map(|()| g.chance(1, 2));
            system(g, Op::TriangularSolve(Triangle { upper, unit }))
        }
        OpKind::Eigh => {
            let wanted = if g.chance(1, 2) { Eigen::Values } else { Eigen::Vectors };
            square(g, Op::Eigh(wanted))
        }
        OpKind::Qr => {
            let x = matrix(g)?;
            let extent = if g.chance(1, 2) { Extent::Reduced } else { Extent::Full };
            Some((Op::Qr(extent), one(x)))
        }
        OpKind::Svd => {
            let x = matrix(g)?;
            let wanted = [Spectrum::Values, Spectrum::Reduced, Spectrum::Full][g.below(3)];
            Some((Op::Svd(wanted), one(x)))
        }
        OpKind::Pinv => {
            let x = matrix(g)?;
            Some((Op::Pinv, smallvec![x.id.into(), Scalar::F64(1e-5).into()]))
        }
        _ => None,
    }
}

/// A live float with at least this many axes.
fn float(g: &mut Generator<'_, '_>, rank: usize) -> Option<Known> {
    g.find(|known| known.ty.shape.rank() >= rank && known.ty.dtype.is_float())
}

/// A live value of matrices that linear algebra takes.
fn matrix(g: &mut Generator<'_, '_>) -> Option<Known> {
    let fits = |ty: &Type| ty.shape.rank() >= 2 && matches!(ty.dtype, DType::F32 | DType::F64);
    g.find(|known| fits(&known.ty))
}

/// A transform of a new signal, whose numbers are pairs.
fn fourier(g: &mut Generator<'_, '_>) -> Proposal {
    let direction = if g.chance(1, 2) { Direction::Inverse } else { Direction::Forward };
    let (n, dtype) = (g.dim(), if g.chance(1, 2) { DType::F32 } else { DType::F64 });
    let ty = floats(g, dtype, &[n, Dim::new(2)])?;
    Some((Op::Fft(direction), smallvec![g.input(ty).into()]))
}

/// An op on square matrices: live ones, or new ones.
fn square(g: &mut Generator<'_, '_>, op: Op) -> Proposal {
    let (n, dtype) = (g.dim(), if g.chance(1, 2) { DType::F32 } else { DType::F64 });
    let is_square = |ty: &Type| infer(&op, &[OperandType::Tensor(*ty)]).is_ok();
    if g.chance(1, 2)
        && let Some(x) = g.find(|known| is_square(&known.ty))
    {
        return Some((op, one(x)));
    }
    let ty = floats(g, dtype, &[n, n])?;
    Some((op, smallvec![g.input(ty).into()]))
}

/// A system of equations for a live right side.
fn system(g: &mut Generator<'_, '_>, op: Op) -> Proposal {
    let b = matrix(g)?;
    let skipped = g.below(b.ty.shape.rank() - 1);
    let dims: Vec<Dim> = b.ty.shape.dims().skip(skipped).collect();
    let last = dims.len() - 1;
    let square: Vec<Dim> = dims[..last].iter().chain([&dims[last - 1]]).copied().collect();
    let ty = floats(g, b.ty.dtype, &square)?;
    let a = like(g, ty);
    Some((op, smallvec![a.into(), b.id.into()]))
}

/// New dims of a float type, within the limits.
fn floats(g: &Generator<'_, '_>, dtype: DType, dims: &[Dim]) -> Option<Type> {
    let shape = Shape::from_dims(dims).ok().filter(|shape| shape.numel() <= g.config.max_numel)?;
    Some(Type::new(dtype, shape))
}

/// Both bounds are free, so a lower bound above the upper one occurs as well.
fn clamp(g: &mut Generator<'_, '_>) -> Proposal {
    let x = any(g)?;
    let (low, high) = (partner(g, &x.ty.shape, None), partner(g, &x.ty.shape, None));
    Some((Op::Clamp, smallvec![x.id.into(), low, high]))
}

/// The probability is never 1, which would divide by 0.
fn dropout(g: &mut Generator<'_, '_>) -> Proposal {
    let x = float(g, 0)?;
    let p = Scalar::F64([0.0, 0.25, 0.5][g.below(3)]);
    Some((Op::Dropout, smallvec![x.id.into(), p.into(), g.seed()]))
}

/// Diagonals from -4 to 4: with axes of a few elements, some leave everything and some leave
/// nothing.
fn triangle(g: &mut Generator<'_, '_>, op: fn(Diagonal) -> Op) -> Proposal {
    let x = g.find(|known| known.ty.shape.rank() >= 2)?;
    Some((op(Diagonal(g.below(9) as i64 - 4)), one(x)))
}

/// x, and a weight over its last one or more axes.
fn rms_norm(g: &mut Generator<'_, '_>) -> Proposal {
    let x = float(g, 1)?;
    let rank = x.ty.shape.rank();
    let n = 1 + g.below(rank);
    let dims: Vec<Dim> = x.ty.shape.dims().skip(rank - n).collect();
    let ty = floats(g, x.ty.dtype, &dims)?;
    let weight = like(g, ty);
    let inputs = smallvec![x.id.into(), weight.into(), Scalar::F64(0.01).into()];
    Some((Op::RmsNorm(Trailing(n as u8)), inputs))
}

/// Vectors over the channels of x.
fn channels(g: &mut Generator<'_, '_>, x: &Known, n: usize) -> Option<Inputs> {
    let ty = floats(g, x.ty.dtype, &[x.ty.shape.dim(1)])?;
    Some((0..n).map(|_| like(g, ty).into()).collect())
}

/// A number of groups that divides the channels, with weight and bias by channel. An x without
/// channels has no such number.
fn group_norm(g: &mut Generator<'_, '_>) -> Proposal {
    let x = float(g, 2)?;
    let channels_of_x = x.ty.shape.sizes()[1];
    let whole: Vec<usize> = (1..=channels_of_x).filter(|n| channels_of_x % n == 0).collect();
    let groups = *whole.get(g.below(whole.len()))?;
    let mut inputs = one(x);
    inputs.extend(channels(g, &x, 2)?);
    inputs.push(Scalar::F64(0.01).into());
    Some((Op::GroupNorm(Groups(groups as u64)), inputs))
}

/// Mean, variance, weight and bias by channel. The variance may be negative, which gives NaN in
/// every engine.
fn batch_norm(g: &mut Generator<'_, '_>) -> Proposal {
    let x = float(g, 2)?;
    let mut inputs = one(x);
    inputs.extend(channels(g, &x, 4)?);
    inputs.push(Scalar::F64(0.01).into());
    Some((Op::BatchNorm, inputs))
}

/// Key and value for a query, which may share heads; a mask half of the time.
///
/// The result of a row without any visible position is 0, and a mask of `bool` or a causal length
/// makes such rows here.
fn attention(g: &mut Generator<'_, '_>) -> Proposal {
    let q = float(g, 2)?;
    let rank = q.ty.shape.rank();
    let mut dims: Vec<Dim> = q.ty.shape.dims().collect();
    let length = dims[rank - 2];
    if rank > 2 && g.chance(1, 3) {
        dims[rank - 3] = Dim::new(1);
    }
    dims[rank - 2] = g.dim();
    let key_type = floats(g, q.ty.dtype, &dims)?;
    let key = like(g, key_type);
    dims[rank - 1] = g.dim();
    let value_type = floats(g, q.ty.dtype, &dims)?;
    let value = like(g, value_type);
    let kind = if g.chance(1, 2) { Attention::Causal } else { Attention::Full };
    let mut inputs: Inputs =
        smallvec![q.id.into(), key.into(), value.into(), Operand::from(Scalar::F64(0.25))];
    if g.chance(1, 2) {
        let dtype = if g.chance(1, 2) { DType::Bool } else { q.ty.dtype };
        let ty = floats(g, dtype, &[length, dims[rank - 2]])?;
        inputs.push(like(g, ty).into());
    }
    Some((Op::ScaledDotProductAttention(kind), inputs))
}

/// The operands of an attention, and a gradient of its result before them.
fn attention_grad(g: &mut Generator<'_, '_>) -> Proposal {
    let (forward, operands) = attention(g)?;
    let Op::ScaledDotProductAttention(kind) = forward else { return None };
    let types: Vec<OperandType> = operands.iter().map(|o| g.operand_type(*o)).collect();
    let grad = like(g, infer(&forward, &types).ok()?);
    let of = AttentionInput::ALL[g.below(3)];
    let inputs = [grad.into()].into_iter().chain(operands).collect();
    Some((Op::ScaledDotProductAttentionGrad(AttentionGrad { kind, of }), inputs))
}

/// A value of the size of a random range. A third of the steps are 1, where the result is a
/// concatenation instead of a selection.
fn assign(g: &mut Generator<'_, '_>) -> Proposal {
    let (x, axis) = axis(g)?;
    let at = usize::from(axis);
    let size = x.ty.shape.sizes()[at];
    let start = g.below(size + 1);
    let stop = start + g.below(size - start + 1);
    let slice = Slice { axis, start: start as u64, stop: stop as u64, step: 1 + g.below(3) as u64 };
    let mut dims: Vec<Dim> = x.ty.shape.dims().collect();
    dims[at] = Dim::new(slice.len() as usize);
    let value = like(g, Type::new(x.ty.dtype, Shape::from_dims(&dims).ok()?));
    Some((Op::SliceAssign(slice), smallvec![x.id.into(), value.into()]))
}

/// A few rounds over a float: a value that is carried, one that is the same in all rounds, and
/// results that are stacked.
fn scan(g: &mut Generator<'_, '_>) -> Proposal {
    let x = float(g, 1)?;
    let length = x.ty.shape.sizes().first().copied().filter(|n| *n <= 5)?;
    let slice = Type::new(x.ty.dtype, Shape::collect(x.ty.shape.dims().skip(1)).ok()?);
    let (carried, same) = (like(g, slice), like(g, slice));
    let bodies = [
        "mul(a0,0.5)|add(v0,a1)|v1,v1",
        "sigmoid(a1)|mul(a2,v0)|sub(a0,v1)|lt(v2,a1)|v2,v3,v1",
        "tanh(a1)|maximum(a0,v0)|v1",
    ];
    let body = bodies[g.below(bodies.len())].parse().ok()?;
    let dtype = if g.chance(1, 6) { DType::Bool } else { x.ty.dtype };
    let (length, reverse) = (length as u64, g.chance(1, 2));
    let scan = Scan { length, n_carried: 1, n_scanned: 1, dtype, reverse, body };
    Some((Op::Scan(scan), smallvec![carried.into(), x.id.into(), same.into()]))
}

/// A choice between two functions of two floats.
fn cond(g: &mut Generator<'_, '_>) -> Proposal {
    let x = float(g, 0)?;
    let y = like(g, x.ty);
    let bodies = [
        "mul(a0,a1)|gt(v0,a0)|v0,v1",
        "sqrt(a0)|le(a1,v0)|v0,v1",
        "sigmoid(a1)|mul(a0,v0)|sub(v1,a1)|lt(v2,0.5)|v2,v3",
    ];
    let [on_true, on_false] = [0; 2].map(|_| bodies[g.below(bodies.len())].parse().ok());
    let dtype = if g.chance(1, 6) { DType::Bool } else { x.ty.dtype };
    let cond = Cond { dtype, on_true: on_true?, on_false: on_false? };
    let condition = like(g, Type::scalar(DType::Bool));
    Some((Op::Cond(cond), smallvec![condition.into(), x.id.into(), y.into()]))
}

/// Windows of a new axis.
fn folded(g: &mut Generator<'_, '_>) -> Proposal {
    let x = float(g, 0)?;
    let [size, step, dilation] = [5, 4, 3].map(|most| 1 + g.below(most) as u64);
    let len = 1 + (size - 1) * dilation + g.below(6) as u64;
    let axis = g.below(x.ty.shape.rank() + 1);
    let window = Window { axis: axis as u8, size, step, dilation };
    let mut dims: Vec<Dim> = x.ty.shape.dims().collect();
    dims.insert(axis, Dim::new(window.count(len as usize)?));
    dims.push(Dim::new(size as usize));
    let ty = floats(g, x.ty.dtype, &dims)?;
    Some((Op::Fold(Fold { window, len }), smallvec![like(g, ty).into()]))
}

/// Sizes and strides from 1 to 3, and padding up to half a window, which is the largest that the
/// type rule accepts.
fn pool(g: &mut Generator<'_, '_>) -> Proposal {
    let x = float(g, 3)?;
    let pair = |g: &mut Generator<'_, '_>, low, most| [(); 2].map(|()| low + g.below(most) as u32);
    let (size, stride, mut dilation) = (pair(g, 1, 3), pair(g, 1, 3), pair(g, 1, 2));
    let padding = size.map(|n| g.below(n as usize / 2 + 1) as u32);
    // A window of what was put around alone has a gradient that goes nowhere, or with PyTorch
    // anywhere.
    (0..2).filter(|&i| padding[i] > 0).for_each(|i| dilation[i] = 1);
    Some((Op::MaxPool2d(Pool { size, stride, padding, dilation }), one(x)))
}

/// An image of the dtype of a live float, and kernels for it.
fn conv(g: &mut Generator<'_, '_>) -> Proposal {
    let dtype = float(g, 0)?.ty.dtype;
    let (groups, each, out) = (1 + g.below(2), 1 + g.below(2), 1 + g.below(2));
    let [batch, height, width] = [2, 5, 5].map(|most| 1 + g.below(most));
    let [tall, broad] = [(); 2].map(|()| 1 + g.below(3));
    let dims = |sizes: [usize; 4]| sizes.map(Dim::new);
    let image = floats(g, dtype, &dims([batch, groups * each, height, width]))?;
    let kernels = floats(g, dtype, &dims([groups * out, each, tall, broad]))?;
    let (image, kernels) = (like(g, image), like(g, kernels));
    let pair = |g: &mut Generator<'_, '_>, low: u32| [(); 2].map(|()| low + g.below(2) as u32);
    let (stride, padding, dilation) = (pair(g, 1), pair(g, 0), pair(g, 1));
    let conv = Conv { stride, padding, dilation, groups: groups as u32 };
    Some((Op::Conv2d(conv), smallvec![image.into(), kernels.into()]))
}
