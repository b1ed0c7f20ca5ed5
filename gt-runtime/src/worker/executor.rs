//! The executor: owns a worker's engine and the values of its sessions, and does jobs in order.
//!
//! An error takes the place of a failed instruction's result (with op, shapes, the user's line and
//! the worker's name), and the segment goes on. Instructions that depend on the result get the same
//! error, and a read of their results returns it. A session sees only its own values, and its end
//! frees them. A read that has to wait for the device is answered later and delays no job
//! (`reads`). A task that has to wait for a plan goes back to the queue (`jobs`). A segment runs
//! instruction by instruction (`steps`) or as one program (`programs`). The executor does no I/O
//! and knows no transport. The memory that the engine keeps for reuse goes back to the system when
//! the last session ends.

mod later;
mod notes;
mod programs;
mod spared;
mod steps;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use gt_compiler::engine::{Engine, EngineError, Value};
use gt_compiler::{Download, Program};
use gt_ir::backend::{ErrorKind, GraphStats, RunError, Stats, WorkerStats};
use gt_ir::canonical::{Bindings, expand};
use gt_ir::{Entry, Loc, Tape, Type};

use super::definition::Definition;
use super::device::Device;
use super::faults::error;
use super::job::{Job, Ran, Task};
use super::jobs::Jobs;
use super::memory;
use super::plans::Plans;
use super::reads::{Owner, Question, Tell};
use super::table::{Outcome, Table};
use crate::capture::Capture;
use crate::clock::{self, Time};
use crate::ids::SessionId;
use crate::log::{Line, Log, Source, What};
use crate::modifier::{self, Place};
use crate::profile::{self, Phase};
use crate::spans::Origin;
use crate::tier::PlanConfig;
use crate::wire::{Counts, Doing, FromWorker, Order, RESERVED};
use crate::words::Facts;
use steps::tell_held;

/// How often the memory of values is measured.
const MEASURE_EVERY: Duration = Duration::from_millis(100);

/// An engine that works for several sessions.
pub struct Executor {
    device: Device,
    name: Arc<str>,
    log: Log,
    sessions: BTreeMap<SessionId, Table>,
    plans: Plans,
    trouble: Trouble,
    /// The session that has put segments off.
    late: Option<SessionId>,
    /// The registration of the current job.
    registration: u64,
    /// The nanoseconds that all sessions have used.
    busy: u64,
    /// The bytes that values took when they were measured last, and when that was.
    memory: (u64, Time),
    /// The inputs of the current launch. A field only to reuse its memory.
    inputs: Vec<Value>,
    /// The plan that ran last, its tape and the types of its inputs, for a profile.
    ran: Option<(Program, Arc<Tape>, Vec<Type>)>,
    /// What it does, for a tracer of the server.
    capture: Arc<Capture>,
}

/// Puts the inputs of a launch into `given`, as its plan takes them. False if one is missing or
/// failed.
fn lend(
    device: &mut Device,
    table: &Table,
    defined: &Definition,
    bindings: &Bindings,
    given: &mut Vec<Value>,
) -> bool {
    let is_lent = table.lend(&bindings.inputs, given);
    if is_lent
        && !defined.footprint.idle.is_empty()
        && let Some(nothing) = device.nothing()
    {
        defined.without_idle(given, &nothing);
    }
    is_lent
}

/// Failures of the engine that concern more than one value.
#[derive(Default)]
struct Trouble {
    /// Whether memory was short since the last call of `was_short`.
    short: bool,
    /// Why the device is lost, if it is.
    device: Option<String>,
}

impl Trouble {
    fn note(&mut self, error: &EngineError) {
        match error {
            EngineError::OutOfMemory { .. } => self.short = true,
            EngineError::Device(why) => self.device = Some(why.clone()),
            EngineError::Op(_)
            | EngineError::Index { .. }
            | EngineError::Call(_)
            | EngineError::Missing { .. }
            | EngineError::Codegen(_)
            | EngineError::Torch(_) => {}
        }
    }

    fn was_short(&mut self) -> bool {
        std::mem::take(&mut self.short)
    }
}

