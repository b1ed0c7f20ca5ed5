//! A worker of a simulation: the real end of the connection and line of reads, with an executor of
//! its own: the reference interpreter. Reads are answered late and in pieces, and other jobs run
//! meanwhile.

use super::Random;
use crate::assembly::{self, Travel};
use crate::clock::Time;
use crate::connection::ConnectionConfig;
use crate::dispatcher::holdings::Holding;
use crate::identity::Identity;
use crate::ids::{Incarnation, PeerId, RequestId, SessionId};
use crate::link::Transport;
use crate::wire::{Capacity, Counts, Door, FromWorker, Order, Packet};
use crate::worker::end::News;
use crate::worker::job::{self, Missing};
use crate::worker::jobs::{Assigned, Lines};
use crate::worker::line::Line;
use crate::worker::queue::Items as _;
use crate::worker::siblings::{Action, Road};
use crate::worker::{Job, Task, WorkerEnd};
use gt_ir::backend::{ErrorKind, RunError, Stats};
use gt_ir::canonical::expand;
use gt_ir::interp::{self, Arg};
use gt_ir::tape::{Entry, Instr, Tape, ValueId};
use gt_ir::{HostTensor, Operand};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(super) struct Worker {
    pub(super) life: Incarnation,
    pub(super) end: WorkerEnd,
    jobs: Lines,
    /// The job that it does, and the nanoseconds that it takes.
    out: Option<(Job, u64)>,
    /// When this job ends, or the next one begins.
    pub(super) next_job: Time,
    /// Whether a session's segments take about equally long.
    is_even: bool,
    /// The nanoseconds that each session has used.
    pub(super) used: BTreeMap<SessionId, u64>,
    reads: Line<SessionId, Reading>,
    pub(super) next_read: Time,
    /// The values of each session.
    pub(super) held: BTreeMap<SessionId, BTreeMap<ValueId, Outcome>>,
}

/// The most nanoseconds of a session's jobs, where they take about equally long.
pub(super) fn longest(session: SessionId) -> u64 {
    100_000 << (session.0 % 6)
}

/// The engine of workers that compute what they are told.
pub(super) const HONEST: &str = "model";

/// The door of the worker at an address, in one life.
fn door(peer: PeerId, life: Incarnation) -> Door {
    let key = u128::from(life.0).to_le_bytes();
    Door { address: peer.0.to_string(), local: false, sealed: true, key }
}

/// The road between two workers, as the one that receives a packet sees it, and its address.
pub(super) fn address(road: &Road) -> PeerId {
    match road {
        Road::To(door) => PeerId(door.address.parse().expect("a worker's address")),
        Road::From(peer) => *peer,
    }
}

/// The road to the worker at an address, in one life.
pub(super) fn road_to(peer: PeerId, life: Incarnation) -> Road {
    Road::To(Arc::new(door(peer, life)))
}

/// A value, or the error in its place.
pub(super) type Outcome = Result<HostTensor, Arc<RunError>>;

/// An unfinished read: its answer, and the number of turns that it needs.
struct Reading {
    request: RequestId,
    value: ValueId,
    data: HostTensor,
    turns: u64,
}

/// A segment that ran.
pub(super) type Ran = (SessionId, u32, u64);

impl Worker {
    pub(super) fn new(
        now: Time,
        peer: PeerId,
        incarnation: Incarnation,
        config: ConnectionConfig,
        piece: usize,
        is_even: bool,
    ) -> Worker {
        let identity = Identity { name: "model".into(), host: "there".into(), pid: peer.0 as u32 };
        let door = (config.bulk.transport != Transport::Reliable)
            .then(|| Arc::new(door(peer, incarnation)));
        // Workers differ, so that sessions prefer some of them.
        let threads = 1 + peer.0 as u32 % 4;
        let capacity = Capacity { engine: HONEST.into(), threads, door, ..Capacity::default() };
        let end =
            WorkerEnd::dial(now, incarnation, identity, capacity, config, Travel::Pieces(piece));
        Worker {
            life: incarnation,
            end,
            jobs: Lines::default(),
            out: None,
            is_even,
            used: BTreeMap::new(),
            next_job: Time::MAX,
            reads: Line::default(),
            next_read: Time::MAX,
            held: BTreeMap::new(),
        }
    }

