//! The graph behind tracked tensors: one node an instruction, edges towards what it was computed
//! from.
//!
//! Guarantees: a node keeps alive only the values its gradient rule reads; dropping a graph is
//! iterative, so its length costs no stack; a value never points at its node, so there are no
//! cycles.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use gt_ir::{Loc, Op, Operand, Type, ValueId};
use smallvec::SmallVec;

use super::substitute;
use super::watch::Watch;
use super::{DynTensor, Repr, TapeValue, Variable};
use crate::error::Result;
use crate::scope::{Backward, backward_signals};

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
    watch: OnceLock<Arc<Watch>>,
}

/// What the gradient rule of a node needs.
pub(crate) struct Saved {
    pub(crate) inputs: Inputs,
    /// The result, when the rule reads it.
    pub(crate) output: Option<Arc<TapeValue>>,
    /// The rule, if it is not the op's.
    pub(crate) rule: Option<Arc<dyn Rule>>,
}

/// A gradient rule that is not an op's: written by hand, or found by computing again.
pub(crate) trait Rule: Send + Sync {
    /// The gradients that leave the node, each with where it goes.
    fn gradients(&self, call: Call) -> Result<Vec<(Edge, DynTensor)>>;

    /// The function that gives the gradients, if there is one of these arguments alone.
    fn by_hand(&self) -> Option<&Arc<ByHand>> {
        None
    }
}

/// The gradient of each input, where it has one, from the inputs, the output and its gradient.
pub(crate) type ByHand =
    dyn Fn(&[DynTensor], &DynTensor, &DynTensor) -> Vec<Option<DynTensor>> + Send + Sync;

/// What a [`Rule`] gets in one walk.
pub(crate) struct Call {
    pub(crate) node: Arc<Node>,
    /// The values of the operands, and where their gradients go.
    pub(crate) inputs: Vec<(Arc<TapeValue>, Option<Edge>)>,
    /// The value of the result.
    pub(crate) output: Arc<TapeValue>,
    /// The gradient of the result.
    pub(crate) grad: DynTensor,
    pub(crate) order: Order,
}

/// Whether the gradients are tracked themselves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// They are plain values.
    First,
    /// They have gradients in turn.
    Higher,
}

/// The operands of a node; two fit without allocating.
pub(crate) type Inputs = SmallVec<[Input; 2]>;

/// One operand of a node.
pub(crate) struct Input {
    pub(crate) operand: Operand,
    /// The type of a value; meaningless for a literal.
    pub(crate) ty: Type,
    /// The operand's value, when the rule reads it.
    pub(crate) value: Option<Arc<TapeValue>>,
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
    /// Whether it takes part in no gradient for now.
    frozen: AtomicBool,
    watch: OnceLock<Arc<Watch>>,
}

/// The number of the next leaf.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl Leaf {
    /// A number that leaves made from now on reach, and none made before.
    pub(crate) fn next() -> u64 {
        NEXT.load(Ordering::Relaxed)
    }

    /// A leaf without a gradient. Later leaves have larger numbers.
    pub(crate) fn new() -> Arc<Leaf> {
        Arc::new(Leaf {
            order: NEXT.fetch_add(1, Ordering::Relaxed),
            grad: Mutex::new(None),
            frozen: AtomicBool::new(false),
            watch: OnceLock::new(),
        })
    }

    /// Whether it takes part in no gradient for now.
    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Relaxed)
    }

    /// Freezes the leaf, or ends that.
    pub(crate) fn set_frozen(&self, frozen: bool) {
        self.frozen.store(frozen, Ordering::Relaxed);
    }

    /// The watch over the gradient, made if there is none.
    pub(crate) fn watch(&self) -> &Arc<Watch> {
        self.watch.get_or_init(Arc::default)
    }

    /// The watch over the gradient, if there is one.
    pub(crate) fn watched(&self) -> Option<&Arc<Watch>> {
        self.watch.get()
    }

    /// The gradient gathered so far.
    pub(crate) fn grad(&self) -> Option<DynTensor> {
        self.lock().clone()
    }

    /// Replaces the gradient; the old one is dropped after the lock is released.
    pub(crate) fn set(&self, grad: Option<DynTensor>) {
        let old = std::mem::replace(&mut *self.lock(), grad);
        drop(old);
    }

    /// The state behind the lock. Nothing panics while it is held.
    fn lock(&self) -> MutexGuard<'_, Option<DynTensor>> {
        self.grad.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    /// The node of an instruction just recorded, for the scopes that are open.
    pub(crate) fn new(op: &Op, loc: Loc, output: ValueId, saved: Saved) -> Arc<Node> {
        let (signals, state) = (backward_signals(), Mutex::new(Some(saved)));
        Arc::new(Node { output, op: *op, loc, signals, state, watch: OnceLock::new() })
    }

    /// The watch over the result's gradient, made if there is none.
    pub(crate) fn watch(&self) -> &Arc<Watch> {
        self.watch.get_or_init(Arc::default)
    }

    /// The watch over the result's gradient, if there is one.
    pub(crate) fn watched(&self) -> Option<&Arc<Watch>> {
        self.watch.get()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Saved>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tensor of this value whose gradient goes where the edge says.
pub(crate) fn tensor(value: &Arc<TapeValue>, edge: Option<&Edge>) -> DynTensor {
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
        Repr::Variable(variable) => match substitute::of(variable.leaf.order) {
            Some(substitute) => edge(&substitute),
            None if variable.leaf.is_frozen() => None,
            None => Some(Edge::Leaf(variable.leaf.clone())),
        },
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
