//! The backward walk: from a loss to the leaves, newest instruction first.
//!
//! Guarantees: each node is visited once, after everything computed from it; leaves receive their
//! gradients only if the whole walk succeeded; what is recorded is tracked only where gradients of
//! gradients are asked for, and stands at the line of the instruction it differentiates.
//!
//! A node is ready when every instruction that uses its result has been visited. Names of values
//! grow along the tape, and a use has a larger name than what it uses, so visiting the largest name
//! first is enough: no uses are counted. The walk takes time in proportion to the instructions
//! behind the loss and holds a gradient only until it is handed on.

use std::collections::BTreeMap;
use std::fmt::Arguments;
use std::sync::Arc;

use gt_ir::grad::{Vjp, vjp};
use gt_ir::{Emit, Loc, Op, OpError, Operand, OperandType, Scalar, Type, ValueId};
use smallvec::SmallVec;

use super::Graph;
use crate::core::record::{Stands, record_plain, try_record};
use crate::core::tensor::{
    Call, Edge, Input, Leaf, NO_TYPE, Node, Order, Saved, TapeValue, edge, tensor,
};
use crate::core::{Arg, DynTensor};
use crate::error::{Error, ErrorKind, Result};
use crate::no_grad::NoGrad;
use crate::scope;
use crate::session::{Place, Session};

/// The order of the gradients that a walk hands out.
fn order_of(graph: Graph) -> Order {
    match graph {
        Graph::Free | Graph::Retain => Order::First,
        Graph::Create => Order::Higher,
    }
}

/// Walks back from `loss` and adds the gradients to the leaves.
pub(super) fn run(loss: &DynTensor, graph: Graph, place: Place) -> Result<()> {
    let value = loss.0.hold();
    let (session, _) = value.place().map_err(Error::clone)?;
    let loc = session.loc(place);
    if value.ty.shape.numel() != 1 {
        let message = format!("backward: needs a single number, but the tensor is {}", value.ty);
        let error = Error::new(ErrorKind::Gradient, message, loc);
        return Err(error.hint("reduce it first, with `.mean(..)` or `.sum(..)`"));
    }
    let mut walk = Walk::new(session, graph, loc);
    let edge = start(format_args!("backward: the tensor"), loss, loc)?;
    walk.go(edge, ones(session, value.ty, loc)?)?;
    walk.finish()
}

/// Walks back from `output`, whose gradient is `seed`, and hands out the gradients of `inputs`;
/// leaves get none.
pub(super) fn collect(
    output: (&DynTensor, Option<&DynTensor>),
    inputs: &[&DynTensor],
    graph: Graph,
    place: Place,
) -> Result<Vec<DynTensor>> {
    let (output, seed) = output;
    let value = output.0.hold();
    let (session, _) = value.place().map_err(Error::clone)?;
    let loc = session.loc(place);
    let seed = match seed {
        Some(seed) => seed_of(seed, value.ty, order_of(graph), loc)?,
        None => ones(session, value.ty, loc)?,
    };
    let mut walk = Walk::new(session, graph, loc);
    let mut edges = Vec::new();
    for (i, input) in inputs.iter().enumerate() {
        edges.push(start(format_args!("grad: input {i}"), input, loc)?);
    }
    walk.wanted = edges.iter().filter_map(|e| Some((node_of(e)?.output, None))).collect();
    walk.go(start(format_args!("grad: the output"), output, loc)?, seed)?;
    let taken = edges.iter().zip(inputs).map(|(edge, input)| {
        let found = match edge {
            Edge::Node(node) => walk.wanted.get(&node.output).cloned().flatten(),
            Edge::Leaf(leaf) => walk.leaves.get(&leaf.order).map(|(_, grad)| grad.clone()),
        };
        Ok(found.unwrap_or_else(|| input.detach().zeros_like()))
    });
    taken.collect()
}

/// The node that an edge leads to, unless it is a leaf.
fn node_of(edge: &Edge) -> Option<&Arc<Node>> {
    match edge {
        Edge::Node(node) => Some(node),
        Edge::Leaf(_) => None,
    }
}

/// Where a walk from this tensor starts, and where one to it ends.
fn start(what: Arguments<'_>, tensor: &DynTensor, loc: Loc) -> Result<Edge> {
    edge(tensor).ok_or_else(|| {
        if let Some(error) = tensor.error() {
            return error;
        }
        untracked(what, tensor, loc)
    })
}

