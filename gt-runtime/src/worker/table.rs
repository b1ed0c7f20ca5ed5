//! The values of one session on a worker.
//!
//! Every value at the boundary of a launch is looked up here, so the table hashes the value's
//! number only. The order of the table influences nothing: the table is only summed and dropped. Of
//! values that share memory, a profile names the line of one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use gt_compiler::engine::Value;
use gt_ir::backend::{RunError, WorkerStats};
use gt_ir::canonical::Bindings;
use gt_ir::verify::IdHash;
use gt_ir::{Entry, Loc, Type, ValueId};

use super::definition::Definition;
use super::job::Inputs;
use crate::spans::Origin;

/// A value, or the error in its place.
#[derive(Clone)]
pub(super) enum Outcome {
    Ready(Value),
    Failed(Arc<RunError>),
}

/// A launch whose results the executor watches until the next segment has begun.
pub(super) struct Watched {
    pub(super) defined: Arc<Definition>,
    pub(super) bindings: Arc<Bindings>,
    /// The results that nothing has used or freed yet, with their places among the definitions.
    pub(super) open: Vec<(u32, ValueId)>,
    pub(super) aim: Aim,
}

/// Why results are watched.
pub(super) enum Aim {
    /// To learn which are unused: the places of those that were freed so, and their bytes.
    Learn(Vec<(u32, usize)>),
    /// They were left out. In the table, the value without elements stands for each. The values
    /// that they are computed from.
    Make(Vec<(ValueId, Value)>),
}

/// The segments that a session has put off, in order.
#[derive(Default)]
pub(super) struct Later {
    pub(super) entries: Vec<Entry>,
    pub(super) inputs: Inputs,
    /// Bytes of the inputs.
    pub(super) bytes: usize,
    pub(super) n_segments: u64,
    /// The number of the last segment.
    pub(super) seq: u64,
}

/// The values of one session, and counts of the work it has run.
#[derive(Default)]
pub(super) struct Table {
    /// The client's name, which other clients of its user may see, and the user.
    pub(super) client: Option<(Arc<str>, u64)>,
    /// Whose spans its work is, if somebody collects them.
    pub(super) origin: Option<Arc<Origin>>,
    values: HashMap<u64, Outcome, IdHash>,
    /// The lines that made values, noted while a profile is taken.
    lines: HashMap<u64, Loc, IdHash>,
    /// The last launch, if its results are watched.
    pub(super) watched: Option<Watched>,
    /// The segments that are put off.
    pub(super) later: Later,
    pub(super) instructions: u64,
    pub(super) interpreted: u64,
    pub(super) segments: u64,
    pub(super) launches: u64,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    /// The nanoseconds of the executor that it has used.
    pub(super) nanos: u64,
}

impl Table {
    pub(super) fn get(&self, value: ValueId) -> Option<&Outcome> {
        self.values.get(&value.0)
    }

    /// The type of a value that is here and did not fail.
    pub(super) fn ty(&self, value: ValueId) -> Option<Type> {
        match self.get(value) {
            Some(Outcome::Ready(held)) => Some(held.ty),
            Some(Outcome::Failed(_)) | None => None,
        }
    }

    pub(super) fn insert(&mut self, value: ValueId, outcome: Outcome) {
        self.values.insert(value.0, outcome);
    }

    pub(super) fn remove(&mut self, value: ValueId) -> Option<Outcome> {
        if !self.lines.is_empty() {
            self.lines.remove(&value.0);
        }
        self.values.remove(&value.0)
    }

    /// Notes the line that made a value.
    pub(super) fn made_at(&mut self, value: ValueId, loc: Loc) {
        self.lines.insert(value.0, loc);
    }

    /// The values that did not fail.
    pub(super) fn ready(&self) -> impl Iterator<Item = (ValueId, &Value)> {
        self.values.iter().filter_map(|(id, outcome)| match outcome {
            Outcome::Ready(value) => Some((ValueId(*id), value)),
            Outcome::Failed(_) => None,
        })
    }

    /// Adds up the bytes of live values by the lines that made them, as far as they were noted.
    /// Shared memory counts once.
    pub(super) fn held_by_line(&self, sums: &mut BTreeMap<Loc, u64>) {
        let mut seen = HashSet::with_capacity(self.values.len());
        let mut is_first = |value: &Value| value.bytes() > 0 && seen.insert(value.address());
        for (id, value) in self.ready().filter(|(_, value)| is_first(value)) {
            let loc = self.lines.get(&id.0).copied().unwrap_or(Loc::NONE);
            *sums.entry(loc).or_default() += value.bytes() as u64;
        }
    }

    /// Puts clones of the values into `given`, in order. False if a value is missing or failed.
    pub(super) fn lend(&self, values: &[ValueId], given: &mut Vec<Value>) -> bool {
        given.clear();
        given.extend(values.iter().map_while(|&value| match self.get(value) {
            Some(Outcome::Ready(held)) => Some(held.clone()),
            Some(Outcome::Failed(_)) | None => None,
        }));
        given.len() == values.len()
    }

    /// Counts a segment that ran as a plan.
    pub(super) fn ran_plan(&mut self, instructions: u64, bytes_in: u64) {
        self.ran_at_once(instructions, bytes_in);
        self.launches += 1;
    }

    /// Counts a segment that ran as a program compiled at its first run.
    pub(super) fn ran_at_once(&mut self, instructions: u64, bytes_in: u64) {
        self.instructions += instructions;
        self.segments += 1;
        self.bytes_in += bytes_in;
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// The bytes of the live values, and their number. Shared memory counts once.
    pub(super) fn live(&self) -> (u64, u64) {
        let mut seen = HashSet::with_capacity(self.values.len());
        self.ready().fold((0, 0), |(bytes, n), (_, value)| {
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
            busy_ns: self.nanos,
            ..WorkerStats::default()
        }
    }
}
