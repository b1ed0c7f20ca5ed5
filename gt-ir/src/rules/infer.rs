//! Type rules: the result's type from the operands', with PyTorch's broadcasting and promotion. Names of dimensions travel along.
//!
//! The arity has been checked by [`infer`](crate::op::infer), so indexing operands by position is in range.

use smallvec::SmallVec;

use super::promote::promote;
use crate::{
    attr::{AxisSet, Keep},
    dtype::{Category, DType},
    error::OpError,
    op::{Op, OperandType},
    shape::{Dim, MAX_RANK, Shape, Type},
};

pub(super) type Result<T> = std::result::Result<T, OpError>;
pub(super) type Dims = SmallVec<[Dim; MAX_RANK]>;

/// Operands as messages list them: `f32[2,3] and f32[4]`.
fn list(ins: &[OperandType]) -> String {
    ins.iter().map(|t| t.to_string()).collect::<Vec<_>>().join(" and ")
}

pub(super) fn tensor(op: &Op, ins: &[OperandType], i: usize) -> Result<Type> {
    match ins[i] {
        OperandType::Tensor(t) => Ok(t),
        OperandType::Scalar(s) => Err(OpError::new(format!(
            "{}: operand {i} must be a tensor, but is the literal {s}",
            op.name()
        ))),
    }
}

pub(super) fn literal(op: &Op, ins: &[OperandType], i: usize) -> Result<()> {
    match ins[i] {
        OperandType::Tensor(t) if t.shape.rank() > 0 => Err(OpError::new(format!(
            "{}: operand {i} must be a literal or a zero-dimensional tensor, but is {t}",
            op.name()
        ))),
        OperandType::Tensor(_) | OperandType::Scalar(_) => Ok(()),
    }
}

/// Common shape of pointwise operands; at least one must be a tensor.
pub(super) fn broadcast(op: &Op, ins: &[OperandType]) -> Result<Shape> {
    let mut shape: Option<Shape> = None;
    for operand in ins {
        let OperandType::Tensor(t) = operand else { continue };
        let joined = match &shape {
            None => Some(t.shape),
            Some(s) => s.broadcast(&t.shape),
        };
        shape = Some(joined.ok_or_else(|| {
            OpError::new(format!("{}: shapes of {} do not broadcast", op.name(), list(ins)))
                .hint("shapes align from the right; sizes must be equal or 1")
        })?);
    }
    shape.ok_or_else(|| {
        OpError::new(format!(
            "{}: at least one operand must be a tensor, but got {}",
            op.name(),
            list(ins)
        ))
    })
}

/// Dtype an arithmetic op computes in and returns.
pub(crate) fn arithmetic(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let ty = arithmetic_or_bool(op, ins)?;
    if ty.dtype == DType::Bool {
        return Err(OpError::new(format!("{}: not defined on bool, got {}", op.name(), list(ins)))
            .hint("cast to an integer or float first"));
    }
    Ok(ty)
}

pub(crate) fn arithmetic_or_bool(op: &Op, ins: &[OperandType]) -> Result<Type> {
    Ok(Type::new(promote(ins), broadcast(op, ins)?))
}

pub(crate) fn float(op: &Op, ins: &[OperandType]) -> Result<Type> {
    Ok(Type::new(promote(ins).or_default_float(), broadcast(op, ins)?))
}

pub(crate) fn compare(op: &Op, ins: &[OperandType]) -> Result<Type> {
    Ok(Type::new(DType::Bool, broadcast(op, ins)?))
}

pub(crate) fn select(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let condition = tensor(op, ins, 0)?;
    if condition.dtype != DType::Bool {
        return Err(OpError::new(format!("where: the condition must be bool, but is {condition}"))
            .hint("compare it, e.g. with `ne x, 0`"));
    }
    Ok(Type::new(promote(&ins[1..]), broadcast(op, ins)?))
}

pub(crate) fn cast(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Cast(dtype) = op else { return Err(misplaced(op)) };
    Ok(tensor(op, ins, 0)?.with_dtype(*dtype))
}

/// Reached only if a row names the rule of an op with another attribute; the table test would find it first.
pub(super) fn misplaced(op: &Op) -> OpError {
    OpError::new(format!("{}: the op table names a rule that does not fit it", op.name()))
}

