//! The graph behind tracked tensors: one node an instruction, edges towards what it was computed from.
//!
//! Guarantees: a node keeps alive only the values its gradient rule reads; dropping a graph is iterative, so its
//! length costs no stack; a value never points at its node, so there are no cycles.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gt_ir::tape::Operands;
use gt_ir::{Loc, Op, Operand, OperandType, Type, ValueId};
use smallvec::SmallVec;

use super::saved;
use crate::core::record::Held;
use crate::core::tensor::{Repr, Value};
use crate::core::{Arg, DynTensor};

/// The node of one tracked instruction.
pub(crate) struct Node {
    /// The value it computed. Later instructions have larger names, which orders the walk.
    pub(crate) output: ValueId,
    pub(crate) ty: Type,
    pub(crate) op: Op,
    pub(crate) loc: Loc,
    /// `None` once `backward` has freed it.
    state: Mutex<Option<Saved>>,
}

/// What the gradient rule of a node needs.
pub(crate) struct Saved {
    pub(crate) inputs: SmallVec<[Input; 3]>,
    /// The result, when the rule reads it.
    pub(crate) output: Option<Arc<Value>>,
}

/// One operand of a node.
pub(crate) struct Input {
    pub(crate) operand: Operand,
    pub(crate) ty: OperandType,
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
        op: Op,
        loc: Loc,
        args: &[Arg<'_>],
        held: &[Option<Held<'_>>],
        operands: &Operands,
        output: &Arc<Value>,
    ) -> Arc<Node> {
        let mut inputs: SmallVec<[Input; 3]> = SmallVec::new();
        for ((arg, held), operand) in args.iter().zip(held).zip(operands) {
            let ty = match (held, operand) {
                (Some(value), _) => OperandType::Tensor(value.ty),
                (None, Operand::Scalar(scalar)) => OperandType::Scalar(*scalar),
                (None, Operand::Value(_)) => continue, // A value is always held.
            };
            inputs.push(Input { operand: *operand, ty, value: None, edge: edge(arg) });
        }
        let needs = saved::needs(&op, &inputs, output.ty);
        for (i, (input, held)) in inputs.iter_mut().zip(held).enumerate() {
            if needs.input(i) {
                input.value = held.as_ref().map(|v| Arc::clone(v));
            }
        }
        let id = output.place().map_or(ValueId(0), |(_, id)| id);
        let saved = Saved { inputs, output: needs.output().then(|| output.clone()) };
        Arc::new(Node { output: id, ty: output.ty, op, loc, state: Mutex::new(Some(saved)) })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Saved>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn edge(arg: &Arg<'_>) -> Option<Edge> {
    let Arg::Tensor(tensor) = arg else { return None };
    match &tensor.0 {
        Repr::Plain(_) => None,
        Repr::Tracked(_, node) => Some(Edge::Node(node.clone())),
        Repr::Variable(variable) => Some(Edge::Leaf(variable.leaf.clone())),
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let mut pending: Vec<Arc<Node>> = Vec::new();
        let unlink = |node: &mut Node, pending: &mut Vec<Arc<Node>>| {
            let state = node.state.get_mut().unwrap_or_else(PoisonError::into_inner).take();
            pending.extend(state.into_iter().flat_map(|s| s.inputs).filter_map(|input| {
                match input.edge {
                    Some(Edge::Node(node)) => Some(node),
                    Some(Edge::Leaf(_)) | None => None,
                }
            }));
        };
        unlink(self, &mut pending);
        while let Some(node) = pending.pop() {
            // The last owner unlinks a node before it drops, so this never recurses.
            if let Some(mut node) = Arc::into_inner(node) {
                unlink(&mut node, &mut pending);
            }
        }
    }
}
