//! The worker as a state machine: messages of the dispatcher in, jobs for the executor out.
//!
//! It puts uploads together, holds a segment back until the data of its inputs is there, keeps each session's work in order, and
//! drops what it has seen before. Total: every message is legal at any time. It computes nothing, holds no value of an
//! engine, does no I/O and reads no clock. Sessions do not wait for each other: one that misses data holds up itself only.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use gt_ir::{Entry, HostTensor, Tape, ValueId};

use crate::assembly::Assembly;
use crate::ids::{RequestId, SessionId};
use crate::wire::{Chunk, Stream, ToWorker};

/// Weight of the segments of one session that may wait for data. Beyond it they run without: what needs the data fails, and
/// what was owed to nobody else stays bounded.
const MAX_WAITING: u64 = 64 << 20;

/// Work for the executor, to be done in the order given.
#[derive(Debug)]
pub enum Job {
    /// Run a segment.
    Run {
        /// Whose.
        session: SessionId,
        /// Its number in the session.
        seq: u64,
        /// The attempt to report.
        attempt: u32,
        /// The segment.
        tape: Arc<Tape>,
        /// Data of its inputs, or why there is none.
        inputs: BTreeMap<ValueId, Result<HostTensor, String>>,
        /// The credit its sender gets back when it has run.
        owed: u64,
    },
    /// Answer with a value.
    Fetch {
        /// Whose.
        session: SessionId,
        /// The question.
        request: RequestId,
        /// The value.
        value: ValueId,
    },
    /// Answer with what ran.
    Stats {
        /// Whose.
        session: SessionId,
        /// The question.
        request: RequestId,
    },
    /// Free everything.
    End {
        /// Whose.
        session: SessionId,
    },
}

/// The state machine.
#[derive(Debug, Default)]
pub struct Core {
    sessions: BTreeMap<SessionId, Session>,
}

#[derive(Debug, Default)]
struct Session {
    /// What came and has not become a job: the first is a segment that misses data.
    queue: VecDeque<Waiting>,
    /// Weight of the segments in it.
    waiting: u64,
    uploads: BTreeMap<ValueId, Assembly>,
    /// The last segment taken, as (attempt, seq).
    last: Option<(u32, u64)>,
    ended: [bool; 2],
}

#[derive(Debug)]
enum Waiting {
    Run { seq: u64, attempt: u32, tape: Arc<Tape>, inputs: Vec<ValueId>, weight: u64 },
    Fetch { request: RequestId, value: ValueId },
    Stats { request: RequestId },
}

impl Core {
    /// A worker that has heard nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The only entry point: a message that came on a stream, and what it weighs. Gives the credit its sender gets back at once:
    /// all of it, but for a segment that runs now, which owes it until it has run. Waiting for data is the session's own
    /// affair and must not use up what others share.
    pub fn handle(
        &mut self,
        stream: Stream,
        message: ToWorker,
        weight: u64,
        out: &mut Vec<Job>,
    ) -> u64 {
        match message {
            ToWorker::Run { session, seq, attempt, tape } => {
                let held = self.sessions.entry(session).or_default();
                if held.last.is_some_and(|last| (attempt, seq) <= last) {
                    return weight; // Seen before.
                }
                held.last = Some((attempt, seq));
                let inputs = inputs_of(&tape);
                held.queue.push_back(Waiting::Run { seq, attempt, tape, inputs, weight });
                held.waiting += weight;
                let before = out.len();
                held.release(session, out);
                if let Some(Job::Run { owed, .. }) = out[before..].last_mut() {
                    *owed = weight;
                    return 0;
                }
            }
            ToWorker::Chunk { session, chunk } => {
                let held = self.sessions.entry(session).or_default();
                if !held.ended[Stream::Bulk as usize] {
                    held.upload(chunk);
                    held.release(session, out);
                }
            }
            ToWorker::Fetch { session, request, value } => {
                self.ask(session, Waiting::Fetch { request, value }, out)
            }
            ToWorker::Stats { session, request } => {
                self.ask(session, Waiting::Stats { request }, out)
            }
            ToWorker::EndSession { session } => {
                let held = self.sessions.entry(session).or_default();
                held.ended[stream as usize] = true;
                if held.ended == [true; 2] {
                    self.sessions.remove(&session);
                    out.push(Job::End { session });
                }
            }
        }
        weight
    }

    /// Forgets every session: the dispatcher that knew them is gone.
    pub fn end_all(&mut self, out: &mut Vec<Job>) {
        out.extend(
            std::mem::take(&mut self.sessions).into_keys().map(|session| Job::End { session }),
        );
    }

    fn ask(&mut self, session: SessionId, question: Waiting, out: &mut Vec<Job>) {
        let held = self.sessions.entry(session).or_default();
        held.queue.push_back(question);
        held.release(session, out);
    }
}

impl Session {
    fn upload(&mut self, chunk: Chunk) {
        match self.uploads.get_mut(&chunk.value) {
            Some(assembly) => assembly.add(chunk),
            None => {
                self.uploads.insert(chunk.value, Assembly::begin(chunk));
            }
        }
    }

    /// Turns into jobs what can run, from the front on.
    fn release(&mut self, session: SessionId, out: &mut Vec<Job>) {
        while let Some(first) = self.queue.pop_front() {
            out.push(match first {
                Waiting::Fetch { request, value } => Job::Fetch { session, request, value },
                Waiting::Stats { request } => Job::Stats { session, request },
                Waiting::Run { ref inputs, .. }
                    if self.waiting <= MAX_WAITING && !self.has(inputs) =>
                {
                    return self.queue.push_front(first);
                }
                Waiting::Run { seq, attempt, tape, inputs, weight } => {
                    self.waiting -= weight;
                    let inputs = inputs
                        .into_iter()
                        .filter_map(|v| Some((v, finish(self.uploads.remove(&v)?))))
                        .collect();
                    Job::Run { session, seq, attempt, tape, inputs, owed: 0 }
                }
            });
        }
    }

    fn has(&self, inputs: &[ValueId]) -> bool {
        inputs.iter().all(|value| self.uploads.get(value).is_some_and(Assembly::is_over))
    }
}

fn finish(assembly: Assembly) -> Result<HostTensor, String> {
    match assembly {
        Assembly::Whole(tensor) => Ok(tensor),
        Assembly::Broken(why) => Err(why),
        Assembly::Partial { ty, bytes } => {
            Err(format!("only {} bytes of a {ty} came", bytes.len()))
        }
    }
}

fn inputs_of(tape: &Tape) -> Vec<ValueId> {
    let input =
        |entry: &Entry| if let Entry::Input { out, .. } = entry { Some(*out) } else { None };
    tape.entries.iter().filter_map(input).collect()
}
