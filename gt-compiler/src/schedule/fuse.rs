//! The second phase of scheduling: each kernel from the graph and what is materialized by then.
//!
//! A value's computation is pulled, through pointwise ops and views, down to materialized values
//! and scalars. A node reached twice by the same index map is computed once. Nothing is
//! materialized here: a value that a kernel needs in memory and does not find there is an error of
//! the first phase. Recursion is bounded by the size limits of the cost model.

use std::collections::HashMap;

use gt_ir::{DType, Graph, NodeId, NodeKind};
use smallvec::SmallVec;

use super::{
    index::{self, Map},
    materialize::{Materialized, Reach, Time},
    piece::{BufferId, Fold, KernelPiece, Piece, ScalarArg, scalar_bits},
    work::Kernel,
};
use crate::{
    action::Action,
    error::EngineError,
    kernel::{Binary, Cut, Expr, ExprId, KernelSpec, Node, Store, Unary, accumulated},
};

/// The pieces of a kernel: the kernel, and of a long reduction the fold of its partial results.
/// Also the nodes that the kernel computes on its way.
pub(super) fn pieces(
    values: &Materialized<'_>,
    time: Time,
    kernel: &Kernel,
    out: BufferId,
    partials: Option<(Cut, BufferId)>,
) -> Result<(SmallVec<[Piece; 2]>, Vec<NodeId>), EngineError> {
    let mut fuse = Fuse::new(values, time, kernel);
    let value = fuse.value(kernel)?;
    let computed = std::mem::take(&mut fuse.computed);
    let dtype = kernel.dtype;
    let (to, stored) = match partials {
        Some((_, buffer)) => (buffer, accumulated(dtype)),
        None => (out, dtype),
    };
    let piece = fuse.finish(kernel, value, to, stored, partials.map(|(cut, _)| cut));
    let fold = partials.zip(kernel.fold).map(|((cut, from), (op, _))| Fold {
        op,
        from,
        dtype: stored,
        out_dtype: dtype,
        n_chunks: cut.n_chunks,
        len: kernel.len(),
        out,
    });
    let pieces = [Piece::Kernel(Box::new(piece))].into_iter().chain(fold.map(Piece::Fold));
    Ok((pieces.collect(), computed))
}

/// A scalar node as an argument.
pub(super) fn scalar(graph: &Graph, id: NodeId) -> Result<ScalarArg, EngineError> {
    let node = graph.node(id);
    match node.kind {
        NodeKind::Scalar(k) => Ok(ScalarArg::Slot(k, node.ty.dtype)),
        NodeKind::Const(s) => Ok(ScalarArg::Bits(scalar_bits(s, node.ty.dtype))),
        NodeKind::Input(_) | NodeKind::Op(_) => {
            Err(EngineError::Codegen("a literal operand is computed".into()))
        }
    }
}

pub(super) fn absent() -> EngineError {
    EngineError::Codegen("a value that a kernel loads was not materialized".into())
}

/// A kernel as it grows.
struct Fuse<'m, 'g> {
    values: &'m Materialized<'g>,
    time: Time,
    spec: KernelSpec,
    buffers: SmallVec<[BufferId; 4]>,
    scalars: SmallVec<[ScalarArg; 2]>,
    /// Scalar node of each slot.
    slots: Vec<NodeId>,
    /// Equal expressions are one node.
    known: HashMap<Node, ExprId>,
    pulled: HashMap<(NodeId, Map), ExprId>,
    /// The nodes that were computed, in order.
    computed: Vec<NodeId>,
}

impl<'m, 'g> Fuse<'m, 'g> {
    fn new(values: &'m Materialized<'g>, time: Time, kernel: &Kernel) -> Self {
        Fuse {
            values,
            time,
            spec: KernelSpec { loops: kernel.loops.clone(), ..KernelSpec::default() },
            buffers: SmallVec::new(),
            scalars: SmallVec::new(),
            slots: Vec::new(),
            known: HashMap::new(),
            pulled: HashMap::new(),
            computed: Vec::new(),
        }
    }

    /// What the kernel stores or folds.
    fn value(&mut self, kernel: &Kernel) -> Result<ExprId, EngineError> {
        let mut product = None;
        for (id, along) in &kernel.values {
            let value = self.pull(*id, index::along(along, kernel.loops.len()))?;
            product = Some(match product {
                Some(before) => self.node(Expr::Binary(Binary::Mul, before, value), kernel.dtype),
                None => value,
            });
        }
        product.ok_or_else(absent)
    }

