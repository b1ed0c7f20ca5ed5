//! The executor: owns a worker's engine and the values of its sessions, and does the jobs it is
//! given, in order.
//!
//! A failed instruction poisons its result with the first cause (op, shapes, the user's line, the
//! worker's name) and the segment goes on: what does not depend on the failure runs, and a read of
//! anything that does reports the cause. Sessions see their own values only; the end of a session
//! frees all it held. A read that has to wait for the device is answered later, and holds up
//! nothing (`reads`). It does no I/O and knows no transport.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gt_compiler::Download;
use gt_compiler::engine::{Arg, Engine, EngineError, Value};
use gt_ir::backend::{ErrorKind, GraphStats, RunError, Stats, WorkerStats};
use gt_ir::canonical::{Bindings, expand};
use gt_ir::error::Hinted as _;
use gt_ir::{Entry, HostTensor, Instr, Loc, Operand, Tape, ValueId};
use smallvec::SmallVec;

use super::at_once;
use super::definition::Definition;
use super::device::Device;
use super::faults::{describe, error, kind};
use super::job::{Inputs, Job, Task};
use super::memory;
use super::plans::{Plan, Plans, Ready};
use super::reads::{Owner, Question, Reads, Tell};
use super::table::{Slot, Table};
use crate::clock::{self, Time};
use crate::ids::SessionId;
use crate::log::{Entry as LogEntry, Log, Source, What};
use crate::tier::PlanConfig;
use crate::wire::codec::cut;
use crate::wire::{Counts, FromWorker, Order};

/// An engine at work for several sessions.
pub struct Executor {
    device: Device,
    name: Arc<str>,
    log: Log,
    sessions: BTreeMap<SessionId, Table>,
    plans: Plans,
    trouble: Trouble,
    /// Kept for its room.
    inputs: Vec<Value>,
}

/// What the engine failed at beyond one value.
#[derive(Default)]
struct Trouble {
    /// Whether memory was short, since this was looked at last.
    short: bool,
    /// Why the device is of no use any more.
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
    /// An executor that reports under `name`, and answers by `tell` what has to wait for the
    /// device.
    #[must_use]
    pub fn new(
        engine: Box<dyn Engine>,
        name: &str,
        plans: PlanConfig,
        log: Log,
        tell: Tell,
    ) -> Self {
        let plans = Plans::new(plans, engine.compiler());
        let device = Device { reads: Reads::new(tell), engine };
        let (sessions, trouble) = (BTreeMap::new(), Trouble::default());
        Executor { device, name: name.into(), log, sessions, plans, trouble, inputs: Vec::new() }
    }

    /// The name it reports under.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Renames it: the dispatcher chooses the name.
    pub fn set_name(&mut self, name: &str) {
        self.name = name.into();
    }

