//! A worker of a simulation: the real connection, core and line of reads, and an executor that
//! computes on integers by itself. What is read arrives later than it was asked for, and in pieces;
//! other work goes on meanwhile.

use super::Random;
use crate::assembly;
use crate::clock::Time;
use crate::connection::{Connection, ConnectionConfig, Incoming};
use crate::ids::{Identity, Incarnation, PeerId, RequestId, SessionId};
use crate::wire::{
    Capacity, Counts, FromWorker, Hello, Message, Packet, Role, Stream, ToWorker, Weight,
};
use crate::worker::core::{Core, Job};
use crate::worker::line::Line;
use gt_ir::backend::Stats;
use gt_ir::canonical::expand;
use gt_ir::tape::{Entry, Instr, Tape, ValueId};
use gt_ir::{HostTensor, Op, Operand, Scalar, Shape};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

pub(super) struct Worker {
    pub(super) connection: Connection,
    core: Core,
    jobs: VecDeque<Job>,
    /// Bytes of each upload that came.
    uploads: BTreeMap<(SessionId, ValueId), u64>,
    pub(super) next_job: Time,
    reads: Line<SessionId, Reading>,
    pub(super) next_read: Time,
    /// The values of each session.
    pub(super) held: BTreeMap<SessionId, BTreeMap<ValueId, Vec<i64>>>,
}

