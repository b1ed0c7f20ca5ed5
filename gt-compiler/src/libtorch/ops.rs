//! The op table on libtorch: every primitive once, as calls of `tch`, on whatever device the
//! tensors are.
//!
//! Guarantees: the reference interpreter's meaning of every op, edges included: NaN wins extrema,
//! casts truncate and saturate, integers wrap, indices are checked before libtorch sees them. No
//! panics: what libtorch throws comes back as an error. The results do not depend on the order in
//! which threads finish. Floats are rounded as libtorch rounds them, so they agree with the
//! interpreter's to a few units, not to the bit.
//!
//! Derived ops run as their expansions. Results may be views of operands; nothing here writes to an
//! operand. It fuses nothing and plans nothing.

mod cast;
mod extremum;
mod host;
mod index;
mod matrices;
mod movement;
mod random;
mod tape;

use gt_ir::{
    DType, Graph, NodeId, NodeKind, Op, OperandType, Scalar, Shape, Type,
    attr::{AxisSet, Keep, Order, Reduce, Slice},
    op::{Binary, Primitive, Unary},
};
use smallvec::SmallVec;
use tch::{Device, Kind, Tensor};

pub use cast::literal;
pub use host::{download, dtype_of, kind_of, type_of, upload};
pub use tape::run as run_tape;

use crate::error::EngineError;

type Made = Result<Tensor, EngineError>;

/// An operand of [`eval`].
#[derive(Clone, Copy, Debug)]
pub enum Arg<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// A literal, typed by what stands beside it.
    Scalar(Scalar),
}

/// The value of one op. Tensors are on `device`, and so is the result.
///
/// # Errors
/// The op does not apply to the operands, an index is out of range, or libtorch fails.
pub fn eval(op: &Op, args: &[Arg<'_>], device: Device) -> Made {
    let (mut types, mut tensors, mut scalars) = (Operands::new(), Vec::new(), Vec::new());
    for arg in args {
        match *arg {
            Arg::Tensor(tensor) => {
                types.push(OperandType::Tensor(type_of(tensor)?));
                tensors.push(tensor);
            }
            Arg::Scalar(scalar) => {
                types.push(OperandType::Scalar(scalar));
                scalars.push(scalar);
            }
        }
    }
    let graph = gt_ir::expand(op, &types)?;
    let mut results = run_expanded(&graph, &tensors, &scalars, device)?;
    results.pop().ok_or_else(|| EngineError::Codegen(format!("{op} has no result")))
}

type Operands = SmallVec<[OperandType; 3]>;

/// The outputs of a graph, one node after the other: a tensor for each of its inputs, a literal for
/// each of its slots.
///
/// # Errors
/// Inputs or literals that do not fit the graph, and those of [`eval`].
pub fn run(graph: &Graph, inputs: &[&Tensor], scalars: &[Scalar], device: Device) -> Results {
    run_expanded(&graph.expanded()?, inputs, scalars, device)
}

type Results = Result<Vec<Tensor>, EngineError>;

/// A value of a graph: the caller's, or one made on the way.
enum Slot<'a> {
    Given(&'a Tensor),
    Made(Tensor),
}

impl Slot<'_> {
    fn tensor(&self) -> &Tensor {
        match self {
            Slot::Given(tensor) => tensor,
            Slot::Made(tensor) => tensor,
        }
    }
}

fn run_expanded(graph: &Graph, inputs: &[&Tensor], scalars: &[Scalar], device: Device) -> Results {
    let missing = |what: &str, i: u32| EngineError::Call(format!("no data for {what} {i}"));
    let dead = last_uses(graph);
    let mut slots: Vec<Option<Slot<'_>>> = Vec::with_capacity(graph.len());
    for id in graph.ids() {
        let node = graph.node(id);
        slots.push(Some(match &node.kind {
            NodeKind::Input(i) => {
                let given = inputs.get(*i as usize).ok_or_else(|| missing("input", *i))?;
                Slot::Given(fitting(given, &node.ty)?)
            }
            NodeKind::Scalar(i) => {
                let scalar = scalars.get(*i as usize).ok_or_else(|| missing("scalar", *i))?;
                Slot::Made(literal(*scalar, node.ty.dtype, device)?)
            }
            NodeKind::Const(scalar) => Slot::Made(literal(*scalar, node.ty.dtype, device)?),
            NodeKind::Op(op) => {
                let operands = graph.operands(id);
                let args: Result<SmallVec<[&Tensor; 3]>, _> =
                    operands.iter().map(|o| value(&slots, *o)).collect();
                Slot::Made(primitive(op, &args?, node.ty, device)?)
            }
        }));
        dead[id.index()].iter().for_each(|gone| slots[gone.index()] = None);
    }
    graph.outputs().iter().map(|id| Ok(value(&slots, *id)?.f_alias()?)).collect()
}