    /// Why its device is of no use any more, and everything on it lost: then its worker is to end.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.trouble.device.as_deref().or_else(|| self.device.reads.failure())
    }

    /// Does one job of a registration of its worker. What is to be told to the dispatcher is added
    /// to `out`; a tensor is one chunk, however large.
    pub fn run(&mut self, registration: u64, job: Job, out: &mut Vec<FromWorker>) {
        match job {
            Job::Open { session, client } => {
                self.sessions.entry(session).or_default().client = Some(client);
            }
            Job::Task(task) => self.task(registration, task, out),
            Job::End { session } => self.end((registration, session)),
        }
    }

    fn task(&mut self, registration: u64, task: Task, out: &mut Vec<FromWorker>) {
        let Task { session, attempt, seq, order, template, inputs, .. } = task;
        match (order, template) {
            (Order::Run(tape), _) => {
                let began = clock::now();
                let instructions = match self.at_once(session, &tape, &inputs) {
                    Some(instructions) => instructions,
                    None => self.segment(session, &tape, inputs),
                };
                out.push(done(session, seq, attempt, instructions, began));
            }
            (Order::Launch { bindings, .. }, Some(template)) => {
                let began = clock::now();
                let (instructions, planned) =
                    self.launch(session, &template, &bindings, inputs, out);
                let done = done(session, seq, attempt, instructions, began);
                if let FromWorker::Done { counts, .. } = &done {
                    template.plan.took(if planned { counts.nanos } else { u64::MAX });
                }
                out.push(done);
            }
            (Order::Fetch { request, value }, _) => {
                let (owner, worker) = ((registration, session), self.name.clone());
                out.extend(self.fetch(Question { owner, request, value, worker }));
            }
            (Order::Stats { request }, _) => {
                let stats = Box::new(self.stats(session));
                out.push(FromWorker::Stats { session, request, stats });
            }
            // The core's own, and a launch always comes with its template.
            (Order::Define { .. } | Order::Forget { .. } | Order::Chunk(_), _)
            | (Order::Launch { .. }, None) => {}
        }
    }

    /// A segment as a plan when there is one; else, or when that fails, instruction by instruction,
    /// so that errors are the same. Gives the number of instructions, and whether they ran as a
    /// plan.
    fn launch(
        &mut self,
        session: SessionId,
        defined: &Definition,
        bindings: &Bindings,
        inputs: Inputs,
        out: &mut Vec<FromWorker>,
    ) -> (u64, bool) {
        if self.replay(session, defined, bindings, &inputs, out) {
            return (defined.footprint.n_instrs as u64, true);
        }
        match expand(&defined.template, bindings) {
            Ok(tape) => (self.segment(session, &tape, inputs), false),
            // The dispatcher verified it, so nothing honest comes here; reads will say that nothing
            // was computed.
            Err(_) => (0, false),
        }
    }

    /// Runs a launch as a plan; says whether it did. If not, nothing has changed.
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
        let Executor { device, name, log, sessions, plans, inputs: given, .. } = self;
        let table = sessions.entry(session).or_default();
        if !table.lend(&bindings.inputs, given) {
            return false;
        }
        let plan = plans.get(defined, given.iter().map(|value| &value.ty));
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

    /// A segment seen for the first time as one program, where that pays; gives the number of
    /// instructions if it ran.
    fn at_once(&mut self, session: SessionId, tape: &Tape, inputs: &Inputs) -> Option<u64> {
        if self.plans.is_off() || self.log.is_on() {
            return None;
        }
        let table = self.sessions.entry(session).or_default();
        at_once::run(&mut self.device, &self.plans, table, tape, inputs)
    }

    fn segment(&mut self, session: SessionId, tape: &Tape, mut inputs: Inputs) -> u64 {
        let Executor { device, name, log, sessions, trouble, .. } = self;
        let mut table = sessions.entry(session).or_default();
        let mut log = log.entry();
        let mut instructions = 0;
        for entry in &tape.entries {
            match entry {
                Entry::Instr(instr) => {
                    instructions += 1;
                    let mut slot = table.execute(device, instr, name, trouble);
                    if trouble.was_short() {
                        slot = told(slot, sessions, session, device.engine.as_ref());
                        table = sessions.entry(session).or_default();
                    }
                    if let Some(log) = &mut log {
                        log_instruction(log, name, instr, &slot);
                    }
                    table.insert(instr.out, slot);
                }
                Entry::Free(value) => {
                    table.remove(*value);
                }
                Entry::Input { out, ty, .. } => {
                    let given =
                        inputs.remove(out).unwrap_or_else(|| Err("its data never came".into()));
                    if let Some(log) = &mut log {
                        log.line(
                            What::Execute,
                            Source::Worker(&name),
                            "Upload",
                            ty.bytes() as u64,
                            format_args!("{out}: {ty}"),
                        );
                    }
                    let mut slot = table.upload(device, *out, given, name, trouble);
                    if trouble.was_short() {
                        slot = told(slot, sessions, session, device.engine.as_ref());
                        table = sessions.entry(session).or_default();
                    }
                    table.insert(*out, slot);
                }
                Entry::Enter(_) | Entry::Exit(_) | Entry::Output { .. } => {}
            }
        }
        table.instructions += instructions;
        table.interpreted += instructions;
        table.segments += 1;
        instructions
    }

    /// The answer to a read, or nothing when it comes later.
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
        let cannot = |why| format!("no thread can be started that waits for the read: {why}");
        let why = added.err().map(cannot)?;
        failed(error(ErrorKind::Resource, why, value, Loc::NONE, &worker).into())
    }

    /// Begins to bring a value to the host.
    fn download(&mut self, question: &Question) -> Result<Download, Arc<RunError>> {
        let (value, session) = (question.value, question.owner.1);
        let table = self.sessions.entry(session).or_default();
        let held = match table.get(value) {
            Some(Slot::Ready(held)) => held,
            Some(Slot::Failed(error)) => return Err(error.clone()),
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
            ..self.sessions.get(&session).map(Table::stats).unwrap_or_default()
        };
        Stats { workers: vec![worker], ..Stats::default() }
    }
}