/// A read under way: what it answers, and after how many turns.
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
    ) -> Worker {
        let identity = Identity { name: "model".into(), host: "there".into(), pid: peer.0 as u32 };
        let mut connection =
            Connection::dial(now, incarnation, Hello::new(Role::Worker, identity), config);
        let capacity = Capacity { engine: "model".into(), threads: 1, ..Capacity::default() };
        connection.send(now, Stream::Control, Message::FromWorker(FromWorker::Register(capacity)));
        Worker {
            connection,
            core: Core::new(),
            jobs: VecDeque::new(),
            uploads: BTreeMap::new(),
            next_job: Time::MAX,
            reads: Line::default(),
            next_read: Time::MAX,
            held: BTreeMap::new(),
        }
    }

    pub(super) fn receive(
        &mut self,
        now: Time,
        random: &mut Random,
        packet: Packet,
    ) -> Option<String> {
        let mut incoming = Vec::new();
        self.connection.receive(now, packet, &mut |what| incoming.push(what));
        incoming.into_iter().find_map(|what| self.incoming(now, random, what))
    }

    /// Gives the reason when the connection is over.
    pub(super) fn incoming(
        &mut self,
        now: Time,
        random: &mut Random,
        incoming: Incoming,
    ) -> Option<String> {
        match incoming {
            Incoming::Opened(_) => (),
            Incoming::Ended(ending) => return Some(ending.to_string()),
            Incoming::Message(stream, message) => {
                let weight = message.weight();
                let Message::ToWorker(message) = message else {
                    panic!("a worker was sent {message:?}")
                };
                if let ToWorker::Chunk { session, chunk } = &message {
                    let have = self.uploads.entry((*session, chunk.value)).or_default();
                    assert_eq!(
                        chunk.offset, *have,
                        "a piece of {} that begins or goes on elsewhere",
                        chunk.value
                    );
                    *have += chunk.bytes.len() as u64;
                }
                let mut jobs = Vec::new();
                let released = self.core.handle(stream, message, weight, &mut jobs);
                self.connection.release(stream, released);
                self.jobs.extend(jobs);
                if !self.jobs.is_empty() && self.next_job == Time::MAX {
                    self.next_job = now + Duration::from_micros(random.below(20_000));
                }
            }
        }
        None
    }

    /// Does the next job.
    pub(super) fn work(&mut self, now: Time, random: &mut Random) -> Option<Ran> {
        let job = self.jobs.pop_front();
        let slow = if random.percent(2) { 100 } else { 1 };
        self.next_job = if self.jobs.is_empty() {
            Time::MAX
        } else {
            now + Duration::from_micros(random.below(10_000 * slow))
        };
        match job? {
            Job::Open { .. } => (),
            Job::Run { session, seq, attempt, tape, inputs, owed } => {
                let instructions = self.run(session, &tape, inputs);
                self.connection.release(Stream::Control, owed);
                let counts = Counts { instructions, nanos: 1 };
                self.say(now, FromWorker::Done { session, seq, attempt, counts });
                return Some((session, attempt, seq));
            }
            Job::Launch { session, seq, attempt, template, bindings, inputs, owed } => {
                let tape = expand(template.template(), &bindings);
                let tape = tape.unwrap_or_else(|why| panic!("{session} launched {seq}: {why}"));
                let instructions = self.run(session, &tape, inputs);
                self.connection.release(Stream::Control, owed);
                if random.percent(5) {
                    let planned = Box::default();
                    self.say(now, FromWorker::Planned { session, planned });
                }
                let counts = Counts { instructions, nanos: 1 };
                self.say(now, FromWorker::Done { session, seq, attempt, counts });
                return Some((session, attempt, seq));
            }
            Job::Fetch { session, request, value } => {
                let data = self.held.get(&session).and_then(|held| held.get(&value));
                let data = data
                    .unwrap_or_else(|| {
                        panic!("{session} reads {value}, which this worker does not have")
                    })
                    .clone();
                let shape = Shape::new(&[data.len()]).expect("a small shape");
                let data = HostTensor::from_vec(data, shape).expect("as many elements");
                if random.percent(30) && !self.reads.has(session) {
                    self.answer(now, random, session, request, value, data);
                } else {
                    let turns = random.below(4);
                    self.reads.add(session, Reading { request, value, data, turns });
                    self.next_read = self.next_read.min(now);
                }
            }
            Job::Stats { session, request } => {
                self.say(
                    now,
                    FromWorker::Stats { session, request, stats: Box::new(Stats::default()) },
                );
            }
            Job::End { session } => {
                self.held.remove(&session);
                self.reads.forget(session);
                self.uploads.retain(|(of, _), _| *of != session);
            }
        }
        None
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
            assert!(unwanted.is_none(), "nobody forgot it meanwhile");
            return;
        }
        let Reading { request, value, data, .. } = reading;
        self.answer(now, random, session, request, value, data);
        self.reads.finish();
    }

    fn answer(
        &mut self,
        now: Time,
        random: &mut Random,
        session: SessionId,
        request: RequestId,
        value: ValueId,
        data: HostTensor,
    ) {
        let size = 1 + random.below(24) as usize;
        for chunk in assembly::pieces(assembly::whole(value, data), size) {
            self.say(now, FromWorker::Chunk { session, request, chunk });
        }
    }

    fn say(&mut self, now: Time, message: FromWorker) {
        let message = Message::FromWorker(message);
        self.connection.send(now, message.stream(), message);
    }

    fn run(
        &mut self,
        session: SessionId,
        tape: &Tape,
        mut inputs: BTreeMap<ValueId, Result<HostTensor, String>>,
    ) -> u64 {
        let held = self.held.entry(session).or_default();
        let mut n_run = 0;
        for entry in &tape.entries {
            match entry {
                Entry::Input { out, .. } => {
                    let data = inputs
                        .remove(out)
                        .expect("a segment runs when its data is there")
                        .expect("whole data");
                    held.insert(*out, data.to_vec().expect("integers"));
                }
                Entry::Instr(instr) => {
                    let value = compute(instr, held);
                    held.insert(instr.out, value);
                    n_run += 1;
                }
                Entry::Free(value) => {
                    held.remove(value).unwrap_or_else(|| {
                        panic!("{session} frees {value}, which this worker does not have")
                    });
                }
                Entry::Output { value, .. } => {
                    assert!(held.contains_key(value), "{session} has no {value}")
                }
                Entry::Enter(_) | Entry::Exit(_) => (),
            }
        }
        n_run
    }

    pub(super) fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.reads.is_empty()
    }
}

fn compute(instr: &Instr, held: &BTreeMap<ValueId, Vec<i64>>) -> Vec<i64> {
    let tensor = |operand: &Operand| match operand {
        Operand::Value(value) => {
            held.get(value).unwrap_or_else(|| panic!("this worker has no {value}")).clone()
        }
        Operand::Scalar(_) => panic!("the first operand is a tensor"),
    };
    let a = tensor(&instr.inputs[0]);
    let b = match instr.inputs.get(1) {
        None => vec![0; a.len()],
        Some(Operand::Scalar(Scalar::I64(scalar))) => vec![*scalar; a.len()],
        Some(operand) => tensor(operand),
    };
    let apply = |f: fn(i64, i64) -> i64| a.iter().zip(&b).map(|(&a, &b)| f(a, b)).collect();
    match instr.op {
        Op::Neg => apply(|a, _| a.wrapping_neg()),
        Op::Add => apply(i64::wrapping_add),
        Op::Sub => apply(i64::wrapping_sub),
        Op::Mul => apply(i64::wrapping_mul),
        op => panic!("the clients here record no {op}"),
    }
}
