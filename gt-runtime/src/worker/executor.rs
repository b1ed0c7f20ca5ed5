//! The executor: owns a worker's engine and the values of its sessions, and does the jobs it is given, in order.
//!
//! A failed instruction poisons its result with the first cause (op, shapes, the user's line, the worker's name) and the segment
//! goes on: what does not depend on the failure runs, and a read of anything that does reports the cause. Sessions see their
//! own values only; the end of a session frees all it held. It does no I/O and knows no transport.

use std::collections::BTreeMap;
use std::sync::Arc;

use gt_compiler::engine::{Arg, Engine, EngineError, Value};
use gt_ir::backend::{ErrorKind, RunError, Stats, WorkerStats};
use gt_ir::{Entry, HostTensor, Instr, Loc, Operand, Tape, ValueId};
use smallvec::SmallVec;

use super::core::Job;
use crate::assembly::whole;
use crate::clock;
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
}

/// What one session holds here.
#[derive(Default)]
struct Table {
    values: BTreeMap<ValueId, Slot>,
    instructions: u64,
    segments: u64,
    bytes_in: u64,
    bytes_out: u64,
}

enum Slot {
    Ready(Value),
    Failed(Arc<RunError>),
}

impl Executor {
    /// An executor that reports under `name`.
    #[must_use]
    pub fn new(engine: Box<dyn Engine>, name: String, log: Log) -> Self {
        Executor { engine, name, log, sessions: BTreeMap::new() }
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

    /// Does one job. Gives what is to be told to the dispatcher; a tensor is one chunk, however large.
    pub fn run(&mut self, job: Job) -> Option<FromWorker> {
        match job {
            Job::Run { session, seq, attempt, tape, inputs, .. } => {
                let began = clock::now();
                let instructions = self.segment(session, &tape, inputs);
                let nanos = u64::try_from((clock::now() - began).as_nanos()).unwrap_or(u64::MAX);
                Some(FromWorker::Done {
                    session,
                    seq,
                    attempt,
                    counts: Counts { instructions, nanos },
                })
            }
            Job::Fetch { session, request, value } => Some(match self.fetch(session, value) {
                Ok(data) => FromWorker::Chunk { session, request, chunk: whole(value, data) },
                Err(error) => FromWorker::Failed { session, request, error },
            }),
            Job::Stats { session, request } => {
                Some(FromWorker::Stats { session, request, stats: Box::new(self.stats(session)) })
            }
            Job::End { session } => {
                let freed = self.sessions.remove(&session).map_or(0, |table| table.values.len());
                let name = Source::Worker(&self.name);
                self.log.line(
                    What::Execute,
                    name,
                    "EndSession",
                    0,
                    format_args!("{session}: {freed} values freed"),
                );
                None
            }
        }
    }

    fn segment(&mut self, session: SessionId, tape: &Tape, mut inputs: Inputs) -> u64 {
        let Executor { engine, name, log, sessions } = self;
        let table = sessions.entry(session).or_default();
        let mut log = log.entry();
        let mut instructions = 0;
        for entry in &tape.entries {
            match entry {
                Entry::Instr(instr) => {
                    instructions += 1;
                    let slot = table.execute(engine.as_mut(), instr, name);
                    if let Some(log) = &mut log {
                        log_instruction(log, name, instr, &slot);
                    }
                    table.values.insert(instr.out, slot);
                }
                Entry::Free(value) => {
                    table.values.remove(value);
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
                    let slot = table.upload(engine.as_mut(), *out, given, name);
                    table.values.insert(*out, slot);
                }
                Entry::Enter(_) | Entry::Exit(_) | Entry::Output { .. } => {}
            }
        }
        table.instructions += instructions;
        table.segments += 1;
        instructions
    }

    fn fetch(&mut self, session: SessionId, value: ValueId) -> Result<HostTensor, Arc<RunError>> {
        let table = self.sessions.entry(session).or_default();
        let held = match table.values.get(&value) {
            Some(Slot::Ready(held)) => held,
            Some(Slot::Failed(error)) => return Err(error.clone()),
            None => {
                let message = format!(
                    "{value} is not here: it was never computed, or freed before it was read"
                );
                return Err(error(ErrorKind::Internal, message, value, Loc::NONE, &self.name));
            }
        };
        let data = self
            .engine
            .download(held)
            .map_err(|e| error(kind(&e), e.to_string(), value, Loc::NONE, &self.name))?;
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
        let engine = self.engine.stats();
        let worker = WorkerStats {
            name: self.name.clone(),
            engine: self.engine.info().name,
            kernels_compiled: engine.kernels_compiled,
            compile_ns: u64::try_from(engine.compile_time.as_nanos()).unwrap_or(u64::MAX),
            ..self.sessions.get(&session).map(Table::stats).unwrap_or_default()
        };
        Stats { workers: vec![worker] }
    }
}

type Inputs = BTreeMap<ValueId, Result<HostTensor, String>>;

impl Table {
    fn stats(&self) -> WorkerStats {
        let bytes =
            |slot: &Slot| if let Slot::Ready(value) = slot { value.bytes() as u64 } else { 0 };
        WorkerStats {
            instructions: self.instructions,
            segments: self.segments,
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
            live_bytes: self.values.values().map(bytes).sum(),
            ..WorkerStats::default()
        }
    }

    fn execute(&self, engine: &mut dyn Engine, instr: &Instr, worker: &str) -> Slot {
        let mut args: SmallVec<[Arg<'_>; 4]> = SmallVec::new();
        for input in &instr.inputs {
            match input {
                Operand::Scalar(scalar) => args.push(Arg::Scalar(*scalar)),
                Operand::Value(value) => match self.values.get(value) {
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
        match engine.execute(&instr.op, &args) {
            Ok(value) => Slot::Ready(value),
            Err(e) => Slot::Failed(error(
                kind(&e),
                describe(&e, instr, &args),
                instr.out,
                instr.loc,
                worker,
            )),
        }
    }

    fn upload(
        &mut self,
        engine: &mut dyn Engine,
        out: ValueId,
        given: Result<HostTensor, String>,
        worker: &str,
    ) -> Slot {
        let uploaded = given.map_err(|why| (ErrorKind::Internal, why)).and_then(|data| {
            self.bytes_in += data.bytes().len() as u64;
            engine.upload(&data).map_err(|e| (kind(&e), e.to_string()))
        });
        match uploaded {
            Ok(value) => Slot::Ready(value),
            Err((kind, why)) => {
                Slot::Failed(error(kind, format!("upload of {out}: {why}"), out, Loc::NONE, worker))
            }
        }
    }
}

fn kind(error: &EngineError) -> ErrorKind {
    match error {
        EngineError::Op(_) | EngineError::Index { .. } => ErrorKind::Instruction,
        EngineError::OutOfMemory { .. } => ErrorKind::Resource,
        EngineError::Call(_) | EngineError::Codegen(_) => ErrorKind::Internal,
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
