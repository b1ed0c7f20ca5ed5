//! The executor: owns a worker's engine and the values of its sessions, and does the jobs it is given, in order.
//!
//! A failed instruction poisons its result with the first cause (op, shapes, the user's line, the worker's name) and the segment
//! goes on: what does not depend on the failure runs, and a read of anything that does reports the cause. Sessions see their
//! own values only; the end of a session frees all it held. It does no I/O and knows no transport.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gt_compiler::engine::{Arg, Engine, EngineError, Value};
use gt_ir::backend::{ErrorKind, GraphStats, RunError, Stats, WorkerStats};
use gt_ir::canonical::{Bindings, expand};
use gt_ir::{Entry, HostTensor, Instr, Loc, Operand, Tape, ValueId};
use smallvec::SmallVec;

use super::at_once;
use super::core::{Defined, Inputs, Job};
use super::memory::{self, retried};
use super::plans::{PlanConfig, Plans, Ready};
use super::table::{Slot, Table};
use crate::assembly::whole;
use crate::clock::{self, Time};
use crate::ids::SessionId;
use crate::log::{Entry as LogEntry, Log, Source, What};
use crate::wire::codec::cut;
use crate::wire::{Counts, FromWorker};

/// An engine at work for several sessions.
pub struct Executor {
    engine: Box<dyn Engine>,
    name: String,
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
            | EngineError::Codegen(_)
            | EngineError::Torch(_) => {}
        }
    }

    fn was_short(&mut self) -> bool {
        std::mem::take(&mut self.short)
    }
}

impl Executor {
    /// An executor that reports under `name`.
    #[must_use]
    pub fn new(engine: Box<dyn Engine>, name: String, plans: PlanConfig, log: Log) -> Self {
        let plans = Plans::new(plans, engine.compiler());
        let (sessions, trouble) = (BTreeMap::new(), Trouble::default());
        Executor { engine, name, log, sessions, plans, trouble, inputs: Vec::new() }
    }

    /// The name it reports under.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Renames it: the dispatcher chooses the name.
    pub fn set_name(&mut self, name: String) {
        self.name = name;
    }