    fn pull(&mut self, id: NodeId, map: Map) -> Result<ExprId, EngineError> {
        if let Some(&known) = self.pulled.get(&(id, map.clone())) {
            return Ok(known);
        }
        let expr = match self.values.reach(id, &map, &self.spec.loops, self.time) {
            Reach::Load => self.load(id, &map)?,
            Reach::Scalar => self.scalar(id)?,
            Reach::View(from, next) => self.pull(from, next)?,
            Reach::Compute(action) => self.compute(id, action, &map)?,
        };
        self.pulled.insert((id, map), expr);
        Ok(expr)
    }

    fn compute(&mut self, id: NodeId, action: Action, map: &Map) -> Result<ExprId, EngineError> {
        let ty = self.values.ty(id);
        let operands = self.values.graph.operands(id);
        self.computed.push(id);
        let expr = match action {
            Action::Unary(unary) => {
                Expr::Unary(unary, self.operand(unary == Unary::LogicalNot, operands[0], map)?)
            }
            Action::Binary(binary) => {
                let logical =
                    matches!(binary, Binary::LogicalAnd | Binary::LogicalOr | Binary::LogicalXor);
                Expr::Binary(
                    binary,
                    self.operand(logical, operands[0], map)?,
                    self.operand(logical, operands[1], map)?,
                )
            }
            Action::Where => {
                let condition = self.operand(true, operands[0], map)?;
                Expr::Select(
                    condition,
                    self.pull(operands[1], map.clone())?,
                    self.pull(operands[2], map.clone())?,
                )
            }
            Action::Cast => Expr::Cast(self.pull(operands[0], map.clone())?),
            Action::Iota => {
                let position = Expr::Index(index::linear(map, &ty.shape, self.spec.loops.len()));
                if matches!(ty.dtype, DType::I64 | DType::I32) {
                    return Ok(self.node(position, ty.dtype));
                }
                Expr::Cast(self.node(position, DType::I64))
            }
            Action::View
            | Action::Reshape
            | Action::Reduce(..)
            | Action::MatMul
            | Action::Cat(_)
            | Action::Pad
            | Action::Routine
            | Action::Call => return self.load(id, map),
        };
        Ok(self.node(expr, ty.dtype))
    }

    /// An operand, as a `bool` if `logical`.
    fn operand(&mut self, logical: bool, id: NodeId, map: &Map) -> Result<ExprId, EngineError> {
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

    fn load(&mut self, id: NodeId, map: &Map) -> Result<ExprId, EngineError> {
        let (buffer, strides) = self.values.held(id, self.time).ok_or_else(absent)?;
        let access = index::strided(map, &strides, self.spec.loops.len());
        let dtype = self.values.ty(id).dtype;
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
        let dtype = self.values.ty(id).dtype;
        let slot = match self.slots.iter().position(|s| *s == id) {
            Some(slot) => slot,
            None => {
                self.scalars.push(scalar(self.values.graph, id)?);
                self.spec.scalars.push(dtype);
                self.slots.push(id);
                self.slots.len() - 1
            }
        };
        Ok(self.node(Expr::Scalar(slot as u16), dtype))
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

    /// Ends the kernel: `value`, combined if the kernel folds, goes to `to`, whose elements are of
    /// dtype `stored`.
    fn finish(
        mut self,
        kernel: &Kernel,
        value: ExprId,
        to: BufferId,
        stored: DType,
        cut: Option<Cut>,
    ) -> KernelPiece {
        let folds_integers = kernel.fold.is_some() && !kernel.dtype.is_float();
        let value = if folds_integers { self.cast(value, kernel.dtype) } else { value };
        if let Some((_, order)) = kernel.fold {
            self.spec.fold_order = order;
        }
        let buffer = self.buffers.len() as u16;
        self.spec.buffers.push(stored);
        self.buffers.push(to);
        let (access, fold) = (kernel.to.clone(), kernel.fold.map(|(op, _)| op));
        self.spec.stores.push(Store { buffer, access, value, fold });
        let mut piece = KernelPiece {
            spec: self.spec,
            buffers: self.buffers,
            scalars: self.scalars,
            cut,
            apart: kernel.apart,
        };
        piece.merge_loops();
        piece
    }
}
