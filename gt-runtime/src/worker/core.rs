//! The worker as a state machine: messages of the dispatcher in, jobs for the executor out.
//!
//! It puts uploads together, holds a segment back until the data of its inputs is there, keeps each
//! session's work in order, and drops what it has seen before. Total: every message is legal at any
//! time. It computes nothing, holds no value of an engine, does no I/O and reads no clock. Sessions
//! do not wait for each other: one that misses data holds up itself only.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use gt_ir::canonical::{Bindings, Template};
use gt_ir::{Entry, HostTensor, Tape, ValueId};

use super::plans::PlanHint;
use crate::assembly::Assembly;
use crate::footprint::Footprint;
use crate::ids::{RequestId, SessionId};
use crate::wire::{Chunk, Stream, ToWorker};

/// Weight of the segments of one session that may wait for data. Beyond it they run without: what
/// needs the data fails, and what was owed to nobody else stays bounded.
const MAX_WAITING: u64 = 64 << 20;

/// Data of a segment's inputs, or why there is none.
pub type Inputs = BTreeMap<ValueId, Result<HostTensor, String>>;

/// A template as a worker holds it, the same one from its definition until it is forgotten.
#[derive(Debug)]
pub struct Defined {
    pub(super) template: Template,
    pub(super) footprint: Footprint,
    /// For the executor: the plan it ran last.
    pub(super) plan: PlanHint,
}

impl Job {
    /// The credit its sender gets back when it is done.
    #[must_use]
    pub fn owed(&self) -> u64 {
        match self {
            Job::Run { owed, .. } | Job::Launch { owed, .. } => *owed,
            Job::Open { .. } | Job::Fetch { .. } | Job::Stats { .. } | Job::End { .. } => 0,
        }
    }

    /// Whether it is sure to take no longer than waking a thread for it would be worth: nothing is
    /// computed, or a plan that was quick.
    #[must_use]
    pub fn is_quick(&self) -> bool {
        match self {
            Job::Run { tape, inputs, .. } => inputs.is_empty() && tape.instrs().next().is_none(),
            Job::Launch { template, .. } => template.plan.was_quick(),
            Job::Open { .. } | Job::Fetch { .. } | Job::Stats { .. } | Job::End { .. } => true,
        }
    }

    fn owe(&mut self, weight: u64) -> bool {
        if let Job::Run { owed, .. } | Job::Launch { owed, .. } = self {
            *owed = weight;
            return true;
        }
        false
    }
}

/// Work for the executor, to be done in the order given.
#[derive(Debug)]
pub enum Job {
    /// Remember whose a session is.
    Open {
        /// Which.
        session: SessionId,
        /// Whose, as others are told.
        client: Arc<str>,
    },
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
        inputs: Inputs,
        /// The credit its sender gets back when it has run.
        owed: u64,
    },
    /// Run a segment that is a template and its bindings.
    Launch {
        /// Whose.
        session: SessionId,
        /// Its number in the session.
        seq: u64,
        /// The attempt to report.
        attempt: u32,
        /// The template.
        template: Arc<Defined>,
        /// Its values and scalars.
        bindings: Arc<Bindings>,
        /// Data of its inputs, or why there is none.
        inputs: Inputs,
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
    templates: BTreeMap<u32, Arc<Defined>>,
    /// The last segment taken, as (attempt, seq).
    last: Option<(u32, u64)>,
    ended: [bool; 2],
}

#[derive(Debug)]
enum Waiting {
    Segment { seq: u64, attempt: u32, what: What, inputs: Vec<ValueId>, weight: u64 },
    Fetch { request: RequestId, value: ValueId },
    Stats { request: RequestId },
}

#[derive(Debug)]
enum What {
    Run(Arc<Tape>),
    Launch(Arc<Defined>, Arc<Bindings>),
}