/// The error of a tensor without a history; one that comes of a gradient most likely lacks it for
/// want of `Graph::Create`.
fn untracked(what: Arguments<'_>, tensor: &DynTensor, loc: Loc) -> Error {
    let ty = tensor.ty();
    let (why, hint) = match tensor.with_value(|value| value.made.gradient) {
        Loc::NONE => (
            String::new(),
            "nothing it was computed from requires one: make a leaf with `.requires_grad()`, and \
             compute from it outside `no_grad`",
        ),
        first => (
            format!(
                ": it comes of a gradient that was taken without a graph of its own, at {first}"
            ),
            "take that gradient with `Graph::Create`, as `grad_with(&y, None, &[&x], \
             Graph::Create)` or `backward_with(Graph::Create)`",
        ),
    };
    let message = format!("{what}, {ty}, requires no gradient{why}");
    Error::new(ErrorKind::Gradient, message, loc).hint(hint)
}

/// The gradient of a loss with respect to itself.
fn ones(session: &Session, ty: Type, loc: Loc) -> Result<DynTensor> {
    let one = [Operand::Scalar(Scalar::F64(1.0))];
    let types = [OperandType::Scalar(Scalar::F64(1.0))];
    record_plain(session, &Op::Full(ty), &one, &types, Stands { at: loc, walk: loc })
        .map(DynTensor::plain)
        .map_err(|e| Error::from_op(e, loc))
}

/// The gradient somebody gave for an output of this type.
///
/// Names of dimensions do not count: a seed is often made by hand.
fn seed_of(seed: &DynTensor, ty: Type, order: Order, loc: Loc) -> Result<DynTensor> {
    if seed.dtype() != ty.dtype || !seed.shape().same_sizes(&ty.shape) {
        let message =
            format!("grad: the output is {ty}, but the gradient given for it is {}", seed.ty());
        let error = Error::new(ErrorKind::Gradient, message, loc);
        let error = error.hint("both need the same dtype and sizes");
        return Err(seed.error().unwrap_or(error));
    }
    Ok(if order == Order::Higher { seed.clone() } else { seed.detach() })
}

/// The gradients of the operands of one node; `None` where an operand has none.
type Gradients = SmallVec<[Option<DynTensor>; 3]>;
/// Gradients, and where they go.
type Delivery = SmallVec<[(Edge, DynTensor); 3]>;

/// One walk from a loss to the leaves.
///
/// Nodes wait in a map ordered by the names of their results: the newest comes next, so a node is
/// visited after all its uses without counting them.
struct Walk<'a> {
    session: &'a Session,
    graph: Graph,
    /// Where `backward` was called.
    loc: Loc,
    emit: Recording<'a>,
    /// Nodes to visit, by the name of their result, with the gradient gathered so far.
    nodes: BTreeMap<ValueId, (Arc<Node>, DynTensor)>,
    leaves: BTreeMap<u64, (Arc<Leaf>, DynTensor)>,
    /// Results between, whose gradients somebody wants.
    wanted: BTreeMap<ValueId, Option<DynTensor>>,
}

