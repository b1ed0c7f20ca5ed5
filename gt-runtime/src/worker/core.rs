//! The worker as a state machine: messages of the dispatcher in, jobs for the executor out.
//!
//! It assembles uploads, holds a segment back until the data of its inputs has arrived, keeps the
//! jobs of each session in order, and drops repeated segments. Every message is legal at any time.
//! A session that waits for data does not delay other sessions. The core computes nothing, holds no
//! value of an engine, does no I/O and reads no clock.

mod routines;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use gt_ir::{Entry, HostTensor, Tape, ValueId};

use super::definition::Definition;
use super::job::{Begun, Inputs, Job, Missing, Task};
use super::known::Known;
use super::progress::{Noted, Progress};
use crate::assembly::Assembly;
#[cfg(test)]
use crate::dispatcher::holdings::Holding;
use crate::ids::{RequestId, SessionId};
use crate::wire::{Chunk, Destination, FromWorker, Order, Parcel, RESERVED, Stream, ToWorker};
use routines::Rest;

/// The most weight of one session's segments that wait for data. Above it they run without the
/// data, and the instructions that need the data fail. Their credit has already gone back. A
/// dispatcher sends fewer segments before earlier ones have run. Segments that wait for a value of
/// another worker wait as long as it takes: their client gets its credit back when all workers of
/// its session have run them.
const MAX_WAITING: u64 = 64 << 20;
/// The number of values of other workers that a session remembers after they have come. More cannot
/// come twice, because a road carries fewer that are not acknowledged.
const MAX_CAME: usize = 1 << 16;

/// The state machine.
#[derive(Debug, Default)]
pub struct Core {
    sessions: BTreeMap<SessionId, Session>,
    /// The number of sessions opened so far.
    n_opened: u64,
}

#[derive(Debug, Default)]
struct Session {
    /// The number of sessions opened before it, and this one.
    opened: u64,
    /// The tasks that have not become jobs. The first is a segment that waits for data.
    queue: VecDeque<Waiting>,
    /// The weight of the segments in the queue.
    waiting: u64,
    uploads: BTreeMap<ValueId, Assembly>,
    /// The values of other workers that have come. A value comes again if its road failed before
    /// the sender knew that it had come.
    came: BTreeSet<ValueId>,
    /// Where reads of values go that other workers need.
    routes: BTreeMap<RequestId, Arc<Destination>>,
    templates: BTreeMap<u32, Arc<Definition>>,
    routines: BTreeMap<u32, Arc<Known>>,
    /// How far it is with its performances.
    progress: Progress,
    /// The last segment taken, as (attempt, seq).
    last: Option<(u32, u64)>,
    /// Which of the two streams have ended.
    ended: [bool; 2],
}

/// A task that has not become a job.
#[derive(Debug)]
struct Waiting {
    task: Task,
    /// The inputs whose data a segment needs.
    needs: Vec<ValueId>,
    /// The weight of a segment, or 0.
    weight: u64,
    /// What follows in its performance, if it is of one.
    rest: Option<Box<Rest>>,
}

impl Waiting {
    /// Whether it waits for a value that another worker of the session computes. The dispatcher
    /// names such values.
    fn is_part(&self) -> bool {
        self.needs.iter().any(|value| value.0 >= RESERVED)
    }
}

impl Core {
    /// A worker without sessions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The only entry point: handles a message of this weight from a stream. Its credit goes back
    /// at once, so that all sessions can use it: the dispatcher limits what one session has under
    /// way.
    pub fn handle(&mut self, stream: Stream, message: ToWorker, weight: u64, out: &mut Vec<Job>) {
        match message {
            ToWorker::Open { session, client, user, weight, life } => {
                self.n_opened += 1;
                self.sessions.entry(session).or_default().opened = self.n_opened;
                out.push(Job::Open { session, client, user, weight, life });
            }
            ToWorker::Order { session, attempt, seq, order } => {
                let held = self.sessions.entry(session).or_default();
                let (template, inputs) = (None, Inputs::new());
                let begun = Begun::default();
                let since = 0;
                let task = Task { session, attempt, seq, order, template, inputs, begun, since };
                held.order(task, weight, out);
            }
            ToWorker::Watch => {} // The end of the connection answers.
            ToWorker::EndSession { session } => {
                let held = self.sessions.entry(session).or_default();
                held.ended[stream as usize] = true;
                if stream == Stream::Control {
                    held.queue.clear();
                    out.push(Job::End { session });
                }
                // Data that comes later is of a session that is known, and is dropped.
                if held.ended == [true; 2] {
                    self.sessions.remove(&session);
                }
            }
        }
    }

