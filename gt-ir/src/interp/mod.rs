//! The reference interpreter: what every op means, computed slowly and as plainly as possible.
//! Engines are judged by it.
//!
//! Floats are computed in `f64` and rounded to their dtype after each primitive; integers are
//! computed in `i64` and wrapped. Sums go in row-major order. Derived ops run as their expansions,
//! so they have no kernel here.
//!
//! Guarantees: deterministic; verified input never makes it panic. It fails on an index outside its
//! axis and on a value above [`MAX_ELEMENTS`]; both are reported with the instruction.
//!
//! It knows nothing of sessions or engines, and is not meant to be fast: the index arithmetic is
//! incremental, and that is all.

mod array;
mod gather;
mod kernels;
mod matrices;
mod movement;
mod pointwise;
mod reduce;
mod source;
mod walk;

use std::collections::BTreeMap;

pub use array::MAX_ELEMENTS;
use array::{Array, Data, check_size};

use crate::{
    data::HostTensor,
    error::OpError,
    graph::{Graph, NodeId, NodeKind, expand},
    intern::Loc,
    op::{Op, Operand, OperandType},
    scalar::Scalar,
    shape::Type,
    tape::{Entry, Instr, Tape, ValueId},
};

/// Why a value could not be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// The operands do not fit the op: the user's fault, and one that the verifier finds.
    #[error(transparent)]
    Op(#[from] OpError),
    /// An index is data, so only a run can find it wrong: the user's fault.
    #[error("index {index} is out of range for an axis of size {size}")]
    Index {
        /// The index.
        index: i64,
        /// The size of the axis it goes into.
        size: usize,
    },
    /// Too large for the interpreter.
    #[error("a value of type {ty} has more elements than the {limit} the interpreter holds")]
    TooLarge {
        /// The type of the value.
        ty: Type,
        /// The limit.
        limit: usize,
    },
    /// A value that the caller did not give, or that the tape does not define.
    #[error("no data for {0}")]
    Missing(ValueId),
    /// A primitive was given operands that expansion never makes: GT's fault.
    #[error("internal: wanted {wanted}, found {found}")]
    Kind {
        /// What the kernel takes.
        wanted: &'static str,
        /// What it got.
        found: Type,
    },
}

/// An error of one entry of a tape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{context}: {error}")]
pub struct RunFault {
    /// The entry.
    pub entry: usize,
    /// The instruction with the types of its operands, or the value that was to be read.
    pub context: String,
    /// Where the user wrote it.
    pub loc: Loc,
    /// What went wrong.
    #[source]
    pub error: EvalError,
}

/// An operand with its value.
#[derive(Clone, Debug)]
pub enum Arg<'a> {
    /// A tensor.
    Tensor(&'a HostTensor),
    /// A literal.
    Scalar(Scalar),
}

