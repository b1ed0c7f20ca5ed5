//! What an executor notes of its work, for a tracer of the server and for a collector of spans.

use std::sync::Arc;
use std::time::Duration;

use gt_ir::Tape;

use super::{Executor, nanoseconds};
use crate::capture::interval;
use crate::clock::Time;
use crate::ids::SessionId;
use crate::log::signals_of;
use crate::spans::{Origin, Words};
use crate::wire::{Doing, Moment, Order};
use crate::worker::job::{Begun, Task};

/// A shorter time between two threads is no wait.
const QUEUED: Duration = Duration::from_micros(2);

impl Executor {
    /// Notes what it did, which began at a time and took so many nanoseconds.
    pub(super) fn note(
        &self,
        doing: Doing,
        of: (SessionId, u64),
        (began, took): (Time, u64),
        n: u64,
    ) {
        self.note_of((doing, of), (began, took), n, (0, Words::None));
    }

    /// Notes a segment that ran, as a plan or not.
    pub(super) fn note_ran(&self, task: &Task, planned: bool, time: (Time, u64), n: u64) {
        let doing = if planned { Doing::Launch } else { Doing::Run };
        let (plan, words) = match self.capture.has_spans() {
            true => about(task, planned),
            false => (0, Words::None),
        };
        self.note_of((doing, (task.session, task.seq)), time, n, (plan, words));
    }

    fn note_of(
        &self,
        (doing, of): (Doing, (SessionId, u64)),
        (began, took): (Time, u64),
        n: u64,
        (plan, words): (u128, Words),
    ) {
        let end = began + Duration::from_nanos(took);
        let moment = Moment { of: Some(of), n, ..interval(doing, began, end) };
        self.capture.add_of(end, moment, self.origin(of.0), plan, words);
    }

    /// Notes how long a segment has waited, when it begins. If nobody wanted to know when it was
    /// added, that is since somebody does.
    pub(super) fn capture_queue(&self, task: &mut Task, began: Time) {
        let since = Duration::from_nanos(std::mem::take(&mut task.since));
        let is_new = task.begun == Begun::default();
        if is_new && self.capture.is_on() && began > since + QUEUED {
            let waited = nanoseconds(began.saturating_sub(since));
            self.note(Doing::Queue, (task.session, task.seq), (since, waited), 0);
        }
    }

    fn origin(&self, session: SessionId) -> Option<&Arc<Origin>> {
        self.sessions.get(&session).and_then(|table| table.origin.as_ref())
    }
}

/// The plan of a segment, and its signals.
fn about(task: &Task, planned: bool) -> (u128, Words) {
    match (&task.template, &task.order) {
        (Some(defined), _) => {
            let plan = if planned { defined.template.key.0 } else { 0 };
            (plan, Words::Signals(defined.signals()))
        }
        (None, Order::Run(tape)) => (0, Words::Signals(names(tape))),
        (None, _) => (0, Words::None),
    }
}

fn names(tape: &Tape) -> Arc<[String]> {
    signals_of(tape).into()
}
