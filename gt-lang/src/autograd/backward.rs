//! The backward walk: from a loss to the leaves, newest instruction first.
//!
//! Guarantees: each node is visited once, after everything computed from it; leaves receive their
//! gradients only if the whole walk succeeded; what is recorded is tracked only where gradients of
//! gradients are asked for, and stands at the line of the instruction it differentiates.
//!
//! A node is ready when every instruction that uses its result has been visited. Names of values
//! grow along the tape, and a use has a larger name than what it uses, so visiting the largest name
//! first is enough: no uses are counted. The walk takes time in proportion to the instructions
//! behind the loss and holds a gradient only until it is handed on. A gradient that costs less
//! together with others of the same value waits for them (`gathered`).

use std::collections::BTreeMap;
use std::fmt::Arguments;
use std::sync::Arc;

use gt_ir::grad::{self, Wait};
use gt_ir::{Loc, Op, Operand, OperandType, Scalar, Type, ValueId};
use smallvec::SmallVec;

use super::Graph;
use super::gathered::{Contribution, Gathered, MOST, Part};
use super::recording::Recording;
use crate::core::DynTensor;
use crate::core::capture::refuse;
use crate::core::record::{Stands, record_plain};
use crate::core::tensor::{Call, Edge, Input, Leaf, Node, Order, Saved, Watch, edge};
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
            Edge::Leaf(leaf) => walk.totals.get(&leaf.order).map(|(_, grad)| grad.clone()),
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
        Loc::NONE if tensor.is_leaf() => (
            ": it is frozen".to_owned(),
            "`.requires_grad_(true)` ends that; what was recorded before stays without it",
        ),
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

/// For each operand of one node, what of its gradient waits.
type Waiting = SmallVec<[Option<Box<Part>>; 3]>;
/// Gradients or parts of them, and where they go.
type Delivery = SmallVec<[(Edge, Contribution); 3]>;

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
    nodes: BTreeMap<ValueId, (Arc<Node>, Gathered)>,
    leaves: BTreeMap<u64, (Arc<Leaf>, Gathered)>,
    /// The gradients of the leaves, once all nodes have been visited.
    totals: BTreeMap<u64, (Arc<Leaf>, DynTensor)>,
    /// Results between, whose gradients somebody wants.
    wanted: BTreeMap<ValueId, Option<DynTensor>>,
}

impl<'a> Walk<'a> {
    fn new(session: &'a Session, graph: Graph, loc: Loc) -> Walk<'a> {
        Walk {
            session,
            graph,
            loc,
            emit: Recording::new(session, order_of(graph), loc),
            nodes: BTreeMap::new(),
            leaves: BTreeMap::new(),
            totals: BTreeMap::new(),
            wanted: BTreeMap::new(),
        }
    }

    /// The whole walk, from an edge and its gradient.
    fn go(&mut self, edge: Edge, seed: DynTensor) -> Result<()> {
        let _mode = NoGrad::switch(self.emit.order == Order::Higher);
        self.deliver(edge, Contribution::Whole(seed))?;
        while let Some((output, (node, gathered))) = self.nodes.pop_last() {
            let Some(grad) = self.total(gathered, Some(&node))? else { continue };
            let grad = self.watched(node.watched(), grad, node.loc)?;
            if let Some(wanted) = self.wanted.get_mut(&output) {
                *wanted = Some(grad.clone());
            }
            self.visit(&node, grad)?;
        }
        for (order, (leaf, gathered)) in std::mem::take(&mut self.leaves) {
            if let Some(grad) = self.total(gathered, None)? {
                let grad = self.watched(leaf.watched(), grad, self.loc)?;
                self.totals.insert(order, (leaf, grad));
            }
        }
        Ok(())
    }

    /// A whole gradient, as those that watch the tensor leave it.
    fn watched(
        &self,
        watch: Option<&Arc<Watch>>,
        mut grad: DynTensor,
        loc: Loc,
    ) -> Result<DynTensor> {
        let Some(watch) = watch else { return Ok(grad) };
        for hook in watch.hooks() {
            let Some(other) = hook(&grad) else { continue };
            if let Some(error) = other.error() {
                return Err(error);
            }
            if other.dtype() != grad.dtype() || !other.shape().same_sizes(&grad.shape()) {
                let (found, wanted) = (other.ty(), grad.ty());
                let message = format!("register_hook: gave {found} for a gradient {wanted}");
                let error = Error::new(ErrorKind::Gradient, message, loc);
                return Err(error.hint("give a gradient of the same dtype and sizes, or `None`"));
            }
            grad = if self.emit.order == Order::Higher { other } else { other.detach() };
        }
        if watch.retains() {
            let sum = match watch.retained() {
                Some(before) => self.emit.add(&before, &grad, loc)?,
                None => grad.clone(),
            };
            watch.set_retained(Some(sum));
        }
        Ok(grad)
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
            let whole = |(edge, gradient)| (edge, Contribution::Whole(gradient));
            return Ok(rule.gradients(call)?.into_iter().map(whole).collect());
        }
        let mut waiting = self.waiting(node, saved, &grad);
        let gradients = self.emit.gradients(node, saved, grad, &waiting)?;
        let inputs = saved.inputs.iter_mut();
        let (edges, freed): (SmallVec<[Option<Edge>; 3]>, _) = match self.graph {
            Graph::Free => (inputs.map(|input| input.edge.take()).collect(), state.take()),
            Graph::Retain | Graph::Create => {
                (inputs.map(|input| input.edge.clone()).collect(), None)
            }
        };
        drop(state);
        drop(freed);
        let contributions = gradients.into_iter().zip(&mut waiting).map(|(whole, part)| {
            part.take().map(Contribution::Part).or(whole.map(Contribution::Whole))
        });
        Ok(edges.into_iter().zip(contributions).filter_map(|(e, g)| Some((e?, g?))).collect())
    }

