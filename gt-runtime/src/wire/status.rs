//! The state of a server, for those who watch it.
//!
//! It counts and does not average: a rate is the difference of a counter between two answers,
//! divided by the difference of their times ([`Status::now`]). The server therefore keeps nothing
//! for those who watch, and one who asks seldom or never costs nothing.

use serde::{Deserialize, Serialize};

/// The state of a server. Lists are in the order in which their members joined.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// The version of the server.
    pub version: String,
    /// The time at which it was made, in nanoseconds of the server's own clock.
    pub now: u64,
    /// Whether the server ends soon and takes no new programs.
    pub ending: bool,
    /// The workers that are ready.
    pub workers: Vec<WorkerStatus>,
    /// The sessions that the asker may see: all, or those of its user.
    pub sessions: Vec<SessionStatus>,
    /// The connections of these workers and sessions, and those between workers.
    pub links: Vec<LinkStatus>,
    /// The number of all sessions.
    pub n_sessions: u64,
    /// The bytes that the dispatcher keeps for all sessions.
    pub kept: u64,
    /// What has happened since the server started.
    pub totals: Totals,
}

/// What has happened since a server started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Sessions that were opened.
    pub opened: u64,
    /// Sessions that somebody ended.
    pub killed: u64,
    /// Workers that joined.
    pub joined: u64,
    /// Workers that were lost: those that ended without a good-bye, or with sessions on them.
    pub lost: u64,
    /// Workers that said good-bye and had no session.
    pub left: u64,
    /// Peers that were refused.
    pub refused: u64,
    /// What the workers have done for sessions, those that have ended included.
    pub work: Work,
}

/// What workers have done: all of them, or one of them, or for one session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Work {
    /// Segments that ran. A segment that several workers run in parts counts once for each part.
    pub segments: u64,
    /// Those of them that ran as plans. The others ran instruction by instruction.
    pub planned: u64,
    /// The instructions of the segments.
    pub instructions: u64,
    /// The nanoseconds of the segments.
    pub busy: u64,
}

/// The cost of one segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// The number of its instructions.
    pub instructions: u64,
    /// Nanoseconds from its start to its end.
    pub nanos: u64,
    /// Whether it ran as a plan.
    pub planned: bool,
    /// The bytes that the values of all sessions take on the worker, as measured lately.
    pub memory: u64,
}

/// One worker.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// Its number: `w1`.
    pub id: String,
    /// Its name: `w1 (pi, pid 123)`.
    pub name: String,
    /// Its engine's name.
    pub engine: String,
    /// The engine's device: `cpu`, `cuda:0`.
    pub device: String,
    /// The number of its threads.
    pub threads: u32,
    /// The bytes of memory for values. 0 if unknown.
    pub memory: u64,
    /// The bytes that values take, by its latest report.
    pub used: u64,
    /// The number of sessions that live on it.
    pub sessions: u64,
    /// The sessions that it has segments of, the first ones.
    pub running: Vec<String>,
    /// The number of segments that it has and that have not run.
    pub queue: u64,
    /// The nanoseconds for which it has been at the segment that it runs. They are not among those
    /// of its work yet.
    pub underway: u64,
    /// What it has done.
    pub work: Work,
}

/// One session.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Its number: `s1`.
    pub id: String,
    /// Its name: `s1 digits (pi, pid 123)`.
    pub name: String,
    /// The name of its program.
    pub program: String,
    /// Its user, as a number that is equal for equal users. 0 is the server's own user.
    pub user: u64,
    /// Its weight ([`Priority`](crate::priority::Priority)).
    pub weight: u32,
    /// The nanoseconds since it was opened.
    pub age: u64,
    /// The workers on which it lives: `w1`.
    pub workers: Vec<String>,
    /// The signals of the segment that runs or that ran last: `forward, backward`.
    pub signals: String,
    /// The segments that it has sent, and those of them that have not run.
    pub segments: u64,
    /// The segments that have not run.
    pub waiting: u64,
    /// Its unanswered requests.
    pub requests: u64,
    /// The number of its live values.
    pub values: u64,
    /// The bytes of its live values and unfinished uploads.
    pub bytes: u64,
    /// The bytes that the dispatcher keeps for it: orders on their way to its workers, and answers
    /// that it has not taken.
    pub kept: u64,
    /// The bytes of tensors that it has sent.
    pub up: u64,
    /// The bytes of tensors that it has read.
    pub down: u64,
    /// The programs that were compiled for it.
    pub plans: u64,
    /// The nanoseconds in which they were compiled.
    pub compiled: u64,
    /// What its workers have done for it.
    pub work: Work,
}

/// A connection, or the road between two workers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LinkStatus {
    /// The session or worker at one end: `s1`.
    pub from: String,
    /// The worker at the other end, or `server`.
    pub to: String,
    /// What went in this direction.
    pub there: Traffic,
    /// What went in the other direction.
    pub back: Traffic,
    /// The bytes that wait to go back.
    pub queued: u64,
}

/// Messages in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Traffic {
    /// Their number.
    pub messages: u64,
    /// Their bytes, as flow control counts them: tensor data exactly, tapes by their entries.
    pub bytes: u64,
}

impl Traffic {
    /// Counts a message.
    pub(crate) fn count(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Adds other messages.
    pub(crate) fn add(&mut self, more: Traffic) {
        self.messages = self.messages.saturating_add(more.messages);
        self.bytes = self.bytes.saturating_add(more.bytes);
    }
}

impl Work {
    /// Counts a segment.
    pub(crate) fn count(&mut self, counts: Counts) {
        let Counts { instructions, nanos: busy, planned, .. } = counts;
        self.add(Work { segments: 1, planned: planned.into(), instructions, busy });
    }

    /// Adds what was done since.
    pub(crate) fn add(&mut self, more: Work) {
        self.segments = self.segments.saturating_add(more.segments);
        self.planned = self.planned.saturating_add(more.planned);
        self.instructions = self.instructions.saturating_add(more.instructions);
        self.busy = self.busy.saturating_add(more.busy);
    }
}

/// Events of a server, for a tracer.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Events {
    /// The beginning of a file of events: the server's host, process and clock.
    pub head: String,
    /// The number of the first line. A greater number than the one that was asked for means that
    /// the lines between them were dropped.
    pub first: u64,
    /// The number of the line after the last.
    pub next: u64,
    /// Lines, each a JSON object.
    pub lines: String,
}
