//! Attention that a library computes: the pieces of work for calls that stand in a graph of
//! primitives.
//!
//! A forward call gives its result and, for each row, the logarithm of the sum of its exponentials,
//! which is all that a backward call needs of it. Calls for the gradients of the three operands are
//! one piece; so are equal calls. Where a gradient stands without its forward call, that is made
//! too. Which calls a graph may hold is the engine's to say.

use std::collections::BTreeMap;

use gt_ir::{
    NodeId, NodeKind, Op,
    attr::{Attention as Kind, AttentionGrad, Perm},
};

use super::{
    Scheduler, Strides,
    piece::{Attention, Back, BufferId, Piece, strides},
};
use crate::error::EngineError;

/// The calls of a graph that have pieces, by what they are called with.
#[derive(Default)]
pub(super) struct Calls {
    results: BTreeMap<NodeId, (BufferId, Strides)>,
    forward: BTreeMap<Operands, Attention>,
    backward: BTreeMap<(NodeId, Operands), [BufferId; 3]>,
}

/// What a forward call is called with: query, key, value and scale.
type Operands = (Kind, [NodeId; 4]);

impl Scheduler<'_> {
    /// Where the result of a node that is a call is.
    pub(super) fn call(&mut self, op: &Op, id: NodeId) -> Result<(BufferId, Strides), EngineError> {
        if let Some(known) = self.calls.results.get(&id) {
            return Ok(known.clone());
        }
        let buffer = match (*op, &self.graph.operands(id)[..]) {
            (Op::ScaledDotProductAttention(kind), &[q, k, v, scale]) => {
                self.attention((kind, [q, k, v, scale]))?.out
            }
            (
                Op::ScaledDotProductAttentionGrad(AttentionGrad { kind, of }),
                &[grad, q, k, v, scale],
            ) => self.gradients(grad, (kind, [q, k, v, scale]))?[of as usize],
            _ => {
                let why = format!("{op} is neither a primitive nor a call");
                return Err(EngineError::Codegen(why));
            }
        };
        let &[_, heads, rows, width] = self.ty(id).shape.sizes() else {
            return Err(EngineError::Codegen(format!("{op} gives {}", self.ty(id))));
        };
        // As it lies it is what a projection takes: contiguous.
        let turned = Perm::swap(4, 1, 2).map(|perm| NodeKind::Op(Op::Permute(perm)));
        for user in self.graph.users(id) {
            if Some(self.graph.node(user).kind) == turned {
                self.place[user.index()] = Some(buffer);
            }
        }
        let held = (buffer, strides(heads, rows, width).into_iter().collect());
        Ok(self.calls.results.entry(id).or_insert(held).clone())
    }

    fn attention(&mut self, call: Operands) -> Result<Attention, EngineError> {
        if let Some(known) = self.calls.forward.get(&call) {
            return Ok(known.clone());
        }
        let (kind, [q, k, v, scale]) = call;
        let (ty, keys) = (self.ty(q), self.ty(k).shape);
        let &[batch, heads, length, width] = ty.shape.sizes() else {
            return Err(EngineError::Codegen(format!("attention of queries {ty}")));
        };
        let mut work = Attention {
            dtype: ty.dtype,
            causal: kind == Kind::Causal,
            batch,
            heads,
            length,
            positions: keys.sizes()[keys.rank() - 2],
            width,
            scale: self.scalar(scale)?,
            query: self.matrix(q)?,
            key: self.matrix(k)?,
            value: self.matrix(v)?,
            out: self.buffer_of(ty.bytes()),
            sums: BufferId(0),
            back: None,
        };
        work.sums = self.buffer_of(work.sums_bytes());
        self.push(Piece::Attention(Box::new(work.clone())));
        self.calls.forward.insert(call, work.clone());
        Ok(work)
    }

    fn gradients(&mut self, grad: NodeId, call: Operands) -> Result<[BufferId; 3], EngineError> {
        if let Some(known) = self.calls.backward.get(&(grad, call)) {
            return Ok(*known);
        }
        let mut work = self.attention(call)?;
        let (_, [q, k, v, _]) = call;
        let grads = [q, k, v].map(|id| self.buffer_of(self.ty(id).bytes()));
        work.back = Some(Back { grad: self.matrix(grad)?, grads });
        self.push(Piece::Attention(Box::new(work)));
        self.calls.backward.insert((grad, call), grads);
        Ok(grads)
    }
}
