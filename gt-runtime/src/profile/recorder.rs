//! What a profile adds up while the program runs, and the spans that it keeps.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use gt_compiler::Program;
use gt_ir::{Instr, Loc, Op, Tape, Type};

use super::nanos;
use super::report::Phase;
use crate::clock::Time;

/// The most spans that are kept for the timeline, jobs of plans included.
const MAX_SPANS: usize = 300_000;
/// The most different instructions, and the most different plans.
const MAX_KEPT: usize = 1 << 14;
/// The most samples of memory. If there are more, every second one is dropped.
const MAX_SAMPLES: usize = 1 << 14;

thread_local! {
    /// When this thread came back from its last call.
    static LEFT: Cell<Option<Time>> = const { Cell::new(None) };
}

/// Sums of something that was done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Total {
    pub(super) calls: u64,
    pub(super) nanos: f64,
    pub(super) flops: f64,
    pub(super) bytes: f64,
}

impl Total {
    pub(super) fn add(&mut self, other: Total) {
        self.calls += other.calls;
        self.nanos += other.nanos;
        self.flops += other.flops;
        self.bytes += other.bytes;
    }
}

/// Where a span is drawn.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lane {
    Program,
    Worker(Arc<str>),
    Compiler,
}

/// What a span is.
#[derive(Clone, Debug)]
pub(super) enum Name {
    /// Something at a line.
    At(&'static str, Loc),
    /// A launch of the plan with this number, and the nanoseconds of its jobs.
    Plan(usize, Vec<u64>),
}

/// An interval, in nanoseconds since the beginning.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) lane: Lane,
    pub(super) at: u64,
    pub(super) nanos: u64,
    pub(super) name: Name,
}

/// A plan, with the lines of one session, and what its launches took.
pub(super) struct Launches {
    pub(super) program: Program,
    pub(super) tape: Arc<Tape>,
    pub(super) types: Vec<Type>,
    pub(super) runs: u64,
    pub(super) nanos: u64,
    pub(super) jobs: Vec<u64>,
}

