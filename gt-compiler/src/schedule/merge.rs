//! One kernel of two that walk the same iterations: what the second reads of the first stays in
//! registers.
//!
//! Exact: every element is computed by the same operations in the same order. Whether it is worth
//! it is decided by size alone.

use std::collections::HashMap;

use gt_ir::DType;
use smallvec::SmallVec;

use super::{
    piece::{BufferId, ScalarArg},
    rows::{self, Extents},
    stage::KernelStage,
};
use crate::kernel::{Access, Expr, ExprId, KernelSpec, Loop, Node, Store};

/// Nodes of a merged kernel at most: more would not stay in registers.
const MAX_NODES: usize = 192;

/// The two as one; `None` where they walk different iterations or the second needs more of the
/// first than the same elements.
pub(super) fn merge(first: &KernelStage, second: &KernelStage) -> Option<KernelStage> {
    if first.spec.nodes.len() + second.spec.nodes.len() > MAX_NODES {
        return None;
    }
    let (a, b) = aligned(first, second)?;
    let mut merged = Merger::default();
    merged.stage.spec.loops = loops(&a, &b)?;
    merged.stage.spec.rows = true;
    merged.stage.spec.fold_order =
        if has_folds(&b) { b.spec.fold_order } else { a.spec.fold_order };
    let values = merged.add(&a, &a.spec.stores, &[])?;
    let kept: Vec<(BufferId, Access, ExprId)> = a
        .spec
        .stores
        .iter()
        .filter(|s| s.fold.is_none())
        .map(|s| (a.argument(s.buffer).buffer, s.access.clone(), values[s.value.0 as usize]))
        .collect();
    let written: SmallVec<[BufferId; 4]> =
        a.spec.stores.iter().map(|s| a.argument(s.buffer).buffer).collect();
    let reads_else = |node: &Node| match &node.expr {
        Expr::Load { buffer, access } => {
            let buffer = b.argument(*buffer).buffer;
            written.contains(&buffer) && !kept.iter().any(|(k, at, _)| (*k, at) == (buffer, access))
        }
        Expr::Scalar(_)
        | Expr::Index(_)
        | Expr::Unary(..)
        | Expr::Binary(..)
        | Expr::Select(..)
        | Expr::Cast(_) => false,
    };
    if b.spec.nodes.iter().any(reads_else) {
        return None;
    }
    merged.add(&b, &b.spec.stores, &kept)?;
    Some(merged.stage)
}

fn has_folds(stage: &KernelStage) -> bool {
    stage.spec.stores.iter().any(|s| s.fold.is_some())
}

/// Both with loops of the same extents.
fn aligned(a: &KernelStage, b: &KernelStage) -> Option<(KernelStage, KernelStage)> {
    let extents = |s: &KernelStage| s.spec.loops.iter().map(|l| l.extent).collect::<Extents>();
    let (ea, eb) = (extents(a), extents(b));
    if ea == eb {
        return Some((a.clone(), b.clone()));
    }
    // The row loop stays what it is.
    if ea.first() != eb.first()
        || ea[1..].iter().product::<usize>() != eb[1..].iter().product::<usize>()
    {
        return None;
    }
    let mut at = rows::boundaries(&ea);
    at.extend(rows::boundaries(&eb));
    at.sort_unstable();
    at.dedup();
    let refined = |s: &KernelStage, own: &[usize]| {
        // Loops of one iteration have no boundary of their own: the row loop would be lost.
        let to = if own[0] == 1 { None } else { rows::refine(own, &at) }?;
        Some(s.refined(&to))
    };
    let (a, b) = (refined(a, &ea)?, refined(b, &eb)?);
    (a.spec.loops.len() == b.spec.loops.len()).then_some((a, b))
}

/// The loops of the merged kernel: those of one that folds, if one does.
fn loops(a: &KernelStage, b: &KernelStage) -> Option<SmallVec<[Loop; gt_ir::MAX_RANK]>> {
    let reduces = |s: &KernelStage| s.spec.loops.iter().any(|l| l.reduce);
    match (reduces(a), reduces(b)) {
        (false, _) => Some(b.spec.loops.iter().copied().collect()),
        (true, false) => Some(a.spec.loops.iter().copied().collect()),
        (true, true) => (a.spec.loops == b.spec.loops && a.spec.fold_order == b.spec.fold_order)
            .then(|| a.spec.loops.iter().copied().collect()),
    }
}

