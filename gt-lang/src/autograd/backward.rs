//! The backward walk: from a loss to the leaves, newest instruction first.
//!
//! Guarantees: each node is visited once, after everything computed from it; leaves receive their gradients only if
//! the whole walk succeeded; what is recorded is never tracked and stands at the line of the instruction it differentiates.

use std::collections::BTreeMap;
use std::sync::Arc;

use gt_ir::grad::{Vjp, vjp};
use gt_ir::{Emit, Loc, Op, OpError, Operand, OperandType, Scalar, Type, ValueId};
use smallvec::SmallVec;

use super::Retain;
use super::node::{Edge, Leaf, Node, Saved};
use crate::core::DynTensor;
use crate::core::record::{NO_TYPE, record_plain};
use crate::core::tensor::{Repr, Value};
use crate::error::{Error, ErrorKind, Result};
use crate::session::{Place, Session};

/// Walks back from `loss`.
pub(super) fn run(loss: &DynTensor, retain: Retain, place: Place) -> Result<()> {
    let value = loss.0.hold();
    let (session, _) = value.place().map_err(Error::clone)?;
    let loc = session.loc(place);
    let fail = |message: String| Error::new(ErrorKind::Gradient, message, loc);
    if value.ty.shape.numel() != 1 {
        let message = format!("backward: needs a single number, but the tensor is {}", value.ty);
        return Err(fail(message).hint("reduce it first, with `.mean(..)` or `.sum(..)`"));
    }
    let edge = match &loss.0 {
        Repr::Plain(_) => {
            let hint = "nothing it was computed from requires one: make a leaf with `.requires_grad()`, outside `no_grad`";
            return Err(fail("backward: the tensor requires no gradient".to_owned()).hint(hint));
        }
        Repr::Tracked(_, node) => Edge::Node(node.clone()),
        Repr::Variable(variable) => Edge::Leaf(variable.leaf.clone()),
    };
    let one = [Operand::Scalar(Scalar::F64(1.0))];
    let types = [OperandType::Scalar(Scalar::F64(1.0))];
    let seed = record_plain(session, &Op::Full(value.ty), &one, &types, loc)
        .map_err(|e| Error::from_op(e, loc))?;
    let emit = Recording { session, loc, known: Vec::new() };
    let mut walk =
        Walk { session, retain, loc, emit, nodes: BTreeMap::new(), leaves: BTreeMap::new() };
    walk.deliver(edge, seed)?;
    while let Some((_, (node, grad))) = walk.nodes.pop_last() {
        walk.visit(&node, grad)?;
    }
    walk.finish()
}

type Gradients = SmallVec<[Option<Arc<Value>>; 3]>;

struct Walk<'a> {
    session: &'a Session,
    retain: Retain,
    /// Where `backward` was called.
    loc: Loc,
    emit: Recording<'a>,
    /// Nodes to visit, by the name of their result, with the gradient gathered so far.
    nodes: BTreeMap<ValueId, (Arc<Node>, Arc<Value>)>,
    leaves: BTreeMap<u64, (Arc<Leaf>, Arc<Value>)>,
}