/// An instruction by itself: where, which op, in which signals.
type Key = (Loc, &'static str, Arc<str>);

pub(super) struct Recorder {
    pub(super) began: Time,
    pub(super) phases: BTreeMap<Phase, Total>,
    pub(super) instructions: HashMap<Key, Total>,
    signals: HashMap<String, Arc<str>>,
    numbers: HashMap<(usize, usize), usize>,
    pub(super) plans: Vec<Launches>,
    pub(super) spans: Vec<Span>,
    room: usize,
    /// The spans for which there was no room.
    pub(super) lost: u64,
    /// Bytes in use after a piece of work, and the line of the work.
    pub(super) samples: Vec<(u64, u64, Loc)>,
    pub(super) peak: (u64, Loc),
    /// The bytes in use when about the most were, and those of values by the lines that made them.
    pub(super) held: (u64, BTreeMap<Loc, u64>),
    /// One piece of work of so many is a sample.
    every: u64,
    n_seen: u64,
}

impl Recorder {
    pub(super) fn new(began: Time) -> Recorder {
        Recorder {
            began,
            phases: BTreeMap::new(),
            instructions: HashMap::new(),
            signals: HashMap::new(),
            numbers: HashMap::new(),
            plans: Vec::new(),
            spans: Vec::new(),
            room: MAX_SPANS,
            lost: 0,
            samples: Vec::new(),
            peak: (0, Loc::NONE),
            held: (0, BTreeMap::new()),
            every: 1,
            n_seen: 0,
        }
    }

    /// A thread of the program calls: since its last call it recorded. A call within another one
    /// divides it.
    pub(super) fn enters(&mut self, now: Time) {
        let since = LEFT.get().unwrap_or(self.began).max(self.began);
        let took = nanos(now.saturating_sub(since));
        self.spent(Phase::Record, took, 0);
        self.span(Lane::Program, now, took, Name::At("record", Loc::NONE));
        LEFT.set(Some(now));
    }

    /// The call that began then is over. What a call within it took is not its own.
    pub(super) fn leaves(&mut self, phase: Phase, began: Time, now: Time) {
        let began = LEFT.get().map_or(began, |left| began.max(left));
        let took = nanos(now.saturating_sub(began));
        self.spent(phase, took, 0);
        let name = if phase == Phase::Record { "submit" } else { phase.name() };
        self.span(Lane::Program, now, took, Name::At(name, Loc::NONE));
        LEFT.set(Some(now));
    }

    pub(super) fn spent(&mut self, phase: Phase, took: u64, bytes: u64) {
        let done = Total { calls: 1, nanos: took as f64, flops: 0.0, bytes: bytes as f64 };
        self.phases.entry(phase).or_default().add(done);
    }

    /// Keeps a span that ends now.
    pub(super) fn span(&mut self, lane: Lane, now: Time, took: u64, name: Name) {
        let size = if let Name::Plan(_, jobs) = &name { 1 + jobs.len() } else { 1 };
        let Some(room) = self.room.checked_sub(size) else {
            self.lost += 1;
            return;
        };
        self.room = room;
        let at = nanos(now.saturating_sub(self.began)).saturating_sub(took);
        self.spans.push(Span { lane, at, nanos: took, name });
    }

    pub(super) fn instruction(
        &mut self,
        instr: &Instr,
        signal: &str,
        (inputs, out): (&[Type], &Type),
        took: u64,
    ) {
        let signal = match self.signals.get(signal) {
            Some(known) => known.clone(),
            None if self.signals.len() >= MAX_KEPT => "".into(),
            None => {
                let new: Arc<str> = signal.into();
                self.signals.insert(signal.to_owned(), new.clone());
                new
            }
        };
        let key = (instr.loc, instr.op.name(), signal);
        let is_full = self.instructions.len() >= MAX_KEPT;
        let key = match self.instructions.contains_key(&key) || !is_full {
            true => key,
            false => (Loc::NONE, instr.op.name(), "".into()),
        };
        let bytes = inputs.iter().chain([out]).map(|ty| ty.bytes() as f64).sum();
        let flops = flops(&instr.op, inputs, out);
        let done = Total { calls: 1, nanos: took as f64, flops, bytes };
        self.instructions.entry(key).or_default().add(done);
    }

    pub(super) fn launch(
        &mut self,
        worker: &Arc<str>,
        program: &Program,
        tape: &Arc<Tape>,
        types: &[Type],
        (now, took): (Time, u64),
    ) {
        let id = (program.id(), Arc::as_ptr(tape) as usize);
        let number = match self.numbers.get(&id) {
            Some(&number) => number,
            None if self.plans.len() >= MAX_KEPT => return,
            None => {
                self.plans.push(Launches {
                    program: program.clone(),
                    tape: tape.clone(),
                    types: types.to_vec(),
                    runs: 0,
                    nanos: 0,
                    jobs: Vec::new(),
                });
                self.numbers.insert(id, self.plans.len() - 1);
                self.plans.len() - 1
            }
        };
        let jobs = program.metered();
        let plan = &mut self.plans[number];
        plan.runs += 1;
        plan.nanos += took;
        plan.jobs.resize(jobs.len().max(plan.jobs.len()), 0);
        plan.jobs.iter_mut().zip(&jobs).for_each(|(sum, nanos)| *sum += nanos);
        self.span(Lane::Worker(worker.clone()), now, took, Name::Plan(number, jobs));
    }

    /// Notes the bytes in use after the work of a line.
    pub(super) fn memory(&mut self, now: Time, live: u64, loc: Loc) {
        if live > self.peak.0 {
            self.peak = (live, loc);
        }
        self.n_seen += 1;
        if !self.n_seen.is_multiple_of(self.every) {
            return;
        }
        if self.samples.len() >= MAX_SAMPLES {
            let mut n = 0;
            self.samples.retain(|_| {
                n += 1;
                n % 2 == 0
            });
            self.every *= 2;
        }
        self.samples.push((nanos(now.saturating_sub(self.began)), live, loc));
    }
}

/// The floating-point operations of an instruction, as the cost model counts them.
pub(super) fn flops(op: &Op, inputs: &[Type], out: &Type) -> f64 {
    let numel = |ty: &Type| ty.shape.numel() as f64;
    let widest = inputs.iter().map(numel).fold(numel(out), f64::max);
    match (op, inputs) {
        (Op::MatMul, [lhs, ..]) => {
            2.0 * numel(out) * lhs.shape.sizes().last().copied().unwrap_or(1) as f64
        }
        _ => f64::from(op.spec().marks.weight) * widest,
    }
}
