//! From a graph of primitives to pieces of work, for every engine that runs plans.
//!
//! A node is either materialized (it has a buffer) or computed inside the kernels that use it.
//! Inputs, outputs, results of reductions, products and routines, and what those need as operands
//! are materialized; so are values used by several kernels when computing them again would cost
//! more than reading them. Everything else fuses (`fuse`, by the index maps of `index`). `group`
//! says which pieces can run together row by row, and `draft` what they are then. Everything here
//! depends on the graph alone: not on threads, caches or the device.

mod attention;
mod draft;
mod fuse;
mod group;
mod index;
mod memory;
mod merge;
mod piece;
pub(crate) mod rows;
mod stage;

use gt_ir::{DType, Graph, NodeId, NodeKind, Op, Type, attr};
use smallvec::SmallVec;

#[cfg(feature = "torch")]
pub(crate) use {
    draft::kernels,
    group::together,
    memory::{Found, Made},
    piece::{Attention, strides},
    stage::KernelStage,
};
pub(crate) use {
    draft::{Draft, drafts},
    group::{Group, cuts, group, is_whole, iterations},
    memory::{Buffers, FAR, Home, Homes, Layout, Place, Uses, distance_in},
    piece::{BufferId, Fold, KernelPiece, MatMul, Matrix, Piece, Routine, ScalarArg, scalar},
};

use crate::{
    action::{Action, action},
    cost::{self, Dag},
    error::EngineError,
    kernel::{Access, Binary, FoldOrder, Loop, reduction},
};
use attention::Calls;
use fuse::Fuse;
use piece::scalar_bits;

/// The pieces of a graph, and the buffers they work on.
pub(crate) struct Schedule {
    pub(crate) pieces: Vec<Piece>,
    /// Bytes of each buffer; those of the inputs come first.
    pub(crate) sizes: Vec<usize>,
    pub(crate) outputs: SmallVec<[(BufferId, Type); 1]>,
}

/// Strides of a node's dimensions in its buffer.
pub(super) type Strides = SmallVec<[i64; 8]>;

/// Schedules a graph of primitives.
pub(crate) fn schedule(graph: &Graph) -> Result<Schedule, EngineError> {
    let mut s = Scheduler {
        graph,
        pieces: Vec::new(),
        sizes: Vec::new(),
        place: vec![None; graph.len()],
        roots: cost::materialized(&Dag::of(graph)),
        calls: Calls::default(),
    };
    for &id in graph.inputs() {
        let ty = graph.node(id).ty;
        s.place[id.index()] = Some(s.buffer(&ty));
    }
    for id in graph.ids().filter(|id| s.roots[id.index()]).collect::<Vec<_>>() {
        s.held(id)?;
    }
    let outputs = graph.outputs().iter();
    let outputs = outputs.map(|&id| Ok((s.materialize(id)?, graph.node(id).ty)));
    let outputs = outputs.collect::<Result<_, EngineError>>()?;
    Ok(Schedule { pieces: s.pieces, sizes: s.sizes, outputs })
}

struct Scheduler<'g> {
    pub(super) graph: &'g Graph,
    pieces: Vec<Piece>,
    sizes: Vec<usize>,
    /// The buffer of each materialized node.
    pub(super) place: Vec<Option<BufferId>>,
    pub(super) roots: Vec<bool>,
    pub(super) calls: Calls,
}