/// The result of one op.
///
/// ```
/// use gt_ir::{HostTensor, Op, Scalar, Shape, interp};
/// let x = HostTensor::from_vec(vec![1.0f32, -2.0], Shape::new(&[2])?)?;
/// let args = [interp::Arg::Tensor(&x), interp::Arg::Scalar(Scalar::F64(0.5))];
/// assert_eq!(interp::eval(&Op::Mul, &args)?.to_vec::<f32>()?, [0.5, -1.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The op does not apply to the operands, or one of the run-time errors.
pub fn eval(op: &Op, args: &[Arg<'_>]) -> Result<HostTensor, EvalError> {
    let arrays = args.iter().map(|arg| match arg {
        Arg::Tensor(tensor) => Array::from_host(tensor).map(Evaluated::Array),
        Arg::Scalar(scalar) => Ok(Evaluated::Scalar(*scalar)),
    });
    let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
    apply(op, &arrays.iter().collect::<Vec<_>>())?.to_host()
}

/// Runs a tape on the data of its inputs and gives the values it outputs.
///
/// # Errors
/// The first entry that fails.
pub fn run(
    tape: &Tape,
    inputs: &BTreeMap<ValueId, HostTensor>,
) -> Result<BTreeMap<ValueId, HostTensor>, RunFault> {
    let (mut values, mut outputs) = (BTreeMap::new(), BTreeMap::new());
    for (entry, at) in tape.entries.iter().zip(0..) {
        let fault = |context: String, loc, error| RunFault { entry: at, context, loc, error };
        let missing =
            |value: ValueId| fault(value.to_string(), Loc::NONE, EvalError::Missing(value));
        match entry {
            Entry::Input { out, ty, name: _ } => {
                let data = inputs
                    .get(out)
                    .filter(|data| data.ty().same_layout(ty))
                    .ok_or_else(|| missing(*out))?;
                let array = Array::from_host(data)
                    .map_err(|error| fault(out.to_string(), Loc::NONE, error))?;
                values.insert(*out, Evaluated::Array(Array { ty: *ty, ..array }));
            }
            Entry::Instr(instr) => {
                let result = step(instr, &values)
                    .map_err(|error| fault(context(instr, &values), instr.loc, error))?;
                values.insert(instr.out, Evaluated::Array(result));
            }
            Entry::Free(value) => {
                values.remove(value);
            }
            Entry::Output { value, name: _ } => match values.get(value) {
                Some(Evaluated::Array(array)) => {
                    let data = array
                        .to_host()
                        .map_err(|error| fault(value.to_string(), Loc::NONE, error))?;
                    outputs.insert(*value, data);
                }
                Some(Evaluated::Scalar(_)) | None => return Err(missing(*value)),
            },
            Entry::Enter(_) | Entry::Exit(_) => {}
        }
    }
    Ok(outputs)
}

/// Runs a graph on its inputs and scalar slots, by slot number, and gives its outputs in order.
///
/// # Errors
/// A slot without data, or one of the run-time errors.
pub fn run_graph(
    graph: &Graph,
    inputs: &[HostTensor],
    scalars: &[Scalar],
) -> Result<Vec<HostTensor>, EvalError> {
    let inputs = inputs.iter().map(Array::from_host).collect::<Result<Vec<_>, _>>()?;
    let values = nodes(graph, &inputs.iter().collect::<Vec<_>>(), scalars)?;
    graph.outputs().iter().map(|id| value_of(&values, *id)?.to_host()).collect()
}

/// A value of a tape under interpretation.
#[derive(Clone, Debug)]
enum Evaluated {
    Array(Array),
    Scalar(Scalar),
}

fn step(instr: &Instr, values: &BTreeMap<ValueId, Evaluated>) -> Result<Array, EvalError> {
    let scalars: Vec<Evaluated> = instr
        .inputs
        .iter()
        .filter_map(|operand| match operand {
            Operand::Scalar(scalar) => Some(Evaluated::Scalar(*scalar)),
            Operand::Value(_) => None,
        })
        .collect();
    let mut scalars = scalars.iter();
    let args = instr.inputs.iter().map(|operand| match operand {
        Operand::Value(value) => values.get(value).ok_or(EvalError::Missing(*value)),
        Operand::Scalar(_) => scalars.next().ok_or(EvalError::Missing(instr.out)),
    });
    apply(&instr.op, &args.collect::<Result<Vec<_>, _>>()?)
}

fn context(instr: &Instr, values: &BTreeMap<ValueId, Evaluated>) -> String {
    let operands = instr.inputs.iter().map(|operand| match operand {
        Operand::Value(value) => match values.get(value) {
            Some(Evaluated::Array(array)) => array.ty.to_string(),
            Some(Evaluated::Scalar(_)) | None => value.to_string(),
        },
        Operand::Scalar(scalar) => scalar.to_string(),
    });
    format!("{} = {} {}", instr.out, instr.op, operands.collect::<Vec<_>>().join(", "))
}

/// One op by way of its expansion into primitives.
fn apply(op: &Op, args: &[&Evaluated]) -> Result<Array, EvalError> {
    let types: Vec<OperandType> = args
        .iter()
        .map(|arg| match arg {
            Evaluated::Array(array) => OperandType::Tensor(array.ty),
            Evaluated::Scalar(scalar) => OperandType::Scalar(*scalar),
        })
        .collect();
    let graph = expand(op, &types)?;
    let (mut arrays, mut scalars) = (Vec::new(), Vec::new());
    for arg in args {
        match arg {
            Evaluated::Array(array) => arrays.push(array),
            Evaluated::Scalar(scalar) => scalars.push(*scalar),
        }
    }
    let mut values = nodes(&graph, &arrays, &scalars)?;
    let output = graph.outputs().first().copied().and_then(|id| values.get_mut(id.index())?.take());
    output.ok_or_else(|| OpError::new(format!("{}: its expansion has no result", op.name())).into())
}

fn nodes(
    graph: &Graph,
    inputs: &[&Array],
    scalars: &[Scalar],
) -> Result<Vec<Option<Array>>, EvalError> {
    let mut values: Vec<Option<Array>> = Vec::new();
    for id in graph.ids() {
        let node = graph.node(id);
        check_size(&node.ty)?;
        let slot = |what: &str, i: u32| OpError::new(format!("graph: no data for {what} {i}"));
        let value = match &node.kind {
            NodeKind::Input(i) => {
                let array = inputs.get(*i as usize).ok_or_else(|| slot("input", *i))?;
                if !array.ty.same_layout(&node.ty) {
                    return Err(EvalError::Kind {
                        wanted: "the type of the input",
                        found: array.ty,
                    });
                }
                Array { ty: node.ty, data: array.data.clone() }
            }
            NodeKind::Scalar(i) => {
                literal(node.ty, *scalars.get(*i as usize).ok_or_else(|| slot("scalar", *i))?)
            }
            NodeKind::Const(scalar) => literal(node.ty, *scalar),
            NodeKind::Op(op) => {
                let args = graph
                    .operands(id)
                    .iter()
                    .map(|arg| value_of(&values, *arg))
                    .collect::<Result<Vec<_>, _>>()?;
                if op.kind().is_primitive() {
                    kernels::primitive(op, &args, node.ty)?
                } else {
                    let args: Vec<Evaluated> =
                        args.into_iter().cloned().map(Evaluated::Array).collect();
                    apply(op, &args.iter().collect::<Vec<_>>())?
                }
            }
        };
        values.push(Some(value));
    }
    Ok(values)
}

fn value_of(values: &[Option<Array>], id: NodeId) -> Result<&Array, EvalError> {
    let value = values.get(id.index()).and_then(Option::as_ref);
    value.ok_or_else(|| OpError::new("graph: nodes are not in topological order").into())
}

/// A scalar slot as the rank-0 value its node says it is.
fn literal(ty: Type, scalar: Scalar) -> Array {
    let data = match scalar {
        Scalar::F64(v) => Data::Float(vec![v]),
        Scalar::I64(v) => Data::Int(vec![v]),
        Scalar::Bool(v) => Data::Bool(vec![v]),
    };
    pointwise::cast(ty, &Array { ty, data })
}
