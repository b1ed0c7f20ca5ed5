//! The executor: owns a worker's engine and the values of its sessions, and does jobs in order.
//!
//! An error takes the place of a failed instruction's result (with op, shapes, the user's line and
//! the worker's name), and the segment goes on. Instructions that depend on the result get the same
//! error, and a read of their results returns it. A session sees only its own values, and its end
//! frees them. A read that has to wait for the device is answered later and delays no job
//! (`reads`). A task that has to wait for a plan goes back to the queue (`jobs`). The executor does
//! no I/O and knows no transport.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gt_compiler::Download;
use gt_compiler::engine::{Arg, Engine, EngineError, Value};
use gt_ir::backend::{ErrorKind, GraphStats, RunError, Stats, WorkerStats};
use gt_ir::canonical::{Bindings, expand};
use gt_ir::error::Hinted as _;
use gt_ir::{Entry, HostTensor, Instr, Loc, Operand, Tape, Type, ValueId};
use smallvec::SmallVec;

use super::at_once;
use super::definition::Definition;
use super::device::Device;
use super::faults::{describe, error, kind};
use super::job::{Begun, Inputs, Job, Missing, Ran, Task};
use super::jobs::Jobs;
use super::memory;
use super::plans::{Plan, Plans, Ready};
use super::reads::{Owner, Question, Reads, Tell};
use super::table::{Outcome, Table};
use crate::clock::{self, Time};
use crate::ids::SessionId;
use crate::log::{Log, LogEntry, Source, What};
use crate::tier::PlanConfig;
use crate::wire::codec::cut;
use crate::wire::{Counts, FromWorker, Order};

/// The nanoseconds that a segment runs instruction by instruction before it may give way.
const SLICE: u64 = 2_000_000;

