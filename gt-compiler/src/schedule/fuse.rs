//! Builds one kernel: pulls a node's computation, through pointwise ops and views, down to
//! materialized values and scalars.
//!
//! A node reached twice by the same index map is computed once. A view that is not affine in the
//! kernel's loops is cut: what it looks at is materialized first. Recursion is bounded by the size
//! limits of `schedule`.

use std::collections::HashMap;

use gt_ir::{DType, NodeId, NodeKind};
use smallvec::SmallVec;

use super::{
    Scheduler,
    index::{self, Map},
    piece::{BufferId, Fold, KernelPiece, Piece, ScalarArg},
};
use crate::{
    action::{Action, action},
    error::EngineError,
    kernel::{Access, Binary, Expr, ExprId, FoldOrder, KernelSpec, Loop, Node, Store, Unary, cut},
};

pub(super) struct Fuse<'s, 'g> {
    scheduler: &'s mut Scheduler<'g>,
    spec: KernelSpec,
    buffers: SmallVec<[BufferId; 4]>,
    scalars: SmallVec<[ScalarArg; 2]>,
    /// Scalar node of each slot.
    slots: Vec<NodeId>,
    /// Equal expressions are one node.
    known: HashMap<Node, ExprId>,
    pulled: HashMap<(NodeId, Map), ExprId>,
    /// The node this kernel is for, which is computed even when it is to be materialized.
    root: NodeId,
}

impl<'s, 'g> Fuse<'s, 'g> {
    pub(super) fn new(
        scheduler: &'s mut Scheduler<'g>,
        loops: SmallVec<[Loop; 8]>,
        root: NodeId,
    ) -> Self {
        Fuse {
            scheduler,
            spec: KernelSpec { loops, ..KernelSpec::default() },
            buffers: SmallVec::new(),
            scalars: SmallVec::new(),
            slots: Vec::new(),
            known: HashMap::new(),
            pulled: HashMap::new(),
            root,
        }
    }

    /// The node's element where its dimension `d` is at the index of loop `loops[d]`.
    pub(super) fn pull_along(
        &mut self,
        id: NodeId,
        loops: &[usize],
    ) -> Result<ExprId, EngineError> {
        let map = index::along(loops, self.spec.loops.len());
        self.pull(id, map)
    }

    /// A node as an access to a materialized buffer: through its views where they are affine, else
    /// by materializing them.
    pub(super) fn view(
        &mut self,
        id: NodeId,
        loops: &[usize],
    ) -> Result<(BufferId, Access), EngineError> {
        let (mut at, mut map) = (id, index::along(loops, self.spec.loops.len()));
        while self.scheduler.place[at.index()].is_none() {
            let NodeKind::Op(op) = self.scheduler.graph.node(at).kind else { break };
            if !matches!(action(&op), Action::View | Action::Reshape) {
                break;
            }
            let from = self.scheduler.graph.operands(at)[0];
            let shapes = (self.scheduler.ty(from).shape, self.scheduler.ty(at).shape);
            let Some(next) = index::through(&op, &map, &shapes.0, &shapes.1, &self.spec.loops)
            else {
                break;
            };
            (at, map) = (from, next);
        }
        let (buffer, strides) = self.scheduler.held(at)?;
        Ok((buffer, index::strided(&map, &strides, self.spec.loops.len())))
    }

    fn pull(&mut self, id: NodeId, map: Map) -> Result<ExprId, EngineError> {
        if let Some(&known) = self.pulled.get(&(id, map.clone())) {
            return Ok(known);
        }
        let expr = self.pull_new(id, &map)?;
        self.pulled.insert((id, map), expr);
        Ok(expr)
    }

    fn pull_new(&mut self, id: NodeId, map: &Map) -> Result<ExprId, EngineError> {
        let dtype = self.scheduler.ty(id).dtype;
        let is_stored = self.scheduler.place[id.index()].is_some()
            || self.scheduler.roots[id.index()] && id != self.root;
        if is_stored {
            return self.load(id, map);
        }
        let NodeKind::Op(op) = self.scheduler.graph.node(id).kind else { return self.scalar(id) };
        let operands = self.scheduler.graph.operands(id);
        let expr = match action(&op) {
            Action::Unary(unary) => {
                Expr::Unary(unary, self.logical(unary == Unary::Not, operands[0], map)?)
            }
            Action::Binary(binary) => {
                let logical = matches!(binary, Binary::And | Binary::Or | Binary::Xor);
                Expr::Binary(
                    binary,
                    self.logical(logical, operands[0], map)?,
                    self.logical(logical, operands[1], map)?,
                )
            }
            Action::Where => {
                let condition = self.logical(true, operands[0], map)?;
                Expr::Select(
                    condition,
                    self.pull(operands[1], map.clone())?,
                    self.pull(operands[2], map.clone())?,
                )
            }
            Action::Cast => Expr::Cast(self.pull(operands[0], map.clone())?),
            Action::Iota => {
                let shape = self.scheduler.ty(id).shape;
                let position = Expr::Index(index::linear(map, &shape, self.spec.loops.len()));
                let position = self.node(position, DType::I64);
                if dtype == DType::I64 {
                    return Ok(position);
                }
                Expr::Cast(position)
            }
            Action::Call => return self.load(id, map),
            Action::View | Action::Reshape => return self.pull_view(id, operands[0], map),
            Action::Reduce(..)
            | Action::MatMul
            | Action::Cat(_)
            | Action::Pad(_)
            | Action::Routine => {
                return self.load(id, map);
            }
        };
        Ok(self.node(expr, dtype))
    }

