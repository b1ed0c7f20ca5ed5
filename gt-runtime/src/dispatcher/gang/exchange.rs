//! Values on their way from one member of a gang to another. Where the members do not reach each
//! other, the dispatcher reads the value on one member and uploads it to the other, piece by piece.
//! An error travels in place of a value, always through the dispatcher.

use std::collections::BTreeMap;
use std::sync::Arc;

use gt_ir::backend::{ErrorKind, RunError};
use gt_ir::tape::ValueId;

use super::Gang;
use crate::ids::RequestId;
use crate::wire::{Chunk, Order};

/// A value on its way.
#[derive(Clone, Debug)]
pub(super) struct Transfer {
    /// The member that has the value.
    from: usize,
    /// The member that receives it.
    to: usize,
    /// Its name on the member that has it.
    value: ValueId,
    /// Its name on the member that receives it.
    received: ValueId,
    /// The bytes that the dispatcher has passed on.
    sent: u64,
}

/// Values on their way, by the request that reads them.
pub(super) type Transfers = BTreeMap<RequestId, Transfer>;

impl Transfer {
    pub(super) fn new(from: usize, to: usize, value: ValueId, received: ValueId) -> Transfer {
        Transfer { from, to, value, received, sent: 0 }
    }

    /// The members that have and receive the value.
    pub(super) fn ends(&self) -> (usize, usize) {
        (self.from, self.to)
    }

    /// Its name on the member that has it.
    pub(super) fn value(&self) -> ValueId {
        self.value
    }

    /// Its name on the member that receives it.
    pub(super) fn received(&self) -> ValueId {
        self.received
    }
}

impl Gang {
    /// Passes on a piece of a value; none if the piece belongs to no transfer of this member.
    pub(in crate::dispatcher) fn piece(
        &mut self,
        from: usize,
        request: RequestId,
        mut chunk: Box<Chunk>,
    ) -> Option<(usize, Order)> {
        self.single_out(from, request);
        let transfer = self.transfers.get_mut(&request).filter(|t| t.from == from)?;
        let (to, value) = (transfer.to, transfer.received);
        if chunk.value != transfer.value || chunk.offset != transfer.sent {
            let message = format!("member {from} sent other data than was asked for");
            self.transfers.remove(&request);
            let error = Arc::new(RunError::new(ErrorKind::Internal, message));
            return Some((to, Order::Fail { value, error }));
        }
        transfer.sent += chunk.bytes.len() as u64;
        if chunk.is_last() {
            self.transfers.remove(&request);
        }
        chunk.value = value;
        Some((to, Order::Chunk(chunk)))
    }

    /// Notes that a value has arrived without the dispatcher.
    pub(in crate::dispatcher) fn arrived(&mut self, from: usize, request: RequestId, bytes: u64) {
        self.single_out(from, request);
        if self.transfers.get(&request).is_some_and(|transfer| transfer.from == from)
            && let Some(transfer) = self.transfers.remove(&request)
        {
            self.roads.count((from, transfer.to), bytes);
        }
    }

    /// Passes on the error of a value; none if the request is no transfer of this member.
    pub(in crate::dispatcher) fn failure(
        &mut self,
        from: usize,
        request: RequestId,
        error: Arc<RunError>,
    ) -> Option<(usize, Order)> {
        self.single_out(from, request);
        self.transfers.get(&request).filter(|transfer| transfer.from == from)?;
        let transfer = self.transfers.remove(&request)?;
        Some((transfer.to, Order::Fail { value: transfer.received, error }))
    }
}