impl<'a> Walk<'a> {
    fn new(session: &'a Session, graph: Graph, loc: Loc) -> Walk<'a> {
        Walk {
            session,
            graph,
            loc,
            emit: Recording { session, order: order_of(graph), walk: loc, loc, known: Vec::new() },
            nodes: BTreeMap::new(),
            leaves: BTreeMap::new(),
            wanted: BTreeMap::new(),
        }
    }

    /// The whole walk, from an edge and its gradient.
    fn go(&mut self, edge: Edge, seed: DynTensor) -> Result<()> {
        let _mode = NoGrad::switch(self.emit.order == Order::Higher);
        self.deliver(edge, seed)?;
        while let Some((output, (node, grad))) = self.nodes.pop_last() {
            if let Some(wanted) = self.wanted.get_mut(&output) {
                *wanted = Some(grad.clone());
            }
            self.visit(&node, grad)?;
        }
        Ok(())
    }

    /// Hands the gradients of a node's operands on.
    fn visit(&mut self, node: &Arc<Node>, grad: DynTensor) -> Result<()> {
        let edges = self.differentiate(node, grad)?;
        self.deliver_all(edges)
    }

    /// The gradients of a node's operands and where they go, recorded under the node's backward
    /// signals.
    fn differentiate(&mut self, node: &Arc<Node>, grad: DynTensor) -> Result<Delivery> {
        let _scopes = scope::within(node.signals.as_ref());
        let mut state = node.lock();
        let Some(saved) = state.as_mut() else { return Err(self.freed(node)) };
        if let (Some(rule), Some(output)) = (saved.rule.clone(), saved.output.clone()) {
            let kept = |input: &Input| Some((input.value.clone()?, input.edge.clone()));
            let inputs = saved.inputs.iter().filter_map(kept).collect();
            let call = Call { node: node.clone(), inputs, output, grad, order: self.emit.order };
            let freed = if self.graph == Graph::Free { state.take() } else { None };
            // The rule may look at this very node.
            drop(state);
            drop(freed);
            return Ok(rule.gradients(call)?.into_iter().collect());
        }
        let gradients = self.emit.gradients(node, saved, grad)?;
        let inputs = saved.inputs.iter_mut();
        let (edges, freed): (SmallVec<[Option<Edge>; 3]>, _) = match self.graph {
            Graph::Free => (inputs.map(|input| input.edge.take()).collect(), state.take()),
            Graph::Retain | Graph::Create => {
                (inputs.map(|input| input.edge.clone()).collect(), None)
            }
        };
        drop(state);
        drop(freed);
        Ok(edges.into_iter().zip(gradients).filter_map(|(e, g)| Some((e?, g?))).collect())
    }

    /// The error of a node whose saved values are gone.
    fn freed(&self, node: &Node) -> Error {
        let message = format!(
            "backward: the graph behind `{}` at {} was freed by an earlier backward",
            node.op.name(),
            node.loc
        );
        let hint =
            "keep it with `backward_with(Graph::Retain)` the first time, or compute the loss again";
        Error::new(ErrorKind::Gradient, message, self.loc).hint(hint)
    }

    /// Adds each gradient to what its edge leads to.
    fn deliver_all(&mut self, all: Delivery) -> Result<()> {
        all.into_iter().try_for_each(|(edge, gradient)| self.deliver(edge, gradient))
    }

    /// Adds a gradient to what an edge leads to.
    ///
    /// The sum is recorded where it is needed, under the signals of the node and at its line.
    fn deliver(&mut self, edge: Edge, grad: DynTensor) -> Result<()> {
        match edge {
            Edge::Node(node) => {
                let sum = match self.nodes.remove(&node.output) {
                    Some((_, before)) => {
                        let _scopes = scope::within(node.signals.as_ref());
                        self.emit.add(&before, &grad, node.loc)?
                    }
                    None => grad,
                };
                self.nodes.insert(node.output, (node, sum));
            }
            Edge::Leaf(leaf) => {
                let sum = match self.leaves.remove(&leaf.order) {
                    Some((_, before)) => self.emit.add(&before, &grad, self.loc)?,
                    None => grad,
                };
                self.leaves.insert(leaf.order, (leaf, sum));
            }
        }
        Ok(())
    }

    /// Hands the leaves what they gathered, on top of what earlier calls left there.
    fn finish(self) -> Result<()> {
        let _mode = NoGrad::switch(self.emit.order == Order::Higher);
        for (leaf, grad) in self.leaves.into_values() {
            let before = leaf.grad();
            let grad = match &before {
                // A gradient that carries an error keeps it.
                Some(before) if before.error().is_some() => before.clone(),
                Some(before) if before.session().is_some_and(|s| s.is(self.session)) => {
                    self.emit.add(before, &grad, self.loc)?
                }
                Some(_) | None => grad,
            };
            leaf.set(Some(grad));
        }
        Ok(())
    }
}

/// The name of a gradient's value.
fn id_of(tensor: &DynTensor) -> Result<ValueId> {
    tensor.with_value(|value| value.place().map(|(_, id)| id).map_err(Error::clone))
}

/// Records what a gradient rule emits; its values live until the rule is done unless they are
/// results.
struct Recording<'a> {
    session: &'a Session,
    order: Order,
    /// Where the walk was asked for.
    walk: Loc,
    /// Where the instruction being differentiated was written.
    loc: Loc,
    known: Vec<(ValueId, Known)>,
}

/// What is known of a value. Types are large: one is copied only where no value has it.
enum Known {
    /// It may be used.
    Value(DynTensor),
    /// It was not kept: only its type may be asked for.
    Type(Type),
}

impl Known {
    fn of(value: Option<DynTensor>, ty: &Type) -> Known {
        value.map_or_else(|| Known::Type(*ty), Known::Value)
    }
}

