//! Segments that run as one program: launches as plans, and segments that are compiled at their
//! first run.

use std::sync::Arc;
use std::time::Duration;

use gt_compiler::engine::{EngineError, Value};
use gt_ir::Tape;
use gt_ir::canonical::Bindings;

use super::spared::left_out;
use super::{Executor, lend};
use crate::capture::interval;
use crate::clock::{self, Time};
use crate::ids::SessionId;
use crate::log::{Line, Log, Source, What};
use crate::profile;
use crate::spans::Words;
use crate::wire::codec::cut;
use crate::wire::{Doing, FromWorker, Moment, Planned};
use crate::worker::at_once;
use crate::worker::definition::Definition;
use crate::worker::device::Device;
use crate::worker::fates::Sparing;
use crate::worker::job::Inputs;
use crate::worker::plans::Plan;
use crate::worker::table::{Outcome, Table};

impl Executor {
    /// Runs a launch as a plan. Says whether it did; if not, nothing has changed.
    pub(super) fn replay(
        &mut self,
        session: SessionId,
        launch: (&Arc<Definition>, &Arc<Bindings>),
        inputs: &Inputs,
        out: &mut Vec<FromWorker>,
    ) -> bool {
        if self.plans.is_off() {
            return false;
        }
        let owner = (self.registration, session);
        let Executor {
            device, name, log, sessions, plans, inputs: given, ran: last, capture, ..
        } = self;
        let table = sessions.entry(session).or_default();
        let (defined, bindings) = launch;
        if !lend(device, table, defined, bindings, given) {
            return false;
        }
        let types = given.iter().map(|value| &value.ty);
        let spared = plans.spared(owner, defined, types.clone());
        let spared = spared.and_then(|spared| Some((spared, device.nothing()?)));
        let plan = plans.get(owner, defined, spared.as_ref().map(|(spared, _)| spared), types);
        if let Some(planned) = plan.and_then(|plan| plan.news_for(&defined.plan)) {
            let began = plan.and_then(|plan| plan.began());
            log_plan(log, name, session, began, &planned);
            if let (Some(began), true) = (began, capture.is_on()) {
                let end = began + Duration::from_nanos(planned.nanos);
                let (of, n) = (Some((session, 0)), planned.instructions);
                let made = Moment { of, n, ..interval(Doing::Compile, began, end) };
                let words = Words::Signals(defined.signals());
                capture.add_of(clock::now(), made, table.origin.as_ref(), planned.key, words);
            }
            out.push(FromWorker::Planned { session, planned: Box::new(planned) });
        }
        let tape = spared.as_ref().map_or(&defined.template.tape, |(spared, _)| &spared.tape);
        let tape = profile::is_on().then(|| tape.clone());
        let plan = plan.cloned();
        let ran = plan.as_ref().is_some_and(|plan| {
            let of = (&**plan, false, spared.clone());
            let mut ran = run_plan(device, of, table, launch, inputs, given);
            if ran == Err(Stopped::Short) && plans.shrink(plan, device.room()) {
                let text = short_of_memory(defined.footprint.n_instrs);
                out.push(FromWorker::Note { session, text: cut(text).into() });
                if lend(device, table, defined, bindings, given) {
                    ran = run_plan(device, (plan, true, spared), table, launch, inputs, given);
                }
            }
            ran.is_ok()
        });
        if let (true, Some(tape), Some((program, types))) =
            (ran, tape, plan.as_deref().and_then(Plan::for_profile))
        {
            *last = Some((program, tape, types));
        }
        given.clear();
        for note in device.engine.notes() {
            out.push(FromWorker::Note { session, text: cut(note).into() });
        }
        ran
    }

    /// Runs a segment, or a launch of a template without a plan, as one program, if this pays or if
    /// memory is short. Returns the number of instructions if it ran.
    pub(super) fn at_once(
        &mut self,
        session: SessionId,
        (tape, is_launch): (&Tape, bool),
        inputs: &Inputs,
    ) -> Option<u64> {
        if self.plans.is_off() {
            return None;
        }
        let table = self.sessions.entry(session).or_default();
        at_once::run(&mut self.device, &self.plans, table, (tape, is_launch), inputs)
    }
}