    /// An operand, as a `bool` if `logical`.
    fn logical(&mut self, logical: bool, id: NodeId, map: &Map) -> Result<ExprId, EngineError> {
        let value = self.pull(id, map.clone())?;
        Ok(if logical { self.cast(value, DType::Bool) } else { value })
    }

    fn cast(&mut self, value: ExprId, dtype: DType) -> ExprId {
        if self.spec.node(value).dtype == dtype {
            value
        } else {
            self.node(Expr::Cast(value), dtype)
        }
    }

    fn pull_view(&mut self, id: NodeId, from: NodeId, map: &Map) -> Result<ExprId, EngineError> {
        let NodeKind::Op(op) = self.scheduler.graph.node(id).kind else {
            return self.load(id, map);
        };
        let (from_shape, to_shape) = (self.scheduler.ty(from).shape, self.scheduler.ty(id).shape);
        match index::through(&op, map, &from_shape, &to_shape, &self.spec.loops) {
            Some(next) => self.pull(from, next),
            None => self.load(id, map),
        }
    }

    fn load(&mut self, id: NodeId, map: &Map) -> Result<ExprId, EngineError> {
        let (buffer, strides) = self.scheduler.held(id)?;
        let access = index::strided(map, &strides, self.spec.loops.len());
        let dtype = self.scheduler.ty(id).dtype;
        let buffer = self.argument(buffer, dtype);
        Ok(self.node(Expr::Load { buffer, access }, dtype))
    }

    fn argument(&mut self, buffer: BufferId, dtype: DType) -> u16 {
        let found = self
            .buffers
            .iter()
            .zip(&self.spec.buffers)
            .position(|(b, d)| *b == buffer && *d == dtype);
        let position = found.unwrap_or_else(|| {
            self.buffers.push(buffer);
            self.spec.buffers.push(dtype);
            self.buffers.len() - 1
        });
        position as u16 // a kernel has at most MAX_FUSED loads
    }

    fn scalar(&mut self, id: NodeId) -> Result<ExprId, EngineError> {
        let dtype = self.scheduler.ty(id).dtype;
        let slot = match self.slots.iter().position(|s| *s == id) {
            Some(slot) => slot,
            None => {
                self.scalars.push(self.scheduler.scalar(id)?);
                self.spec.scalars.push(dtype);
                self.slots.push(id);
                self.slots.len() - 1
            }
        };
        Ok(self.node(Expr::Scalar(slot as u16), dtype))
    }

    pub(super) fn product(&mut self, a: ExprId, b: ExprId, dtype: DType) -> ExprId {
        self.node(Expr::Binary(Binary::Mul, a, b), dtype)
    }

    fn node(&mut self, expr: Expr, dtype: DType) -> ExprId {
        let node = Node { expr, dtype };
        if let Some(&id) = self.known.get(&node) {
            return id;
        }
        let id = ExprId(self.spec.nodes.len() as u32);
        self.spec.nodes.push(node.clone());
        self.known.insert(node, id);
        id
    }

    /// Ends the kernel: `value`, combined by `reduce` if there is one, goes to `out`.
    pub(super) fn finish(
        mut self,
        value: ExprId,
        out: BufferId,
        out_dtype: DType,
        to: Access,
        reduce: Option<(Binary, FoldOrder)>,
    ) -> Result<(), EngineError> {
        let value = if reduce.is_some() && !out_dtype.is_float() {
            self.cast(value, out_dtype)
        } else {
            value
        };
        if let Some((_, order)) = reduce {
            self.spec.fold_order = order;
        }
        let fold = reduce.map(|(op, _)| op);
        let buffer = self.buffers.len() as u16;
        self.spec.buffers.push(out_dtype);
        self.buffers.push(out);
        self.spec.stores.push(Store { buffer, access: to, value, fold });
        let cut = fold.and_then(|_| cut(&self.spec.reduced_extents(), self.spec.fold_order));
        let partials = fold.zip(cut).map(|(op, cut)| Fold {
            op,
            from: out,
            dtype: accumulated(out_dtype),
            out_dtype,
            n_chunks: cut.n_chunks,
            len: self.spec.parallel_len(),
            out,
        });
        if let Some(fold) = &partials {
            self.spec.buffers[usize::from(buffer)] = fold.dtype;
            let bytes = fold.n_chunks * fold.len * fold.dtype.size();
            self.buffers[usize::from(buffer)] = self.scheduler.buffer_of(bytes);
        }
        let from = self.buffers[usize::from(buffer)];
        let mut piece =
            KernelPiece { spec: self.spec, buffers: self.buffers, scalars: self.scalars, cut };
        piece.merge_loops();
        self.scheduler.push(Piece::Kernel(Box::new(piece)));
        if let Some(fold) = partials {
            self.scheduler.push(Piece::Fold(Fold { from, ..fold }));
        }
        Ok(())
    }
}

/// The dtype of partial results.
fn accumulated(dtype: DType) -> DType {
    match dtype {
        DType::Bf16 | DType::F16 => DType::F32,
        other => other,
    }
}
