//! Attention that a library computes: the pieces of work for calls that stand in a graph of
//! primitives.
//!
//! A forward call gives its result and, for each row, the logarithm of the sum of its exponentials,
//! which is all that a backward call needs of it. Calls for the gradients of the three operands are
//! one piece; so are equal calls. Where a gradient stands without its forward call, that is made
//! too. Which calls a graph may hold is the engine's to say.

use std::collections::BTreeMap;

use gt_ir::{
    DType, NodeId, NodeKind, Op,
    attr::{Attention as Kind, AttentionGrad, Perm},
};

use super::{
    piece::{Matrix, Piece},
    plan::{BufferId, ScalarArg},
    schedule::{Scheduler, Strides},
};
use crate::engine::EngineError;

/// Rows of sums are this many or a multiple of them.
const SUMS: usize = 32;

/// The strides of `[batch, heads, rows, width]` where a row of all heads lies together, as a
/// projection makes and takes it: so are results.
pub(crate) const fn strides(heads: usize, rows: usize, width: usize) -> [i64; 4] {
    [(rows * heads * width) as i64, width as i64, (heads * width) as i64, 1]
}

/// `softmax(query key^T * scale) value` over `[batch, heads, length, width]`, or its gradient.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "torch"), expect(dead_code, reason = "only devices ask for it"))]
pub(crate) struct Attention {
    pub(crate) dtype: DType,
    /// Whether no query sees a later position.
    pub(crate) causal: bool,
    pub(crate) batch: usize,
    pub(crate) heads: usize,
    /// Queries.
    pub(crate) length: usize,
    /// Keys and values.
    pub(crate) positions: usize,
    pub(crate) width: usize,
    pub(crate) scale: ScalarArg,
    pub(crate) query: Matrix,
    pub(crate) key: Matrix,
    pub(crate) value: Matrix,
    /// The result; as the gradients it lies as [`strides`] says.
    pub(crate) out: BufferId,
    /// What the backward call needs of the forward one: [`Attention::sums_bytes`].
    pub(crate) sums: BufferId,
    /// Of a backward call; it reads the result and the sums.
    pub(crate) back: Option<Back>,
}

/// A gradient of the result, and where those of query, key and value go.
#[derive(Clone, Debug)]
pub(crate) struct Back {
    pub(crate) grad: Matrix,
    pub(crate) grads: [BufferId; 3],
}

impl Attention {
    /// Bytes of the logarithms of sums, in `f32`: `[batch, heads, length]`, the last one rounded up
    /// for libraries that want it so.
    pub(crate) const fn sums_bytes(&self) -> usize {
        4 * self.batch * self.heads * self.length.next_multiple_of(SUMS)
    }

    pub(crate) fn reads(&self) -> impl Iterator<Item = BufferId> {
        let back = self.back.as_ref().map(|back| [back.grad.buffer, self.out, self.sums]);
        let operands = [&self.query, &self.key, &self.value].map(|matrix| matrix.buffer);
        operands.into_iter().chain(back.into_iter().flatten())
    }

    pub(crate) fn writes(&self) -> impl Iterator<Item = BufferId> {
        let (forward, back) = match &self.back {
            None => (Some([self.out, self.sums]), None),
            Some(back) => (None, Some(back.grads)),
        };
        forward.into_iter().flatten().chain(back.into_iter().flatten())
    }
}

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