/// Writes into the log that a plan was made, and when.
fn log_plan(log: &Log, worker: &str, session: SessionId, began: Option<Time>, plan: &Planned) {
    let took = Duration::from_nanos(plan.nanos);
    let ago = began.map_or(Duration::ZERO, |at| clock::now().saturating_sub(at + took));
    let line = Line { ago, ..Line::new(What::Compile, Source::Worker(worker), "Plan").took(took) };
    let Planned { instructions, kernels, cached, failed, .. } = plan;
    let found = if *cached { " found on disk" } else { "" };
    let made = failed.as_deref().map_or_else(|| format!("{kernels} kernels{found}"), str::to_owned);
    let line = line.of(session, 0);
    log.write(&line, format_args!("{session}: {instructions} instructions became {made}"));
}

/// Why a plan did not run. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stopped {
    /// Memory is short.
    Short,
    /// It is not made yet, a value is missing, or the plan failed.
    Otherwise,
}

/// The note about a plan that makes values again.
fn short_of_memory(n_instrs: usize) -> String {
    format!(
        "memory is short: a plan of {n_instrs} instructions is made that computes values again in \
         place of keeping them"
    )
}

/// Runs a plan, if it is made, or its program for less memory if it `must` be that. `given` holds
/// clones of the values at its boundary.
fn run_plan(
    device: &mut Device,
    (plan, must, spared): (&Plan, bool, Option<(Arc<Sparing>, Value)>),
    table: &mut Table,
    launch: (&Arc<Definition>, &Arc<Bindings>),
    inputs: &Inputs,
    given: &mut Vec<Value>,
) -> Result<(), Stopped> {
    let ready = plan.ready().ok_or(Stopped::Otherwise)?;
    let (defined, bindings) = launch;
    let mut bytes_in = 0;
    for (at, _) in &defined.footprint.uploads {
        let data = bindings.defined.get(*at as usize).and_then(|value| inputs.get(&value));
        let Some(Ok(data)) = data else { return Err(Stopped::Otherwise) };
        let value = device.retried(|engine| engine.upload(data));
        let value = value.map_err(|_| Stopped::Otherwise)?;
        bytes_in += data.bytes().len() as u64;
        given.push(value);
    }
    let freed = defined.footprint.freed.iter().filter_map(|&at| bindings.inputs.get(at as usize));
    // The table gives up the values that the segment frees, so that the program can reuse their
    // memory.
    for &value in freed {
        table.remove(value);
    }
    let left_out = spared.map(|(spared, nothing)| (left_out(&spared, launch, given), nothing));
    let smaller = plan.smaller(must, || device.room());
    let program = smaller.as_ref().unwrap_or(&ready.program);
    match device.retried(|engine| engine.run(program, given, &bindings.scalars)) {
        Ok(results) => {
            for (result, kept) in results.into_iter().zip(&ready.outputs) {
                let Some((at, ty)) = *kept else { continue };
                if let Some(out) = bindings.defined.get(at as usize) {
                    table.insert(out, Outcome::Ready(result.retyped(ty).unwrap_or(result)));
                    if profile::is_on() {
                        table.made_at(out, defined.line_of(at));
                    }
                }
            }
            if let Some((watched, nothing)) = left_out {
                table.leave_out(watched, &nothing);
            }
            table.ran_plan(defined.footprint.n_instrs as u64, bytes_in);
            Ok(())
        }
        Err(error) => {
            for (&value, held) in bindings.inputs.iter().zip(given.drain(..)) {
                table.insert(value, Outcome::Ready(held));
            }
            match error {
                EngineError::OutOfMemory { .. } => Err(Stopped::Short),
                EngineError::Op(_)
                | EngineError::Index { .. }
                | EngineError::Call(_)
                | EngineError::Device(_)
                | EngineError::Missing { .. }
                | EngineError::Codegen(_)
                | EngineError::Torch(_) => Err(Stopped::Otherwise),
            }
        }
    }
}