/// An engine that works for several sessions.
pub struct Executor {
    device: Device,
    name: Arc<str>,
    log: Log,
    sessions: BTreeMap<SessionId, Table>,
    plans: Plans,
    trouble: Trouble,
    /// The registration of the current job.
    registration: u64,
    /// The nanoseconds that all sessions have used.
    busy: u64,
    /// The inputs of the current launch. A field only to reuse its memory.
    inputs: Vec<Value>,
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
        let device = Device { reads: Reads::new(tell), engine };
        let (sessions, trouble) = (BTreeMap::new(), Trouble::default());
        let (name, inputs) = (name.into(), Vec::new());
        Executor { device, name, log, sessions, plans, trouble, registration: 0, busy: 0, inputs }
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
            Job::Open { session, client, user, .. } => {
                self.sessions.entry(session).or_default().client = Some((client, user));
                Ran::Done(Some(session), 0)
            }
            Job::Task(task) if self.must_wait(&task) => Ran::Waits(task),
            Job::Task(task) => {
                let session = task.session;
                let ran = self.task(task, jobs, out);
                if let Ran::Done(_, nanos) | Ran::Paused(_, nanos) = &ran {
                    self.sessions.entry(session).or_default().nanos += nanos;
                    self.busy += nanos;
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
        let owner = (self.registration, task.session);
        let Executor { sessions, plans, inputs: given, .. } = self;
        let table = sessions.entry(task.session).or_default();
        let waits = table.lend(&bindings.inputs, given)
            && plans
                .get(owner, defined, given.iter().map(|value| &value.ty))
                .is_some_and(Plan::is_awaited);
        given.clear();
        waits
    }

    fn task(&mut self, task: Task, jobs: &Jobs, out: &mut Vec<FromWorker>) -> Ran {
        let (session, began) = (task.session, clock::now());
        match (&task.order, &task.template) {
            (Order::Run(tape), _) => {
                let tape = Arc::clone(tape);
                let at_once = match task.begun.entries {
                    0 => self.at_once(session, &tape, &task.inputs),
                    _ => None,
                };
                if let Some(instructions) = at_once {
                    let nanos = since(began);
                    out.push(done(&task, instructions, nanos));
                    return Ran::Done(Some(session), nanos);
                }
                return self.step_by_step(task, tape, began, jobs, out);
            }
            (Order::Launch { bindings, .. }, Some(template)) => {
                if self.replay(session, template, bindings, &task.inputs, out) {
                    let nanos = since(began);
                    template.plan.took(nanos);
                    out.push(done(&task, template.footprint.n_instrs as u64, nanos));
                    return Ran::Done(Some(session), nanos);
                }
                template.plan.took(u64::MAX);
                // A dispatcher verifies launches, so only a faulty dispatcher's do not fit. Reads
                // report that the values were never computed.
                let tape = Arc::new(expand(&template.template, bindings).unwrap_or_default());
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
            // The core handles the first three, and a launch always comes with its template.
            (
                Order::Define { .. }
                | Order::Forget { .. }
                | Order::Chunk(_)
                | Order::Fail { .. }
                | Order::Send { .. },
                _,
            )
            | (Order::Launch { .. }, None) => {}
        }
        Ran::Done(Some(session), since(began))
    }

    /// Runs a segment instruction by instruction, to its end or until others go first.
    fn step_by_step(
        &mut self,
        mut task: Task,
        tape: Arc<Tape>,
        began: Time,
        jobs: &Jobs,
        out: &mut Vec<FromWorker>,
    ) -> Ran {
        let mut checked = 0;
        let mut give_way = || {
            if !jobs.is_contended() {
                return false;
            }
            let nanos = since(began);
            let is_over = nanos - checked > SLICE;
            checked = if is_over { nanos } else { checked };
            is_over && jobs.is_due(nanos)
        };
        self.segment(task.session, &tape, &mut task.inputs, &mut task.begun, &mut give_way);
        let nanos = since(began);
        task.begun.nanos += nanos;
        if task.begun.entries < tape.entries.len() {
            let rest = Task { order: Order::Run(tape), template: None, ..task };
            return Ran::Paused(rest, nanos);
        }
        out.push(done(&task, tape.instrs().count() as u64, task.begun.nanos));
        Ran::Done(Some(task.session), nanos)
    }

    /// Runs a launch as a plan. Says whether it did; if not, nothing has changed.
    fn replay(
        &mut self,
        session: SessionId,
        defined: &Definition,
        bindings: &Bindings,
        inputs: &Inputs,
        out: &mut Vec<FromWorker>,
    ) -> bool {
        if self.plans.is_off() {
            return false;
        }
        let owner = (self.registration, session);
        let Executor { device, name, log, sessions, plans, inputs: given, .. } = self;
        let table = sessions.entry(session).or_default();
        if !table.lend(&bindings.inputs, given) {
            return false;
        }
        let plan = plans.get(owner, defined, given.iter().map(|value| &value.ty));
        if let Some(planned) = plan.and_then(|plan| plan.news_for(&defined.plan)) {
            out.push(FromWorker::Planned { session, planned: Box::new(planned) });
        }
        let ran = match plan.and_then(Plan::made) {
            Some(Ok(ready)) => run_plan(device, ready, table, defined, bindings, inputs, given),
            Some(Err(_)) | None => false,
        };
        given.clear();
        for note in device.engine.notes() {
            out.push(FromWorker::Note { session, text: cut(note).into() });
        }
        if ran {
            let n = defined.footprint.n_instrs;
            let details = format_args!("{session}: {n} instructions as one plan");
            log.line(What::Execute, Source::Worker(name), "Launch", 0, details);
        }
        ran
    }

    /// Runs a segment as one program at its first run, if this pays. Returns the number of
    /// instructions if it ran.
    fn at_once(&mut self, session: SessionId, tape: &Tape, inputs: &Inputs) -> Option<u64> {
        if self.plans.is_off() || self.log.is_on() {
            return None;
        }
        let table = self.sessions.entry(session).or_default();
        at_once::run(&mut self.device, &self.plans, table, tape, inputs)
    }

    /// Runs the entries of a tape that have not run, until `give_way` says so.
    fn segment(
        &mut self,
        session: SessionId,
        tape: &Tape,
        inputs: &mut Inputs,
        begun: &mut Begun,
        give_way: &mut impl FnMut() -> bool,
    ) {
        let Executor { device, name, log, sessions, trouble, .. } = self;
        let mut table = sessions.entry(session).or_default();
        let mut log = log.entry();
        let mut instructions = 0;
        for entry in &tape.entries[begun.entries..] {
            begun.entries += 1;
            match entry {
                Entry::Instr(instr) => {
                    instructions += 1;
                    let mut outcome = table.execute(device, instr, name, trouble);
                    if trouble.was_short() {
                        outcome = told(outcome, sessions, session, device.engine.as_ref());
                        table = sessions.entry(session).or_default();
                    }
                    if let Some(log) = &mut log {
                        log_instruction(log, name, instr, &outcome);
                    }
                    table.insert(instr.out, outcome);
                    if give_way() {
                        break;
                    }
                }
                Entry::Free(value) => {
                    table.remove(*value);
                }
                Entry::Input { out, ty, .. } => {
                    let given = inputs
                        .remove(out)
                        .unwrap_or_else(|| Err(Missing::Broken("its data never arrived".into())))
                        .and_then(|data| fitting(data, ty));
                    if let Some(log) = &mut log {
                        log.line(
                            What::Execute,
                            Source::Worker(&name),
                            "Upload",
                            ty.bytes() as u64,
                            format_args!("{out}: {ty}"),
                        );
                    }
                    let mut outcome = table.upload(device, *out, given, name, trouble);
                    if trouble.was_short() {
                        outcome = told(outcome, sessions, session, device.engine.as_ref());
                        table = sessions.entry(session).or_default();
                    }
                    table.insert(*out, outcome);
                }
                Entry::Enter(_) | Entry::Exit(_) | Entry::Output { .. } => {}
            }
        }
        table.instructions += instructions;
        table.interpreted += instructions;
        table.segments += u64::from(begun.entries == tape.entries.len());
    }

    /// Returns the answer to a read, or None if the answer comes later.
    fn fetch(&mut self, question: Question) -> Option<FromWorker> {
        let (session, request) = (question.owner.1, question.request);
        let failed = |error| Some(FromWorker::Failed { session, request, error });
        let download = match self.download(&question) {
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

    /// Begins to copy a value to the host.
    fn download(&mut self, question: &Question) -> Result<Download, Arc<RunError>> {
        let (value, session) = (question.value, question.owner.1);
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
        let name = Source::Worker(&self.name);
        self.log.line(What::Execute, name, "Download", bytes, format_args!("{value}: {ty}"));
        Ok(download)
    }

    fn end(&mut self, owner: Owner) {
        self.device.reads.forget(owner);
        self.plans.forget(owner);
        let (session, name) = (owner.1, Source::Worker(&self.name));
        let freed = self.sessions.remove(&session).map_or(0, |table| table.len());
        let details = format_args!("{session}: {freed} values freed");
        self.log.line(What::Execute, name, "EndSession", 0, details);
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

/// The data of an input, which must have the input's type. A client or a member of a gang may send
/// any.
fn fitting(data: HostTensor, ty: &Type) -> Result<HostTensor, Missing> {
    match data.ty().same_layout(ty) {
        true => Ok(data),
        false => Err(Missing::Broken(format!("a {} arrived in place of a {ty}", data.ty()))),
    }
}

/// Runs a plan. `given` holds clones of the values at its boundary. Says whether it ran.
fn run_plan(
    device: &mut Device,
    ready: &Ready,
    table: &mut Table,
    defined: &Definition,
    bindings: &Bindings,
    inputs: &Inputs,
    given: &mut Vec<Value>,
) -> bool {
    let mut bytes_in = 0;
    for (at, _) in &defined.footprint.uploads {
        let data = bindings.defined.get(*at as usize).and_then(|value| inputs.get(&value));
        let Some(Ok(data)) = data else { return false };
        let Ok(value) = device.retried(|engine| engine.upload(data)) else { return false };
        bytes_in += data.bytes().len() as u64;
        given.push(value);
    }
    let freed = defined.footprint.freed.iter().filter_map(|&at| bindings.inputs.get(at as usize));
    // The table gives up the values that the segment frees, so that the program can reuse their
    // memory.
    for &value in freed {
        table.remove(value);
    }
    match device.retried(|engine| engine.run(&ready.program, given, &bindings.scalars)) {
        Ok(results) => {
            for (result, kept) in results.into_iter().zip(&ready.outputs) {
                let Some((at, ty)) = *kept else { continue };
                if let Some(out) = bindings.defined.get(at as usize) {
                    table.insert(out, Outcome::Ready(result.retyped(ty).unwrap_or(result)));
                }
            }
            table.ran_plan(defined.footprint.n_instrs as u64, bytes_in);
            true
        }
        Err(_) => {
            for (&value, held) in bindings.inputs.iter().zip(given.drain(..)) {
                table.insert(value, Outcome::Ready(held));
            }
            false
        }
    }
}

fn since(began: Time) -> u64 {
    nanoseconds(clock::now().saturating_sub(began))
}

fn done(task: &Task, instructions: u64, nanos: u64) -> FromWorker {
    let Task { session, seq, attempt, .. } = *task;
    FromWorker::Done { session, seq, attempt, counts: Counts { instructions, nanos } }
}

impl Table {
    fn execute(
        &self,
        device: &mut Device,
        instr: &Instr,
        worker: &str,
        trouble: &mut Trouble,
    ) -> Outcome {
        let mut args: SmallVec<[Arg<'_>; 4]> = SmallVec::new();
        for input in &instr.inputs {
            match input {
                Operand::Scalar(scalar) => args.push(Arg::Scalar(*scalar)),
                Operand::Value(value) => match self.get(*value) {
                    Some(Outcome::Ready(held)) => args.push(Arg::Value(held)),
                    Some(Outcome::Failed(first)) => return Outcome::Failed(first.clone()),
                    None => {
                        let message = format!("{}: its operand {value} is not here", instr.op);
                        let kind = ErrorKind::Internal;
                        let error = error(kind, message, instr.out, instr.loc, worker);
                        return Outcome::Failed(error.into());
                    }
                },
            }
        }
        match device.retried(|engine| engine.execute(&instr.op, &args)) {
            Ok(value) => Outcome::Ready(value),
            Err(e) => {
                trouble.note(&e);
                let message = describe(&e, instr, &args);
                let error = error(kind(&e), message, instr.out, instr.loc, worker);
                Outcome::Failed(RunError { hint: e.hint(), ..error }.into())
            }
        }
    }

    fn upload(
        &mut self,
        device: &mut Device,
        out: ValueId,
        given: Result<HostTensor, Missing>,
        worker: &str,
        trouble: &mut Trouble,
    ) -> Outcome {
        let failed = |kind, why: String, hint| {
            let message = format!("upload of {out}: {why}");
            let error = error(kind, message, out, Loc::NONE, worker);
            Outcome::Failed(RunError { hint, ..error }.into())
        };
        let data = match given {
            Ok(data) => data,
            Err(Missing::Failed(error)) => return Outcome::Failed(error),
            Err(Missing::Broken(why)) => return failed(ErrorKind::Internal, why, None),
        };
        self.bytes_in += data.bytes().len() as u64;
        match device.retried(|engine| engine.upload(&data)) {
            Ok(value) => Outcome::Ready(value),
            Err(e) => {
                trouble.note(&e);
                failed(kind(&e), e.message(), e.hint())
            }
        }
    }
}

/// Adds the memory that each client holds to an out-of-memory error.
fn told(
    outcome: Outcome,
    sessions: &BTreeMap<SessionId, Table>,
    session: SessionId,
    engine: &dyn Engine,
) -> Outcome {
    match outcome {
        Outcome::Failed(error) => {
            Outcome::Failed(memory::with_holders(&error, sessions, session, engine))
        }
        ready @ Outcome::Ready(_) => ready,
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn log_instruction(log: &mut LogEntry<'_>, worker: &str, instr: &Instr, outcome: &Outcome) {
    let source = Source::Worker(&worker);
    match outcome {
        Outcome::Ready(value) => log.instruction(
            What::Execute,
            source,
            instr,
            value.bytes() as u64,
            &format!(" : {}", value.ty),
        ),
        Outcome::Failed(error) => {
            log.instruction(What::Error, source, instr, 0, &format!(": {}", error.message))
        }
    }
}
