//! A peer that sends random messages, valid or not, as a client or as a worker (`worker`). It takes
//! nothing that it is sent, and acknowledges it all the same. It may harm only its own session, and
//! the sessions that live on it.

mod worker;

use super::Random;
use crate::identity::Identity;
use crate::ids::{Incarnation, RequestId};
use crate::wire::{
    Body, Chunk, Destination, Doing, Door, FromClient, FromWorker, Hello, LaneMessage, Message,
    Moment, Moments, Order, Packet, Performance, Role, Routine, Stream,
};
use bytes::Bytes;
use gt_ir::backend::{Demand, ErrorKind, RunError};
use gt_ir::canonical::{Bindings, Defined, canonical};
use gt_ir::signal::{ShardConfig, SignalConfig, Signals};
use gt_ir::tape::{Entry, Instr, Tape, ValueId};
use gt_ir::{DType, Loc, Op, Operand, Scalar, Shape, Type};
use std::sync::Arc;

pub(super) struct Rogue {
    role: Role,
    incarnation: Incarnation,
    seqs: [u64; 2],
    /// The messages that it has acknowledged.
    acknowledged: u64,
}

impl Rogue {
    pub(super) fn new(is_worker: bool) -> Rogue {
        let role = if is_worker { Role::Worker } else { Role::Client };
        Rogue { role, incarnation: Incarnation(1), seqs: [0; 2], acknowledged: 0 }
    }

    /// The next random message.
    pub(super) fn say(&mut self, random: &mut Random) -> Packet {
        let mut stream = if random.percent(50) { Stream::Control } else { Stream::Bulk };
        let body = match random.below(24) {
            0 => {
                stream = Stream::Control;
                self.incarnation = Incarnation(self.incarnation.0 + random.below(2));
                (self.seqs, self.acknowledged) = ([0; 2], 0);
                let fingerprint = if random.percent(90) { gt_ir::op::FINGERPRINT } else { 7 };
                let role = match random.below(20) {
                    0 => Role::Worker,
                    1 => Role::Monitor,
                    2 => Role::Tracer(random.below(1_000)),
                    _ => self.role,
                };
                let engine = random.percent(20).then(|| "no such engine".into());
                let demand = Demand { engine, ..Demand::default() };
                let hello = Hello::new(role, Identity::default()).asking(demand);
                Body::Hello(Box::new(Hello { fingerprint, ..hello }))
            }
            1 => Body::Ping,
            2..=6 => {
                self.acknowledged += random.below(3);
                let upto = self.acknowledged;
                Body::Ack { upto, seen: random.below(1 << 40), credit: random.below(1 << 60) }
            }
            7 if random.percent(10) => Body::Bye { reason: "no reason".into() },
            7 if random.percent(50) => {
                let piece = LaneMessage::Piece { tag: 1, len: 1 << 20, head: vec![0; 9] };
                Body::Lane(Box::new(piece))
            }
            _ => {
                let message = match self.role {
                    Role::Client if random.percent(50) => self.valid(random),
                    Role::Client => message(random),
                    _ if self.seqs == [0; 2] => worker::register(),
                    _ => worker::message(random),
                };
                stream = message.stream();
                let next = &mut self.seqs[stream as usize];
                let seq = if random.percent(90) { *next } else { random.below(u64::MAX) };
                *next = seq.wrapping_add(1);
                Body::Data { seq, ack: random.below(5), message }
            }
        };
        Packet { stream, incarnation: self.incarnation, body }
    }

    /// A message that breaks no session: a value, or a read of one.
    fn valid(&self, random: &mut Random) -> Message {
        let n = self.seqs[Stream::Control as usize];
        let order = match random.below(3) {
            0 => {
                let ty = Type { dtype: DType::I64, shape: Shape::new(&[9]).expect("small") };
                let inputs = [Operand::Scalar(Scalar::I64(3))].into_iter().collect();
                let (out, op) = (ValueId(1_000 + n), Op::Full(ty));
                let full = Entry::Instr(Instr { out, op, inputs, loc: Loc::NONE });
                let output = Entry::Output { value: out, name: None };
                Order::Run(Arc::new(Tape { entries: vec![full, output] }))
            }
            1 => Order::Stats { request: RequestId(1_000 + n) },
            _ => {
                let value = ValueId(1_000 + n - random.below(4).min(n));
                Order::Fetch { request: RequestId(1_000 + n), value }
            }
        };
        Message::FromClient(order.into())
    }
}

/// Moments of any times, which nobody has asked for.
fn moments(random: &mut Random) -> Moments {
    let moment = |random: &mut Random| Moment {
        doing: Doing::Launch,
        at: random.below(u64::MAX),
        took: random.below(u64::MAX),
        of: Some((crate::ids::SessionId(random.below(12)), random.below(9))),
        n: u64::MAX,
        to: Some(random.below(u64::MAX)),
    };
    let list = (0..random.below(3)).map(|_| moment(random)).collect();
    Moments { now: random.below(u64::MAX), lost: random.below(2), list }
}

