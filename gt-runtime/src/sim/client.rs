//! A client of a simulation: records random tapes on integers, and compares its reads with the
//! interpreter. A client of a gang records more (`gang`).

mod gang;

use super::Random;
use super::worker::HONEST;
use crate::assembly;
use crate::client::Templates;
use crate::clock::Time;
use crate::connection::{Connection, ConnectionConfig, Incoming};
use crate::identity::Identity;
use crate::ids::{Incarnation, PeerId, RequestId};
use crate::tier::TemplateConfig;
use crate::wire::{FromClient, Hello, Message, Order, Packet, Role, Stream, ToClient, Weight};
use gt_ir::backend::{Demand, ErrorKind, RunError};
use gt_ir::interp::{self, Arg};
use gt_ir::tape::{Entry, Instr, Tape, ValueId};
use gt_ir::{HostTensor, Loc, Op, Operand, Scalar, Shape};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub(super) struct Client {
    pub(super) connection: Connection,
    identity: Identity,
    /// When it next acts.
    pub(super) next_act: Time,
    n_values: u64,
    n_requests: u64,
    habits: Habits,
    /// The credit of messages that it has not taken yet, and when it takes them.
    untaken: VecDeque<(Time, Stream, u64)>,
    /// The scope in which it records.
    scope: Option<Arc<str>>,
    segment: Vec<Entry>,
    pub(super) templates: Templates,
    /// The elements of each live value.
    live: BTreeMap<ValueId, HostTensor>,
    /// Live values in whose place there may be an error.
    poisoned: BTreeSet<ValueId>,
    reads: BTreeMap<RequestId, Read>,
    failed: BTreeSet<RequestId>,
    pub(super) session: Option<String>,
    pub(super) n_submitted: u64,
    pub(super) n_read: u64,
    /// The reads that were answered with an error of an instruction.
    pub(super) n_poisoned: u64,
    /// The last read whose data arrived.
    pub(super) errors: Vec<Arc<RunError>>,
}

/// What a client does.
#[derive(Clone, Copy)]
pub(super) struct Habits {
    pub(super) templates: TemplateConfig,
    pub(super) n_elements: usize,
    /// Whether its signals ask for workers.
    pub(super) spread: bool,
    /// Whether it records as much as it can.
    pub(super) greedy: bool,
    /// How long it keeps what it gets before it takes it.
    pub(super) slow: Duration,
    pub(super) weight: u32,
}

struct Read {
    expected: Option<HostTensor>,
    /// Whether the answer may be an error of an instruction.
    poisoned: bool,
    got: Vec<u8>,
    since: Time,
}

/// What no rogue knows.
const SECRET: [u8; 16] = [7; 16];

fn hello(identity: &Identity, habits: Habits) -> Hello {
    // Some clients have plans of their work.
    let zero = habits.spread.then_some((identity.pid % 4) as u8);
    let auto = identity.pid.is_multiple_of(3).then_some(true);
    let demand = Demand { engine: Some(HONEST.into()), zero, auto, ..Demand::default() };
    let hello = Hello::new(Role::Client, identity.clone()).asking(demand);
    Hello { secret: SECRET, weight: habits.weight, ..hello }
}

impl Client {
    pub(super) fn new(
        now: Time,
        peer: PeerId,
        incarnation: Incarnation,
        config: ConnectionConfig,
        habits: Habits,
    ) -> Client {
        let identity =
            Identity { name: "simulated".into(), host: "here".into(), pid: peer.0 as u32 };
        let connection = Connection::dial(now, incarnation, hello(&identity, habits), config);
        Client {
            connection,
            identity,
            next_act: now,
            n_values: 0,
            n_requests: 0,
            habits,
            untaken: VecDeque::new(),
            scope: None,
            segment: Vec::new(),
            templates: Templates::new(habits.templates, true),
            live: BTreeMap::new(),
            poisoned: BTreeSet::new(),
            reads: BTreeMap::new(),
            failed: BTreeSet::new(),
            session: None,
            n_submitted: 0,
            n_read: 0,
            n_poisoned: 0,
            errors: Vec::new(),
        }
    }

