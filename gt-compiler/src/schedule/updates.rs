//! Updates of a few rows of a large table: `table - scale * index_add(number, index, rows)`, the
//! step of plain gradient descent on an embedding.
//!
//! Only the rows that the index names differ from the table, if the number is zero. So an engine
//! that can needs neither the gradient of the whole table nor a pass over it. What is found here
//! depends on the graph alone; whether the number and the scale leave the other rows as they are
//! is known when the plan runs, and the routine looks at it then.
//!
//! Guarantees: a value that is no longer computed is used by nothing but updates. The index is
//! still checked, by the update or by a selection with the same index before it.

use std::collections::BTreeMap;

use gt_ir::{DType, Graph, NodeId, NodeKind, Op};
use smallvec::SmallVec;

use super::piece::UpdateKind;
use crate::cost::Dag;

/// Elements of a table from which on its update by rows is looked for.
const LARGE: usize = 1 << 16;
/// Rows of the table for each row that the index names, at least.
const FEW: usize = 4;

/// Whether the engine updates single rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Updates {
    /// It has a routine for that.
    ByRow,
    /// It computes the gradient of the whole table, and the whole table.
    #[cfg_attr(not(feature = "torch"), expect(dead_code, reason = "devices ask for it"))]
    Whole,
}

/// An update, as nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Update {
    pub(super) table: NodeId,
    pub(super) index: NodeId,
    pub(super) rows: NodeId,
    /// What the gradient is elsewhere: a literal.
    pub(super) number: NodeId,
    /// The factor of the gradient: a literal.
    pub(super) scale: Option<NodeId>,
    pub(super) kind: UpdateKind,
    /// Whether a selection finds an index that is outside of the table.
    pub(super) is_checked: bool,
}

/// The updates of a graph, by their results.
#[derive(Default)]
pub(super) struct Found(BTreeMap<NodeId, Update>);

impl Update {
    pub(super) fn operands(&self) -> [NodeId; 3] {
        [self.table, self.index, self.rows]
    }
}

impl Found {
    /// The updates of a graph, for an engine that makes them.
    pub(super) fn of(graph: &Graph, updates: Updates) -> Found {
        let outputs = graph.outputs().iter().filter(|_| updates == Updates::ByRow);
        Found(outputs.filter_map(|&id| Some((id, update(graph, id)?))).collect())
    }

    pub(super) fn get(&self, id: NodeId) -> Option<Update> {
        self.0.get(&id).copied()
    }

    /// The values that have memory of their own: the roots of the graph, without those that only
    /// updates would have used.
    pub(super) fn roots(&self, graph: &Graph) -> Vec<bool> {
        let mut roots = crate::cost::materialized(&Dag::of(graph));
        if self.0.is_empty() {
            return roots;
        }
        let mut unused = vec![false; graph.len()];
        for id in graph.ids().rev().filter(|id| !graph.outputs().contains(id)) {
            let skips = |user: &NodeId| match self.get(*user) {
                Some(update) => !update.operands().contains(&id),
                None => unused[user.index()],
            };
            let users = graph.users(id);
            unused[id.index()] = !users.is_empty() && users.iter().all(skips);
            roots[id.index()] &= !unused[id.index()];
        }
        let held = self.0.values().flat_map(Update::operands);
        held.for_each(|id| roots[id.index()] = true);
        roots
    }
}

/// The update that a node is.
fn update(graph: &Graph, id: NodeId) -> Option<Update> {
    let ty = graph.node(id).ty;
    let (op, operands) = op(graph, id)?;
    let kinds = [(Op::Add, UpdateKind::Add), (Op::Sub, UpdateKind::Sub)];
    let (_, kind) = kinds.into_iter().find(|(known, _)| *known == op)?;
    let [table, step] = operands[..] else { return None };
    let (gradient, scale) = scaled(graph, step);
    let (Op::IndexAdd(axis), operands) = self::op(graph, gradient)? else { return None };
    let [base, index, rows] = operands[..] else { return None };
    let n_named = graph.node(index).ty.shape.numel();
    let n_rows = *ty.shape.sizes().first()?;
    let fits = axis.0 == 0
        && ty.shape.numel() >= LARGE
        && n_named * FEW <= n_rows
        && u32::try_from(n_rows).is_ok()
        && matches!(ty.dtype, DType::F32 | DType::F64 | DType::Bf16 | DType::F16);
    let selects = |user: NodeId| match self::op(graph, user) {
        Some((Op::IndexSelect(axis), operands)) => {
            let from = graph.node(operands[0]).ty.shape;
            operands[1] == index && from.sizes()[usize::from(axis.0)] == n_rows
        }
        _ => false,
    };
    // Routines run in the order of their nodes.
    let is_checked = graph.users(index).into_iter().filter(|user| *user < id).any(selects);
    let number = literal(graph, base)?;
    fits.then_some(Update { table, index, rows, number, scale, kind, is_checked })
}

/// What a value is a literal multiple of, and the literal.
fn scaled(graph: &Graph, id: NodeId) -> (NodeId, Option<NodeId>) {
    let Some((Op::Mul, operands)) = op(graph, id) else { return (id, None) };
    match (literal(graph, operands[0]), literal(graph, operands[1])) {
        (None, Some(scale)) => (operands[0], Some(scale)),
        (Some(scale), None) => (operands[1], Some(scale)),
        (None, None) | (Some(_), Some(_)) => (id, None),
    }
}

/// The op of a node with its operands.
fn op(graph: &Graph, id: NodeId) -> Option<(Op, SmallVec<[NodeId; 3]>)> {
    match graph.node(id).kind {
        NodeKind::Op(op) => Some((op, graph.operands(id))),
        NodeKind::Input(_) | NodeKind::Scalar(_) | NodeKind::Const(_) => None,
    }
}

/// The literal that a value is everywhere.
fn literal(graph: &Graph, id: NodeId) -> Option<NodeId> {
    match graph.node(id).kind {
        NodeKind::Scalar(_) | NodeKind::Const(_) => Some(id),
        NodeKind::Op(Op::Expand(_) | Op::Reshape(_)) => literal(graph, graph.operands(id)[0]),
        NodeKind::Op(_) | NodeKind::Input(_) => None,
    }
}
