//! Profiles: where the time of a program goes, by line, op, kernel, signal and phase.
//!
//! A profile is on for the whole process, by [`Profiler`] or by `GT_PROFILE=run.json`. While it is
//! off, each hook costs one look at a flag. While it is on, the executor adds up times by
//! instruction and by job of a plan; a part of the runs is also kept as spans for a timeline. All
//! memory is bounded: what there is no room for is counted in the sums and missing in the timeline.
//! A program on a server sees its own side; the server's workers profile their side with a
//! `GT_PROFILE` of their own.

mod attribute;
mod chrome;
mod environment;
mod finish;
mod recorder;
mod report;
mod table;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gt_compiler::meter;
use gt_ir::{Instr, Loc, Tape, Type};

use crate::clock::{self, Time};
pub use crate::machine::Machine;
pub use environment::VARIABLE;
pub(crate) use environment::begin as from_environment;
use recorder::{Lane, Name, Recorder};
pub use report::{Kernel, Memory, Phase, Profile, Row};

static IS_ON: AtomicBool = AtomicBool::new(false);
static RECORDER: Mutex<Option<Box<Recorder>>> = Mutex::new(None);

/// Whether a profile is being taken.
#[inline]
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

fn recorder() -> MutexGuard<'static, Option<Box<Recorder>>> {
    // Sums are whole after a panic, except for the call that panicked.
    RECORDER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A profile under way. It ends with [`Profiler::finish`], or without a report when it is dropped.
#[derive(Debug)]
pub struct Profiler(());

impl Profiler {
    /// Begins a profile of this process. None if one is under way.
    #[must_use]
    pub fn start() -> Option<Profiler> {
        let mut recorder = recorder();
        if recorder.is_some() {
            return None;
        }
        *recorder = Some(Box::new(Recorder::new(clock::now())));
        meter::turn(true);
        IS_ON.store(true, Ordering::Relaxed);
        Some(Profiler(()))
    }

    /// Ends the profile. Work that has not run is not in it, so read a value before.
    #[must_use]
    pub fn finish(self) -> Profile {
        let taken = recorder().take();
        drop(self);
        taken.map_or_else(Profile::default, |recorder| recorder.report(clock::now()).measured())
    }

    /// The profile so far, compared with what the machine can do if that is known.
    #[must_use]
    pub fn look() -> Option<Profile> {
        recorder().as_ref().map(|recorder| recorder.report(clock::now()))
    }

    /// As [`Profiler::look`], without the timeline, which is nearly all of the work.
    pub(crate) fn sums() -> Option<Profile> {
        recorder().as_ref().map(|recorder| recorder.sums(clock::now()))
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        IS_ON.store(false, Ordering::Relaxed);
        meter::turn(false);
        *recorder() = None;
    }
}

/// Does something with the recorder, if a profile is being taken.
fn record(act: impl FnOnce(&mut Recorder)) {
    if let Some(recorder) = &mut *recorder() {
        act(recorder);
    }
}

/// A call of a program's thread into the system. Dropped at its end.
pub(crate) struct Call {
    /// The beginning, if a profile is being taken.
    began: Option<Time>,
    phase: Phase,
}

impl Call {
    /// A call that hands over work. What the thread did since its last call was recording.
    pub(crate) fn submit() -> Call {
        Call::begin(Phase::Record)
    }

    /// A call that waits for a value.
    pub(crate) fn wait() -> Call {
        Call::begin(Phase::Wait)
    }

    fn begin(phase: Phase) -> Call {
        if !is_on() {
            return Call { began: None, phase };
        }
        let now = clock::now();
        record(|recorder| recorder.enters(now));
        Call { began: Some(now), phase }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(began) = self.began {
            record(|recorder| recorder.leaves(self.phase, began, clock::now()));
        }
    }
}

/// An instruction ran by itself.
pub(crate) fn instruction(
    instr: &Instr,
    signal: &str,
    inputs: &[Type],
    out: &Type,
    (began, live): (Time, u64),
) {
    let nanos = nanos(clock::now().saturating_sub(began));
    record(|recorder| {
        recorder.instruction(instr, signal, (inputs, out), nanos);
        recorder.memory(clock::now(), live, instr.loc);
    });
}

/// Whether so many bytes are more than were held when [`held`] was called last, by more than a few.
pub(crate) fn is_most(live: u64) -> bool {
    recorder().as_ref().is_some_and(|recorder| live > recorder.held.0 + recorder.held.0 / 64)
}

/// A worker holds values of so many bytes in all, by the lines that made them.
pub(crate) fn held(live: u64, lines: BTreeMap<Loc, u64>) {
    record(|recorder| recorder.held = (live, lines));
}

/// A segment ran instruction by instruction, or as one program at its first run.
pub(crate) fn segment(worker: &Arc<str>, first: Loc, took: u64) {
    let now = clock::now();
    record(|recorder| {
        recorder.spent(Phase::Run, took, 0);
        recorder.span(Lane::Worker(worker.clone()), now, took, Name::At("segment", first));
    });
}

/// A plan of a template's tape ran.
pub(crate) fn launch(
    worker: &Arc<str>,
    program: &gt_compiler::Program,
    tape: &Arc<Tape>,
    types: &[Type],
    (took, live): (u64, u64),
) {
    let now = clock::now();
    let first = tape.instrs().next().map_or(Loc::NONE, |instr| instr.loc);
    record(|recorder| {
        recorder.spent(Phase::Run, took, 0);
        recorder.launch(worker, program, tape, types, (now, took));
        recorder.memory(now, live, first);
    });
}

/// A worker did something else: it made a plan, read a value or gave it to another worker.
pub(crate) fn work(worker: &Arc<str>, phase: Phase, took: u64, bytes: u64) {
    if !is_on() {
        return;
    }
    let now = clock::now();
    record(|recorder| {
        recorder.spent(phase, took, bytes);
        let lane = match phase {
            Phase::Plan => Lane::Compiler,
            _ => Lane::Worker(worker.clone()),
        };
        recorder.span(lane, now, took, Name::At(phase.name(), Loc::NONE));
    });
}

fn nanos(time: Time) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