    /// Moves to another address, as the same incarnation.
    pub(super) fn move_away(&mut self, now: Time) {
        self.connection.redial(now, hello(&self.identity, self.habits));
    }

    /// Whether its signals ask for workers.
    pub(super) fn is_spread(&self) -> bool {
        self.habits.spread
    }

    /// When it next does something.
    pub(super) fn next_deadline(&self) -> Time {
        let taken = self.untaken.front().map(|(at, ..)| *at);
        let due = self.connection.next_deadline().into_iter().chain(taken);
        due.fold(self.next_act, Time::min)
    }

    /// Takes what it has kept for long enough.
    pub(super) fn take(&mut self, now: Time) {
        while let Some((_, stream, weight)) = self.untaken.pop_front_if(|(at, ..)| *at <= now) {
            self.connection.release(stream, weight);
        }
    }

    pub(super) fn n_waiting(&self) -> usize {
        self.reads.len()
    }

    pub(super) fn oldest_read(&self) -> Option<Time> {
        self.reads.values().map(|read| read.since).min()
    }

    fn say(&mut self, now: Time, message: impl Into<FromClient>) {
        let message = Message::FromClient(message.into());
        self.connection.send(now, message.stream(), message);
    }

    fn value(&mut self) -> ValueId {
        self.n_values += 1;
        ValueId(self.n_values)
    }

    fn pick(&self, random: &mut Random) -> Option<ValueId> {
        self.live.keys().nth(random.below(self.live.len() as u64) as usize).copied()
    }

    /// Does one random action.
    pub(super) fn act(&mut self, now: Time, random: &mut Random) {
        self.next_act = now + Duration::from_micros(random.below(400_000));
        if self.connection.link(Stream::Control).queued() > 1 << 16 {
            return;
        }
        if self.habits.greedy {
            return self.rush(now, random);
        }
        if self.habits.spread && (self.n_values == 0 || random.percent(3)) {
            self.configure(now, random);
        }
        self.enter(random.below(8));
        match random.below(14) {
            0 | 1 => self.input(now, random),
            2..=5 => (0..=random.below(6)).for_each(|_| self.instruction(random)),
            6 => self.free(random),
            7 => self.submit(now),
            8 => {
                let read = self.pick(random);
                read.into_iter().for_each(|value| self.read(now, value));
            }
            9 if random.percent(20) => self.ask_stats(now),
            9 => (),
            _ => self.repeat(now, random),
        }
    }

    /// Many equal segments, with pauses between stretches of them.
    fn rush(&mut self, now: Time, random: &mut Random) {
        let pause = if random.percent(2) { 300_000 } else { 3_000 };
        self.next_act = now + Duration::from_micros(random.below(pause));
        if self.live.is_empty() {
            self.upload(now, random);
        }
        let Some(a) = self.pick(random) else { return };
        for _ in 0..random.below(20) {
            let b = self.compute(Op::Neg, &[Operand::Value(a)]);
            self.free_value(b);
            self.submit(now);
        }
        if random.percent(2) {
            self.read(now, a);
        }
    }

    /// Some rounds of one of a few loops. The segments of a loop differ only in values and
    /// literals.
    fn repeat(&mut self, now: Time, random: &mut Random) {
        self.submit(now);
        let (kind, other) = (random.below(5), random.below(5));
        for round in 0..1 + random.below(4) {
            let (Some(a), Some(b)) = (self.pick(random), self.pick(random)) else { return };
            self.round(if round % 2 == 0 { kind } else { other }, a, b, now, random);
            self.submit(now);
        }
    }