impl Core {
    /// A worker that has heard nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The only entry point: a message that came on a stream, and what it weighs. Gives the credit
    /// its sender gets back at once: all of it, but for a segment that runs now, which owes it
    /// until it has run. Waiting for data is the session's own affair and must not use up what
    /// others share.
    pub fn handle(
        &mut self,
        stream: Stream,
        message: ToWorker,
        weight: u64,
        out: &mut Vec<Job>,
    ) -> u64 {
        match message {
            ToWorker::Open { session, client } => {
                self.sessions.entry(session).or_default();
                out.push(Job::Open { session, client });
            }
            ToWorker::Run { session, seq, attempt, tape } => {
                let inputs = inputs_of(&tape);
                let what = What::Run(tape);
                return self.segment(
                    session,
                    Waiting::Segment { seq, attempt, what, inputs, weight },
                    out,
                );
            }
            ToWorker::Define { session, template, tape } => {
                let held = self.sessions.entry(session).or_default();
                match Defined::new(tape) {
                    Some(defined) => held.templates.insert(template, Arc::new(defined)),
                    None => held.templates.remove(&template),
                };
            }
            ToWorker::Forget { session, template } => {
                let held = self.sessions.entry(session).or_default();
                held.templates.remove(&template);
            }
            ToWorker::Launch { session, seq, attempt, template, bindings } => {
                let held = self.sessions.entry(session).or_default();
                // Whoever launches has defined: without the template there is nothing that could
                // run.
                let Some(template) = held.templates.get(&template).cloned() else { return weight };
                let inputs = template.uploads(&bindings);
                let what = What::Launch(template, bindings);
                return self.segment(
                    session,
                    Waiting::Segment { seq, attempt, what, inputs, weight },
                    out,
                );
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

    /// Takes a segment unless it was seen before; gives the credit that goes back at once.
    fn segment(&mut self, session: SessionId, segment: Waiting, out: &mut Vec<Job>) -> u64 {
        let Waiting::Segment { seq, attempt, weight, .. } = segment else { return 0 };
        let held = self.sessions.entry(session).or_default();
        if held.last.is_some_and(|last| (attempt, seq) <= last) {
            return weight; // Seen before.
        }
        held.last = Some((attempt, seq));
        held.queue.push_back(segment);
        held.waiting += weight;
        let before = out.len();
        held.release(session, out);
        // Whatever was released, this segment came last.
        if out[before..].last_mut().is_some_and(|job| job.owe(weight)) { 0 } else { weight }
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
                Waiting::Segment { ref inputs, .. }
                    if self.waiting <= MAX_WAITING && !self.has(inputs) =>
                {
                    return self.queue.push_front(first);
                }
                Waiting::Segment { seq, attempt, what, inputs, weight } => {
                    self.waiting -= weight;
                    let given = |v: ValueId| Some((v, finish(self.uploads.remove(&v)?)));
                    let inputs = inputs.into_iter().filter_map(given).collect();
                    match what {
                        What::Run(tape) => {
                            Job::Run { session, seq, attempt, tape, inputs, owed: 0 }
                        }
                        What::Launch(template, bindings) => Job::Launch {
                            session,
                            seq,
                            attempt,
                            template,
                            bindings,
                            inputs,
                            owed: 0,
                        },
                    }
                }
            });
        }
    }

    fn has(&self, inputs: &[ValueId]) -> bool {
        inputs.iter().all(|value| self.uploads.get(value).is_some_and(Assembly::is_over))
    }
}

impl Defined {
    /// A template; none when the tape is not one's.
    #[must_use]
    pub fn new(tape: Arc<Tape>) -> Option<Defined> {
        let template = Template::new(tape).ok()?;
        let footprint = Footprint::of(&template);
        Some(Defined { template, footprint, plan: PlanHint::default() })
    }

    /// The template itself.
    #[must_use]
    pub fn template(&self) -> &Template {
        &self.template
    }

    /// The values whose data a launch needs.
    fn uploads(&self, bindings: &Bindings) -> Vec<ValueId> {
        let uploads = self.footprint.uploads.iter();
        uploads.filter_map(|(at, _)| bindings.defined.get(*at as usize)).collect()
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