    /// Why its device is of no use any more, and everything on it lost: then its worker is to end.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.trouble.device.as_deref()
    }

    /// Does one job. What is to be told to the dispatcher is added to `out`; a tensor is one chunk, however large.
    pub fn run(&mut self, job: Job, out: &mut Vec<FromWorker>) {
        match job {
            Job::Open { session, client } => {
                self.sessions.entry(session).or_default().client = Some(client);
            }
            Job::Run { session, seq, attempt, tape, inputs, .. } => {
                let began = clock::now();
                let instructions = match self.at_once(session, &tape, &inputs) {
                    Some(instructions) => instructions,
                    None => self.segment(session, &tape, inputs),
                };
                out.push(done(session, seq, attempt, instructions, began));
            }
            Job::Launch { session, seq, attempt, template, bindings, inputs, .. } => {
                let began = clock::now();
                let (instructions, planned) =
                    self.launch(session, &template, &bindings, inputs, out);
                let done = done(session, seq, attempt, instructions, began);
                if let FromWorker::Done { counts, .. } = &done {
                    template.plan.took(if planned { counts.nanos } else { u64::MAX });
                }
                out.push(done);
            }
            Job::Fetch { session, request, value } => out.push(match self.fetch(session, value) {
                Ok(data) => FromWorker::Chunk { session, request, chunk: whole(value, data) },
                Err(error) => FromWorker::Failed { session, request, error },
            }),
            Job::Stats { session, request } => {
                let stats = Box::new(self.stats(session));
                out.push(FromWorker::Stats { session, request, stats });
            }
            Job::End { session } => {
                let freed = self.sessions.remove(&session).map_or(0, |table| table.len());
                let name = Source::Worker(&self.name);
                self.log.line(
                    What::Execute,
                    name,
                    "EndSession",
                    0,
                    format_args!("{session}: {freed} values freed"),
                );
            }
        }
    }

    /// A segment as a plan when there is one; else, or when that fails, instruction by instruction, so that errors are the same. Gives the
    /// number of instructions, and whether they ran as a plan.
    fn launch(
        &mut self,
        session: SessionId,
        defined: &Defined,
        bindings: &Bindings,
        inputs: Inputs,
        out: &mut Vec<FromWorker>,
    ) -> (u64, bool) {
        if self.replay(session, defined, bindings, &inputs, out) {
            return (defined.footprint.n_instrs as u64, true);
        }
        match expand(&defined.template, bindings) {
            Ok(tape) => (self.segment(session, &tape, inputs), false),
            // The dispatcher verified it, so nothing honest comes here; reads will say that nothing was computed.
            Err(_) => (0, false),
        }
    }

    /// Runs a launch as a plan; says whether it did. If not, nothing has changed.
    fn replay(
        &mut self,
        session: SessionId,
        defined: &Defined,
        bindings: &Bindings,
        inputs: &Inputs,
        out: &mut Vec<FromWorker>,
    ) -> bool {
        if self.plans.is_off() {
            return false;
        }
        let Executor { engine, name, log, sessions, plans, inputs: given, .. } = self;
        let table = sessions.entry(session).or_default();
        if !table.lend(&bindings.inputs, given) {
            return false;
        }
        let plan = plans.get(defined, given.iter().map(|value| &value.ty));
        if let Some(planned) = defined.plan.news(plan) {
            out.push(FromWorker::Planned { session, planned: Box::new(planned) });
        }
        let ran = match plan.made() {
            Some(Ok(ready)) => {
                run_plan(engine.as_mut(), ready, table, defined, bindings, inputs, given)
            }
            Some(Err(_)) | None => false,
        };
        given.clear();
        for note in engine.notes() {
            out.push(FromWorker::Note { session, text: cut(note).into() });
        }
        if ran {
            let n = defined.footprint.n_instrs;
            let details = format_args!("{session}: {n} instructions as one plan");
            log.line(What::Execute, Source::Worker(name), "Launch", 0, details);
        }
        ran
    }

    /// A segment seen for the first time as one program, where that pays; gives the number of instructions if it ran.
    fn at_once(&mut self, session: SessionId, tape: &Tape, inputs: &Inputs) -> Option<u64> {
        if self.plans.is_off() || self.log.is_on() {
            return None;
        }
        let table = self.sessions.entry(session).or_default();
        at_once::run(self.engine.as_mut(), &self.plans, table, tape, inputs)
    }

    fn segment(&mut self, session: SessionId, tape: &Tape, mut inputs: Inputs) -> u64 {
        let Executor { engine, name, log, sessions, trouble, .. } = self;
        let mut table = sessions.entry(session).or_default();
        let mut log = log.entry();
        let mut instructions = 0;
        for entry in &tape.entries {
            match entry {
                Entry::Instr(instr) => {
                    instructions += 1;
                    let mut slot = table.execute(engine.as_mut(), instr, name, trouble);
                    if trouble.was_short() {
                        slot = told(slot, sessions, session, engine.as_ref());
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
                    let mut slot = table.upload(engine.as_mut(), *out, given, name, trouble);
                    if trouble.was_short() {
                        slot = told(slot, sessions, session, engine.as_ref());
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

    fn fetch(&mut self, session: SessionId, value: ValueId) -> Result<HostTensor, Arc<RunError>> {
        let table = self.sessions.entry(session).or_default();
        let held = match table.get(value) {
            Some(Slot::Ready(held)) => held,
            Some(Slot::Failed(error)) => return Err(error.clone()),
            None => {
                let message = format!(
                    "{value} is not here: it was never computed, or freed before it was read"
                );
                return Err(error(ErrorKind::Internal, message, value, Loc::NONE, &self.name));
            }
        };
        let downloaded = retried(self.engine.as_mut(), |engine| engine.download(held));
        let data = downloaded.map_err(|e| {
            let failed = error(kind(&e), e.to_string(), value, Loc::NONE, &self.name);
            match failed.kind {
                ErrorKind::Resource => {
                    memory::with_holders(&failed, &self.sessions, session, self.engine.as_ref())
                }
                _ => failed,
            }
        })?;
        let table = self.sessions.entry(session).or_default();
        table.bytes_out += data.bytes().len() as u64;
        let name = Source::Worker(&self.name);
        self.log.line(
            What::Execute,
            name,
            "Download",
            data.bytes().len() as u64,
            format_args!("{value}: {}", data.ty()),
        );
        Ok(data)
    }

    fn stats(&self, session: SessionId) -> Stats {
        let (engine, info) = (self.engine.stats(), self.engine.info());
        let worker = WorkerStats {
            name: self.name.clone(),
            engine: info.name,
            device: info.device,
            memory: memory::of_engine(self.engine.as_ref()),
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

/// Runs a plan on values and data, the values of the boundary being lent already; says whether it ran.
fn run_plan(
    engine: &mut dyn Engine,
    ready: &Ready,
    table: &mut Table,
    defined: &Defined,
    bindings: &Bindings,
    inputs: &Inputs,
    given: &mut Vec<Value>,
) -> bool {
    let mut bytes_in = 0;
    for (at, _) in &defined.footprint.uploads {
        let data = bindings.defined.get(*at as usize).and_then(|value| inputs.get(&value));
        let Some(Ok(data)) = data else { return false };
        let Ok(value) = retried(engine, |engine| engine.upload(data)) else { return false };
        bytes_in += data.bytes().len() as u64;
        given.push(value);
    }
    let freed = defined.footprint.freed.iter().filter_map(|&at| bindings.inputs.get(at as usize));
    // What the segment frees is held by nobody else while it runs, so that its memory can be used again.
    for &value in freed {
        table.remove(value);
    }
    match retried(engine, |engine| engine.run(&ready.program, given, &bindings.scalars)) {
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
        engine: &mut dyn Engine,
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
                        return Slot::Failed(error(
                            ErrorKind::Internal,
                            message,
                            instr.out,
                            instr.loc,
                            worker,
                        ));
                    }
                },
            }
        }
        match retried(engine, |engine| engine.execute(&instr.op, &args)) {
            Ok(value) => Slot::Ready(value),
            Err(e) => {
                trouble.note(&e);
                let message = describe(&e, instr, &args);
                Slot::Failed(error(kind(&e), message, instr.out, instr.loc, worker))
            }
        }
    }

    fn upload(
        &mut self,
        engine: &mut dyn Engine,
        out: ValueId,
        given: Result<HostTensor, String>,
        worker: &str,
        trouble: &mut Trouble,
    ) -> Slot {
        let uploaded = given.map_err(|why| (ErrorKind::Internal, why)).and_then(|data| {
            self.bytes_in += data.bytes().len() as u64;
            retried(engine, |engine| engine.upload(&data)).map_err(|e| {
                trouble.note(&e);
                (kind(&e), e.to_string())
            })
        });
        match uploaded {
            Ok(value) => Slot::Ready(value),
            Err((kind, why)) => {
                Slot::Failed(error(kind, format!("upload of {out}: {why}"), out, Loc::NONE, worker))
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

fn kind(error: &EngineError) -> ErrorKind {
    match error {
        EngineError::Op(_) | EngineError::Index { .. } => ErrorKind::Instruction,
        EngineError::OutOfMemory { .. } | EngineError::Device(_) => ErrorKind::Resource,
        EngineError::Call(_) | EngineError::Codegen(_) | EngineError::Torch(_) => {
            ErrorKind::Internal
        }
    }
}

/// The engine's words, after the op and the operands' shapes.
fn describe(error: &EngineError, instr: &Instr, args: &[Arg<'_>]) -> String {
    if let EngineError::Op(error) = error {
        return error.to_string();
    }
    let operands: Vec<String> = args
        .iter()
        .map(|arg| match arg {
            Arg::Value(value) => value.ty.to_string(),
            Arg::Scalar(scalar) => scalar.to_string(),
        })
        .collect();
    let (error, op) = (error.to_string(), instr.op.to_string());
    let why = error.strip_prefix(&op).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&error);
    format!("{op} of {}: {why}", operands.join(", "))
}

fn error(
    kind: ErrorKind,
    message: String,
    value: ValueId,
    loc: Loc,
    worker: &str,
) -> Arc<RunError> {
    Arc::new(RunError {
        kind,
        message: cut(message),
        value: Some(value),
        loc,
        worker: Some(worker.to_owned()),
    })
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
