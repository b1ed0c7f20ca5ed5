//! What a schedule consists of before it is cut into tiles: one piece of work for each materialized value, in order.
//!
//! A piece names the buffers it reads and writes; the order of pieces respects them. Nothing here says which pieces run together.

use gt_ir::{DType, Op, Type};
use smallvec::SmallVec;

use super::plan::{BufferId, ScalarArg};
use crate::kernel::{Access, Binary, Expr, KernelSpec};

/// One piece of work.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Kernel(KernelPiece),
    MatMul(MatMul),
    Fold(Fold),
    Routine(Routine),
}

/// A loop nest and what it works on.
#[derive(Clone, Debug)]
pub(super) struct KernelPiece {
    /// Its loops are those of the logical dimensions: nothing is merged yet, but for adjacent dimensions that are reduced together.
    pub(super) spec: KernelSpec,
    pub(super) buffers: SmallVec<[BufferId; 4]>,
    pub(super) scalars: SmallVec<[ScalarArg; 2]>,
    /// How a long reduction is cut: iterations of its first reduce loop in a chunk, and the number of chunks. Its result has one row of
    /// partial results a chunk.
    pub(super) chunks: Option<(usize, usize)>,
}

/// A strided operand of a matrix product: strides of the batch dimensions, rows and columns.
#[derive(Clone, Debug)]
pub(super) struct Matrix {
    pub(super) buffer: BufferId,
    pub(super) access: Access,
}

/// `out[b] = lhs[b] * rhs[b]`.
#[derive(Clone, Debug)]
pub(super) struct MatMul {
    pub(super) dtype: DType,
    pub(super) batch: SmallVec<[usize; 6]>,
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) lhs: Matrix,
    pub(super) rhs: Matrix,
    pub(super) out: BufferId,
}

/// The rows of partial results of a long reduction, folded in `f64` where they are floats.
#[derive(Clone, Debug)]
pub(super) struct Fold {
    pub(super) op: Binary,
    pub(super) from: BufferId,
    /// Of the partial results.
    pub(super) dtype: DType,
    /// Of the result.
    pub(super) out_dtype: DType,
    pub(super) n_chunks: usize,
    pub(super) len: usize,
    pub(super) out: BufferId,
}

/// A step in plain Rust.
#[derive(Clone, Debug)]
pub(super) struct Routine {
    pub(super) op: Op,
    pub(super) inputs: SmallVec<[(BufferId, Type); 3]>,
    pub(super) scalars: SmallVec<[ScalarArg; 3]>,
    pub(super) out: BufferId,
    pub(super) out_ty: Type,
}

impl KernelPiece {
    /// The buffer argument numbers that are written.
    pub(super) fn stored(&self) -> impl Iterator<Item = u16> + '_ {
        self.spec.stores.iter().map(|s| s.buffer)
    }

    /// Every load: its buffer argument and where it reads.
    pub(super) fn loads(&self) -> impl Iterator<Item = (u16, &Access)> {
        self.spec.nodes.iter().filter_map(|n| match &n.expr {
            Expr::Load { buffer, access } => Some((*buffer, access)),
            Expr::Scalar(_)
            | Expr::Index(_)
            | Expr::Unary(..)
            | Expr::Binary(..)
            | Expr::Select(..)
            | Expr::Cast(_) => None,
        })
    }

    pub(super) fn buffer(&self, argument: u16) -> BufferId {
        self.buffers[usize::from(argument)]
    }

    /// Number of parallel loops; they come first.
    pub(super) fn n_parallel(&self) -> usize {
        self.spec.loops.iter().filter(|l| !l.reduce).count()
    }
}

impl Piece {
    pub(super) fn writes(&self) -> SmallVec<[BufferId; 2]> {
        match self {
            Piece::Kernel(k) => k.stored().map(|b| k.buffer(b)).collect(),
            Piece::MatMul(m) => SmallVec::from_slice(&[m.out]),
            Piece::Fold(f) => SmallVec::from_slice(&[f.out]),
            Piece::Routine(r) => SmallVec::from_slice(&[r.out]),
        }
    }

    pub(super) fn reads(&self) -> SmallVec<[BufferId; 4]> {
        match self {
            Piece::Kernel(k) => k.loads().map(|(b, _)| k.buffer(b)).collect(),
            Piece::MatMul(m) => SmallVec::from_slice(&[m.lhs.buffer, m.rhs.buffer]),
            Piece::Fold(f) => SmallVec::from_slice(&[f.from]),
            Piece::Routine(r) => r.inputs.iter().map(|(b, _)| *b).collect(),
        }
    }

    /// Whether it may find its data unfit: such a step comes before anything is overwritten.
    pub(super) fn can_fail(&self) -> bool {
        let Piece::Routine(r) = self else { return false };
        matches!(r.op, Op::Gather(_) | Op::IndexSelect(_) | Op::ScatterAdd(_) | Op::IndexAdd(_))
    }
}