    /// Returns the reason if the connection is over.
    pub(super) fn receive(
        &mut self,
        now: Time,
        random: &mut Random,
        packet: Packet,
    ) -> Option<String> {
        let (mut jobs, mut over) = (Vec::new(), None);
        self.end.receive(now, packet, &mut jobs, |news| {
            if let News::Ended(ending) = news {
                over = Some(ending.to_string());
            }
        });
        self.take_on(now, random, jobs);
        over
    }

    /// Takes a packet of another worker. Returns the packets that follow from it.
    pub(super) fn receive_from(
        &mut self,
        now: Time,
        random: &mut Random,
        road: &Road,
        packet: Packet,
    ) -> Vec<Action> {
        let (mut jobs, mut actions) = (Vec::new(), Vec::new());
        self.end.receive_from(now, road, packet, &mut jobs, &mut actions);
        self.take_on(now, random, jobs);
        actions
    }

    fn take_on(&mut self, now: Time, random: &mut Random, jobs: Vec<Job>) {
        jobs.into_iter().for_each(|job| self.jobs.add(0, job));
        if self.out.is_none() && !self.jobs.is_empty() && self.next_job == Time::MAX {
            self.next_job = now + Duration::from_micros(random.below(20_000));
        }
    }

    /// Ends the job that is out, and begins the next one.
    pub(super) fn work(&mut self, now: Time, random: &mut Random) -> Option<Ran> {
        let ran = self.out.take().and_then(|(job, nanos)| self.finish(now, random, job, nanos));
        self.out = self.jobs.take().map(|Assigned(_, job)| {
            let nanos = self.nanos(random, &job);
            (job, nanos)
        });
        let end = |(_, nanos): &(Job, u64)| now + Duration::from_nanos(*nanos);
        self.next_job = self.out.as_ref().map_or(Time::MAX, end);
        ran
    }

    /// How long a job takes.
    fn nanos(&self, random: &mut Random, job: &Job) -> u64 {
        match job {
            Job::Task(task) if self.is_even => {
                let longest = longest(task.session);
                longest / 2 + random.below(longest / 2)
            }
            Job::Task(_) => {
                let slow = if random.percent(2) { 100 } else { 1 };
                random.below(10_000_000 * slow)
            }
            Job::Open { .. } | Job::Planned | Job::End { .. } => 0,
        }
    }

    fn finish(&mut self, now: Time, random: &mut Random, job: Job, nanos: u64) -> Option<Ran> {
        let (session, ran) = match job {
            Job::Open { session, .. } => (Some(session), None),
            Job::Task(task) => {
                *self.used.entry(task.session).or_default() += nanos;
                (Some(task.session), self.task(now, random, task, nanos))
            }
            Job::Planned => (None, None),
            Job::End { session } => {
                self.held.remove(&session);
                self.reads.forget(session);
                (None, None)
            }
        };
        self.jobs.settle(0, job::Ran::Done(session, nanos));
        ran
    }

    fn task(&mut self, now: Time, random: &mut Random, task: Task, nanos: u64) -> Option<Ran> {
        let Task { session, attempt, seq, order, template, inputs, .. } = task;
        let tape = match order {
            Order::Run(tape) => tape,
            Order::Launch { bindings, .. } => {
                if random.percent(5) {
                    let planned = Box::default();
                    self.end.report(now, FromWorker::Planned { session, planned });
                }
                let template = template.expect("a launch comes with its template");
                let tape = expand(template.template(), &bindings);
                tape.unwrap_or_else(|why| panic!("{session} launched {seq}: {why}")).into()
            }
            Order::Fetch { request, value } => {
                self.fetch(now, random, session, request, value);
                return None;
            }
            Order::Stats { request } => {
                let stats = Box::new(Stats::default());
                self.end.report(now, FromWorker::Stats { session, request, stats });
                return None;
            }
            order => panic!("the core's own: {order:?}"),
        };
        let counts =
            Counts { instructions: self.run(session, &tape, inputs), nanos, ..Counts::default() };
        self.end.report(now, FromWorker::Done { session, seq, attempt, counts });
        Some((session, attempt, seq))
    }

