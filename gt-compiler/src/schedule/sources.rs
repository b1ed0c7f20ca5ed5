//! The instructions of the user behind a piece of work, and how much of the work each of them is.
//!
//! Profiles divide the time of a job among the instructions by these weights, in floating-point
//! operations. They decide nothing. A node is named by the traced node that it stands for, so what
//! is kept on disk holds for every program with the same graph.

use gt_ir::{Graph, NodeId, NodeKind};
use serde::{Deserialize, Serialize};

use super::{
    materialize::Task,
    piece::{MatMul, Piece},
    work::Kernel,
};

/// Traced nodes by number, each once, with their floating-point operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sources(pub(crate) Vec<(u32, u64)>);

impl Sources {
    /// The sources of a kernel: what it computes in each of its iterations.
    pub(super) fn of_kernel(
        graph: &Graph,
        nodes: impl Iterator<Item = NodeId>,
        kernel: &Kernel,
    ) -> Sources {
        let iterations: usize = kernel.loops.iter().map(|l| l.extent).product();
        let mut sources = Sources::default();
        for id in nodes {
            let node = graph.node(id);
            let weight = match node.kind {
                NodeKind::Op(op) => u64::from(op.spec().marks.weight.max(1)),
                NodeKind::Input(_) | NodeKind::Scalar(_) | NodeKind::Const(_) => 1,
            };
            sources.add(node.origin, weight.saturating_mul(iterations as u64));
        }
        sources
    }

    /// The sources of any other task, whose piece this is.
    pub(super) fn of_piece(graph: &Graph, task: &Task, piece: &Piece) -> Sources {
        let mut sources = Sources::default();
        match (task, piece) {
            (Task::Product(id, ..), Piece::MatMul(product)) => {
                sources.add(graph.node(*id).origin, flops(product));
            }
            (Task::Product(id, ..) | Task::Routine(id, ..), _) => {
                let node = graph.node(*id);
                sources.add(node.origin, node.ty.shape.numel() as u64);
            }
            (Task::Update(id, update, _), _) => {
                let rows = graph.node(update.rows).ty.shape.numel();
                sources.add(graph.node(*id).origin, rows as u64);
            }
            (Task::Attention(call), _) => {
                let node = graph.node(call.operands.1[0]);
                sources.add(node.origin, node.ty.shape.numel() as u64);
            }
            (Task::Kernel { of, .. }, _) => sources.add(graph.node(*of).origin, 1),
        }
        sources
    }

    fn add(&mut self, origin: u32, flops: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == origin) {
            Some((_, sum)) => *sum = sum.saturating_add(flops),
            None => self.0.push((origin, flops)),
        }
    }

    /// The sources of several pieces together.
    pub(crate) fn join<'a>(all: impl Iterator<Item = &'a Sources>) -> Sources {
        let mut sources = Sources::default();
        all.flat_map(|of| &of.0).for_each(|&(origin, flops)| sources.add(origin, flops));
        sources
    }
}

/// Multiplications and additions of a product.
fn flops(product: &MatMul) -> u64 {
    let sizes = [product.m, product.n, product.k].map(|n| n as u64);
    let batch: usize = product.batch.iter().product();
    sizes.into_iter().fold(2 * batch as u64, u64::saturating_mul)
}
