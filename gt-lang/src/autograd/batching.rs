//! What an instruction becomes for a batch of operands: each primitive with one more axis in front.
//!
//! Guarantees: the result for each example is what the instruction gives for the operands of that
//! example, in its dtype; random numbers are the same for all of them. Pointwise ops but `dropout`
//! stay one instruction; other derived ops become their primitives. The match over primitives is
//! exhaustive, so a new one is a compile error here.

use gt_ir::attr::{Axis, AxisSet, Order, Pad, Perm, Reduce, Slice, Window};
use gt_ir::graph::{NodeKind, expand};
use gt_ir::op::{Class, Primitive};
use gt_ir::{DType, Op, OpError, OperandType, Scalar, Shape, Type, promote};

use crate::core::{Arg, DynTensor};
use crate::error::{Error, Result};

/// A value of an instruction that is recorded for a batch.
#[derive(Clone)]
pub(super) enum Value {
    /// One for each example, along the first axis.
    Batched(DynTensor),
    /// The same for all examples.
    Same(DynTensor),
    /// A literal.
    Scalar(Scalar),
}

impl Value {
    /// The type that one example has.
    fn ty(&self) -> OperandType {
        match self {
            Value::Batched(x) => OperandType::Tensor(Type { dtype: x.dtype(), shape: example(x) }),
            Value::Same(x) => OperandType::Tensor(x.ty().unnamed()),
            Value::Scalar(scalar) => OperandType::Scalar(*scalar),
        }
    }

    /// The tensor, if it is one.
    pub(super) fn into_tensor(self) -> Option<DynTensor> {
        match self {
            Value::Batched(x) | Value::Same(x) => Some(x),
            Value::Scalar(_) => None,
        }
    }

    fn is_batched(&self) -> bool {
        matches!(self, Value::Batched(_))
    }

    /// The operand as it is.
    fn arg(&self) -> Arg<'_> {
        match self {
            Value::Batched(x) | Value::Same(x) => Arg::Tensor(x),
            Value::Scalar(scalar) => Arg::Scalar(*scalar),
        }
    }

    /// One for each of `n` examples.
    #[track_caller]
    pub(super) fn batched(&self, n: usize) -> DynTensor {
        let spread = |x: &DynTensor| {
            let sizes: Vec<usize> = [&[n], &x.sizes()[..]].concat();
            x.unsqueeze(0).expand(&sizes)
        };
        match self {
            Value::Batched(x) => x.clone(),
            Value::Same(x) => spread(x),
            Value::Scalar(scalar) => DynTensor::full([n], *scalar, scalar.weak_dtype()),
        }
    }
}

/// The shape of one example.
fn example(x: &DynTensor) -> Shape {
    Shape::new(x.sizes().get(1..).unwrap_or_default()).unwrap_or(Shape::SCALAR)
}

/// An instruction on operands of which one at least is batched, for `n` examples.
#[track_caller]
pub(super) fn batch(op: &Op, operands: &[Value], n: usize) -> Result<DynTensor> {
    if is_pointwise(op) {
        return pointwise(op, operands);
    }
    let types: Vec<OperandType> = operands.iter().map(Value::ty).collect();
    let graph =
        expand(op, &types).map_err(|e| Error::from_op(e, std::panic::Location::caller()))?;
    let tensors = operands.iter().filter(|v| !matches!(v, Value::Scalar(_)));
    let tensors: Vec<&Value> = tensors.collect();
    let mut values: Vec<Value> = Vec::with_capacity(graph.len());
    for id in graph.ids() {
        let node = graph.node(id);
        let value = match node.kind {
            NodeKind::Input(k) => tensors[k as usize].clone(),
            NodeKind::Scalar(k) => Value::Scalar(graph.slots()[k as usize]),
            NodeKind::Const(scalar) => Value::Scalar(scalar),
            NodeKind::Op(op) => {
                let ins = graph.operands(id).into_iter().map(|i| match &values[i.index()] {
                    // What is put around an operand and seeds stay literals; others have a dtype.
                    Value::Scalar(scalar) if !takes_literals(&op) => {
                        Value::Same(DynTensor::full((), *scalar, graph.node(i).ty.dtype))
                    }
                    value => value.clone(),
                });
                one(&op, &ins.collect::<Vec<Value>>(), n)?
            }
        };
        values.push(value);
    }
    let out = graph.outputs().first().and_then(|id| values.get(id.index()));
    Ok(out.map_or_else(|| DynTensor::zeros([n], DType::F32), |value| value.batched(n)))
}

/// Whether each element of the result depends on the elements of its place alone: on any batch the
/// op is itself. The numbers that `dropout` draws depend on the place among all, so its expansion
/// draws them for one example.
fn is_pointwise(op: &Op) -> bool {
    op.spec().class == Class::Pointwise && !matches!(op, Op::Dropout)
}