    fn round(&mut self, kind: u64, a: ValueId, b: ValueId, now: Time, random: &mut Random) {
        self.enter(kind);
        let literal = Operand::Scalar(Scalar::I64(random.below(1000) as i64));
        let (a, b) = (Operand::Value(a), Operand::Value(b));
        let sum = self.compute(Op::Add, &[a, literal]);
        let product = self.compute(Op::Mul, &[Operand::Value(sum), b]);
        match kind {
            0 => self.free_value(sum),
            1 => {
                self.free_value(sum);
                if let Operand::Value(a) = a {
                    self.free_value(a);
                }
            }
            2 => self.upload(now, random),
            3 => {
                let read = self.live.contains_key(&product);
                self.segment.extend(read.then_some(Entry::Output { value: product, name: None }));
                self.submit(now);
                self.fetch(now, product);
            }
            _ => {
                self.compute(Op::Neg, &[Operand::Value(product)]);
                self.free_value(product);
                self.free_value(sum);
            }
        }
    }

    fn compute(&mut self, op: Op, inputs: &[Operand]) -> ValueId {
        let args: Vec<Arg<'_>> = inputs
            .iter()
            .map(|operand| match operand {
                Operand::Value(value) => Arg::Tensor(&self.live[value]),
                Operand::Scalar(scalar) => Arg::Scalar(*scalar),
            })
            .collect();
        let result = interp::eval(&op, &args).expect("integers of one shape");
        let out = self.value();
        self.live.insert(out, result);
        if inputs.iter().any(|operand| self.is_poisoned(operand)) {
            self.poisoned.insert(out);
        }
        let inputs = inputs.iter().copied().collect();
        self.push(Entry::Instr(Instr { out, op, inputs, loc: Loc::NONE }));
        out
    }

    fn is_poisoned(&self, operand: &Operand) -> bool {
        matches!(operand, Operand::Value(value) if self.poisoned.contains(value))
    }

    fn free_value(&mut self, value: ValueId) {
        if self.live.remove(&value).is_some() {
            self.segment.push(Entry::Free(value));
        }
    }

    fn input(&mut self, now: Time, random: &mut Random) {
        // The data may come before its segment or after.
        if random.percent(20) {
            self.submit(now);
        }
        self.upload(now, random);
    }

    fn upload(&mut self, now: Time, random: &mut Random) {
        let out = self.value();
        let data: Vec<i64> = (0..self.habits.n_elements)
            .map(|_| random.below(u64::MAX) as i64 - random.below(1 << 40) as i64)
            .collect();
        let shape = Shape::new(&[self.habits.n_elements]).expect("a small shape");
        let data = HostTensor::from_vec(data, shape).expect("as many elements");
        self.live.insert(out, data.clone());
        self.push(Entry::Input { out, ty: *data.ty(), name: None });
        let size = 1 + random.below(24) as usize;
        for chunk in assembly::pieces(assembly::whole(out, data), size) {
            self.say(now, Order::Chunk(chunk));
        }
    }

    fn instruction(&mut self, random: &mut Random) {
        let (Some(a), Some(b)) = (self.pick(random), self.pick(random)) else { return };
        if self.habits.spread && random.percent(30) {
            return self.mixed(a, random);
        }
        let (op, inputs): (Op, Vec<Operand>) = match random.below(5) {
            0 => (Op::Neg, vec![Operand::Value(a)]),
            1 => (Op::Sub, vec![Operand::Value(a), Operand::Value(b)]),
            2 => (Op::Mul, vec![Operand::Value(a), Operand::Value(b)]),
            3 => (
                Op::Add,
                vec![Operand::Value(a), Operand::Scalar(Scalar::I64(random.below(1000) as i64))],
            ),
            _ => (Op::Add, vec![Operand::Value(a), Operand::Value(b)]),
        };
        self.compute(op, &inputs);
    }

    fn free(&mut self, random: &mut Random) {
        if let Some(value) = self.pick(random) {
            self.free_value(value);
        }
    }

    fn submit(&mut self, now: Time) {
        if !self.segment.is_empty() {
            self.n_submitted += 1;
            let tape = Tape { entries: std::mem::take(&mut self.segment) };
            let messages = self.templates.take(tape);
            messages.into_iter().for_each(|message| self.say(now, message));
        }
    }