impl Executor {
    /// An executor that reports under `name`. Reads that wait for the device are answered by
    /// `tell`.
    #[must_use]
    pub fn new(
        engine: Box<dyn Engine>,
        name: &str,
        plans: PlanConfig,
        log: Log,
        tell: Tell,
    ) -> Self {
        let plans = Plans::new(plans, engine.compiler(), engine.info().threads, tell.clone());
        let device = Device::new(engine, tell);
        let (sessions, trouble) = (BTreeMap::new(), Trouble::default());
        let (name, inputs, memory) = (name.into(), Vec::new(), (0, Time::ZERO));
        Executor {
            device,
            name,
            log,
            sessions,
            plans,
            trouble,
            late: None,
            registration: 0,
            busy: 0,
            memory,
            inputs,
            ran: None,
            capture: Arc::default(),
        }
    }

    /// The name that it reports under.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Renames it, because the dispatcher chooses the name.
    pub fn set_name(&mut self, name: &str) {
        self.name = name.into();
    }

    /// Where it notes what it does, while a tracer wants to know.
    pub(crate) fn capture(&self) -> Arc<Capture> {
        self.capture.clone()
    }

    /// Why its device is lost with all values, if it is. The worker then ends.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.trouble.device.as_deref().or_else(|| self.device.reads.failure())
    }

    /// Does one job of a registration of its worker. Adds the reports for the dispatcher to `out`.
    /// A tensor is one chunk of any size. A long segment gives way to others of `jobs`.
    pub fn run(
        &mut self,
        registration: u64,
        job: Job,
        jobs: &Jobs,
        out: &mut Vec<FromWorker>,
    ) -> Ran {
        self.registration = registration;
        match job {
            Job::Open { session, client, user, life, .. } => {
                let table = self.sessions.entry(session).or_default();
                let origin = || Arc::new(Origin::of_client(life, &client));
                table.origin = self.capture.has_spans().then(origin);
                table.client = Some((client, user));
                Ran::Done(Some(session), 0)
            }
            Job::Task(task) => {
                let session = task.session;
                let before = self.catch_up_before(&task);
                if self.must_wait(&task) {
                    return Ran::Waits(task);
                }
                let mut ran = self.task(task, jobs, out);
                jobs.puts_off(self.late.is_some());
                if let Ran::Done(_, nanos) | Ran::Paused(_, nanos) = &mut ran {
                    *nanos += before;
                    self.sessions.entry(session).or_default().nanos += *nanos;
                    self.busy += *nanos;
                }
                ran
            }
            Job::Planned => Ran::Planned,
            Job::End { session } => {
                self.end((registration, session));
                Ran::Done(None, 0)
            }
        }
    }

    /// Whether a task is a launch that is to run as a plan, which is not made yet.
    fn must_wait(&mut self, task: &Task) -> bool {
        let (Order::Launch { bindings, .. }, Some(defined)) = (&task.order, &task.template) else {
            return false;
        };
        if !defined.planned || self.plans.is_off() {
            return false;
        }
        self.judge(task, !modifier::is_at(Place::Worker));
        let owner = (self.registration, task.session);
        let Executor { device, sessions, plans, inputs: given, .. } = self;
        let table = sessions.entry(task.session).or_default();
        let waits = lend(device, table, defined, bindings, given) && {
            let types = given.iter().map(|value| &value.ty);
            let has_other = plans.spared(owner, defined, types.clone()).is_some();
            !has_other
                && plans.get(owner, defined, None, types).is_some_and(|plan| plan.is_awaited())
        };
        given.clear();
        waits
    }

    fn task(&mut self, mut task: Task, jobs: &Jobs, out: &mut Vec<FromWorker>) -> Ran {
        let (session, began) = (task.session, clock::now());
        self.capture_queue(&mut task, began);
        if modifier::is_at(Place::Worker) && task.begun.entries == 0 {
            self.modify(&mut task);
        }
        if task.begun.entries == 0 {
            self.judge(&task, true);
        }
        if self.put_off(&mut task) {
            let (nanos, n_instrs) = (since(began), task.n_instrs());
            out.push(self.done(&task, n_instrs, (began, nanos), false));
            return Ran::Done(Some(session), nanos);
        }
        match (&task.order, &task.template) {
            (Order::Run(tape), _) => {
                let tape = Arc::clone(tape);
                let at_once = match task.begun.entries {
                    0 => self.at_once(session, (&tape, false), &task.inputs),
                    _ => None,
                };
                if let Some(instructions) = at_once {
                    return self.ran_at_once((&task, &tape), instructions, began, out);
                }
                return self.step_by_step(task, tape, began, jobs, out);
            }
            (Order::Launch { bindings, .. }, Some(template)) => {
                self.watch(session, template, bindings);
                if self.replay(session, (template, bindings), &task.inputs, out) {
                    let nanos = since(began);
                    self.log_launch(&task, (template, bindings), (began, nanos));
                    self.profile_launch(nanos);
                    template.plan.took(nanos);
                    let n_instrs = template.footprint.n_instrs as u64;
                    out.push(self.done(&task, n_instrs, (began, nanos), true));
                    return Ran::Done(Some(session), nanos);
                }
                template.plan.took(u64::MAX);
                // A dispatcher verifies launches, so only a faulty dispatcher's do not fit. Reads
                // report that the values were never computed.
                let tape = Arc::new(expand(&template.template, bindings).unwrap_or_default());
                let at_once = self.at_once(session, (&tape, true), &task.inputs);
                if let Some(instructions) = at_once {
                    return self.ran_at_once((&task, &tape), instructions, began, out);
                }
                return self.step_by_step(task, tape, began, jobs, out);
            }
            (&Order::Fetch { request, value }, _) => {
                let (owner, worker) = ((self.registration, session), self.name.clone());
                out.extend(self.fetch(Question { owner, request, value, worker }));
            }
            (&Order::Stats { request }, _) => {
                let stats = Box::new(self.stats(session));
                out.push(FromWorker::Stats { session, request, stats });
            }
            // The core handles the others, and a launch always comes with its template.
            (
                Order::Define { .. }
                | Order::Forget { .. }
                | Order::Chunk(_)
                | Order::Fail { .. }
                | Order::Send { .. }
                | Order::Learn { .. }
                | Order::Perform(_),
                _,
            )
            | (Order::Launch { .. }, None) => {}
        }
        Ran::Done(Some(session), since(began))
    }

    /// Reports a segment that ran as one program at its first run.
    fn ran_at_once(
        &mut self,
        (task, tape): (&Task, &Tape),
        instructions: u64,
        began: Time,
        out: &mut Vec<FromWorker>,
    ) -> Ran {
        let nanos = since(began);
        self.log_ran(task, "Run", nanos, format_args!("{instructions} at once"));
        self.profile_segment(tape, nanos);
        out.push(self.done(task, instructions, (began, nanos), false));
        Ran::Done(Some(task.session), nanos)
    }

    /// Passes a segment through the worker's modifiers. A segment that they change runs instruction
    /// by instruction; the values of a segment that they refuse get the reason as their error.
    fn modify(&mut self, task: &mut Task) {
        let before = match (&task.order, &task.template) {
            (Order::Run(tape), _) => Tape::clone(tape),
            (Order::Launch { bindings, .. }, Some(defined)) => {
                expand(&defined.template, bindings).unwrap_or_default()
            }
            _ => return,
        };
        let source = Source::Worker(&self.name);
        let after = match modifier::pass(Place::Worker, source, &self.log, before.clone()) {
            Ok(after) if after == before => return,
            Ok(after) => after,
            Err(why) => self.refuse(task.session, &before, &why),
        };
        (task.order, task.template) = (Order::Run(Arc::new(after)), None);
    }

    /// Puts an error in the place of each value that a tape computes. Returns the rest of the tape.
    fn refuse(&mut self, session: SessionId, tape: &Tape, why: &str) -> Tape {
        let table = self.sessions.entry(session).or_default();
        for instr in tape.instrs() {
            let kind = ErrorKind::Instruction;
            let failed = error(kind, why.to_owned(), instr.out, instr.loc, &self.name);
            table.insert(instr.out, Outcome::Failed(failed.into()));
        }
        let rest = tape.entries.iter().filter(|entry| !matches!(entry, Entry::Instr(_)));
        Tape { entries: rest.cloned().collect() }
    }

    /// Returns the answer to a read, or None if the answer comes later.
    fn fetch(&mut self, question: Question) -> Option<FromWorker> {
        let (session, request) = (question.owner.1, question.request);
        let failed = |error| Some(FromWorker::Failed { session, request, error });
        let began = clock::now();
        let download = self.download(&question);
        if let (Ok((_, bytes)), true) = (&download, self.capture.is_on()) {
            let doing = if request.0 >= RESERVED { Doing::Exchange } else { Doing::Read };
            self.note(doing, (session, 0), (began, since(began)), *bytes);
        }
        if let (Ok((_, bytes)), true) = (&download, profile::is_on()) {
            let phase = if request.0 >= RESERVED { Phase::Exchange } else { Phase::Read };
            profile::work(&self.name, phase, since(began), *bytes);
        }
        if let (Ok((_, bytes)), true) = (&download, self.log.is_on()) {
            let line = Line::new(What::Execute, Source::Worker(&self.name), "Download");
            let line = Line { of: Some((session, 0)), ..line.bytes(*bytes) };
            let now = clock::now();
            let line = line.took(now.saturating_sub(began));
            self.log.tell(now, &line, "Download", Facts::value(request, question.value));
        }
        let download = match download.map(|(download, _)| download) {
            Ok(Download::Here(data)) if !self.device.reads.has(question.owner) => {
                return Some(question.answer(Ok(data)));
            }
            Ok(download) => download,
            Err(error) => return failed(error),
        };
        let (value, worker) = (question.value, question.worker.clone());
        let added = self.device.reads.add(question, download);
        let cannot = |why| format!("cannot start the thread that waits for reads: {why}");
        let why = added.err().map(cannot)?;
        failed(error(ErrorKind::Resource, why, value, Loc::NONE, &worker).into())
    }

    /// Begins to copy a value to the host. Returns also the number of its bytes.
    fn download(&mut self, question: &Question) -> Result<(Download, u64), Arc<RunError>> {
        let (value, session) = (question.value, question.owner.1);
        self.used(session, value);
        let table = self.sessions.entry(session).or_default();
        let held = match table.get(value) {
            Some(Outcome::Ready(held)) => held,
            Some(Outcome::Failed(error)) => return Err(error.clone()),
            None => {
                let message = format!(
                    "{value} is not here: it was never computed, or freed before it was read"
                );
                return Err(
                    error(ErrorKind::Internal, message, value, Loc::NONE, &self.name).into()
                );
            }
        };
        let ty = held.ty;
        let begun = self.device.retried(|engine| engine.begin_download(held));
        let download = begun.map_err(|e| {
            self.trouble.note(&e);
            let failed = question.failed(&e);
            let engine = self.device.engine.as_ref();
            match self.trouble.was_short() {
                true => memory::with_holders(&failed, &self.sessions, session, engine),
                false => failed,
            }
        })?;
        let (table, bytes) = (self.sessions.entry(session).or_default(), ty.bytes() as u64);
        table.bytes_out += bytes;
        Ok((download, bytes))
    }

    fn end(&mut self, owner: Owner) {
        self.device.reads.forget(owner);
        self.plans.forget(owner);
        self.late = self.late.filter(|late| *late != owner.1);
        let (session, name) = (owner.1, Source::Worker(&self.name));
        let freed = self.sessions.remove(&session).map_or(0, |table| table.len());
        if self.sessions.is_empty() && self.device.engine.stats().live_bytes == 0 {
            // Nobody is left who would use again what the engine keeps for reuse, on other workers
            // of the process neither.
            self.device.engine.trim();
        }
        let line = Line::new(What::Execute, name, "EndSession").of(session, 0);
        self.log.write(&line, format_args!("{session}: {freed} values freed"));
    }

    /// Writes a launch that ran as a plan into the log, and on request the instructions that it
    /// stands for.
    fn log_launch(
        &self,
        task: &Task,
        (defined, bindings): (&Definition, &Bindings),
        (began, nanos): (Time, u64),
    ) {
        if !self.log.is_on() {
            return;
        }
        let facts = Facts::plan(task.session, task.seq, defined.footprint.n_instrs);
        let (end, line) =
            (began + Duration::from_nanos(nanos), self.line_of(task, "Launch", nanos));
        self.log.tell(end, &line, "Launch", facts);
        if self.log.has_instructions()
            && let (Some(mut entry), Ok(tape)) =
                (self.log.entry(), expand(&defined.template, bindings))
        {
            let line = Line::new(What::Execute, Source::Worker(&self.name), "");
            let line = line.of(task.session, task.seq);
            entry.instructions(&line, &tape, format_args!(" in the plan"));
        }
    }

    /// Gives a launch that ran as a plan to the profile.
    fn profile_launch(&mut self, nanos: u64) {
        if let (true, Some((program, tape, types))) = (profile::is_on(), self.ran.take()) {
            let live = self.device.engine.stats().live_bytes as u64;
            profile::launch(&self.name, &program, &tape, &types, (nanos, live));
            tell_held(self.sessions.values(), &self.device);
        }
    }

    /// Gives a segment that ran without a plan to the profile.
    pub(super) fn profile_segment(&self, tape: &Tape, nanos: u64) {
        if profile::is_on() {
            let first = tape.instrs().next().map_or(Loc::NONE, |instr| instr.loc);
            profile::segment(&self.name, first, nanos);
            tell_held(self.sessions.values(), &self.device);
        }
    }

    /// Writes a segment that ran into the log.
    fn log_ran(&self, task: &Task, command: &str, nanos: u64, details: fmt::Arguments<'_>) {
        if self.log.is_on() {
            let (Task { session, seq, .. }, line) = (task, self.line_of(task, command, nanos));
            self.log.write(&line, format_args!("{session} segment {seq}: {details}"));
        }
    }

    /// The line of a segment that took so many nanoseconds.
    fn line_of<'a>(&'a self, task: &Task, command: &'a str, nanos: u64) -> Line<'a> {
        let live = self.device.engine.stats().live_bytes as u64;
        let line = Line::new(What::Execute, Source::Worker(&self.name), command);
        Line { live, ..line.took(Duration::from_nanos(nanos)) }.of(task.session, task.seq)
    }

    /// The report on a segment that began at a time and took so many nanoseconds.
    fn done(
        &mut self,
        task: &Task,
        instructions: u64,
        (began, nanos): (Time, u64),
        planned: bool,
    ) -> FromWorker {
        let Task { session, seq, attempt, .. } = *task;
        if self.capture.is_on() {
            self.note_ran(task, planned, (began, since(began)), instructions);
        }
        // Counting what values take is cheap, but a launch is cheaper still.
        if began >= self.memory.1 + MEASURE_EVERY {
            self.memory = (self.device.engine.stats().live_bytes as u64, began);
        }
        let counts = Counts { instructions, nanos, planned, memory: self.memory.0 };
        FromWorker::Done { session, seq, attempt, counts }
    }

    fn stats(&self, session: SessionId) -> Stats {
        let on = self.device.engine.as_ref();
        let (engine, info) = (on.stats(), on.info());
        let worker = WorkerStats {
            name: self.name.to_string(),
            engine: info.name,
            device: info.device,
            memory: memory::of_engine(on),
            graphs: GraphStats {
                captured: engine.graphs_captured,
                replays: engine.graph_replays,
                fallbacks: engine.graph_fallbacks,
                host_ns: nanoseconds(engine.replay_host),
                device_ns: nanoseconds(engine.replay_device),
            },
            others: memory::others(&self.sessions, session),
            kernels_compiled: engine.kernels_compiled,
            plans: self.plans.n_ready(),
            compile_ns: nanoseconds(engine.compile_time),
            all_busy_ns: self.busy,
            ..self.sessions.get(&session).map(Table::stats).unwrap_or_default()
        };
        Stats { workers: vec![worker], ..Stats::default() }
    }
}

fn since(began: Time) -> u64 {
    nanoseconds(clock::now().saturating_sub(began))
}

pub(in crate::worker) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