pub(super) fn reduced(op: &Op, t: &Type, axes: AxisSet, keep: Keep) -> Result<Shape> {
    if let Some(axis) = axes.iter().find(|&a| a >= t.shape.rank()) {
        return Err(OpError::new(format!("{}: axis {axis} is out of range for {t}", op.name())));
    }
    let dims = t.shape.dims().enumerate().filter_map(|(i, dim)| match (axes.contains(i), keep) {
        (false, _) => Some(dim),
        (true, Keep::Yes) => Some(Dim::new(1)),
        (true, Keep::No) => None,
    });
    Shape::collect(dims)
}

fn reduce(op: &Op, ins: &[OperandType]) -> Result<(Type, Shape, AxisSet)> {
    let (Op::Sum(r)
    | Op::Max(r)
    | Op::Min(r)
    | Op::Mean(r)
    | Op::Any(r)
    | Op::All(r)
    | Op::Var(r)
    | Op::LogSumExp(r)
    | Op::Prod(r)
    | Op::Norm(r)) = op
    else {
        return Err(misplaced(op));
    };
    let t = tensor(op, ins, 0)?;
    Ok((t, reduced(op, &t, r.axes, r.keep)?, r.axes))
}

pub(crate) fn sum(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (t, shape, _) = reduce(op, ins)?;
    Ok(Type::new(if t.dtype.is_float() { t.dtype } else { DType::I64 }, shape))
}

pub(crate) fn mean(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (t, shape, _) = reduce(op, ins)?;
    if !t.dtype.is_float() {
        return Err(OpError::new(format!("{}: takes floats, but got {t}", op.name()))
            .hint("cast to f32 first"));
    }
    Ok(Type::new(t.dtype, shape))
}

pub(crate) fn var(op: &Op, ins: &[OperandType]) -> Result<Type> {
    literal(op, ins, 1)?;
    mean(op, ins)
}

pub(crate) fn truth(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (_, shape, _) = reduce(op, ins)?;
    Ok(Type::new(DType::Bool, shape))
}

pub(crate) fn extremum(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (t, shape, axes) = reduce(op, ins)?;
    nonempty(op, &t, axes)?;
    Ok(Type::new(t.dtype, shape))
}

/// The largest of no elements does not exist, unless the result is empty as well.
fn nonempty(op: &Op, t: &Type, axes: AxisSet) -> Result<()> {
    match axes.iter().find(|&a| t.shape.sizes()[a] == 0) {
        Some(axis) => Err(OpError::new(format!(
            "{}: axis {axis} of {t} is empty and has no extremum",
            op.name()
        ))),
        None => Ok(()),
    }
}

pub(crate) fn argmax(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (Op::Argmax(r) | Op::Argmin(r)) = op else { return Err(misplaced(op)) };
    let t = tensor(op, ins, 0)?;
    let axes = AxisSet::from_iter([r.axis as usize]);
    let shape = reduced(op, &t, axes, r.keep)?;
    nonempty(op, &t, axes)?;
    Ok(Type::new(DType::I64, shape))
}

pub(crate) fn matmul(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (a, b) = (tensor(op, ins, 0)?, tensor(op, ins, 1)?);
    let mismatch =
        |hint: &str| OpError::new(format!("matmul: cannot multiply {a} by {b}")).hint(hint);
    let (ra, rb) = (a.shape.rank(), b.shape.rank());
    if ra == 0 || rb == 0 {
        return Err(mismatch("matmul takes at least one dimension; use `mul` for a number"));
    }
    let dtype = promote(ins);
    if dtype == DType::Bool {
        return Err(mismatch("matmul is not defined on bool; cast first"));
    }
    let (ka, kb) = (a.shape.sizes()[ra - 1], b.shape.sizes()[rb.saturating_sub(2)]);
    if ka != kb {
        return Err(mismatch(
            "the last dimension of the left must equal the second-to-last of the right",
        ));
    }
    let batch = |s: &Shape| Shape::collect(s.dims().take(s.rank().saturating_sub(2)));
    let mut dims = Dims::new();
    // The common case, on the way of every recorded instruction, has no leading dimensions.
    if ra > 2 || rb > 2 {
        let batch = batch(&a.shape)?
            .broadcast(&batch(&b.shape)?)
            .ok_or_else(|| mismatch("leading dimensions must broadcast"))?;
        dims.extend(batch.dims());
    }
    dims.extend((ra > 1).then(|| a.shape.dim(ra - 2)));
    dims.extend((rb > 1).then(|| b.shape.dim(rb - 1)));
    Ok(Type::new(dtype, Shape::from_dims(&dims)?))
}