/// For each node, the operands that nothing needs after it.
fn last_uses(graph: &Graph) -> Vec<SmallVec<[NodeId; 3]>> {
    let mut needed = vec![false; graph.len()];
    let mut dead = vec![SmallVec::new(); graph.len()];
    graph.outputs().iter().for_each(|id| needed[id.index()] = true);
    for id in graph.ids().rev() {
        for operand in graph.operands(id) {
            if !std::mem::replace(&mut needed[operand.index()], true) {
                dead[id.index()].push(operand);
            }
        }
    }
    dead
}

fn value<'s>(slots: &'s [Option<Slot<'_>>], id: NodeId) -> Result<&'s Tensor, EngineError> {
    let slot = slots.get(id.index()).and_then(Option::as_ref).map(Slot::tensor);
    slot.ok_or_else(|| EngineError::Call("a graph's nodes are not in order".into()))
}

fn fitting<'t>(given: &'t Tensor, wanted: &Type) -> Result<&'t Tensor, EngineError> {
    let ty = type_of(given)?;
    if ty.same_layout(wanted) {
        return Ok(given);
    }
    Err(EngineError::Call(format!("an input of type {wanted} was given {ty}")))
}

/// One primitive of result type `out`. Operands are as expansion leaves them: pointwise ones of
/// equal shape and dtype, matrices of equal batch, indices in `i64`.
fn primitive(op: &Op, args: &[&Tensor], out: Type, device: Device) -> Made {
    let arg = |i: usize| {
        let missing = || EngineError::Call(format!("{op}: operand {i} is missing"));
        args.get(i).copied().ok_or_else(missing)
    };
    let Some(primitive) = op.primitive() else {
        return Err(EngineError::Call(format!("{op} is no primitive")));
    };
    Ok(match primitive {
        Primitive::Unary(op) => unary(op, arg(0)?)?,
        Primitive::Binary(op) => binary(op, arg(0)?, arg(1)?)?,
        Primitive::Where => arg(1)?.f_where_self(arg(0)?, arg(2)?)?,
        Primitive::Cast(to) => cast::cast(arg(0)?, to)?,
        Primitive::Sum(r) => sum(arg(0)?, r)?,
        Primitive::Max(r) => extremum::max(arg(0)?, r)?,
        Primitive::Min(r) => extremum::min(arg(0)?, r)?,
        Primitive::ArgSort(Order { axis, descending }) => {
            arg(0)?.f_argsort_stable(true, i64::from(axis), descending)?
        }
        Primitive::CumSum(axis) => arg(0)?.f_cumsum(i64::from(axis.0), arg(0)?.kind())?,
        Primitive::MatMul => matmul(arg(0)?, arg(1)?)?,
        Primitive::Cholesky
        | Primitive::TriangularSolve(_)
        | Primitive::Solve
        | Primitive::Determinant
        | Primitive::Qr(_)
        | Primitive::Eigh(_)
        | Primitive::Svd(_)
        | Primitive::MatrixExp
        | Primitive::Fft(_) => matrices::run(primitive, args, out)?,
        Primitive::Reshape(shape) => arg(0)?.f_reshape(sizes(&shape).as_slice())?,
        Primitive::Permute(perm) => {
            arg(0)?.f_permute(perm.axes().map(|a| a as i64).collect::<Sizes>().as_slice())?
        }
        Primitive::Expand(shape) => arg(0)?.f_expand(sizes(&shape).as_slice(), false)?,
        Primitive::Slice(Slice { axis, start, stop, step }) => {
            arg(0)?.f_slice(i64::from(axis), start as i64, stop as i64, step as i64)?
        }
        Primitive::Unfold(window) => movement::unfold(arg(0)?, window, out)?,
        Primitive::Cat(axis) => Tensor::f_cat(args, i64::from(axis.0))?,
        Primitive::Pad(pad) => movement::pad(arg(0)?, arg(1)?, pad, out)?,
        Primitive::Gather(axis) => index::gather(op, arg(0)?, arg(1)?, axis)?,
        Primitive::ScatterAdd(axis) => index::scatter_add(op, arg(0)?, arg(1)?, arg(2)?, axis)?,
        Primitive::IndexSelect(axis) => index::index_select(op, arg(0)?, arg(1)?, axis, out)?,
        Primitive::IndexAdd(axis) => index::index_add(op, arg(0)?, arg(1)?, arg(2)?, axis)?,
        Primitive::Iota(_) => movement::iota(out, device)?,
        Primitive::Rand(_) => random::rand(out, arg(0)?, device)?,
        Primitive::Randn(_) => random::randn(out, arg(0)?, device)?,
        Primitive::Randint(_) => random::randint(out, arg(0)?, arg(1)?, arg(2)?, device)?,
    })
}

