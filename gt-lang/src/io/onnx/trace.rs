//! From a function to a graph: it runs once on stand-ins, and of the instructions that it records
//! those become nodes that its results need.
//!
//! Guarantees: what the function holds, and constants that it makes, are read after it has run. A
//! value that it computes in a way that is not recorded is an error, never a constant.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;

use gt_ir::op::Class;
use gt_ir::{Emit, Op, OpError, OpKind, Operand, Scalar, Type, ValueId};

use super::graph::Graph;
use super::proto::{GraphProto, ModelProto, OperatorSetIdProto};
use super::rows::OPSET;
use super::{Inputs, OnnxConfig, Outputs};
use crate::core::capture::{MAX_NOTES, Note, Noted, capture};
use crate::core::{Arg, DynTensor};
use crate::error::{Error, ErrorKind, Result};
use crate::session::Session;

/// The version of the format that has version 20 of the operators.
const IR_VERSION: i64 = 9;

/// The file of a function.
#[track_caller]
pub(super) fn model<I: Inputs, O: Outputs>(
    inputs: &I,
    f: impl FnOnce(I::Given) -> O,
    config: &OnnxConfig,
) -> Result<ModelProto> {
    let graph = graph(inputs, f, config)?;
    let opset = OperatorSetIdProto { domain: Some(String::new()), version: Some(OPSET) };
    Ok(ModelProto {
        ir_version: Some(IR_VERSION),
        producer_name: Some("gt".to_owned()),
        producer_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        graph: Some(graph),
        opset_import: vec![opset],
    })
}

#[track_caller]
fn graph<I: Inputs, O: Outputs>(
    inputs: &I,
    f: impl FnOnce(I::Given) -> O,
    config: &OnnxConfig,
) -> Result<GraphProto> {
    let given = inputs.tensors();
    if let Some(error) = given.iter().find_map(DynTensor::error) {
        return Err(error);
    }
    let session = given.iter().find_map(DynTensor::session).map_or_else(Session::current, Ok)?;
    let _entered = session.enter();
    let stand_ins: Vec<DynTensor> = given.iter().map(|x| stand_in(x.ty())).collect();
    // Of what is recorded from here on, nothing was there before.
    let first = stand_in(Type::scalar(gt_ir::DType::F32)).value_id();
    let (results, notes) = capture("onnx", || f(I::given(stand_ins.clone())).tensors())?;
    let results = results?;
    if let Some(error) = results.iter().find_map(DynTensor::error) {
        return Err(error);
    }
    if notes.len() > MAX_NOTES {
        let message = format!("onnx: the function records more than {MAX_NOTES} instructions");
        let error = Error::new(ErrorKind::Operation, message, Location::caller());
        return Err(error.hint("export a part of it"));
    }
    let traced = Traced { stand_ins, steps: needed(notes, &results), results, first };
    traced.graph(config)
}

/// What stands for an input.
#[track_caller]
fn stand_in(ty: Type) -> DynTensor {
    DynTensor::record(Op::Full(ty), &[Arg::Scalar(Scalar::I64(0))])
}

/// The instructions that results need, each once.
fn needed(mut notes: Vec<Note>, results: &[DynTensor]) -> Vec<Note> {
    let mut needed: BTreeSet<ValueId> = results.iter().filter_map(DynTensor::value_id).collect();
    for note in notes.iter().rev() {
        if note.result.value_id().is_some_and(|id| needed.contains(&id)) {
            needed.extend(note.tensors().filter_map(DynTensor::value_id));
        }
    }
    // A function with a gradient by hand notes its result twice.
    notes.retain(|note| note.result.value_id().is_some_and(|id| needed.remove(&id)));
    notes
}

/// What a function did on stand-ins.
struct Traced {
    stand_ins: Vec<DynTensor>,
    /// The instructions that the results need.
    steps: Vec<Note>,
    results: Vec<DynTensor>,
    /// A value that is older than all that the function made.
    first: Option<ValueId>,
}

/// The values of a graph, by their names on the tape.
type Known = BTreeMap<ValueId, ValueId>;