pub(crate) fn reshape(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Reshape(shape) = op else { return Err(misplaced(op)) };
    let t = tensor(op, ins, 0)?;
    if t.shape.numel() != shape.numel() {
        let (from, to) = (t.shape.numel(), shape.numel());
        return Err(OpError::new(format!(
            "reshape: {t} has {from} elements, but {shape} has {to}"
        )));
    }
    Ok(Type::new(t.dtype, *shape))
}

pub(crate) fn permute(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Permute(perm) = op else { return Err(misplaced(op)) };
    let t = tensor(op, ins, 0)?;
    if t.shape.rank() != perm.rank() {
        return Err(OpError::new(format!("permute: {} axes are given for {t}", perm.rank())));
    }
    Ok(Type::new(t.dtype, Shape::collect(perm.axes().map(|a| t.shape.dim(a)))?))
}

pub(crate) fn transpose(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Transpose(swap) = op else { return Err(misplaced(op)) };
    let t = tensor(op, ins, 0)?;
    let (a, b) =
        (t.shape.axis("transpose", swap.0.into())?, t.shape.axis("transpose", swap.1.into())?);
    let mut dims: Dims = t.shape.dims().collect();
    dims.swap(a, b);
    Ok(Type::new(t.dtype, Shape::from_dims(&dims)?))
}

pub(crate) fn expand(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Expand(shape) = op else { return Err(misplaced(op)) };
    let t = tensor(op, ins, 0)?;
    let fits = t.shape.broadcast(shape).is_some_and(|s| s.same_sizes(shape));
    if !fits {
        return Err(OpError::new(format!("expand: {t} does not expand to {shape}"))
            .hint("only dimensions of size 1 repeat"));
    }
    Ok(Type::new(t.dtype, *shape))
}

pub(crate) fn slice(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Slice(s) = op else { return Err(misplaced(op)) };
    let t = tensor(op, ins, 0)?;
    let axis = t.shape.axis("slice", s.axis.into())?;
    let size = t.shape.sizes()[axis] as u64;
    if s.step == 0 || s.start > s.stop || s.stop > size {
        let range = format!("{}..{} by {}", s.start, s.stop, s.step);
        return Err(OpError::new(format!("slice: range {range} does not fit axis {axis} of {t}"))
            .hint("start <= stop <= size, step >= 1"));
    }
    let whole = s.len() == size;
    let dim = |d: Dim| if whole { d } else { Dim::new(s.len() as usize) };
    Ok(Type::new(t.dtype, replace(&t.shape, axis, dim(t.shape.dim(axis)))?))
}

pub(super) fn replace(shape: &Shape, axis: usize, dim: Dim) -> Result<Shape> {
    Shape::collect(shape.dims().enumerate().map(|(i, d)| if i == axis { dim } else { d }))
}

pub(crate) fn cat(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Cat(axis) = op else { return Err(misplaced(op)) };
    let first = tensor(op, ins, 0)?;
    let axis = first.shape.axis("cat", axis.0.into())?;
    let mut total = 0_usize;
    for i in 0..ins.len() {
        let t = tensor(op, ins, i)?;
        let fits = t.shape.rank() == first.shape.rank()
            && t.shape
                .sizes()
                .iter()
                .zip(first.shape.sizes())
                .enumerate()
                .all(|(d, (a, b))| d == axis || a == b);
        if !fits {
            return Err(OpError::new(format!("cat: {first} and {t} differ outside axis {axis}")));
        }
        total = total.saturating_add(t.shape.sizes()[axis]);
    }
    let dim = if ins.len() == 1 { first.shape.dim(axis) } else { Dim::new(total) };
    Ok(Type::new(promote(ins), replace(&first.shape, axis, dim)?))
}