    /// For each operand, what of its gradient waits for others.
    fn waiting(&self, node: &Arc<Node>, saved: &Saved, grad: &DynTensor) -> Waiting {
        let ty = |i: usize| saved.inputs.get(i).map(|input| &input.ty);
        let part = |(i, input): (usize, &Input)| {
            if self.emit.order == Order::Higher || input.edge.is_none() {
                return None;
            }
            let with = match grad::waits(&node.op, i, ty)? {
                Wait::Alone => None,
                Wait::With(other) => Some(saved.inputs.get(other)?.value.clone()?),
            };
            let (op, ty, with) = (node.op, input.ty, with.map(DynTensor::plain));
            Some(Box::new(Part { op, ty, with, grad: grad.clone(), node: node.clone() }))
        };
        saved.inputs.iter().enumerate().map(part).collect()
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
    fn deliver(&mut self, edge: Edge, contribution: Contribution) -> Result<()> {
        match edge {
            Edge::Node(node) => {
                let known = self.nodes.remove(&node.output).map(|(_, gathered)| gathered);
                let sum = self.gathered(known.unwrap_or_default(), contribution, Some(&node))?;
                self.nodes.insert(node.output, (node, sum));
            }
            Edge::Leaf(leaf) => {
                let known = self.leaves.remove(&leaf.order).map(|(_, gathered)| gathered);
                let sum = self.gathered(known.unwrap_or_default(), contribution, None)?;
                self.leaves.insert(leaf.order, (leaf, sum));
            }
        }
        Ok(())
    }

    /// What has been gathered, with one more contribution.
    fn gathered(
        &mut self,
        mut so_far: Gathered,
        contribution: Contribution,
        of: Option<&Arc<Node>>,
    ) -> Result<Gathered> {
        match contribution {
            Contribution::Whole(grad) => so_far.sum = Some(self.plus(so_far.sum, grad, of)?),
            Contribution::Part(part) => so_far.parts.push(*part),
        }
        if so_far.parts.len() < MOST {
            return Ok(so_far);
        }
        Ok(Gathered { sum: self.total(so_far, of)?, parts: Vec::new() })
    }

    /// Everything gathered for a node, or for a leaf.
    fn total(&mut self, gathered: Gathered, of: Option<&Arc<Node>>) -> Result<Option<DynTensor>> {
        let Gathered { sum, parts } = gathered;
        let Some(last) = parts.last() else { return Ok(sum) };
        let joined = {
            let _scopes = scope::within(last.node.signals.as_ref());
            self.emit.joined(&parts)?
        };
        self.plus(sum, joined, of).map(Some)
    }

    /// The sum of two gradients of a node, or of a leaf.
    ///
    /// It is recorded where it is needed, under the signals of the node and at its line.
    fn plus(
        &mut self,
        sum: Option<DynTensor>,
        grad: DynTensor,
        of: Option<&Arc<Node>>,
    ) -> Result<DynTensor> {
        let Some(before) = sum else { return Ok(grad) };
        let _scopes = scope::within(of.and_then(|node| node.signals.as_ref()));
        self.emit.add(&before, &grad, of.map_or(self.loc, |node| node.loc))
    }

    /// Hands the leaves what they gathered, on top of what earlier calls left there.
    fn finish(self) -> Result<()> {
        let _mode = NoGrad::switch(self.emit.order == Order::Higher);
        // A leaf frozen since gathers nothing, as in PyTorch.
        let mut gathers = self.totals;
        gathers.retain(|_, (leaf, _)| !leaf.is_frozen());
        for (leaf, grad) in gathers.values() {
            refuse("adds to the gradient of a leaf", grad.ty(), Some(leaf), self.loc)?;
        }
        for (leaf, grad) in gathers.into_values() {
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
