//! Copies of values that lie across the order in which they are read, where they are read so often
//! that turning them once costs less.
//!
//! Guarantees: a copy changes no bit, since the order of sums and the elements of products do not
//! depend on strides. Does not: know values whose users change their order themselves.

use gt_ir::{DType, NodeId, NodeKind, Op};

use super::{Map, Materialized, NOW, index, work};
use crate::{
    kernel::{Access, FoldOrder},
    schedule::work::Kernel,
};

/// Rows of a product that turns its right side in more time than it takes to multiply by it.
const FEW_ROWS: usize = 64;
/// How often a reduction reads each element of what is turned for it, at least.
const OFTEN: usize = 4;
/// The same of a kernel that only moves and computes elements.
const TWICE: usize = 2;
/// Elements of what is worth a launch of its own.
const MANY: usize = 1 << 12;
/// Elements of four bytes that share a line of the cache.
const LINE: i64 = 16;

impl Materialized<'_> {
    /// Whether a right side is a transposed matrix that several products of few rows have. Each of
    /// them would turn all of it first, which costs more than the product.
    pub(super) fn is_turned_often(&self, id: NodeId) -> bool {
        let op = |id| match self.graph.node(id).kind {
            NodeKind::Op(op) => Some(op),
            NodeKind::Input(_) | NodeKind::Scalar(_) | NodeKind::Const(_) => None,
        };
        let [_, columns] = *self.ty(id).shape.sizes() else { return false };
        let is_many = self.ty(id).shape.numel() >= MANY;
        if !is_many || self.place(id, NOW).is_some() || !matches!(op(id), Some(Op::Permute(_))) {
            return false;
        }
        let is_small = |user: &NodeId| {
            let ty = self.ty(*user);
            let rows = ty.shape.numel() / columns.max(1);
            op(*user) == Some(Op::MatMul)
                && self.graph.operands(*user)[1] == id
                && matches!(ty.dtype, DType::F32 | DType::F64)
                && (2..=FEW_ROWS).contains(&rows)
        };
        self.graph.users(id).iter().filter(|user| is_small(user)).nth(1).is_some()
    }

    /// Whether a kernel that reaches a contiguous node by this map reads it across rows.
    pub(super) fn is_across(&self, id: NodeId, map: &Map, kernel: &Kernel) -> bool {
        self.inner(id, map, kernel).is_some_and(|stride| stride.abs() >= LINE)
    }

    /// Whether a kernel that would read a node across rows, and each element of it often, does not
    /// if the node is contiguous: a reduction, or the windows of an image.
    pub(super) fn is_better_turned(&self, id: NodeId, map: &Map, kernel: &Kernel) -> bool {
        let n = self.ty(id).shape.numel();
        let iterations: usize = kernel.loops.iter().map(|l| l.extent).product();
        let often = if kernel.fold.is_some() { OFTEN } else { TWICE };
        n >= MANY
            && iterations / n >= often
            && self.inner(id, map, kernel).is_some_and(|stride| stride == 1)
    }

    /// The stride of a contiguous node along the loop that a kernel runs in vectors.
    fn inner(&self, id: NodeId, map: &Map, kernel: &Kernel) -> Option<i64> {
        let order = kernel.fold.map(|(_, order)| order);
        let strides: super::Strides = work::contiguous(&self.ty(id)).collect();
        let Access { strides, .. } = index::strided(map, &strides, kernel.loops.len());
        let in_vectors = |i: &usize| {
            let l = &kernel.loops[*i];
            l.extent > 1 && (order == Some(FoldOrder::Rows) || !l.reduce)
        };
        (0..kernel.loops.len()).rev().find(in_vectors).map(|i| strides[i])
    }
}