pub(crate) fn pad(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Pad(p) = op else { return Err(misplaced(op)) };
    let t = tensor(op, ins, 0)?;
    literal(op, ins, 1)?;
    let axis = t.shape.axis("pad", p.axis.into())?;
    let size = p.padded(t.shape.sizes()[axis]);
    let size =
        size.ok_or_else(|| OpError::new(format!("pad: axis {axis} of {t} grows beyond any size")))?;
    Ok(Type::new(t.dtype, replace(&t.shape, axis, Dim::new(size))?))
}

pub(super) fn index(op: &Op, ins: &[OperandType], i: usize) -> Result<Type> {
    let t = tensor(op, ins, i)?;
    if t.dtype.category() == Category::Int {
        return Ok(t);
    }
    Err(OpError::new(format!("{}: the index must be an integer tensor, but is {t}", op.name()))
        .hint("cast it to i64"))
}

/// `index` may be smaller than `x` on every axis but the one addressed.
fn within(op: &Op, index: &Type, x: &Type, axis: usize) -> Result<()> {
    let fits = index.shape.rank() == x.shape.rank()
        && index
            .shape
            .sizes()
            .iter()
            .zip(x.shape.sizes())
            .enumerate()
            .all(|(d, (i, n))| d == axis || i <= n);
    if fits {
        return Ok(());
    }
    Err(OpError::new(format!("{}: index {index} does not fit {x} outside axis {axis}", op.name())))
}

pub(crate) fn gather(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::Gather(axis) = op else { return Err(misplaced(op)) };
    let (x, i) = (tensor(op, ins, 0)?, index(op, ins, 1)?);
    let axis = x.shape.axis("gather", axis.0.into())?;
    within(op, &i, &x, axis)?;
    Ok(Type::new(x.dtype, i.shape))
}

fn same_dtype(op: &Op, base: &Type, src: &Type) -> Result<()> {
    if base.dtype == src.dtype {
        return Ok(());
    }
    Err(OpError::new(format!("{}: base {base} and source {src} differ in dtype", op.name()))
        .hint("cast one of them"))
}

fn not_bool(op: &Op, t: &Type) -> Result<()> {
    if t.dtype == DType::Bool {
        Err(OpError::new(format!("{}: cannot add into {t}", op.name()))
            .hint("cast to an integer first"))
    } else {
        Ok(())
    }
}

pub(crate) fn scatter_add(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (Op::ScatterAdd(axis) | Op::Scatter(axis)) = op else { return Err(misplaced(op)) };
    let (base, i, src) = (tensor(op, ins, 0)?, index(op, ins, 1)?, tensor(op, ins, 2)?);
    let axis = base.shape.axis(op.name(), axis.0.into())?;
    within(op, &i, &base, axis)?;
    same_dtype(op, &base, &src)?;
    if matches!(op, Op::ScatterAdd(_)) {
        not_bool(op, &base)?;
    }
    if !i.shape.same_sizes(&src.shape) {
        return Err(OpError::new(format!(
            "{}: index {i} and source {src} differ in shape",
            op.name()
        )));
    }
    Ok(base)
}

/// `x.shape[..axis] + index.shape + x.shape[axis + 1..]`.
fn selected(x: &Shape, index: &Shape, axis: usize) -> Result<Shape> {
    let dims = x.dims().take(axis).chain(index.dims()).chain(x.dims().skip(axis + 1));
    Shape::collect(dims)
}

pub(crate) fn index_select(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::IndexSelect(axis) = op else { return Err(misplaced(op)) };
    let (x, i) = (tensor(op, ins, 0)?, index(op, ins, 1)?);
    let axis = x.shape.axis("index_select", axis.0.into())?;
    Ok(Type::new(x.dtype, selected(&x.shape, &i.shape, axis)?))
}