fn message(random: &mut Random) -> Message {
    let (value, request) = (ValueId(random.below(6)), RequestId(random.below(6)));
    let most = if random.percent(90) { 3 } else { 1 << 32 };
    let template = random.below(most) as u32;
    let order = match random.below(12) {
        8 => {
            let tape = Tape { entries: (0..random.below(6)).map(|_| entry(random)).collect() };
            let tape = if random.percent(90) { canonical(&tape).0.tape } else { Arc::new(tape) };
            Order::Define { template, tape, planned: random.percent(50) }
        }
        9 | 10 => Order::Launch { template, bindings: Arc::new(bindings(random)) },
        11 if random.percent(20) => {
            let signals = Arc::new(signals(random));
            return Message::FromClient(FromClient::Configure(signals));
        }
        11 if random.percent(20) => {
            return Message::FromClient(FromClient::Moments(Box::new(moments(random))));
        }
        11 if random.percent(30) => Order::Forget { template },
        11 if random.percent(50) => Order::Stats { request },
        11 if random.percent(50) => {
            let door = Door { address: "1".into(), local: false, sealed: true, key: [0; 16] };
            let (door, session) = (Arc::new(door), crate::ids::SessionId(1));
            let to = Arc::new(Destination { door, session, opened: 1, value });
            Order::Send { request, value, to }
        }
        11 if random.percent(50) => {
            let steps = Arc::new(Routine::default());
            Order::Learn { routine: template, steps }
        }
        11 if random.percent(50) => Order::Perform(Box::new(Performance {
            routine: template,
            n_segments: random.below(3) as u32,
            given: vec![value],
            scalars: Arc::new([]),
            first: value,
            request,
        })),
        11 => {
            let error = Arc::new(RunError::new(ErrorKind::Internal, "a lie"));
            Order::Fail { value, error }
        }
        0..=2 => Order::Run(Arc::new(Tape {
            entries: (0..random.below(6)).map(|_| entry(random)).collect(),
        })),
        3 => {
            let ty = ty(random);
            let total = ty.bytes() as u64;
            let offset = if random.percent(50) { 0 } else { random.below(total.max(1)) };
            let len = random.below((total - offset).min(64) + 1) as usize;
            Order::Chunk(Box::new(Chunk {
                value,
                ty,
                offset,
                total,
                bytes: Bytes::from(vec![0; len]),
            }))
        }
        4 | 5 => Order::Fetch { request, value },
        6 => Order::Stats { request },
        _ if random.percent(10) => return Message::FromClient(FromClient::Close),
        _ => {
            let other = FromWorker::Done {
                session: crate::ids::SessionId(1),
                seq: 0,
                attempt: 0,
                counts: Default::default(),
            };
            return Message::FromWorker(other);
        }
    };
    Message::FromClient(order.into())
}

fn signals(random: &mut Random) -> Signals {
    let mut signals = Signals::new();
    for _ in 0..random.below(4) {
        // A message above a limit cannot be encoded, as it would be refused where it arrives.
        let most = if random.percent(50) { 3 } else { 1 << 11 };
        let name = "x".repeat(random.below(most) as usize);
        let shard = random.percent(50).then(ShardConfig::default);
        let _ = signals.set(&name, SignalConfig { shard, ..SignalConfig::default() });
    }
    signals
}

fn bindings(random: &mut Random) -> Bindings {
    let mut two = || vec![ValueId(random.below(6)), ValueId(random.below(6))];
    let (inputs, listed) = (two(), two());
    let n_inputs = random.below(3) as usize;
    let defined = match random.below(3) {
        0 => Defined::List(listed),
        1 => Defined::Run(ValueId(random.below(12)), random.below(4)),
        _ => Defined::Run(ValueId(u64::MAX - random.below(3)), random.below(1 << 16)),
    };
    let inputs = inputs.into_iter().take(n_inputs).collect();
    let scalars = (0..random.below(2)).map(|n| Scalar::I64(n as i64)).collect();
    Bindings { inputs, defined, scalars }
}

fn ty(random: &mut Random) -> Type {
    let size = if random.percent(90) { random.below(5) } else { 1 << 40 };
    Type { dtype: DType::I64, shape: Shape::new(&[size as usize]).expect("below the limit") }
}

fn entry(random: &mut Random) -> Entry {
    let value = ValueId(random.below(6));
    match random.below(7) {
        6 => Entry::Enter(if random.percent(50) { "x" } else { "xx" }.into()),
        0 => Entry::Free(value),
        1 => Entry::Input { out: value, ty: ty(random), name: None },
        2 => Entry::Exit("nowhere".into()),
        3 => Entry::Output { value, name: None },
        _ => {
            let op = if random.percent(70) { Op::Add } else { Op::MatMul };
            let inputs = (0..1 + random.below(3))
                .map(|_| Operand::Value(ValueId(random.below(6))))
                .collect();
            Entry::Instr(Instr { out: value, op, inputs, loc: Loc::NONE })
        }
    }
}