/// Whether the literals of an op cannot be, or had better not be, tensors.
fn takes_literals(op: &Op) -> bool {
    matches!(op, Op::Pad(_)) || op.spec().class == Class::Source
}

/// A primitive or a source on values of which none need be batched.
#[track_caller]
fn one(op: &Op, operands: &[Value], n: usize) -> Result<Value> {
    if !operands.iter().any(Value::is_batched) {
        let args: Vec<Arg<'_>> = operands.iter().map(Value::arg).collect();
        return checked(DynTensor::record(op.unnamed(), &args)).map(Value::Same);
    }
    if is_pointwise(op) {
        return pointwise(op, operands).map(Value::Batched);
    }
    match op.primitive() {
        Some(primitive) => checked(primitive_of(op, primitive, operands, n)?).map(Value::Batched),
        None => batch(op, operands, n).map(Value::Batched),
    }
}

/// A tensor, or the error that it carries.
fn checked(x: DynTensor) -> Result<DynTensor> {
    x.error().map_or(Ok(x), Err)
}

/// Examples of fewer axes get axes of size one, so that they broadcast as one example does, and
/// numbers the dtype that they have beside the other operands of one example.
#[track_caller]
fn pointwise(op: &Op, operands: &[Value]) -> Result<DynTensor> {
    let rank = |value: &Value| match value.ty() {
        OperandType::Tensor(ty) => ty.shape.rank(),
        OperandType::Scalar(_) => 0,
    };
    let most = operands.iter().map(rank).max().unwrap_or(0);
    // The condition of `where` is no part of its result.
    let n_conditions = usize::from(matches!(op, Op::Where));
    let types: Vec<OperandType> = operands.iter().skip(n_conditions).map(Value::ty).collect();
    let dtype = promote(&types);
    let aligned = operands.iter().enumerate().map(|(i, value)| match value {
        // A number has no say among tensors with axes, which a batch of numbers is.
        Value::Batched(x) if x.rank() == 1 && i >= n_conditions && operands.len() > 1 => {
            Value::Batched(widened(&x.to_dtype(dtype), most))
        }
        Value::Batched(x) => Value::Batched(widened(x, most)),
        Value::Same(_) | Value::Scalar(_) => value.clone(),
    });
    let aligned: Vec<Value> = aligned.collect();
    let args: Vec<Arg<'_>> = aligned.iter().map(Value::arg).collect();
    checked(DynTensor::record(op.unnamed(), &args))
}

/// A batch of examples with axes of size one in front of theirs, up to this rank.
#[track_caller]
fn widened(x: &DynTensor, rank: usize) -> DynTensor {
    let sizes = x.sizes();
    match rank.checked_sub(sizes.len().saturating_sub(1)) {
        None | Some(0) => x.clone(),
        Some(missing) => {
            let ones = vec![1; missing];
            x.reshape([&sizes[..1], &ones, &sizes[1..]].concat())
        }
    }
}

/// An axis of an example among those of the batch.
fn behind(axis: u8) -> u8 {
    axis.saturating_add(1)
}

/// The shape of a batch of examples of this shape.
fn of_batch(n: usize, shape: &Shape) -> Result<Shape, OpError> {
    Shape::new(&[&[n], shape.sizes()].concat())
}

