//! Segments that are put off while much memory is in use.
//!
//! A program sends the first round of a long step in several segments. Run one by one, each keeps
//! all that later ones may need. Once a part of the memory is in use or will be, a segment that
//! comes for the first time therefore waits until a read or a launch wants its values. All that
//! wait then run as one segment, which becomes a plan if instructions one by one would need too
//! much memory (`at_once`). Values and errors are the same, only later; the end of a session drops
//! what waits. Nothing waits while the worker has several sessions, or shares its memory with
//! others: memory that a segment would free is then somebody else's.

use std::sync::Arc;

use gt_ir::Tape;

use super::{Executor, since};
use crate::clock;
use crate::ids::SessionId;
use crate::wire::Order;
use crate::worker::job::{Begun, Task};
use crate::worker::table::{Later, Table};
use crate::worker::{at_once, need};

/// The part of an engine's memory beyond which segments are put off.
const PART: usize = 4;
/// The most entries that wait.
const MOST_ENTRIES: usize = 1 << 15;

impl Table {
    /// The bytes that a long segment needs instruction by instruction. Of a short one they show
    /// when it has run.
    fn need(&self, tape: &Tape) -> usize {
        let is_long = tape.entries.len() > at_once::MAX_ENTRIES;
        is_long.then(|| need::most(tape, |value| self.ty(value))).flatten().unwrap_or(0)
    }
}

impl Executor {
    /// Puts a segment off, if much memory is in use and no other session could miss it. Says
    /// whether it did.
    pub(super) fn put_off(&mut self, task: &mut Task) -> bool {
        if task.begun != Begun::default() || !self.can_wait(task) {
            return false;
        }
        let Order::Run(tape) = &task.order else { return false };
        let tape = Arc::clone(tape);
        let (used, limit) = (self.device.used(), self.device.limit());
        let table = self.sessions.entry(task.session).or_default();
        let most = limit / PART;
        let is_much = || used > most || used + table.need(&tape) > most;
        let must_wait = table.later.n_segments > 0 || !task.computes_nothing() && is_much();
        if !must_wait {
            return false;
        }
        self.late = Some(task.session);
        let later = &mut table.later;
        later.entries.extend(tape.entries.iter().cloned());
        for data in task.inputs.values().flatten() {
            later.bytes += data.bytes().len();
        }
        later.inputs.append(&mut task.inputs);
        (later.n_segments, later.seq) = (later.n_segments + 1, task.seq);
        if later.entries.len() > MOST_ENTRIES || later.bytes > limit / PART {
            self.catch_up(task.session);
        }
        true
    }

    /// Whether a task may be put off: a segment that comes for the first time. A launch shows that
    /// a step comes again, and steps together would need more memory than one.
    fn can_wait(&self, task: &Task) -> bool {
        let is_alone = self.sessions.len() <= 1 && self.device.engine.fits_programs();
        matches!(task.order, Order::Run(_)) && !self.plans.is_off() && is_alone
    }

    /// Runs what is put off before a task, unless the task is put off, too. Returns the nanoseconds
    /// that the task's own session needed.
    pub(super) fn catch_up_before(&mut self, task: &Task) -> u64 {
        if self.can_wait(task) {
            return 0;
        }
        let Some(session) = self.late else { return 0 };
        let nanos = self.catch_up(session);
        if session == task.session {
            return nanos;
        }
        self.sessions.entry(session).or_default().nanos += nanos;
        self.busy += nanos;
        0
    }

    /// Runs what a session has put off. Returns the nanoseconds that it took.
    pub(super) fn catch_up(&mut self, session: SessionId) -> u64 {
        self.late = None;
        let Some(table) = self.sessions.get_mut(&session) else { return 0 };
        if table.later.n_segments == 0 {
            return 0;
        }
        let Later { entries, mut inputs, n_segments, seq, .. } = std::mem::take(&mut table.later);
        let (tape, began) = (Arc::new(Tape { entries }), clock::now());
        if self.at_once(session, (&tape, false), &inputs).is_none() {
            let mut begun = Begun::default();
            self.segment((session, seq), &tape, &mut inputs, &mut begun, &mut || false);
        }
        let nanos = since(began);
        self.profile_segment(&tape, nanos);
        self.sessions.entry(session).or_default().segments += n_segments - 1;
        nanos
    }
}