/// Runs a plan on values and data, the values of the boundary being lent already; says whether it
/// ran.
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
    // What the segment frees is held by nobody else while it runs, so that its memory can be used
    // again.
    for &value in freed {
        table.remove(value);
    }
    match device.retried(|engine| engine.run(&ready.program, given, &bindings.scalars)) {
        Ok(results) => {
            for (result, kept) in results.into_iter().zip(&ready.outputs) {
                let Some((at, ty)) = *kept else { continue };
                if let Some(out) = bindings.defined.get(at as usize) {
                    table.insert(out, Slot::Ready(result.retyped(ty).unwrap_or(result)));
                }
            }
            table.ran_plan(defined.footprint.n_instrs as u64, bytes_in);
            true
        }
        Err(_) => {
            for (&value, held) in bindings.inputs.iter().zip(given.drain(..)) {
                table.insert(value, Slot::Ready(held));
            }
            false
        }
    }
}

fn done(session: SessionId, seq: u64, attempt: u32, instructions: u64, began: Time) -> FromWorker {
    let nanos = u64::try_from((clock::now() - began).as_nanos()).unwrap_or(u64::MAX);
    FromWorker::Done { session, seq, attempt, counts: Counts { instructions, nanos } }
}

impl Table {
    fn execute(
        &self,
        device: &mut Device,
        instr: &Instr,
        worker: &str,
        trouble: &mut Trouble,
    ) -> Slot {
        let mut args: SmallVec<[Arg<'_>; 4]> = SmallVec::new();
        for input in &instr.inputs {
            match input {
                Operand::Scalar(scalar) => args.push(Arg::Scalar(*scalar)),
                Operand::Value(value) => match self.get(*value) {
                    Some(Slot::Ready(held)) => args.push(Arg::Value(held)),
                    Some(Slot::Failed(first)) => return Slot::Failed(first.clone()),
                    None => {
                        let message = format!("{}: its operand {value} is not here", instr.op);
                        let kind = ErrorKind::Internal;
                        let error = error(kind, message, instr.out, instr.loc, worker);
                        return Slot::Failed(error.into());
                    }
                },
            }
        }
        match device.retried(|engine| engine.execute(&instr.op, &args)) {
            Ok(value) => Slot::Ready(value),
            Err(e) => {
                trouble.note(&e);
                let message = describe(&e, instr, &args);
                let error = error(kind(&e), message, instr.out, instr.loc, worker);
                Slot::Failed(RunError { hint: e.hint(), ..error }.into())
            }
        }
    }

    fn upload(
        &mut self,
        device: &mut Device,
        out: ValueId,
        given: Result<HostTensor, String>,
        worker: &str,
        trouble: &mut Trouble,
    ) -> Slot {
        let uploaded = given.map_err(|why| (ErrorKind::Internal, why, None)).and_then(|data| {
            self.bytes_in += data.bytes().len() as u64;
            device.retried(|engine| engine.upload(&data)).map_err(|e| {
                trouble.note(&e);
                (kind(&e), e.message(), e.hint())
            })
        });
        match uploaded {
            Ok(value) => Slot::Ready(value),
            Err((kind, why, hint)) => {
                let message = format!("upload of {out}: {why}");
                let error = error(kind, message, out, Loc::NONE, worker);
                Slot::Failed(RunError { hint, ..error }.into())
            }
        }
    }
}

/// What failed for want of memory, with who holds it.
fn told(
    slot: Slot,
    sessions: &BTreeMap<SessionId, Table>,
    session: SessionId,
    engine: &dyn Engine,
) -> Slot {
    match slot {
        Slot::Failed(error) => {
            Slot::Failed(memory::with_holders(&error, sessions, session, engine))
        }
        ready @ Slot::Ready(_) => ready,
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn log_instruction(log: &mut LogEntry<'_>, worker: &str, instr: &Instr, slot: &Slot) {
    let source = Source::Worker(&worker);
    match slot {
        Slot::Ready(value) => log.instruction(
            What::Execute,
            source,
            instr,
            value.bytes() as u64,
            &format!(" : {}", value.ty),
        ),
        Slot::Failed(error) => {
            log.instruction(What::Error, source, instr, 0, &format!(": {}", error.message))
        }
    }
}
