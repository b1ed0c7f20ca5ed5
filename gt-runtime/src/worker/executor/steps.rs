//! Segments that run instruction by instruction.
//!
//! A failed instruction's error takes the place of its result. An out-of-memory error names what
//! each client holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use gt_compiler::engine::{Arg, Engine};
use gt_ir::backend::{ErrorKind, RunError};
use gt_ir::error::Hinted as _;
use gt_ir::{Entry, HostTensor, Instr, Loc, Operand, Tape, Type, ValueId};
use smallvec::SmallVec;

use super::{Executor, Trouble, since};
use crate::clock::{self, Time};
use crate::ids::SessionId;
use crate::log::{Line, Log, Signals, Source, What};
use crate::profile;
use crate::wire::{Doing, FromWorker, Order};
use crate::worker::device::Device;
use crate::worker::faults::{describe, error, kind};
use crate::worker::job::{Begun, Inputs, Missing, Ran, Task};
use crate::worker::jobs::Jobs;
use crate::worker::memory;
use crate::worker::table::{Outcome, Table};

/// The nanoseconds that a segment runs instruction by instruction before it may give way.
const SLICE: u64 = 2_000_000;

impl Executor {
    /// Runs a segment instruction by instruction, to its end or until others go first.
    pub(super) fn step_by_step(
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
        self.segment(
            (task.session, task.seq),
            &tape,
            &mut task.inputs,
            &mut task.begun,
            &mut give_way,
        );
        let nanos = since(began);
        task.begun.nanos += nanos;
        if task.begun.entries < tape.entries.len() {
            if self.capture.is_on() {
                self.note(Doing::Run, (task.session, task.seq), (began, nanos), 0);
            }
            let rest = Task { order: Order::Run(tape), template: None, ..task };
            return Ran::Paused(rest, nanos);
        }
        self.profile_segment(&tape, task.begun.nanos);
        let n_instrs = tape.instrs().count() as u64;
        out.push(self.done(&task, n_instrs, (began, task.begun.nanos), false));
        Ran::Done(Some(task.session), nanos)
    }

    /// Runs the entries of a tape that have not run, until `give_way` says so.
    pub(super) fn segment(
        &mut self,
        (session, seq): (SessionId, u64),
        tape: &Tape,
        inputs: &mut Inputs,
        begun: &mut Begun,
        give_way: &mut impl FnMut() -> bool,
    ) {
        let Executor { device, name, log, sessions, trouble, .. } = self;
        let mut table = sessions.entry(session).or_default();
        let mut told = Told { log, worker: name, of: (session, seq), signals: Signals::default() };
        tape.entries[..begun.entries].iter().for_each(|entry| told.signals.pass(entry));
        let mut instructions = 0;
        for entry in &tape.entries[begun.entries..] {
            begun.entries += 1;
            match entry {
                Entry::Instr(instr) => {
                    instructions += 1;
                    let began = told.now();
                    let mut outcome = table.execute(device, instr, name, trouble);
                    if trouble.was_short() {
                        outcome = explained(outcome, sessions, session, device.engine.as_ref());
                        table = sessions.entry(session).or_default();
                    }
                    told.instruction(device, instr, began, &outcome);
                    told.profile(device, table, instr, began, &outcome);
                    table.insert(instr.out, outcome);
                    if profile::is_on() {
                        table.made_at(instr.out, instr.loc);
                        tell_held([&*table], device);
                    }
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
                    let began = told.now();
                    let mut outcome = table.upload(device, *out, given, name, trouble);
                    told.upload(*out, ty, began);
                    if trouble.was_short() {
                        outcome = explained(outcome, sessions, session, device.engine.as_ref());
                        table = sessions.entry(session).or_default();
                    }
                    table.insert(*out, outcome);
                }
                Entry::Enter(_) | Entry::Exit(_) => told.signals.pass(entry),
                Entry::Output { .. } => {}
            }
        }
        table.instructions += instructions;
        table.interpreted += instructions;
        table.segments += u64::from(begun.entries == tape.entries.len());
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

impl Table {
    pub(super) fn execute(
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
fn explained(
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

/// Tells the profile which lines made the values that are held, if they are more than ever.
pub(super) fn tell_held<'t>(tables: impl IntoIterator<Item = &'t Table>, device: &Device) {
    let live = device.engine.stats().live_bytes as u64;
    if profile::is_most(live) {
        let mut sums = BTreeMap::new();
        tables.into_iter().for_each(|table| table.held_by_line(&mut sums));
        profile::held(live, sums);
    }
}

/// What a segment tells the log.
struct Told<'a> {
    log: &'a Log,
    worker: &'a str,
    of: (SessionId, u64),
    signals: Signals<'a>,
}

impl Told<'_> {
    /// The time, if somebody wants to know how long something takes.
    fn now(&self) -> Option<Time> {
        (self.log.is_on() || profile::is_on()).then(clock::now)
    }

    fn line(&self, what: What, began: Time) -> Line<'_> {
        let line = Line::new(what, Source::Worker(self.worker), "Upload");
        line.took(clock::now().saturating_sub(began)).of(self.of.0, self.of.1)
    }

    fn profile(
        &self,
        device: &Device,
        table: &Table,
        instr: &Instr,
        began: Option<Time>,
        outcome: &Outcome,
    ) {
        let (Some(began), true, Outcome::Ready(out)) = (began, profile::is_on(), outcome) else {
            return;
        };
        let inputs = instr.inputs.iter().filter_map(|input| match input {
            Operand::Value(value) => match table.get(*value) {
                Some(Outcome::Ready(held)) => Some(held.ty),
                Some(Outcome::Failed(_)) | None => None,
            },
            Operand::Scalar(_) => None,
        });
        let inputs: SmallVec<[Type; 4]> = inputs.collect();
        let live = device.engine.stats().live_bytes as u64;
        profile::instruction(instr, &self.signals.path(), &inputs, &out.ty, (began, live));
    }

    fn upload(&self, out: ValueId, ty: &Type, began: Option<Time>) {
        let Some(began) = began else { return };
        let line = self.line(What::Execute, began).bytes(ty.bytes() as u64);
        self.log.write(&line, format_args!("{out}: {ty}"));
    }

    fn instruction(&self, device: &Device, instr: &Instr, began: Option<Time>, outcome: &Outcome) {
        let Some(began) = began else { return };
        let live = device.engine.stats().live_bytes as u64;
        match (outcome, self.log.entry()) {
            (_, None) => (),
            (Outcome::Ready(value), Some(mut entry)) => {
                let line = Line { live, ..self.line(What::Execute, began) };
                let line = line.bytes(value.bytes() as u64);
                entry.instruction(&line, instr, &self.signals, format_args!(" : {}", value.ty));
            }
            (Outcome::Failed(error), Some(mut entry)) => {
                let line = self.line(What::Error, began);
                entry.instruction(&line, instr, &self.signals, format_args!(": {}", error.message));
            }
        }
    }
}