/// Any primitive but a pointwise one.
#[track_caller]
fn primitive_of(op: &Op, primitive: Primitive, operands: &[Value], n: usize) -> Result<DynTensor> {
    let at = std::panic::Location::caller();
    let all: Vec<DynTensor> = match primitive {
        // They broadcast over the batch.
        Primitive::MatMul | Primitive::Pad(_) | Primitive::IndexSelect(_) => Vec::new(),
        _ => operands.iter().map(|value| value.batched(n)).collect(),
    };
    let on_all = |op: Op| {
        let args: Vec<Arg<'_>> = all.iter().map(Arg::Tensor).collect();
        DynTensor::record(op, &args)
    };
    let as_they_are = |op: Op| {
        let args: Vec<Arg<'_>> = operands.iter().map(Value::arg).collect();
        DynTensor::record(op, &args)
    };
    let reduce =
        |r: Reduce| Reduce { axes: r.axes.iter().map(|a| a + 1).collect::<AxisSet>(), ..r };
    let shaped = |shape: &Shape| of_batch(n, shape).map_err(|e| Error::from_op(e, at));
    Ok(match primitive {
        Primitive::Unary(_) | Primitive::Binary(_) | Primitive::Where | Primitive::Cast(_) => {
            return Err(Error::from_op(OpError::new("vmap: a pointwise op comes first"), at));
        }
        Primitive::Iota(_) | Primitive::Rand(_) | Primitive::Randn(_) | Primitive::Randint(_) => {
            let error = OpError::new("vmap: random numbers cannot depend on an example");
            return Err(Error::from_op(error.hint("the seed is drawn once, for all of them"), at));
        }
        Primitive::Sum(r) => on_all(Op::Sum(reduce(r))),
        Primitive::Max(r) => on_all(Op::Max(reduce(r))),
        Primitive::Min(r) => on_all(Op::Min(reduce(r))),
        Primitive::ArgSort(o) => on_all(Op::ArgSort(Order { axis: behind(o.axis), ..o })),
        Primitive::CumSum(Axis(axis)) => on_all(Op::CumSum(Axis(behind(axis)))),
        // The operands of an expansion have equal leading axes, of which the batch is one more.
        Primitive::Cholesky
        | Primitive::TriangularSolve(_)
        | Primitive::Solve
        | Primitive::Determinant
        | Primitive::Qr(_)
        | Primitive::Eigh(_)
        | Primitive::Svd(_)
        | Primitive::MatrixExp
        | Primitive::Fft(_) => on_all(*op),
        // The operands of an expansion have equal ranks, two at least.
        Primitive::MatMul => as_they_are(*op),
        Primitive::Reshape(shape) => on_all(Op::Reshape(shaped(&shape)?)),
        Primitive::Permute(perm) => {
            let order: Vec<usize> = std::iter::once(0).chain(perm.axes().map(|a| a + 1)).collect();
            let order = Perm::new(&order).ok_or_else(|| {
                Error::from_op(OpError::new("vmap: a batch needs one more axis than there is"), at)
            })?;
            on_all(Op::Permute(order))
        }
        Primitive::Expand(shape) => {
            let x = widened(&all[0], shape.rank());
            DynTensor::record(Op::Expand(shaped(&shape)?), &[Arg::Tensor(&x)])
        }
        Primitive::Slice(s) => on_all(Op::Slice(Slice { axis: behind(s.axis), ..s })),
        Primitive::Cat(Axis(axis)) => on_all(Op::Cat(Axis(behind(axis)))),
        Primitive::Unfold(w) => on_all(Op::Unfold(Window { axis: behind(w.axis), ..w })),
        Primitive::Pad(p) => as_they_are(Op::Pad(Pad { axis: behind(p.axis), ..p })),
        Primitive::Gather(Axis(axis)) => on_all(Op::Gather(Axis(behind(axis)))),
        Primitive::ScatterAdd(Axis(axis)) => on_all(Op::ScatterAdd(Axis(behind(axis)))),
        Primitive::IndexSelect(Axis(axis)) => select(operands, axis as usize, n),
        Primitive::IndexAdd(Axis(axis)) => match &operands[1] {
            Value::Same(index) => {
                let args = [Arg::Tensor(&all[0]), Arg::Tensor(index), Arg::Tensor(&all[2])];
                DynTensor::record(Op::IndexAdd(Axis(behind(axis))), &args)
            }
            Value::Batched(_) | Value::Scalar(_) => add_slices(&all, axis as usize, n),
        },
    })
}

/// Whole slices along an axis: of one tensor for a batch of positions, or of a batch.
#[track_caller]
fn select(operands: &[Value], axis: usize, n: usize) -> DynTensor {
    match (&operands[0], &operands[1]) {
        (Value::Batched(x), Value::Same(index)) => x.index_select(axis as i64 + 1, index),
        (Value::Same(x), Value::Batched(index)) => {
            // The batch stands where the axis was.
            x.index_select(axis as i64, index).movedim(axis as i64, 0)
        }
        (x, index) => {
            let (x, index) = (x.batched(n), index.batched(n));
            let sizes = x.sizes();
            let (before, behind) = (&sizes[..=axis], &sizes[axis + 2..]);
            let places = places(&index, before, behind);
            let picked = x.gather(axis as i64 + 1, &places);
            picked.reshape([before, &index.sizes()[1..], behind].concat())
        }
    }
}

/// A batch of bases with slices of a batch added at a batch of positions.
#[track_caller]
fn add_slices(operands: &[DynTensor], axis: usize, n: usize) -> DynTensor {
    let (base, index, src) = (&operands[0], &operands[1], &operands[2]);
    let sizes = base.sizes();
    let (before, behind) = (&sizes[..=axis], &sizes[axis + 2..]);
    let places = places(index, before, behind);
    let n_places = index.numel() / n.max(1);
    let src = src.reshape([before, &[n_places], behind].concat());
    base.scatter_add(axis as i64 + 1, &places, &src)
}

/// A batch of positions along an axis, the same for all elements of a slice.
#[track_caller]
fn places(index: &DynTensor, before: &[usize], behind: &[usize]) -> DynTensor {
    let (n, n_places) = (index.size(0), index.numel() / index.size(0).max(1));
    let ones = |sizes: &[usize]| vec![1; sizes.len()];
    let flat = index.reshape([&[n], &ones(&before[1..])[..], &[n_places], &ones(behind)].concat());
    flat.expand([before, &[n_places], behind].concat())
}
