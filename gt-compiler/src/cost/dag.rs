//! A graph as the cost model reads it: for each value its role, its bytes and its operations.
//!
//! It is no second IR: it has no ops, no attributes and no way back to a graph. The extraction from
//! an e-graph weighs thousands of choices a second, none of which is a graph yet; a `Dag` of a
//! choice is a few pushes to flat lists, while a [`Graph`] would infer and check every node.

use std::slice;

use gt_ir::{Class, Graph, NodeId, NodeKind, Op, Type, matrix};

use crate::action::{Action, action};

/// How a value comes to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It is there already.
    Given,
    /// One number.
    Number,
    /// Computed where it is used, unless it is shared.
    Lazy,
    /// Found in another value.
    View,
    /// A view that, when it has to be memory, is its operand's.
    Reshape,
    /// Always a kernel of its own.
    Kernel,
    /// A matrix product.
    Product,
    /// Always a kernel of its own, and so are its operands.
    Routine,
}

/// A value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    pub(super) role: Role,
    /// Operations to compute one element of it.
    pub(super) own: u32,
    pub(super) numel: u64,
    pub(super) bytes: u64,
    pub(super) flops: f64,
    /// Elements it is repeated to, when it is the operand of an expansion.
    pub(super) expands: bool,
    first: u32,
    arity: u32,
}

/// Values in topological order, their operands in one list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dag {
    pub(super) values: Vec<Value>,
    operands: Vec<u32>,
    pub(super) outputs: Vec<u32>,
}

impl Dag {
    /// The values of a graph of primitives.
    pub(crate) fn of(graph: &Graph) -> Dag {
        let mut dag = Dag::default();
        dag.values.reserve(graph.len());
        for id in graph.ids() {
            let node = graph.node(id);
            match node.kind {
                NodeKind::Input(_) => dag.given(&node.ty),
                NodeKind::Scalar(_) | NodeKind::Const(_) => dag.number(&node.ty),
                NodeKind::Op(op) => {
                    let operands = graph.operands(id);
                    let first = operands.first().map(|o| graph.node(*o).ty);
                    let at = dag.op(
                        &op,
                        &node.ty,
                        first.as_ref(),
                        operands.iter().copied().map(NodeId::index),
                    );
                    if is_padded_again(graph, id) {
                        dag.values[at].role = Role::Lazy;
                    }
                    at
                }
            };
        }
        dag.outputs = graph.outputs().iter().map(|o| o.index() as u32).collect();
        dag
    }

    /// A value that is in memory.
    pub(crate) fn given(&mut self, ty: &Type) -> usize {
        self.push(Role::Given, ty, 0, 0.0, false, std::iter::empty())
    }

    /// One number.
    pub(crate) fn number(&mut self, ty: &Type) -> usize {
        self.push(Role::Number, ty, 0, 0.0, false, std::iter::empty())
    }

    /// An op on earlier values, the first of which has the type `first`.
    pub(crate) fn op(
        &mut self,
        op: &Op,
        ty: &Type,
        first: Option<&Type>,
        operands: impl Iterator<Item = usize>,
    ) -> usize {
        let numel = ty.shape.numel() as f64;
        let read = first.map_or(0, |t| t.shape.numel()) as f64;
        let (role, own) = engine_view(op);
        let flops = match (role, op.spec().class) {
            (Role::Routine, _) if let Op::Scan(scan) = op => scan.work() as f64 * read,
            (Role::Product, _) => {
                let k = first.and_then(|t| t.shape.sizes().last().copied()).unwrap_or(1);
                2.0 * k as f64 * numel
            }
            (Role::Given | Role::Number | Role::View | Role::Reshape, _) => 0.0,
            (_, Class::Reduce) => read,
            (_, Class::Matrix) => matrix::work(op, first.map_or(&[], slice::from_ref), ty),
            (_, Class::Move | Class::Gather) => numel,
            (_, Class::Pointwise | Class::Contract | Class::Source) => {
                f64::from(op.spec().marks.weight) * numel
            }
        };
        self.push(role, ty, own, flops, matches!(op, Op::Expand(_) | Op::Unfold(_)), operands)
    }

    fn push(
        &mut self,
        role: Role,
        ty: &Type,
        own: u32,
        flops: f64,
        expands: bool,
        operands: impl Iterator<Item = usize>,
    ) -> usize {
        let first = self.operands.len() as u32;
        self.operands.extend(operands.map(|o| o as u32));
        let arity = self.operands.len() as u32 - first;
        let (numel, bytes) = (ty.shape.numel() as u64, ty.bytes() as u64);
        self.values.push(Value { role, own, numel, bytes, flops, expands, first, arity });
        self.values.len() - 1
    }

    /// Makes a value a result.
    pub(crate) fn output(&mut self, value: usize) {
        self.outputs.push(value as u32);
    }

    pub(super) fn operands(&self, value: usize) -> &[u32] {
        let v = &self.values[value];
        &self.operands[v.first as usize..(v.first + v.arity) as usize]
    }
}

/// The most operations one op counts for when work is fused: ten ops of any kind fit into a kernel.
const MAX_OWN: u32 = 10;

/// The role of an op for the engine that computes it, and the operations that an element of its
/// result takes there.
fn engine_view(op: &Op) -> (Role, u32) {
    match action(op) {
        Action::Unary(_) | Action::Binary(_) | Action::Where | Action::Cast | Action::Iota => {
            (Role::Lazy, op.spec().marks.weight.min(MAX_OWN))
        }
        Action::View => (Role::View, 0),
        Action::Reshape => (Role::Reshape, 0),
        Action::Reduce(..) | Action::Cat(_) | Action::Pad => (Role::Kernel, 0),
        Action::MatMul | Action::Call => (Role::Product, 0),
        Action::Routine => (Role::Routine, 0),
    }
}

/// Whether a value is the operand of padding and of nothing else, and is padding itself: then it is
/// stored where it lies in the larger value.
pub(crate) fn is_padded_again(graph: &Graph, id: NodeId) -> bool {
    let is_pad = |id: NodeId| matches!(graph.node(id).kind, NodeKind::Op(Op::Pad(_)));
    let [user] = graph.users(id)[..] else { return false };
    is_pad(id) && is_pad(user) && graph.operands(user)[0] == id && !graph.outputs().contains(&id)
}
