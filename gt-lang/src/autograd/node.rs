//! The graph behind tracked tensors: one node an instruction, edges towards what it was computed
//! from.
//!
//! Guarantees: a node keeps alive only the values its gradient rule reads; dropping a graph is
//! iterative, so its length costs no stack; a value never points at its node, so there are no
//! cycles.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gt_ir::{Loc, Op, Operand, Scalar, Type, ValueId};
use smallvec::SmallVec;

use super::custom::Custom;
use super::saved;
use crate::core::record::{Held, NO_TYPE};
use crate::core::tensor::{Repr, Value, Variable};
use crate::core::{Arg, DynTensor};
use crate::signal::{Backward, backward_signals};

/// The node of one tracked instruction.
pub(crate) struct Node {
    /// The value it computed. Later instructions have larger names, which orders the walk.
    pub(crate) output: ValueId,
    pub(crate) op: Op,
    pub(crate) loc: Loc,
    /// The signals its gradient is recorded under.
    pub(crate) signals: Option<Arc<Backward>>,
    /// `None` once `backward` has freed it.
    state: Mutex<Option<Saved>>,
}

/// What the gradient rule of a node needs.
pub(crate) struct Saved {
    pub(crate) inputs: Inputs,
    /// The result, when the rule reads it.
    pub(crate) output: Option<Arc<Value>>,
    /// The rule, if it is not the op's.
    pub(crate) custom: Option<Custom>,
}

/// The operands of a node; two fit without allocating.
pub(crate) type Inputs = SmallVec<[Input; 2]>;

/// One operand of a node.
pub(crate) struct Input {
    pub(crate) operand: Operand,
    /// The type of a value; meaningless for a literal.
    pub(crate) ty: Type,
    /// The operand's value, when the rule reads it.
    pub(crate) value: Option<Arc<Value>>,
    pub(crate) edge: Option<Edge>,
}

/// Where the gradient of an operand goes.
#[derive(Clone)]
pub(crate) enum Edge {
    Node(Arc<Node>),
    Leaf(Arc<Leaf>),
}

/// Where the gradient of a variable gathers.
pub(crate) struct Leaf {
    /// Orders leaves, so that what `backward` records is the same in each run.
    pub(crate) order: u64,
    grad: Mutex<Option<DynTensor>>,
}

impl Leaf {
    pub(crate) fn new() -> Arc<Leaf> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Arc::new(Leaf { order: NEXT.fetch_add(1, Ordering::Relaxed), grad: Mutex::new(None) })
    }

    pub(crate) fn grad(&self) -> Option<DynTensor> {
        self.lock().clone()
    }

    /// Replaces the gradient; the old one is dropped after the lock is released.
    pub(crate) fn set(&self, grad: Option<DynTensor>) {
        let old = std::mem::replace(&mut *self.lock(), grad);
        drop(old);
    }

    fn lock(&self) -> MutexGuard<'_, Option<DynTensor>> {
        self.grad.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    /// The node of an instruction just recorded.
    pub(crate) fn new(
        op: &Op,
        loc: Loc,
        args: &[Arg<'_>],
        held: &[Option<Held<'_>>],
        id: ValueId,
        output: &Arc<Value>,
    ) -> Arc<Node> {
        let needs = saved::needs(op, args, held, output.ty);
        let mut inputs: Inputs = SmallVec::new();
        for (i, (arg, held)) in args.iter().zip(held).enumerate() {
            inputs.push(match (arg, held) {
                (Arg::Scalar(scalar), _) => Input::literal(*scalar),
                (Arg::Tensor(_), None) => continue, // The values of tensors are always held.
                (Arg::Tensor(tensor), Some(held)) => Input {
                    operand: held
                        .place()
                        .map_or(Operand::Value(ValueId(u64::MAX)), |(_, id)| Operand::Value(id)),
                    ty: held.ty,
                    value: needs.input(i).then(|| Arc::clone(held)),
                    edge: edge(tensor),
                },
            });
        }
        let saved = Saved { inputs, output: needs.output().then(|| output.clone()), custom: None };
        let signals = backward_signals();
        Arc::new(Node { output: id, op: *op, loc, signals, state: Mutex::new(Some(saved)) })
    }

    /// The node of a rule that is not an op's: all values are kept for it.
    pub(crate) fn custom(
        op: &Op,
        loc: Loc,
        inputs: &[DynTensor],
        output: (ValueId, &Arc<Value>),
        custom: Custom,
    ) -> Arc<Node> {
        let kept = inputs.iter().map(|tensor| Input {
            operand: tensor.value_id().map_or(Operand::Value(ValueId(u64::MAX)), Operand::Value),
            ty: tensor.ty(),
            value: Some(tensor.value()),
            edge: edge(tensor),
        });
        let saved =
            Saved { inputs: kept.collect(), output: Some(output.1.clone()), custom: Some(custom) };
        let (output, signals) = (output.0, backward_signals());
        Arc::new(Node { output, op: *op, loc, signals, state: Mutex::new(Some(saved)) })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Saved>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Input {
    fn literal(scalar: Scalar) -> Input {
        Input { operand: Operand::Scalar(scalar), ty: NO_TYPE, value: None, edge: None }
    }
}

/// The tensor of this value whose gradient goes where the edge says.
pub(crate) fn tensor(value: &Arc<Value>, edge: Option<&Edge>) -> DynTensor {
    DynTensor(match edge {
        None => Repr::Plain(value.clone()),
        Some(Edge::Node(node)) => Repr::Tracked(value.clone(), node.clone()),
        // The leaf as it was: its value may have been replaced since.
        Some(Edge::Leaf(leaf)) => Repr::Variable(Arc::new(Variable {
            current: Mutex::new(value.clone()),
            leaf: leaf.clone(),
        })),
    })
}

/// Where the gradient of a tensor goes, if it has one.
pub(crate) fn edge(tensor: &DynTensor) -> Option<Edge> {
    match &tensor.0 {
        Repr::Plain(_) => None,
        Repr::Tracked(_, node) => Some(Edge::Node(node.clone())),
        Repr::Variable(variable) => Some(Edge::Leaf(variable.leaf.clone())),
    }
}

impl Node {
    /// Moves the nodes this one leads to into `pending`, leaving it without edges.
    fn unlink(&mut self, pending: &mut SmallVec<[Arc<Node>; 4]>) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for input in state.iter_mut().flat_map(|saved| &mut saved.inputs) {
            if let Some(Edge::Node(node)) = input.edge.take() {
                pending.push(node);
            }
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let mut pending = SmallVec::new();
        self.unlink(&mut pending);
        while let Some(node) = pending.pop() {
            // The last owner unlinks a node before it drops, so this never recurses.
            if let Some(mut node) = Arc::into_inner(node) {
                node.unlink(&mut pending);
            }
        }
    }
}