#[derive(Default)]
struct Merger {
    stage: KernelStage,
    known: HashMap<Node, ExprId>,
    scalars: Vec<(ScalarArg, DType)>,
}

impl Merger {
    /// Adds stores of a kernel and the nodes they need; loads of what is at hand become the values
    /// themselves. Gives the new name of every node added.
    fn add(
        &mut self,
        from: &KernelStage,
        stores: &[Store],
        at_hand: &[(BufferId, Access, ExprId)],
    ) -> Option<Vec<ExprId>> {
        let needed = needed(&from.spec, stores);
        let mut names = vec![ExprId(0); needed.len()];
        for (i, node) in from.spec.nodes.iter().enumerate().filter(|(i, _)| needed[*i]) {
            let mut expr = node.expr.clone();
            if let Expr::Load { buffer, access } = &mut expr {
                let argument = from.argument(*buffer);
                let known = at_hand.iter().find(|(b, at, _)| (*b, at) == (argument.buffer, access));
                if let Some((_, _, value)) = known {
                    if self.stage.spec.node(*value).dtype != node.dtype {
                        return None;
                    }
                    names[i] = *value;
                    continue;
                }
                *buffer = self.stage.add_argument(argument.clone());
            }
            if let Expr::Scalar(slot) = &mut expr {
                *slot = self.scalar(from.scalars[usize::from(*slot)], node.dtype);
            }
            expr.rename(|id| names[id.0 as usize]);
            names[i] = self.node(Node { expr, dtype: node.dtype });
        }
        for store in stores {
            let buffer = self.stage.add_argument(from.argument(store.buffer).clone());
            let value = names[store.value.0 as usize];
            self.stage.spec.stores.push(Store { buffer, value, ..store.clone() });
        }
        Some(names)
    }

    fn scalar(&mut self, arg: ScalarArg, dtype: DType) -> u16 {
        let found = self.scalars.iter().position(|s| *s == (arg, dtype));
        let slot = found.unwrap_or_else(|| {
            self.scalars.push((arg, dtype));
            self.stage.scalars.push(arg);
            self.stage.spec.scalars.push(dtype);
            self.scalars.len() - 1
        });
        slot as u16 // kernels have at most MAX_NODES scalars
    }

    fn node(&mut self, node: Node) -> ExprId {
        if let Some(&id) = self.known.get(&node) {
            return id;
        }
        let id = ExprId(self.stage.spec.nodes.len() as u32);
        self.stage.spec.nodes.push(node.clone());
        self.known.insert(node, id);
        id
    }
}

/// Which nodes stores need.
fn needed(spec: &KernelSpec, stores: &[Store]) -> Vec<bool> {
    let mut needed = vec![false; spec.nodes.len()];
    stores.iter().for_each(|s| needed[s.value.0 as usize] = true);
    for (i, node) in spec.nodes.iter().enumerate().rev() {
        if needed[i] {
            node.expr.operands().iter().for_each(|o| needed[o.0 as usize] = true);
        }
    }
    needed
}

/// A kernel without some of its stores, and without what only those needed; `None` when nothing is
/// left.
pub(super) fn without(
    stage: &KernelStage,
    unwanted: impl Fn(BufferId) -> bool,
) -> Option<KernelStage> {
    let keep = |s: &&Store| !unwanted(stage.argument(s.buffer).buffer);
    let stores: Vec<Store> = stage.spec.stores.iter().filter(keep).cloned().collect();
    if stores.is_empty() {
        return None;
    }
    let mut kept = Merger::default();
    kept.stage.spec = KernelSpec {
        loops: stage.spec.loops.clone(),
        rows: stage.spec.rows,
        fold_order: stage.spec.fold_order,
        ..KernelSpec::default()
    };
    kept.add(stage, &stores, &[])?;
    Some(kept.stage)
}
