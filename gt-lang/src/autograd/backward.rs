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
    let fail = |message: String| Error::new(ErrorKind::Gradient, message, session.loc(place));
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
    let seed = record_plain(session, Op::Full(value.ty), &one, &types, session.loc(place))
        .map_err(|e| Error::from_op(e, place))?;
    let mut walk = Walk { session, retain, place, nodes: BTreeMap::new(), leaves: BTreeMap::new() };
    walk.deliver(edge, seed)?;
    while let Some((_, (node, grad))) = walk.nodes.pop_last() {
        walk.visit(&node, grad)?;
    }
    walk.finish()
}

struct Walk<'a> {
    session: &'a Session,
    retain: Retain,
    place: Place,
    /// Nodes to visit, by the name of their result, with the gradient gathered so far.
    nodes: BTreeMap<ValueId, (Arc<Node>, Arc<Value>)>,
    leaves: BTreeMap<u64, (Arc<Leaf>, Arc<Value>)>,
}

impl Walk<'_> {
    fn visit(&mut self, node: &Arc<Node>, grad: Arc<Value>) -> Result<()> {
        let mut state = node.lock();
        let Some(saved) = state.as_ref() else { return Err(self.freed(node)) };
        let gradients = gradients(self.session, node, saved, grad)?;
        let edges: SmallVec<[Option<Edge>; 3]> =
            saved.inputs.iter().map(|input| input.edge.clone()).collect();
        let freed = match self.retain {
            Retain::Free => state.take(),
            Retain::Graph => None,
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
        Error::new(ErrorKind::Gradient, message, self.session.loc(self.place)).hint(hint)
    }

    /// Adds a gradient to what an edge leads to.
    fn deliver(&mut self, edge: Edge, grad: Arc<Value>) -> Result<()> {
        match edge {
            Edge::Node(node) => {
                let (key, loc) = (node.output, node.loc);
                let sum = match self.nodes.remove(&key) {
                    Some((_, before)) => add(self.session, &before, &grad, loc)?,
                    None => grad,
                };
                self.nodes.insert(key, (node, sum));
            }
            Edge::Leaf(leaf) => {
                let loc = self.session.loc(self.place);
                let key = leaf.order;
                let sum = match self.leaves.remove(&key) {
                    Some((_, before)) => add(self.session, &before, &grad, loc)?,
                    None => grad,
                };
                self.leaves.insert(key, (leaf, sum));
            }
        }
        Ok(())
    }

    /// Hands the leaves what they gathered, on top of what earlier calls left there.
    fn finish(self) -> Result<()> {
        let loc = self.session.loc(self.place);
        for (leaf, grad) in self.leaves.into_values() {
            let before = leaf.grad();
            let grad = match before.as_ref().map(|b| b.0.hold()) {
                Some(before)
                    if before.place().is_ok_and(|(session, _)| session.is(self.session)) =>
                {
                    add(self.session, &before, &grad, loc)?
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
    record_plain(session, Op::Add, &[name(a)?, name(b)?], &types, loc)
        .map_err(|e| Error::from_op(e, loc))
}

/// The gradients of a node's operands.
fn gradients(
    session: &Session,
    node: &Node,
    saved: &Saved,
    grad: Arc<Value>,
) -> Result<SmallVec<[Option<Arc<Value>>; 3]>> {
    let (_, grad_id) = grad.place().map_err(Error::clone)?;
    let mut emit =
        Recording { session, loc: node.loc, known: Vec::with_capacity(saved.inputs.len() + 16) };
    for input in &saved.inputs {
        if let (Operand::Value(id), OperandType::Tensor(ty)) = (input.operand, input.ty) {
            emit.known.push((id, ty, input.value.clone()));
        }
    }
    emit.known.push((node.output, node.ty, saved.output.clone()));
    emit.known.push((grad_id, node.ty, Some(grad)));
    let operands: SmallVec<[Operand; 3]> = saved.inputs.iter().map(|input| input.operand).collect();
    let wanted: SmallVec<[bool; 3]> =
        saved.inputs.iter().map(|input| input.edge.is_some()).collect();
    let rule = Vjp {
        e: &mut emit,
        op: &node.op,
        inputs: &operands,
        output: node.output,
        grad: grad_id,
        wanted: &wanted,
    };
    let grads = vjp(rule).map_err(|e| Error::from_op(e, node.loc))?;
    grads
        .into_iter()
        .map(|g| {
            g.map(|id| emit.alive(id).cloned().map_err(|e| Error::from_op(e, node.loc))).transpose()
        })
        .collect()
}

/// Records what a gradient rule emits; its values live until the rule is done unless they are results.
struct Recording<'a> {
    session: &'a Session,
    loc: Loc,
    known: Vec<(ValueId, Type, Option<Arc<Value>>)>,
}

impl Recording<'_> {
    /// A value that may be used: one the node saved or the rule made.
    fn alive(&self, id: ValueId) -> Result<&Arc<Value>, OpError> {
        // The same value may stand twice among the operands, saved only once.
        let found = self
            .known
            .iter()
            .rev()
            .find_map(|(known, _, value)| value.as_ref().filter(|_| *known == id));
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
        let value = record_plain(self.session, op, inputs, &types, self.loc)?;
        let id = value.place().map_or(ValueId(u64::MAX), |(_, id)| id);
        self.known.push((id, value.ty, Some(value)));
        Ok(id)
    }

    fn ty(&self, value: ValueId) -> Type {
        self.known
            .iter()
            .rev()
            .find(|(known, ..)| *known == value)
            .map_or(NO_TYPE, |(_, ty, _)| *ty)
    }
}
