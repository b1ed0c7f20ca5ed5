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

use gt_ir::{Entry, HostTensor, Tape, ValueId};

use super::definition::Definition;
use super::job::{Inputs, Job, Task};
use crate::assembly::Assembly;
use crate::ids::SessionId;
use crate::wire::{Chunk, Order, Stream, ToWorker};

/// Weight of the segments of one session that may wait for data. Beyond it they run without: what
/// needs the data fails, and what was owed to nobody else stays bounded.
const MAX_WAITING: u64 = 64 << 20;

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
    templates: BTreeMap<u32, Arc<Definition>>,
    /// The last segment taken, as (attempt, seq).
    last: Option<(u32, u64)>,
    ended: [bool; 2],
}

/// A task that has not had its turn.
#[derive(Debug)]
struct Waiting {
    task: Task,
    /// The inputs whose data a segment needs.
    needs: Vec<ValueId>,
    /// The weight of a segment.
    weight: u64,
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
            ToWorker::Order { session, attempt, seq, order } => {
                let held = self.sessions.entry(session).or_default();
                let (template, inputs) = (None, Inputs::new());
                let task = Task { session, attempt, seq, order, template, inputs, owed: 0 };
                return held.order(task, weight, out);
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
}

impl Session {
    /// Takes an order; gives the credit that goes back at once.
    fn order(&mut self, mut task: Task, weight: u64, out: &mut Vec<Job>) -> u64 {
        match task.order {
            Order::Run(ref tape) => {
                let needs = inputs_of(tape);
                return self.segment(Waiting { task, needs, weight }, out);
            }
            Order::Launch { template, ref bindings } => {
                // Whoever launches has defined: without the template there is nothing that could
                // run.
                let Some(defined) = self.templates.get(&template).cloned() else { return weight };
                let needs = defined.uploads(bindings);
                task.template = Some(defined);
                return self.segment(Waiting { task, needs, weight }, out);
            }
            Order::Define { template, tape } => {
                match Definition::new(tape) {
                    Some(defined) => self.templates.insert(template, Arc::new(defined)),
                    None => self.templates.remove(&template),
                };
            }
            Order::Forget { template } => {
                self.templates.remove(&template);
            }
            Order::Chunk(chunk) => {
                if !self.ended[Stream::Bulk as usize] {
                    self.upload(chunk);
                    self.release(out);
                }
            }
            Order::Fetch { .. } | Order::Stats { .. } => {
                self.queue.push_back(Waiting { task, needs: Vec::new(), weight: 0 });
                self.release(out);
            }
        }
        weight
    }

    fn upload(&mut self, chunk: Chunk) {
        match self.uploads.get_mut(&chunk.value) {
            Some(assembly) => assembly.add(chunk),
            None => {
                self.uploads.insert(chunk.value, Assembly::begin(chunk));
            }
        }
    }

    /// Takes a segment unless it was seen before; gives the credit that goes back at once.
    fn segment(&mut self, segment: Waiting, out: &mut Vec<Job>) -> u64 {
        let (number, weight) = ((segment.task.attempt, segment.task.seq), segment.weight);
        if self.last.is_some_and(|last| number <= last) {
            return weight; // Seen before.
        }
        self.last = Some(number);
        self.queue.push_back(segment);
        self.waiting += weight;
        self.release(out);
        // This segment came last: it is released when nothing is left.
        match out.last_mut() {
            Some(Job::Task(task)) if self.queue.is_empty() => {
                task.owed = weight;
                0
            }
            _ => weight,
        }
    }

    /// Turns into jobs what can run, from the front on.
    fn release(&mut self, out: &mut Vec<Job>) {
        while let Some(first) = self.queue.pop_front() {
            if self.waiting <= MAX_WAITING && !self.has(&first.needs) {
                return self.queue.push_front(first);
            }
            let Waiting { mut task, needs, weight } = first;
            self.waiting -= weight;
            let given = |v: ValueId| Some((v, finish(self.uploads.remove(&v)?)));
            task.inputs = needs.into_iter().filter_map(given).collect();
            out.push(Job::Task(task));
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