    fn ask(&mut self, now: Time, expected: Option<HostTensor>) -> RequestId {
        self.n_requests += 1;
        let (poisoned, got) = (false, Vec::new());
        let read = Read { expected, poisoned, got, since: now };
        self.reads.insert(RequestId(self.n_requests), read);
        RequestId(self.n_requests)
    }

    fn read(&mut self, now: Time, value: ValueId) {
        self.segment.push(Entry::Output { value, name: None });
        self.submit(now);
        self.fetch(now, value);
    }

    fn fetch(&mut self, now: Time, value: ValueId) {
        let request = self.ask(now, Some(self.live[&value].clone()));
        let poisoned = self.poisoned.contains(&value);
        self.reads.entry(request).and_modify(|read| read.poisoned = poisoned);
        self.say(now, Order::Fetch { request, value });
    }

    fn ask_stats(&mut self, now: Time) {
        let request = self.ask(now, None);
        self.say(now, Order::Stats { request });
    }

    /// New work, and a read that must succeed.
    pub(super) fn last_work(&mut self, now: Time, random: &mut Random) {
        self.input(now, random);
        let fresh = ValueId(self.n_values);
        self.live.retain(|value, _| *value == fresh);
        (0..3).for_each(|_| self.instruction(random));
        self.read(now, ValueId(self.n_values));
        self.read(now, fresh);
        self.ask_stats(now);
        self.next_act = Time::MAX;
    }

    pub(super) fn receive(&mut self, now: Time, packet: Packet) -> Option<String> {
        let mut incoming = Vec::new();
        self.connection.receive(now, packet, &mut |what| incoming.push(what));
        incoming.into_iter().find_map(|what| self.incoming(now, what))
    }

    /// Returns the reason if the connection is over.
    pub(super) fn incoming(&mut self, now: Time, incoming: Incoming) -> Option<String> {
        match incoming {
            Incoming::Opened(welcome) => self.session = Some(welcome.name),
            Incoming::Ended(ending) => return Some(ending.to_string()),
            Incoming::Message(stream, message) => {
                self.untaken.push_back((now + self.habits.slow, stream, message.weight()));
                self.take(now);
                let Message::ToClient(message) = message else {
                    panic!("a client was sent {message:?}")
                };
                self.answer(now, message);
            }
        }
        None
    }

    fn answer(&mut self, now: Time, message: ToClient) {
        match message {
            ToClient::Chunk { request, chunk } => {
                if self.failed.contains(&request) {
                    return; // The failure overtook it.
                }
                let read = self.reads.get_mut(&request).expect("only open reads are answered");
                assert_eq!(chunk.offset, read.got.len() as u64, "a piece out of order");
                read.got.extend_from_slice(&chunk.bytes);
                if chunk.is_last() {
                    let expected = read.expected.as_ref().map(|data| data.bytes().to_vec());
                    assert!(
                        read.poisoned || Some(&read.got) == expected.as_ref(),
                        "{} of {request} is wrong",
                        chunk.value
                    );
                    self.n_read += 1;
                    self.reads.remove(&request);
                }
            }
            ToClient::Failed { request, error } => {
                let read = self.reads.remove(&request).expect("only open reads are answered");
                self.failed.insert(request);
                if error.kind == ErrorKind::WorkerLost {
                    assert!(
                        error.worker.as_deref().is_some_and(|name| error.message.contains(name)),
                        "{error:?}"
                    );
                }
                if error.kind == ErrorKind::Instruction {
                    assert!(read.poisoned && error.message.contains("index_select"), "{error:?}");
                    self.n_poisoned += 1;
                } else {
                    self.errors.push(error);
                }
            }
            ToClient::Planned(_) | ToClient::Note(_) | ToClient::Warning(_) => (),
            ToClient::Watch => self.say(now, FromClient::Moments(Box::default())),
            ToClient::Stats { request, .. } => {
                let read = self.reads.remove(&request).expect("only open questions are answered");
                assert!(read.expected.is_none(), "a read was answered with statistics");
            }
        }
    }

    pub(super) fn close(&mut self, now: Time) {
        self.say(now, FromClient::Close);
    }
}
