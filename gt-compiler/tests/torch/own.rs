//! Each row of the op table as libtorch's own operator: the table that judges meanings and
//! gradients, with its promotion and its broadcasting.
//!
//! The match is exhaustive: a new row does not compile until somebody says what libtorch calls it.

use gt_compiler::torch::ops::{Arg, dtype_of, kind_of, literal, type_of};
use gt_ir::{
    DType, Op, OperandType, Scalar, Shape, Type,
    attr::{Axis, AxisSet, Keep, Pad, Reduce},
    infer,
};
use tch::{Device, Kind, TchError, Tensor};

use crate::{later, matrices};

pub(crate) type Made = Result<Tensor, TchError>;

/// What libtorch gives for `op`; `None` where it has no such operator or refuses operands that GT
/// takes.
#[expect(clippy::too_many_lines, reason = "a line for each row")]
pub(crate) fn own(op: &Op, args: &[Arg<'_>]) -> Result<Option<Tensor>, TchError> {
    let types: Vec<OperandType> = args.iter().map(seen).collect();
    let ty = infer(op, &types).unwrap();
    let tensors: Vec<Tensor> = args.iter().map(|arg| tensor(arg, args)).collect();
    let [x, y, z] = [0, 1, 2].map(|i| tensors.get(i).or(tensors.first()));
    let (Some(x), Some(y), Some(z)) = (x, y, z) else {
        return source(op, args, ty);
    };
    let kind = kind_of(ty.dtype);
    Ok(Some(match *op {
        Op::Neg => x.f_neg()?,
        Op::Abs => x.f_abs()?,
        Op::Exp => x.f_exp()?,
        Op::Floor => x.f_floor()?,
        Op::Ceil => x.f_ceil()?,
        Op::Trunc => x.f_trunc()?,
        Op::Round => x.f_round()?,
        Op::Exp2 => later::wide(x, ty)?.f_exp2()?.f_to_kind(kind)?,
        Op::Log => x.f_log()?,
        Op::Sqrt => x.f_sqrt()?,
        Op::Sin => x.f_sin()?,
        Op::Cos => x.f_cos()?,
        Op::Tanh => x.f_tanh()?,
        Op::Erf if narrow(x) => return Ok(None), // It takes subnormals for zeros.
        Op::Erf => x.f_erf()?,
        Op::Add => x.f_add(y)?,
        Op::Sub => x.f_to_kind(kind)?.f_sub(&y.f_to_kind(kind)?)?, // No bools beside numbers there.
        Op::Mul => x.f_mul(y)?,
        Op::Div => {
            // A literal divides as the float it is, also beside unsigned integers.
            let side = |i: usize, t: &Tensor| match args[i] {
                Arg::Scalar(scalar) => literal(scalar, ty.dtype, Device::Cpu).unwrap(),
                Arg::Tensor(_) => t.shallow_clone(),
            };
            side(0, x).f_div(&side(1, y))?
        }
        Op::Pow => x.f_pow(y)?,
        Op::Maximum => x.f_maximum(y)?,
        Op::Minimum => x.f_minimum(y)?,
        Op::Eq => x.f_eq_tensor(y)?,
        Op::Lt => x.f_lt_tensor(y)?,
        Op::Ne => x.f_ne_tensor(y)?,
        Op::Gt => x.f_gt_tensor(y)?,
        Op::Ge => x.f_ge_tensor(y)?,
        Op::Le => x.f_le_tensor(y)?,
        Op::LogicalAnd => x.f_logical_and(y)?,
        Op::LogicalOr => x.f_logical_or(y)?,
        Op::LogicalXor => x.f_logical_xor(y)?,
        Op::BitwiseAnd => x.f_bitwise_and_tensor(y)?,
        Op::BitwiseOr => x.f_bitwise_or_tensor(y)?,
        Op::BitwiseXor => x.f_bitwise_xor_tensor(y)?,
        Op::BitwiseNot => x.f_bitwise_not()?,
        Op::LeftShift => x.f_bitwise_left_shift(y)?,
        Op::RightShift => x.f_bitwise_right_shift(y)?,
        Op::LogicalNot => x.f_logical_not()?,
        Op::Where => y.f_where_self(x, z)?,
        Op::Cast(to) if fits(x, to) => x.f_to_kind(kind_of(to))?,
        Op::Cast(_) => return Ok(None), // libtorch leaves open what becomes of it.
        Op::Sum(Reduce { axes, .. })
        | Op::Max(Reduce { axes, .. })
        | Op::Min(Reduce { axes, .. })
        | Op::Mean(Reduce { axes, .. })
            if axes.is_empty() =>
        {
            return Ok(None); // No axes are all axes there.
        }
        Op::Sum(r) => x.f_sum_dim_intlist(dims(r.axes), keep(r.keep), None::<Kind>)?,
        Op::Mean(r) => x.f_mean_dim(dims(r.axes), keep(r.keep), None::<Kind>)?,
        Op::Max(r) => x.f_amax(dims(r.axes), keep(r.keep))?,
        Op::Min(r) => x.f_amin(dims(r.axes), keep(r.keep))?,
        Op::Argmax(r) => number(x)?.f_argmax(i64::from(r.axis), keep(r.keep))?,
        Op::MatMul => x.f_to_kind(kind_of(ty.dtype))?.f_matmul(&y.f_to_kind(kind_of(ty.dtype))?)?,
        Op::Reshape(shape) => x.f_reshape(sizes(&shape))?,
        Op::Permute(perm) => x.f_permute(perm.axes().map(|a| a as i64).collect::<Vec<_>>())?,
        Op::Expand(shape) => x.f_expand(sizes(&shape), false)?,
        Op::Slice(s) => {
            x.f_slice(i64::from(s.axis), s.start as i64, s.stop as i64, s.step as i64)?
        }
        Op::Cat(axis) => Tensor::f_cat(&tensors, i64::from(axis.0))?,
        Op::Pad(pad) => padded(x, args, pad, &ty)?,
        Op::Gather(axis) => x.f_gather(i64::from(axis.0), &index(y)?, false)?,
        Op::ScatterAdd(axis) => x.f_scatter_add(i64::from(axis.0), &index(y)?, z)?,
        Op::IndexSelect(axis) => x.f_index(&at(axis, y)?)?,
        Op::IndexAdd(axis) => index_add(x, y, z, axis)?,
        Op::Rsqrt => x.f_rsqrt()?,
        Op::Sigmoid => x.f_sigmoid()?,
        Op::Relu => x.f_relu()?,
        Op::Gelu | Op::GeluTanh if !finite(x)? => return Ok(None), // Of infinity it makes NaN.
        Op::Gelu => x.f_to_kind(kind)?.f_gelu("none")?,
        Op::GeluTanh => x.f_to_kind(kind)?.f_gelu("tanh")?,
        Op::Softmax(axis) => x.f_softmax(i64::from(axis.0), None::<Kind>)?,
        Op::LogSoftmax(axis) => x.f_log_softmax(i64::from(axis.0), None::<Kind>)?,
        Op::LayerNorm(n) => {
            // Narrow floats by way of `f32`: its own kernel keeps mean and deviation narrow for the
            // gradient.
            let wide = if narrow(x) { Kind::Float } else { kind };
            let [x, w, b] = [x.f_to_kind(wide)?, y.f_to_kind(wide)?, z.f_to_kind(wide)?];
            let size = x.size();
            let normal = &size[size.len() - usize::from(n.0)..];
            let eps = given(args, 3).as_f64();
            x.f_layer_norm(normal, Some(w), Some(b), eps, false)?.f_to_kind(kind)?
        }
        Op::Transpose(swap) => x.f_transpose(i64::from(swap.0), i64::from(swap.1))?,
        Op::OneHot(n) => {
            let index = index(x)?;
            let known = index.f_ge(0)?.f_logical_and(&index.f_lt(n.0 as i64)?)?.f_all()?;
            if n.0 == 0 || known.f_int64_value(&[])? == 0 || index.numel() == 0 {
                return Ok(None); // An error there; zeros here.
            }
            index.f_one_hot(n.0 as i64)?
        }
        Op::Prod(_)
        | Op::CumSum(_)
        | Op::CumProd(_)
        | Op::CumMax(_)
        | Op::CumMin(_)
        | Op::ArgSort(_)
        | Op::Unfold(_)
        | Op::Fold(_)
        | Op::MaxPool2d(_)
        | Op::Conv2d(_)
        | Op::Log1p
        | Op::Expm1
        | Op::Atan
        | Op::Atan2
        | Op::Remainder
        | Op::Fmod
        | Op::Sign
        | Op::Silu
        | Op::Softplus
        | Op::LeakyRelu
        | Op::Elu
        | Op::Clamp
        | Op::Dropout
        | Op::Log2
        | Op::Log10
        | Op::Tril(_)
        | Op::Triu(_)
        | Op::Argmin(_)
        | Op::Any(_)
        | Op::All(_)
        | Op::LogSumExp(_)
        | Op::Var(_)
        | Op::Norm(_)
        | Op::RmsNorm(_)
        | Op::GroupNorm(_)
        | Op::BatchNorm
        | Op::ScaledDotProductAttention(_)
        | Op::ScaledDotProductAttentionGrad(_)
        | Op::Flip(_)
        | Op::SliceAssign(_)
        | Op::IndexCopy(_)
        | Op::Scatter(_)
        | Op::ScatterMax(_)
        | Op::ScatterMin(_)
        | Op::ScatterMul(_)
        | Op::Scan(_)
        | Op::Cond(_) => {
            return later::own(op, args, &tensors, ty);
        }
        Op::Cholesky
        | Op::TriangularSolve(_)
        | Op::Solve
        | Op::Determinant
        | Op::Qr(_)
        | Op::Eigh(_)
        | Op::Svd(_)
        | Op::MatrixExp
        | Op::Fft(_)
        | Op::Pinv => return matrices::own(op, args, &tensors),
        Op::Iota(_) | Op::Rand(_) | Op::Randn(_) | Op::Randint(_) | Op::Full(_) | Op::Arange(_) => {
            return source(op, args, ty);
        }
    }))
}

/// What has no tensor operand.
fn source(op: &Op, args: &[Arg<'_>], ty: Type) -> Result<Option<Tensor>, TchError> {
    let (options, n) = ((kind_of(ty.dtype), Device::Cpu), ty.shape.numel() as i64);
    Ok(Some(match op {
        Op::Iota(_) => {
            let all = Tensor::f_arange(n, (Kind::Int64, Device::Cpu))?;
            all.f_to_kind(options.0)?.f_reshape(sizes(&ty.shape))?
        }
        Op::Full(_) => {
            let value = literal(given(args, 0), ty.dtype, Device::Cpu).unwrap();
            Tensor::f_full(sizes(&ty.shape), value.f_double_value(&[])?, options)?
        }
        Op::Arange(_) => {
            let (start, step) = (given(args, 0), given(args, 1));
            let whole = !ty.dtype.is_float();
            let step = if whole { step.as_i64() as f64 } else { step.as_f64() };
            let start = if whole { start.as_i64() as f64 } else { start.as_f64() };
            if step == 0.0 || n == 0 {
                return Ok(None);
            }
            let wide = (if whole { Kind::Int64 } else { Kind::Double }, Device::Cpu);
            let end = start + step * n as f64 - step / 2.0;
            let end = if whole { start + step * n as f64 } else { end };
            let [start, end, step] = [start, end, step]
                .map(|v| if whole { tch::Scalar::int(v as i64) } else { tch::Scalar::float(v) });
            Tensor::f_arange_start_step(start, end, step, wide)?.f_to_kind(options.0)?
        }
        _ => return Ok(None), // Random numbers: libtorch's bits are others.
    }))
}

fn seen(arg: &Arg<'_>) -> OperandType {
    match arg {
        Arg::Tensor(tensor) => OperandType::Tensor(type_of(tensor).unwrap()),
        Arg::Scalar(scalar) => OperandType::Scalar(*scalar),
    }
}

/// A literal takes the dtype of the tensors beside it unless it is of a higher category.
fn tensor(arg: &Arg<'_>, all: &[Arg<'_>]) -> Tensor {
    let scalar = match arg {
        Arg::Tensor(tensor) => return tensor.shallow_clone(),
        Arg::Scalar(scalar) => *scalar,
    };
    let dtypes = all.iter().filter_map(|arg| match arg {
        Arg::Tensor(tensor) => Some(dtype_of(tensor).unwrap()),
        Arg::Scalar(_) => None,
    });
    // The condition of a `where` is alone in its category, so it decides nothing.
    let beside = dtypes.reduce(DType::promote).unwrap_or(scalar.weak_dtype());
    let weak = scalar.weak_dtype();
    let dtype = if weak.category() > beside.category() { weak } else { beside };
    literal(scalar, dtype, Device::Cpu).unwrap()
}

pub(crate) fn given(args: &[Arg<'_>], i: usize) -> Scalar {
    match args[i] {
        Arg::Scalar(scalar) => scalar,
        Arg::Tensor(tensor) => Scalar::F64(tensor.double_value(&[])),
    }
}

pub(crate) fn narrow(x: &Tensor) -> bool {
    matches!(x.kind(), Kind::Half | Kind::BFloat16)
}

pub(crate) fn finite(x: &Tensor) -> Result<bool, TchError> {
    Ok(x.f_isfinite()?.f_all()?.f_int64_value(&[])? == 1)
}

/// Whether every element lies within the range of an integer dtype.
fn fits(x: &Tensor, to: DType) -> bool {
    let range = match to {
        DType::U8 => (0.0, 255.0),
        DType::I32 => (f64::from(i32::MIN), f64::from(i32::MAX)),
        DType::I64 => (-9e18, 9e18),
        DType::F32 | DType::F64 | DType::Bf16 | DType::F16 | DType::Bool => return true,
    };
    let from_float = dtype_of(x).unwrap().is_float();
    let wide = x.to_kind(Kind::Double);
    let inside = wide.ge(range.0).logical_and(&wide.le(range.1));
    !from_float || inside.all().int64_value(&[]) == 1
}

/// libtorch compares no bools.
pub(crate) fn number(x: &Tensor) -> Made {
    if x.f_kind()? == Kind::Bool { x.f_to_kind(Kind::Uint8) } else { x.f_alias() }
}

pub(crate) fn index(x: &Tensor) -> Made {
    x.f_to_kind(Kind::Int64)
}

pub(crate) fn at(axis: Axis, index: &Tensor) -> Result<Vec<Option<Tensor>>, TchError> {
    let mut indices: Vec<Option<Tensor>> = (0..axis.0).map(|_| None).collect();
    indices.push(Some(self::index(index)?));
    Ok(indices)
}

/// Its index has one dimension there.
fn index_add(base: &Tensor, index: &Tensor, src: &Tensor, axis: Axis) -> Made {
    let flat = self::index(index)?.f_reshape([-1])?;
    let mut size = base.size();
    size[usize::from(axis.0)] = flat.size()[0];
    base.f_index_add(i64::from(axis.0), &flat, &src.f_reshape(size)?)
}

fn padded(x: &Tensor, args: &[Arg<'_>], pad: Pad, ty: &Type) -> Made {
    let value = match args[1] {
        Arg::Scalar(scalar) => literal(scalar, ty.dtype, Device::Cpu).unwrap(),
        Arg::Tensor(tensor) => tensor.f_to_kind(kind_of(ty.dtype))?,
    };
    let value = value.f_double_value(&[])?;
    let (axis, last) = (usize::from(pad.axis), x.size().len() - 1);
    if pad.interior == 0 {
        let mut around = vec![0; 2 * (last - axis)];
        around.extend([pad.lo as i64, pad.hi as i64]);
        return x.f_pad(around, "constant", value);
    }
    let step = pad.interior as i64 + 1;
    let places = Tensor::f_arange(x.size()[axis], (Kind::Int64, Device::Cpu))?;
    let places = places.f_mul_scalar(step)?.f_add_scalar(pad.lo as i64)?;
    let full = Tensor::f_full(sizes(&ty.shape), value, (kind_of(ty.dtype), Device::Cpu))?;
    full.f_index_copy(axis as i64, &places, x)
}

pub(crate) fn keep(keep: Keep) -> bool {
    keep == Keep::Yes
}

pub(crate) fn dims(axes: AxisSet) -> Vec<i64> {
    axes.iter().map(|a| a as i64).collect()
}

fn sizes(shape: &Shape) -> Vec<i64> {
    shape.sizes().iter().map(|n| *n as i64).collect()
}
