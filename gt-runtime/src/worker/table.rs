//! The values one session holds on a worker.
//!
//! Looked up for every value that crosses the boundary of a launch, so by a hash of the number
//! alone. The order of the table decides nothing: it is summed and dropped, no more.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use gt_compiler::engine::Value;
use gt_ir::ValueId;
use gt_ir::backend::{RunError, WorkerStats};
use gt_ir::verify::IdHash;

/// A value, or why there is none.
pub(super) enum Slot {
    Ready(Value),
    Failed(Arc<RunError>),
}

/// What one session holds, and what it has run.
#[derive(Default)]
pub(super) struct Table {
    /// Whose it is, as others are told.
    pub(super) client: Option<Arc<str>>,
    values: HashMap<u64, Slot, IdHash>,
    pub(super) instructions: u64,
    pub(super) interpreted: u64,
    pub(super) segments: u64,
    pub(super) launches: u64,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

impl Table {
    pub(super) fn get(&self, value: ValueId) -> Option<&Slot> {
        self.values.get(&value.0)
    }

    pub(super) fn insert(&mut self, value: ValueId, slot: Slot) {
        self.values.insert(value.0, slot);
    }

    pub(super) fn remove(&mut self, value: ValueId) -> Option<Slot> {
        self.values.remove(&value.0)
    }

    /// Puts the values of a launch's boundary into `given`, in order; false when one is missing or
    /// failed.
    pub(super) fn lend(&self, values: &[ValueId], given: &mut Vec<Value>) -> bool {
        given.clear();
        given.extend(values.iter().map_while(|&value| match self.get(value) {
            Some(Slot::Ready(held)) => Some(held.clone()),
            Some(Slot::Failed(_)) | None => None,
        }));
        given.len() == values.len()
    }

    /// Counts a segment that ran as a plan.
    pub(super) fn ran_plan(&mut self, instructions: u64, bytes_in: u64) {
        self.ran_at_once(instructions, bytes_in);
        self.launches += 1;
    }

    /// Counts a segment that ran as a program made for it.
    pub(super) fn ran_at_once(&mut self, instructions: u64, bytes_in: u64) {
        self.instructions += instructions;
        self.segments += 1;
        self.bytes_in += bytes_in;
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Bytes of the values alive, and their number; memory that several share counts once.
    pub(super) fn live(&self) -> (u64, u64) {
        let mut seen = HashSet::with_capacity(self.values.len());
        let ready = self.values.values().filter_map(|slot| match slot {
            Slot::Ready(value) => Some(value),
            Slot::Failed(_) => None,
        });
        ready.fold((0, 0), |(bytes, n), value| {
            let first = value.bytes() > 0 && seen.insert(value.address());
            (bytes + if first { value.bytes() as u64 } else { 0 }, n + 1)
        })
    }

    pub(super) fn stats(&self) -> WorkerStats {
        let (live_bytes, live_values) = self.live();
        WorkerStats {
            instructions: self.instructions,
            interpreted: self.interpreted,
            segments: self.segments,
            launches: self.launches,
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
            live_bytes,
            live_values,
            ..WorkerStats::default()
        }
    }
}