impl Scheduler<'_> {
    pub(super) fn ty(&self, id: NodeId) -> Type {
        self.graph.node(id).ty
    }

    fn buffer(&mut self, ty: &Type) -> BufferId {
        self.buffer_of(ty.bytes())
    }

    pub(super) fn buffer_of(&mut self, bytes: usize) -> BufferId {
        self.sizes.push(bytes);
        BufferId(self.sizes.len() as u32 - 1)
    }

    pub(super) fn push(&mut self, piece: Piece) {
        self.pieces.push(piece);
    }

    /// Where a node's elements are, and the strides of its dimensions: those it has when it is
    /// contiguous, but for the results of calls.
    pub(super) fn held(&mut self, id: NodeId) -> Result<(BufferId, Strides), EngineError> {
        if let NodeKind::Op(op) = self.graph.node(id).kind
            && matches!(action(&op), Action::Call)
        {
            return self.call(&op, id);
        }
        let shape = self.ty(id).shape;
        let strides = shape.strides().into_iter().take(shape.rank()).map(|s| s as i64);
        Ok((self.materialize(id)?, strides.collect()))
    }

    /// The buffer of a node that is contiguous, computed now if it was not before.
    pub(super) fn materialize(&mut self, id: NodeId) -> Result<BufferId, EngineError> {
        if let Some(buffer) = self.place[id.index()] {
            return Ok(buffer);
        }
        let (kind, ty) = (self.graph.node(id).kind, self.ty(id));
        let NodeKind::Op(op) = kind else {
            let buffer = self.buffer(&ty);
            self.pointwise_kernel(id, buffer)?;
            return Ok(self.placed(id, buffer));
        };
        let operands = self.graph.operands(id);
        if let Action::Reshape = action(&op) {
            let buffer = self.materialize(operands[0])?;
            return Ok(self.placed(id, buffer));
        }
        let buffer = self.buffer(&ty);
        match action(&op) {
            Action::Reduce(combine, reduce) => {
                self.reduce_kernel(combine, &reduce, operands[0], buffer, &ty)?
            }
            Action::MatMul => self.matmul(operands[0], operands[1], buffer, &ty)?,
            Action::Cat(axis) => self.cat(usize::from(axis.0), &operands, buffer, &ty)?,
            Action::Pad(pad) => self.pad(&pad, operands[0], operands[1], buffer, &ty)?,
            Action::Routine => self.routine(op, &operands, buffer, ty)?,
            Action::Unary(_)
            | Action::Binary(_)
            | Action::Where
            | Action::Cast
            | Action::View
            | Action::Iota
            | Action::Reshape
            | Action::Call => self.pointwise_kernel(id, buffer)?,
        }
        Ok(self.placed(id, buffer))
    }

    fn placed(&mut self, id: NodeId, buffer: BufferId) -> BufferId {
        self.place[id.index()] = Some(buffer);
        buffer
    }

    /// A kernel that computes a node at every position and stores it contiguously.
    fn pointwise_kernel(&mut self, id: NodeId, out: BufferId) -> Result<(), EngineError> {
        let ty = self.ty(id);
        let contiguous =
            access(0, ty.shape.strides().iter().take(ty.shape.rank()).map(|&s| s as i64));
        self.store_kernel(id, out, contiguous)
    }

    /// A kernel that stores a node's elements by an access over its dimensions.
    fn store_kernel(&mut self, id: NodeId, out: BufferId, to: Access) -> Result<(), EngineError> {
        let ty = self.ty(id);
        if ty.shape.numel() == 0 {
            return Ok(());
        }
        let loops = ty.shape.sizes().iter().map(|&extent| Loop::parallel(extent)).collect();
        let mut fuse = Fuse::new(self, loops, id);
        let all: SmallVec<[usize; 8]> = (0..ty.shape.rank()).collect();
        let value = fuse.pull_along(id, &all)?;
        fuse.finish(value, out, ty.dtype, to, None)
    }

    fn reduce_kernel(
        &mut self,
        op: Binary,
        reduce: &attr::Reduce,
        x: NodeId,
        out: BufferId,
        out_ty: &Type,
    ) -> Result<(), EngineError> {
        if out_ty.shape.numel() == 0 {
            return Ok(());
        }
        let shape = self.ty(x).shape;
        let (order, loops, fold_order) = reduction(shape.sizes(), |d| reduce.axes.contains(d));
        // Dimension d walks along the loop that stands for it.
        let mut loop_of: SmallVec<[usize; 8]> = SmallVec::from_elem(0, shape.rank());
        order.iter().enumerate().for_each(|(l, &d)| loop_of[d] = l);
        let mut strides: SmallVec<[i64; 8]> = SmallVec::from_elem(0, order.len());
        let mut step = 1;
        let n_kept = loops.iter().filter(|l| !l.reduce).count();
        for (l, &d) in order[..n_kept].iter().enumerate().rev() {
            strides[l] = step;
            step *= shape.sizes()[d] as i64;
        }
        let op = (order.len() > n_kept).then_some((op, fold_order));
        let mut fuse = Fuse::new(self, loops, x);
        let value = fuse.pull_along(x, &loop_of)?;
        fuse.finish(value, out, out_ty.dtype, access(0, strides), op)
    }

    fn cat(
        &mut self,
        axis: usize,
        operands: &[NodeId],
        out: BufferId,
        ty: &Type,
    ) -> Result<(), EngineError> {
        let strides = ty.shape.strides();
        let mut start = 0;
        for &operand in operands {
            let to = access(
                start * strides[axis] as i64,
                strides[..ty.shape.rank()].iter().map(|&s| s as i64),
            );
            self.store_kernel(operand, out, to)?;
            start += self.ty(operand).shape.sizes()[axis] as i64;
        }
        Ok(())
    }

    /// The padding everywhere, then the operand over it.
    fn pad(
        &mut self,
        pad: &attr::Pad,
        x: NodeId,
        value: NodeId,
        out: BufferId,
        ty: &Type,
    ) -> Result<(), EngineError> {
        if ty.shape.numel() == 0 {
            return Ok(());
        }
        let axis = usize::from(pad.axis);
        let strides = ty.shape.strides();
        if pad.lo + pad.hi + pad.interior > 0 {
            let mut fuse =
                Fuse::new(self, SmallVec::from_elem(Loop::parallel(ty.shape.numel()), 1), value);
            let filler = fuse.pull_along(value, &[])?;
            fuse.finish(filler, out, ty.dtype, access(0, [1]), None)?;
        }
        let mut to = access(
            pad.lo as i64 * strides[axis] as i64,
            strides[..ty.shape.rank()].iter().map(|&s| s as i64),
        );
        to.strides[axis] *= pad.interior as i64 + 1;
        self.store_kernel(x, out, to)
    }

    fn matmul(
        &mut self,
        a: NodeId,
        b: NodeId,
        out: BufferId,
        ty: &Type,
    ) -> Result<(), EngineError> {
        let rank = ty.shape.rank();
        let sizes = ty.shape.sizes();
        let is_vector = sizes[rank - 2] == 1 || sizes[rank - 1] == 1;
        if is_vector && matches!(ty.dtype, DType::F32 | DType::F64) && ty.shape.numel() > 0 {
            return self.vector_kernel(a, b, out, ty);
        }
        let work = MatMul {
            dtype: ty.dtype,
            batch: sizes[..rank - 2].iter().copied().collect(),
            m: sizes[rank - 2],
            n: sizes[rank - 1],
            k: self.ty(a).shape.sizes()[rank - 1],
            lhs: self.matrix(a)?,
            rhs: self.matrix(b)?,
            out,
            by_library: false,
        };
        self.push(Piece::MatMul(Box::new(work)));
        Ok(())
    }

    /// A product with a vector: memory is what it costs, which a kernel that takes its operands as
    /// they are uses best. Multiplication routines choose their order of adding by strides here, a
    /// fold does not; in the order of rows it is fast along either axis of a matrix.
    fn vector_kernel(
        &mut self,
        a: NodeId,
        b: NodeId,
        out: BufferId,
        ty: &Type,
    ) -> Result<(), EngineError> {
        let rank = ty.shape.rank();
        let k = self.ty(a).shape.sizes()[rank - 1];
        let mut loops: SmallVec<[Loop; 8]> =
            ty.shape.sizes().iter().map(|&extent| Loop::parallel(extent)).collect();
        loops.push(Loop { extent: k, reduce: true, joined: false });
        let mut strides: SmallVec<[i64; 8]> =
            ty.shape.strides().iter().take(rank).map(|&s| s as i64).collect();
        strides.push(0);
        let batch = 0..rank - 2;
        let (row, column): (SmallVec<[usize; 8]>, SmallVec<[usize; 8]>) = (
            batch.clone().chain([rank - 2, rank]).collect(),
            batch.chain([rank, rank - 1]).collect(),
        );
        let mut fuse = Fuse::new(self, loops, a);
        let x = fuse.pull_along(a, &row)?;
        let y = fuse.pull_along(b, &column)?;
        let value = fuse.product(x, y, ty.dtype);
        fuse.finish(value, out, ty.dtype, access(0, strides), Some((Binary::Add, FoldOrder::Rows)))
    }

    /// An operand of a product as strides over what is materialized.
    pub(super) fn matrix(&mut self, id: NodeId) -> Result<Matrix, EngineError> {
        let shape = self.ty(id).shape;
        let loops: SmallVec<[Loop; 8]> =
            shape.sizes().iter().map(|&extent| Loop::parallel(extent)).collect();
        let all: SmallVec<[usize; 8]> = (0..shape.rank()).collect();
        let (buffer, access) = Fuse::new(self, loops, id).view(id, &all)?;
        Ok(Matrix { buffer, access })
    }

    fn routine(
        &mut self,
        op: Op,
        operands: &[NodeId],
        out: BufferId,
        out_ty: Type,
    ) -> Result<(), EngineError> {
        let (mut inputs, mut scalars) = (SmallVec::new(), SmallVec::new());
        let is_literal = |id: &NodeId| {
            matches!(self.graph.node(*id).kind, NodeKind::Scalar(_) | NodeKind::Const(_))
        };
        // Numbers are all literals, or all in memory.
        if operands.iter().all(is_literal) {
            scalars = operands.iter().map(|&id| self.scalar(id)).collect::<Result<_, _>>()?;
        } else {
            for &operand in operands {
                inputs.push((self.materialize(operand)?, self.ty(operand)));
            }
        }
        let routine = Routine { op, inputs, scalars, out, out_ty };
        self.push(Piece::Routine(Box::new(routine)));
        Ok(())
    }

    /// A scalar node as an argument.
    pub(super) fn scalar(&self, id: NodeId) -> Result<ScalarArg, EngineError> {
        let node = self.graph.node(id);
        match node.kind {
            NodeKind::Scalar(k) => Ok(ScalarArg::Slot(k, node.ty.dtype)),
            NodeKind::Const(s) => Ok(ScalarArg::Bits(scalar_bits(s, node.ty.dtype))),
            NodeKind::Input(_) | NodeKind::Op(_) => {
                Err(EngineError::Codegen("a literal operand is computed".into()))
            }
        }
    }
}

pub(super) fn access(offset: i64, strides: impl IntoIterator<Item = i64>) -> Access {
    Access { offset, strides: strides.into_iter().collect() }
}