    /// Takes a piece of a value from another worker. Gives it back if the session is not open yet,
    /// because the dispatcher's messages take another road.
    pub fn arrive(&mut self, parcel: Parcel, out: &mut Vec<Job>) -> Option<Parcel> {
        if parcel.opened > self.n_opened {
            return Some(parcel);
        }
        let Parcel { session, opened, chunk } = parcel;
        let present = |held: &&mut Session| held.opened == opened && held.ended == [false; 2];
        if let Some(held) = self.sessions.get_mut(&session).filter(present) {
            held.upload(chunk);
            held.release(out);
        }
        None
    }

    /// Where the answer to a read goes, unless it goes to the dispatcher.
    pub fn route(&mut self, session: SessionId, request: RequestId) -> Option<Arc<Destination>> {
        self.sessions.get_mut(&session)?.routes.remove(&request)
    }

    /// Notes a report of the executor or of a road. What is said of a performance is said at its
    /// end.
    pub(super) fn note(&mut self, report: &FromWorker) -> Noted {
        let (FromWorker::Done { session, .. }
        | FromWorker::Sent { session, .. }
        | FromWorker::Failed { session, .. }
        | FromWorker::Chunk { session, .. }) = report
        else {
            return Noted::Foreign;
        };
        let Some(held) = self.sessions.get_mut(session) else { return Noted::Foreign };
        let (session, progress) = (*session, &mut held.progress);
        match report {
            &FromWorker::Done { seq, attempt, counts, .. } => {
                progress.ran(session, (attempt, seq), counts)
            }
            FromWorker::Sent { request, .. } => progress.arrived(session, *request),
            FromWorker::Failed { request, .. } => progress.failed(session, *request),
            FromWorker::Chunk { request, .. } => progress.returned(session, *request),
            _ => Noted::Foreign,
        }
    }

    /// Adds what has been noted and not said.
    pub(super) fn news(&mut self, out: &mut Vec<FromWorker>) {
        self.sessions.iter_mut().for_each(|(id, held)| held.progress.news(*id, out));
    }

    /// The templates and uploads that it holds of each session.
    #[cfg(test)]
    pub(crate) fn holdings(&self) -> BTreeMap<SessionId, Holding> {
        let holding = |held: &Session| Holding {
            templates: held.templates.keys().chain(held.routines.keys()).copied().collect(),
            uploads: held.uploads.keys().copied().collect(),
            ..Holding::default()
        };
        self.sessions.iter().map(|(&id, held)| (id, holding(held))).collect()
    }

    /// Ends every session, because the dispatcher that opened them is gone.
    pub fn end_all(&mut self, out: &mut Vec<Job>) {
        let sessions = std::mem::take(&mut self.sessions).into_iter();
        let open = sessions.filter(|(_, held)| !held.ended[Stream::Control as usize]);
        out.extend(open.map(|(session, _)| Job::End { session }));
    }
}