pub(crate) fn index_add(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (Op::IndexAdd(axis) | Op::IndexCopy(axis)) = op else { return Err(misplaced(op)) };
    let (base, i, src) = (tensor(op, ins, 0)?, index(op, ins, 1)?, tensor(op, ins, 2)?);
    let axis = base.shape.axis(op.name(), axis.0.into())?;
    same_dtype(op, &base, &src)?;
    if matches!(op, Op::IndexAdd(_)) {
        not_bool(op, &base)?;
    }
    if !selected(&base.shape, &i.shape, axis)?.same_sizes(&src.shape) {
        return Err(OpError::new(format!(
            "{}: source {src} does not fit base {base} and index {i} along axis {axis}",
            op.name()
        )));
    }
    Ok(base)
}

fn source(op: &Op) -> Result<Type> {
    let (Op::Iota(t) | Op::Rand(t) | Op::Randn(t) | Op::Randint(t) | Op::Full(t) | Op::Arange(t)) =
        op
    else {
        return Err(misplaced(op));
    };
    Ok(*t)
}

fn of_category(op: &Op, t: Type, fits: bool, wants: &str) -> Result<Type> {
    if fits {
        Ok(t)
    } else {
        Err(OpError::new(format!("{}: makes {wants}, but {t} is asked for", op.name())))
    }
}

pub(crate) fn iota(op: &Op, _: &[OperandType]) -> Result<Type> {
    let t = source(op)?;
    of_category(op, t, t.dtype.is_int(), "integers")
}

pub(crate) fn literals(op: &Op, ins: &[OperandType]) -> Result<Type> {
    (0..ins.len()).try_for_each(|i| literal(op, ins, i))?;
    source(op)
}

pub(crate) fn random(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let t = literals(op, ins)?;
    of_category(op, t, t.dtype.is_float(), "floats")
}

pub(crate) fn randint(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let t = literals(op, ins)?;
    if let (OperandType::Scalar(low), OperandType::Scalar(high)) = (ins[0], ins[1])
        && low.as_i64() >= high.as_i64()
    {
        return Err(OpError::new(format!("randint: the range {low}..{high} is empty")));
    }
    of_category(op, t, t.dtype != DType::Bool, "numbers")
}

pub(crate) fn arange(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let t = literals(op, ins)?;
    of_category(op, t, t.dtype != DType::Bool && t.shape.rank() == 1, "one dimension of numbers")
}

pub(crate) fn softmax(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (Op::Softmax(axis) | Op::LogSoftmax(axis)) = op else { return Err(misplaced(op)) };
    let t = tensor(op, ins, 0)?;
    t.shape.axis(op.name(), axis.0.into())?;
    if !t.dtype.is_float() {
        return Err(OpError::new(format!("{}: takes floats, but got {t}", op.name()))
            .hint("cast to f32 first"));
    }
    Ok(t)
}

pub(crate) fn layer_norm(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::LayerNorm(n) = op else { return Err(misplaced(op)) };
    let (x, w, b) = (tensor(op, ins, 0)?, tensor(op, ins, 1)?, tensor(op, ins, 2)?);
    literal(op, ins, 3)?;
    let (n, rank) = (n.0 as usize, x.shape.rank());
    let normal = if n <= rank { &x.shape.sizes()[rank - n..] } else { &[] };
    if n == 0 || n > rank || w.shape.sizes() != normal || b.shape.sizes() != normal {
        let e = format!(
            "layer_norm: weight {w} and bias {b} do not match the last {n} dimensions of {x}"
        );
        return Err(OpError::new(e));
    }
    if !x.dtype.is_float() || w.dtype != x.dtype || b.dtype != x.dtype {
        return Err(OpError::new(format!(
            "layer_norm: {x}, weight {w} and bias {b} must share a float dtype"
        )));
    }
    Ok(x)
}

pub(crate) fn one_hot(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::OneHot(classes) = op else { return Err(misplaced(op)) };
    let i = index(op, ins, 0)?;
    let classes = usize::try_from(classes.0)
        .map_err(|_| OpError::new("one_hot: more classes than can be addressed"))?;
    Ok(Type::new(DType::I64, Shape::collect(i.shape.dims().chain([Dim::new(classes)]))?))
}

pub(crate) fn argsort(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::ArgSort(order) = op else { return Err(misplaced(op)) };
    let x = tensor(op, ins, 0)?;
    x.shape.axis("argsort", order.axis.into())?;
    Ok(x.with_dtype(DType::I64))
}
