//! Attention that a library computes: the calls that stand in a graph of primitives.
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

use super::{Materialized, Strides, Task};
use crate::{
    error::EngineError,
    schedule::piece::{BufferId, strides, sums_bytes},
};

/// The calls of a graph, by what they are called with.
#[derive(Default)]
pub(super) struct Attentions {
    results: BTreeMap<NodeId, (BufferId, Strides)>,
    forward: BTreeMap<Operands, Call>,
    backward: BTreeMap<(NodeId, Operands), [BufferId; 3]>,
}

/// What a forward call is called with: query, key, value and scale.
pub(in crate::schedule) type Operands = (Kind, [NodeId; 4]);

/// A call to be made.
#[derive(Clone, Copy)]
pub(in crate::schedule) struct Call {
    pub(in crate::schedule) operands: Operands,
    pub(in crate::schedule) out: BufferId,
    pub(in crate::schedule) sums: BufferId,
    /// Of a backward call: the gradient of the result, and where those of query, key and value go.
    pub(in crate::schedule) back: Option<(NodeId, [BufferId; 3])>,
}

impl Attentions {
    /// Where the result of a node that is a call is.
    pub(super) fn result(&self, id: NodeId) -> Option<(BufferId, Strides)> {
        self.results.get(&id).cloned()
    }
}

impl Materialized<'_> {
    /// Has the result of a node that is a call in memory.
    pub(super) fn call(&mut self, id: NodeId) -> Result<(), EngineError> {
        let NodeKind::Op(op) = self.graph.node(id).kind else { return Ok(()) };
        if self.attentions.results.contains_key(&id) {
            return Ok(());
        }
        let buffer = match (op, &self.graph.operands(id)[..]) {
            (Op::ScaledDotProductAttention(kind), &[q, k, v, scale]) => {
                self.forward((kind, [q, k, v, scale]))?.out
            }
            (
                Op::ScaledDotProductAttentionGrad(AttentionGrad { kind, of }),
                &[grad, q, k, v, scale],
            ) => self.backward(grad, (kind, [q, k, v, scale]))?[of as usize],
            _ => {
                let why = format!("{op} is neither a primitive nor a call");
                return Err(EngineError::Codegen(why));
            }
        };
        let [_, heads, rows, width] = self.sizes_of(id)?;
        // As it lies it is what a projection takes: contiguous.
        let turned = Perm::swap(4, 1, 2).map(|perm| NodeKind::Op(Op::Permute(perm)));
        for user in self.graph.users(id) {
            if Some(self.graph.node(user).kind) == turned {
                self.placed(user, buffer);
            }
        }
        let strides = strides(heads, rows, width).into_iter().collect();
        self.attentions.results.insert(id, (buffer, strides));
        Ok(())
    }

    /// The sizes of a value that has four dimensions.
    pub(in crate::schedule) fn sizes_of(&self, id: NodeId) -> Result<[usize; 4], EngineError> {
        let ty = self.ty(id);
        let four = ty.shape.sizes().try_into();
        four.map_err(|_| EngineError::Codegen(format!("attention of {ty}")))
    }

    fn forward(&mut self, operands: Operands) -> Result<Call, EngineError> {
        if let Some(known) = self.attentions.forward.get(&operands) {
            return Ok(*known);
        }
        let (_, [q, k, v, _]) = operands;
        let [batch, heads, length, _] = self.sizes_of(q)?;
        [q, k, v].into_iter().try_for_each(|id| self.hold_base(id))?;
        let out = self.buffer(self.ty(q).bytes());
        let sums = self.buffer(sums_bytes(batch, heads, length));
        let call = Call { operands, out, sums, back: None };
        self.tasks.push(Task::Attention(call));
        self.attentions.forward.insert(operands, call);
        Ok(call)
    }

    fn backward(&mut self, grad: NodeId, call: Operands) -> Result<[BufferId; 3], EngineError> {
        if let Some(known) = self.attentions.backward.get(&(grad, call)) {
            return Ok(*known);
        }
        let forward = self.forward(call)?;
        let (_, [q, k, v, _]) = call;
        let grads = [q, k, v].map(|id| self.buffer(self.ty(id).bytes()));
        self.hold_base(grad)?;
        self.tasks.push(Task::Attention(Call { back: Some((grad, grads)), ..forward }));
        self.attentions.backward.insert((grad, call), grads);
        Ok(grads)
    }
}