impl Session {
    fn order(&mut self, mut task: Task, weight: u64, out: &mut Vec<Job>) {
        if self.ended[task.order.stream() as usize] {
            return; // A dispatcher sends nothing after the end.
        }
        match task.order {
            Order::Run(ref tape) => {
                let needs = inputs_of(tape);
                self.segment(Waiting { task, needs, weight, rest: None }, out);
            }
            Order::Launch { template, ref bindings } => {
                // A dispatcher defines a template before its first launch. Without it nothing can
                // run.
                let Some(defined) = self.templates.get(&template).cloned() else { return };
                let needs = defined.uploads(bindings);
                task.template = Some(defined);
                self.segment(Waiting { task, needs, weight, rest: None }, out);
            }
            Order::Define { template, tape, planned } => {
                match Definition::new(tape, planned) {
                    Some(defined) => self.templates.insert(template, Arc::new(defined)),
                    None => self.templates.remove(&template),
                };
            }
            Order::Forget { template } => {
                self.templates.remove(&template);
                self.routines.remove(&template);
            }
            Order::Learn { routine, steps } => self.learn(routine, steps),
            Order::Perform(performance) => {
                let number = (task.session, task.attempt, task.seq);
                self.perform(number, *performance, weight, out);
            }
            Order::Chunk(chunk) => {
                self.upload(chunk);
                self.release(out);
            }
            Order::Fail { value, error } => {
                if !self.came.contains(&value) {
                    self.uploads.insert(value, Assembly::Failed(error));
                    self.came(value);
                    self.release(out);
                }
            }
            Order::Send { request, value, to } => {
                self.routes.insert(request, to);
                task.order = Order::Fetch { request, value };
                self.read(task, out);
            }
            Order::Fetch { .. } => self.read(task, out),
            Order::Stats { .. } => {
                self.queue.push_back(Waiting { task, needs: Vec::new(), weight: 0, rest: None });
                self.release(out);
            }
        }
    }

    /// Takes a read. It waits for the segments that it needs only.
    fn read(&mut self, task: Task, out: &mut Vec<Job>) {
        let own = task.place();
        let at = self.queue.partition_point(|waiting| waiting.task.place() <= own);
        self.queue.insert(at, Waiting { task, needs: Vec::new(), weight: 0, rest: None });
        self.release(out);
    }

    fn upload(&mut self, chunk: Box<Chunk>) {
        let value = chunk.value;
        if self.came.contains(&value) {
            return;
        }
        match self.uploads.get_mut(&value) {
            Some(assembly) => assembly.add(&chunk),
            None => {
                self.uploads.insert(value, Assembly::begin(chunk));
            }
        }
        if self.uploads.get(&value).is_some_and(Assembly::is_over) {
            self.came(value);
        }
    }

    /// Remembers that a value of another worker has come, whole or as an error.
    fn came(&mut self, value: ValueId) {
        if value.0 >= RESERVED {
            self.came.insert(value);
        }
        if self.came.len() > MAX_CAME {
            // Names count upwards, so the first one came long ago.
            self.came.pop_first();
        }
    }

    /// Takes a segment, unless it is repeated.
    fn segment(&mut self, segment: Waiting, out: &mut Vec<Job>) {
        let number = (segment.task.attempt, segment.task.seq);
        if self.last.is_some_and(|last| number <= last) {
            return; // Repeated.
        }
        self.last = Some(number);
        self.waiting += segment.weight;
        self.queue.push_back(segment);
        self.release(out);
    }

    /// Turns tasks that can run into jobs, from the front of the queue.
    fn release(&mut self, out: &mut Vec<Job>) {
        while let Some(first) = self.queue.pop_front() {
            if !self.has(&first.needs) && (self.waiting <= MAX_WAITING || first.is_part()) {
                return self.queue.push_front(first);
            }
            let Waiting { mut task, needs, weight, rest } = first;
            self.waiting -= weight;
            let given = |v: ValueId| Some((v, finish(self.uploads.remove(&v)?)));
            task.inputs = needs.into_iter().filter_map(given).collect();
            out.push(Job::Task(task));
            if let Some(next) = rest.and_then(|rest| self.next_step(rest)) {
                self.queue.push_front(next);
            }
        }
    }

    fn has(&self, inputs: &[ValueId]) -> bool {
        inputs.iter().all(|value| self.uploads.get(value).is_some_and(Assembly::is_over))
    }
}

fn finish(assembly: Assembly) -> Result<HostTensor, Missing> {
    match assembly {
        Assembly::Whole(tensor) => Ok(tensor),
        Assembly::Broken(why) => Err(Missing::Broken(why)),
        Assembly::Failed(error) => Err(Missing::Failed(error)),
        Assembly::Partial { ty, bytes } => {
            Err(Missing::Broken(format!("only {} bytes of a {ty} arrived", bytes.len())))
        }
    }
}

fn inputs_of(tape: &Tape) -> Vec<ValueId> {
    let input =
        |entry: &Entry| if let Entry::Input { out, .. } = entry { Some(*out) } else { None };
    tape.entries.iter().filter_map(input).collect()
}