    fn fetch(
        &mut self,
        now: Time,
        random: &mut Random,
        session: SessionId,
        request: RequestId,
        value: ValueId,
    ) {
        let data = self.held.get(&session).and_then(|held| held.get(&value)).cloned();
        let data = data
            .unwrap_or_else(|| panic!("{session} reads {value}, which this worker does not have"));
        let data = match data {
            Ok(data) => data,
            Err(error) => {
                return self.end.report(now, FromWorker::Failed { session, request, error });
            }
        };
        if random.percent(30) && !self.reads.has(session) {
            self.answer(now, session, request, value, data);
        } else {
            let turns = random.below(4);
            self.reads.add(session, Reading { request, value, data, turns });
            self.next_read = self.next_read.min(now);
        }
    }

    /// Gives the next read a turn.
    pub(super) fn read(&mut self, now: Time, random: &mut Random) {
        let slow = if random.percent(5) { 100 } else { 1 };
        self.next_read = now + Duration::from_micros(random.below(20_000 * slow));
        let Some((session, reading)) = self.reads.take() else {
            return self.next_read = Time::MAX;
        };
        if reading.turns > 0 {
            let unwanted = self.reads.put_back(Reading { turns: reading.turns - 1, ..reading });
            assert!(unwanted.is_none(), "its session was not forgotten");
            return;
        }
        let Reading { request, value, data, .. } = reading;
        self.answer(now, session, request, value, data);
        self.reads.finish();
    }

    fn answer(
        &mut self,
        now: Time,
        session: SessionId,
        request: RequestId,
        value: ValueId,
        data: HostTensor,
    ) {
        let chunk = assembly::whole(value, data);
        self.end.report(now, FromWorker::Chunk { session, request, chunk });
    }

    fn run(
        &mut self,
        session: SessionId,
        tape: &Tape,
        mut inputs: BTreeMap<ValueId, Result<HostTensor, Missing>>,
    ) -> u64 {
        let held = self.held.entry(session).or_default();
        let mut n_run = 0;
        for entry in &tape.entries {
            match entry {
                Entry::Input { out, .. } => {
                    let data = inputs.remove(out).expect("a segment runs when its data is there");
                    let outcome = data.map_err(|why| match why {
                        Missing::Failed(error) => error,
                        Missing::Broken(why) => panic!("{out} of {session}: {why}"),
                    });
                    held.insert(*out, outcome);
                }
                Entry::Instr(instr) => {
                    let value = compute(instr, held);
                    held.insert(instr.out, value);
                    n_run += 1;
                }
                Entry::Free(value) => {
                    let freed = held.remove(value).is_some();
                    assert!(freed, "{session} frees {value}, which this worker does not have");
                }
                Entry::Output { value, .. } => {
                    assert!(held.contains_key(value), "{session} has no {value}")
                }
                Entry::Enter(_) | Entry::Exit(_) => (),
            }
        }
        n_run
    }

    /// What it holds of each session.
    pub(super) fn holdings(&self) -> BTreeMap<SessionId, Holding> {
        let mut holdings = self.end.holdings();
        for (session, held) in &self.held {
            let values = held.keys().copied().collect();
            holdings.entry(*session).or_default().values = values;
        }
        holdings
    }

    pub(super) fn is_idle(&self) -> bool {
        self.out.is_none() && self.jobs.is_empty() && self.reads.is_empty() && self.end.is_idle()
    }
}

fn compute(instr: &Instr, held: &BTreeMap<ValueId, Outcome>) -> Outcome {
    let arg = |operand: &'_ Operand| match operand {
        Operand::Value(value) => {
            let known = held.get(value).unwrap_or_else(|| panic!("this worker has no {value}"));
            known.as_ref().map(Arg::Tensor).map_err(Arc::clone)
        }
        Operand::Scalar(scalar) => Ok(Arg::Scalar(*scalar)),
    };
    let args = instr.inputs.iter().map(arg).collect::<Result<Vec<_>, _>>()?;
    let failure = |why: interp::EvalError| {
        Arc::new(RunError::new(ErrorKind::Instruction, format!("{}: {why}", instr.op)))
    };
    interp::eval(&instr.op, &args).map_err(failure)
}