impl Traced {
    #[track_caller]
    fn graph(&self, config: &OnnxConfig) -> Result<GraphProto> {
        let input_names = names("input", &config.input_names, self.stand_ins.len())?;
        let output_names = names("output", &config.output_names, self.results.len())?;
        let (mut graph, mut known) = (Graph::default(), Known::new());
        for (name, x) in input_names.iter().zip(&self.stand_ins) {
            let value = graph.input(name, x.ty());
            known.extend(x.value_id().map(|id| (id, value)));
        }
        self.hold(config, &mut graph, &mut known)?;
        for note in &self.steps {
            let value = lower(&mut graph, note, &known)?;
            known.extend(note.result.value_id().map(|id| (id, value)));
        }
        let results = self.results.iter().map(|x| of(&known, x));
        let results = output_names.into_iter().zip(results.collect::<Result<Vec<_>>>()?);
        Ok(graph.finish(&results.collect::<Vec<_>>()))
    }

    /// The values that the function holds or makes of nothing, as initializers.
    #[track_caller]
    fn hold(&self, config: &OnnxConfig, graph: &mut Graph, known: &mut Known) -> Result<()> {
        let names = config.tensors.iter().filter_map(|(name, x)| Some((x.value_id()?, name)));
        let names: BTreeMap<ValueId, &String> = names.collect();
        let made: BTreeSet<ValueId> =
            self.steps.iter().filter_map(|note| note.result.value_id()).collect();
        let mut n_unnamed = 0;
        for x in self.steps.iter().flat_map(Note::tensors).chain(&self.results) {
            let Some(id) = x.value_id() else { continue };
            if made.contains(&id) || known.contains_key(&id) {
                continue;
            }
            self.is_constant(x, id)?;
            let name = names.get(&id).map_or_else(
                || {
                    n_unnamed += 1;
                    format!("tensor_{}", n_unnamed - 1)
                },
                |name| (*name).clone(),
            );
            let value = graph.initializer(&name, &x.to_host()?);
            known.insert(id, value);
        }
        Ok(())
    }

    /// Refuses a value that would be another one when the function runs again.
    #[track_caller]
    fn is_constant(&self, x: &DynTensor, id: ValueId) -> Result<()> {
        let made = x.with_value(|value| value.made);
        let Some(op) = made.op.filter(|_| self.first.is_some_and(|first| id > first)) else {
            return Ok(());
        };
        let is_random = matches!(op, OpKind::Rand | OpKind::Randn | OpKind::Randint);
        if op.spec().class == Class::Source && !is_random {
            return Ok(());
        }
        Err(Error::from_op(refusal(op.name(), op.name()), made.loc))
    }
}

/// The names of `n` values, the first of which are given.
#[track_caller]
fn names(what: &str, given: &[String], n: usize) -> Result<Vec<String>> {
    if given.len() > n {
        let message = format!("onnx: {} names of {what}s, of which there are {n}", given.len());
        let error = Error::new(ErrorKind::Operation, message, Location::caller());
        return Err(error.hint(format!("give a name for each {what}, in their order")));
    }
    let given = |i: usize| given.get(i).filter(|name| !name.is_empty()).cloned();
    let name = |i: usize| given(i).unwrap_or_else(|| format!("{what}_{i}"));
    Ok((0..n).map(name).collect())
}

/// The value of a tensor in the graph.
#[track_caller]
fn of(known: &Known, x: &DynTensor) -> Result<ValueId> {
    let found = x.value_id().and_then(|id| known.get(&id).copied());
    found.ok_or_else(|| {
        let message = format!("onnx: a value {} of no recorded operation", x.ty());
        Error::new(ErrorKind::Operation, message, Location::caller())
    })
}

/// Adds the nodes of an instruction.
#[track_caller]
fn lower(graph: &mut Graph, note: &Note, known: &Known) -> Result<ValueId> {
    let operands = note.operands.iter().map(|operand| match operand {
        Noted::Scalar(scalar) => Ok(Operand::Scalar(*scalar)),
        Noted::Tensor(x) => of(known, x).map(Operand::Value),
    });
    let operands = operands.collect::<Result<Vec<Operand>>>()?;
    graph.emit(note.op.unnamed(), &operands).map_err(|error| {
        let missing = graph.missing().map(|inner| refusal(note.op.name(), inner));
        Error::from_op(missing.unwrap_or(error), note.loc)
    })
}

/// The error of an op that becomes another one, for which ONNX has no operator.
fn refusal(outer: &str, inner: &str) -> OpError {
    let is_random = matches!(inner, "rand" | "randn" | "randint");
    let by = if inner == outer { String::new() } else { format!(", which is made of {inner}") };
    let error = OpError::new(format!("onnx: there is no operator for {outer}{by}"));
    error.hint(if is_random {
        "set layers to evaluation with `eval`, and let random numbers be an input"
    } else {
        "compute it outside of the function, and let the result be an input"
    })
}