impl Recording<'_> {
    /// The gradients of a node's operands.
    fn gradients(&mut self, node: &Arc<Node>, saved: &Saved, grad: DynTensor) -> Result<Gradients> {
        let grad_id = id_of(&grad)?;
        self.loc = node.loc;
        for input in &saved.inputs {
            if let Operand::Value(id) = input.operand {
                let value = input.value.as_ref();
                let value = value.map(|value| self.tensor(value, input.edge.as_ref()));
                self.known.push((id, Known::of(value, &input.ty)));
            }
        }
        let output = saved.output.as_ref().map(|value| self.result(value, node));
        // The gradient has the type of the result.
        let output = output.map_or_else(|| Known::Type(grad.ty()), Known::Value);
        self.known.push((node.output, output));
        self.known.push((grad_id, Known::Value(grad)));
        let inputs: SmallVec<[Operand; 3]> =
            saved.inputs.iter().map(|input| input.operand).collect();
        let wanted: SmallVec<[bool; 3]> =
            saved.inputs.iter().map(|input| input.edge.is_some()).collect();
        let (op, output) = (&node.op, node.output);
        let rule = Vjp { e: self, op, inputs: &inputs, output, grad: grad_id, wanted: &wanted };
        let gradients = vjp(rule).and_then(|grads| {
            grads
                .into_iter()
                .map(|g| g.map(|id| self.alive(id).cloned()).transpose())
                .collect::<Result<Gradients, _>>()
        });
        self.known.clear();
        gradients.map_err(|e| Error::from_op(e, node.loc))
    }

    /// A value the node kept, with its own history if gradients have gradients.
    fn tensor(&self, value: &Arc<TapeValue>, edge: Option<&Edge>) -> DynTensor {
        tensor(value, edge.filter(|_| self.order == Order::Higher))
    }

    /// The result of a node, likewise.
    fn result(&self, value: &Arc<TapeValue>, node: &Arc<Node>) -> DynTensor {
        match self.order {
            Order::First => DynTensor::plain(value.clone()),
            Order::Higher => tensor(value, Some(&Edge::Node(node.clone()))),
        }
    }

    /// The sum of two gradients that reach one place.
    fn add(&self, a: &DynTensor, b: &DynTensor, loc: Loc) -> Result<DynTensor> {
        if self.order == Order::Higher {
            return try_record(&Op::Add, &[a.into(), b.into()], Place::Known(loc));
        }
        let types = [OperandType::Tensor(a.ty()), OperandType::Tensor(b.ty())];
        let operands = [Operand::Value(id_of(a)?), Operand::Value(id_of(b)?)];
        let stands = Stands { at: loc, walk: self.walk };
        record_plain(self.session, &Op::Add, &operands, &types, stands)
            .map(DynTensor::plain)
            .map_err(|e| Error::from_op(e, loc))
    }

    /// Records an instruction that is tracked, as one of the user's is.
    fn tracked(&self, op: &Op, inputs: &[Operand]) -> Result<DynTensor, OpError> {
        let mut args: SmallVec<[Arg<'_>; 4]> = SmallVec::new();
        for input in inputs {
            args.push(match input {
                Operand::Value(id) => Arg::Tensor(self.alive(*id)?),
                Operand::Scalar(scalar) => Arg::Scalar(*scalar),
            });
        }
        try_record(op, &args, Place::Known(self.loc)).map_err(|e| OpError::new(e.message()))
    }

    /// A value that may be used: one the node saved or the rule made.
    ///
    /// An error here is a defect of a row of the op table: `core/saved.rs` runs each rule on types
    /// to find the operands it reads, and this one has read another.
    fn alive(&self, id: ValueId) -> Result<&DynTensor, OpError> {
        // The same value may stand twice among the operands, saved only once.
        let found = self.known.iter().rev().find_map(|(known, what)| match what {
            Known::Value(value) if *known == id => Some(value),
            Known::Value(_) | Known::Type(_) => None,
        });
        found.ok_or_else(|| {
            OpError::new(format!(
                "the gradient rule reads {id}, which was not kept; this is a defect of GT"
            ))
        })
    }
}

impl Emit for Recording<'_> {
    fn emit(&mut self, op: Op, inputs: &[Operand]) -> Result<ValueId, OpError> {
        let result = match self.order {
            Order::Higher => self.tracked(&op, inputs)?,
            Order::First => {
                let mut types: SmallVec<[OperandType; 4]> = SmallVec::new();
                for input in inputs {
                    types.push(match input {
                        Operand::Value(id) => OperandType::Tensor(self.alive(*id)?.ty()),
                        Operand::Scalar(scalar) => OperandType::Scalar(*scalar),
                    });
                }
                let stands = Stands { at: self.loc, walk: self.walk };
                DynTensor::plain(record_plain(self.session, &op, inputs, &types, stands)?)
            }
        };
        let id = result.value_id().unwrap_or(ValueId(u64::MAX));
        self.known.push((id, Known::Value(result)));
        Ok(id)
    }

    fn ty(&self, value: ValueId) -> Type {
        let found = self.known.iter().rev().find(|(known, _)| *known == value);
        found.map_or(NO_TYPE, |(_, what)| match what {
            Known::Value(value) => value.ty(),
            Known::Type(ty) => *ty,
        })
    }
}