fn unary(op: Unary, x: &Tensor) -> Made {
    Ok(match op {
        Unary::Neg => x.f_neg()?,
        Unary::Abs => x.f_abs()?,
        Unary::Exp => x.f_exp()?,
        Unary::Exp2 => wide(x, Tensor::f_exp2)?,
        Unary::Log => x.f_log()?,
        Unary::Sqrt => x.f_sqrt()?,
        Unary::Sin => x.f_sin()?,
        Unary::Cos => x.f_cos()?,
        Unary::Tanh => x.f_tanh()?,
        Unary::Erf => wide(x, Tensor::f_erf)?,
        Unary::Floor => x.f_floor()?,
        Unary::Ceil => x.f_ceil()?,
        Unary::Trunc => x.f_trunc()?,
        Unary::Round => x.f_round()?,
        Unary::LogicalNot => x.f_logical_not()?,
    })
}

fn binary(op: Binary, x: &Tensor, y: &Tensor) -> Made {
    Ok(match op {
        Binary::Add => x.f_add(y)?,
        Binary::Sub => x.f_sub(y)?,
        Binary::Mul => x.f_mul(y)?,
        Binary::Div => x.f_div(y)?,
        Binary::Pow => x.f_pow(y)?,
        Binary::Fmod => fmod(x, y)?,
        Binary::Maximum => extremum::maximum(x, y)?,
        Binary::Minimum => extremum::minimum(x, y)?,
        Binary::Eq => x.f_eq_tensor(y)?,
        Binary::Lt => x.f_lt_tensor(y)?,
        Binary::LogicalAnd => x.f_logical_and(y)?,
        Binary::LogicalOr => x.f_logical_or(y)?,
        Binary::LogicalXor => x.f_logical_xor(y)?,
        Binary::BitwiseAnd => x.f_bitwise_and_tensor(y)?,
        Binary::LeftShift => x.f_bitwise_left_shift(y)?,
        Binary::RightShift => x.f_bitwise_right_shift(y)?,
    })
}

/// libtorch takes no integer divisor of 0, and the processor none of -1 for the smallest integer.
/// Its remainders of floats are exact as long as the quotient is a number of the dtype: those of
/// multiples of y are taken first, which leaves the same.
fn fmod(x: &Tensor, y: &Tensor) -> Made {
    let dtype = dtype_of(y)?;
    if dtype.is_float() {
        let (mut left, y) = (x.f_to_kind(Kind::Double)?, y.f_to_kind(Kind::Double)?);
        for scale in [2.0_f64.powi(1000), 2.0_f64.powi(500)] {
            // An infinite multiple leaves all of it, but for what is no number anyway.
            left = left.f_fmod_tensor(&(y.f_mul_scalar(scale)?))?;
        }
        return Ok(left.f_fmod_tensor(&y)?.f_to_kind(x.kind())?);
    }
    let (zero, one) = (y.f_eq(0)?, y.f_ones_like()?);
    let minus_one = if dtype == DType::U8 { zero.shallow_clone() } else { y.f_eq(-1)? };
    let divisor = one.f_where_self(&zero.f_logical_or(&minus_one)?, y)?;
    Ok(x.f_where_self(&zero, &x.f_fmod_tensor(&divisor)?)?)
}

/// Sizes as libtorch takes them.
type Sizes = SmallVec<[i64; gt_ir::MAX_RANK]>;

fn sizes(shape: &Shape) -> Sizes {
    shape.sizes().iter().map(|n| *n as i64).collect()
}

fn axes(set: AxisSet) -> Sizes {
    set.iter().map(|a| a as i64).collect()
}

/// By way of `f32` for narrow floats, whose own kernel in libtorch takes subnormals for zeros.
fn wide(x: &Tensor, f: fn(&Tensor) -> Result<Tensor, tch::TchError>) -> Made {
    let kind = x.f_kind()?;
    if matches!(kind, Kind::Half | Kind::BFloat16) {
        return Ok(f(&x.f_to_kind(Kind::Float)?)?.f_to_kind(kind)?);
    }
    Ok(f(x)?)
}

/// To libtorch no axes mean all axes.
fn sum(x: &Tensor, reduce: Reduce) -> Made {
    if reduce.axes.is_empty() {
        return Ok(x.f_alias()?);
    }
    Ok(x.f_sum_dim_intlist(axes(reduce.axes).as_slice(), reduce.keep == Keep::Yes, None::<Kind>)?)
}

/// libtorch multiplies matrices of integers on the CPU alone.
fn matmul(a: &Tensor, b: &Tensor) -> Made {
    let device = a.device();
    if host::dtype_of(a)?.is_float() || device == Device::Cpu {
        return Ok(a.f_matmul(b)?);
    }
    let product = a.f_to_device(Device::Cpu)?.f_matmul(&b.f_to_device(Device::Cpu)?)?;
    Ok(product.f_to_device(device)?)
}
