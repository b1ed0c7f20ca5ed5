//! The decoder of packets never panics on any bytes. A decoded packet encodes and decodes back, and
//! a dispatcher that receives it keeps its invariants.

use std::sync::Arc;
use std::time::Duration;

use gt_ir::backend::Demand;
use gt_runtime::dispatcher::{Config, Dispatcher, Event};
use gt_runtime::identity::Identity;
use gt_runtime::ids::{Incarnation, PeerId, RequestId};
use gt_runtime::wire::codec::{decode, encode};
use gt_runtime::wire::{Body, FromClient, FromWorker, Hello, Message, Order, Packet, Role, Stream};

const HEADER: [u8; 4] = [b'G', b'T', gt_runtime::wire::PROTOCOL as u8, 0];

fn packet(body: Body) -> Packet {
    Packet { stream: Stream::Control, incarnation: Incarnation(1), body }
}

/// A dispatcher with a client and a worker.
fn dispatcher() -> Dispatcher {
    let mut dispatcher = Dispatcher::new(Config::embedded());
    let register = Message::FromWorker(FromWorker::Register(Box::default()));
    let hello = |role| packet(Body::Hello(Box::new(Hello::new(role, Identity::default()))));
    let events = [
        Event::Packet(PeerId(1), hello(Role::Client)),
        Event::Packet(PeerId(2), hello(Role::Worker)),
        Event::Packet(PeerId(2), packet(Body::Data { seq: 0, ack: 0, message: register })),
    ];
    for event in events {
        dispatcher.handle(Duration::ZERO, event, &mut Vec::new());
    }
    dispatcher
}

pub(crate) fn check(bytes: &[u8]) {
    let (mut dispatcher, mut life, mut seqs) = (dispatcher(), 1, [0, 0]);
    // Packets of a client. The first byte of each is its length. A hello begins a new session.
    let mut rest = bytes;
    while let Some((&n, more)) = rest.split_first() {
        let (body, more) = more.split_at((n as usize).min(more.len()));
        rest = more;
        let head: Vec<u8> = HEADER.iter().chain(body).copied().collect();
        let Ok(mut packet) = decode(&head, None) else { continue };
        let frames = encode(&packet).expect("what was decoded is within the limits");
        assert_eq!(decode(&frames.head, frames.payload).expect("what was encoded decodes"), packet);
        match &mut packet.body {
            Body::Hello(_) => (life, seqs) = (life + 1, [0, 0]),
            Body::Data { seq, .. } => {
                *seq = seqs[packet.stream as usize];
                seqs[packet.stream as usize] += 1;
            }
            _ => {}
        }
        packet.incarnation = Incarnation(life);
        dispatcher.handle(Duration::ZERO, Event::Packet(PeerId(1), packet), &mut Vec::new());
        dispatcher.check();
    }
}

/// A session that asks for workers, runs a segment and reads its value.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let demand = Demand { workers: Some(2), engine: Some("native".into()), ..Demand::new() };
    let hello = Hello::new(Role::Client, Identity::default());
    let (tape, _) =
        gt_ir::text::parse("gt tape 1\n%0 = full[f32[2]] 3\noutput %0\n").expect("a valid tape");
    let fetch = Order::Fetch { request: RequestId(1), value: gt_ir::ValueId(0) };
    let orders = [Order::Run(Arc::new(tape)), fetch].map(|order| {
        let message = Message::FromClient(FromClient::Order(order));
        packet(Body::Data { seq: 0, ack: 0, message })
    });
    let packets =
        |hello| std::iter::once(packet(Body::Hello(Box::new(hello)))).chain(orders.clone());
    [hello.clone(), hello.asking(demand)].map(|hello| bytes(packets(hello))).into()
}

/// The bytes of packets, as `check` takes them.
fn bytes(packets: impl Iterator<Item = Packet>) -> Vec<u8> {
    let bytes = packets.flat_map(|packet| {
        let head = encode(&packet).expect("a packet within the limits").head;
        let body = head[HEADER.len()..].to_vec();
        std::iter::once(u8::try_from(body.len()).expect("a short packet")).chain(body)
    });
    bytes.collect()
}