impl Walk<'_> {
    fn visit(&mut self, node: &Arc<Node>, grad: Arc<Value>) -> Result<()> {
        let mut state = node.lock();
        let Some(saved) = state.as_mut() else { return Err(self.freed(node)) };
        let gradients = self.emit.gradients(node, saved, grad)?;
        let inputs = saved.inputs.iter_mut();
        let (edges, freed): (SmallVec<[Option<Edge>; 3]>, _) = match self.retain {
            Retain::Free => (inputs.map(|input| input.edge.take()).collect(), state.take()),
            Retain::Graph => (inputs.map(|input| input.edge.clone()).collect(), None),
        };
        drop(state);
        drop(freed);
        for (edge, gradient) in edges.into_iter().zip(gradients) {
            if let (Some(edge), Some(gradient)) = (edge, gradient) {
                self.deliver(edge, gradient)?;
            }
        }
        Ok(())
    }

    fn freed(&self, node: &Node) -> Error {
        let message = format!(
            "backward: the graph behind `{}` at {} was freed by an earlier backward",
            node.op.name(),
            node.loc
        );
        let hint =
            "keep it with `backward_with(Retain::Graph)` the first time, or compute the loss again";
        Error::new(ErrorKind::Gradient, message, self.loc).hint(hint)
    }

    /// Adds a gradient to what an edge leads to.
    fn deliver(&mut self, edge: Edge, grad: Arc<Value>) -> Result<()> {
        match edge {
            Edge::Node(node) => {
                let sum = match self.nodes.remove(&node.output) {
                    Some((_, before)) => add(self.session, &before, &grad, node.loc)?,
                    None => grad,
                };
                self.nodes.insert(node.output, (node, sum));
            }
            Edge::Leaf(leaf) => {
                let sum = match self.leaves.remove(&leaf.order) {
                    Some((_, before)) => add(self.session, &before, &grad, self.loc)?,
                    None => grad,
                };
                self.leaves.insert(leaf.order, (leaf, sum));
            }
        }
        Ok(())
    }

    /// Hands the leaves what they gathered, on top of what earlier calls left there.
    fn finish(self) -> Result<()> {
        for (leaf, grad) in self.leaves.into_values() {
            let before = leaf.grad();
            let grad = match before.as_ref().map(|b| b.0.hold()) {
                Some(before)
                    if before.place().is_ok_and(|(session, _)| session.is(self.session)) =>
                {
                    add(self.session, &before, &grad, self.loc)?
                }
                // A gradient that carries an error keeps it.
                Some(before) if before.place().is_err() => Arc::clone(&before),
                Some(_) | None => grad,
            };
            leaf.set(Some(DynTensor::plain(grad)));
        }
        Ok(())
    }
}

fn add(session: &Session, a: &Arc<Value>, b: &Arc<Value>, loc: Loc) -> Result<Arc<Value>> {
    let name = |v: &Arc<Value>| v.place().map(|(_, id)| Operand::Value(id)).map_err(Error::clone);
    let types = [OperandType::Tensor(a.ty), OperandType::Tensor(b.ty)];
    record_plain(session, &Op::Add, &[name(a)?, name(b)?], &types, loc)
        .map_err(|e| Error::from_op(e, loc))
}

/// Records what a gradient rule emits; its values live until the rule is done unless they are results.
struct Recording<'a> {
    session: &'a Session,
    /// Where the instruction being differentiated was written.
    loc: Loc,
    known: Vec<(ValueId, Known)>,
}

/// What is known of a value. Types are large: one is copied only where no value has it.
enum Known {
    /// It may be used.
    Value(Arc<Value>),
    /// It was not kept: only its type may be asked for.
    Type(Type),
}

impl Known {
    fn of(value: &Option<Arc<Value>>, ty: &Type) -> Known {
        value.as_ref().map_or_else(|| Known::Type(*ty), |value| Known::Value(Arc::clone(value)))
    }
}

impl Recording<'_> {
    /// The gradients of a node's operands.
    fn gradients(&mut self, node: &Node, saved: &Saved, grad: Arc<Value>) -> Result<Gradients> {
        let (_, grad_id) = grad.place().map_err(Error::clone)?;
        self.loc = node.loc;
        for input in &saved.inputs {
            if let Operand::Value(id) = input.operand {
                self.known.push((id, Known::of(&input.value, &input.ty)));
            }
        }
        // The gradient has the type of the result.
        self.known.push((node.output, Known::of(&saved.output, &grad.ty)));
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

    /// A value that may be used: one the node saved or the rule made.
    fn alive(&self, id: ValueId) -> Result<&Arc<Value>, OpError> {
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
        let mut types: SmallVec<[OperandType; 4]> = SmallVec::new();
        for input in inputs {
            types.push(match input {
                Operand::Value(id) => OperandType::Tensor(self.alive(*id)?.ty),
                Operand::Scalar(scalar) => OperandType::Scalar(*scalar),
            });
        }
        let value = record_plain(self.session, &op, inputs, &types, self.loc)?;
        let id = value.place().map_or(ValueId(u64::MAX), |(_, id)| id);
        self.known.push((id, Known::Value(value)));
        Ok(id)
    }

    fn ty(&self, value: ValueId) -> Type {
        let found = self.known.iter().rev().find(|(known, _)| *known == value);
        found.map_or(NO_TYPE, |(_, what)| match what {
            Known::Value(value) => value.ty,
            Known::Type(ty) => *ty,
        })
    }
}
