//! The decoder of packets never panics on any bytes. A decoded packet encodes and decodes back, and
//! a dispatcher that receives it keeps its invariants.

use std::time::Duration;

use gt_runtime::dispatcher::{Config, Dispatcher, Event};
use gt_runtime::identity::Identity;
use gt_runtime::ids::{Incarnation, PeerId};
use gt_runtime::wire::codec::{decode, encode};
use gt_runtime::wire::{Body, Capacity, FromWorker, Hello, Message, Packet, Role, Stream};

const HEADER: [u8; 4] = [b'G', b'T', gt_runtime::wire::PROTOCOL as u8, 0];

fn packet(body: Body) -> Packet {
    Packet { stream: Stream::Control, incarnation: Incarnation(1), body }
}

/// A dispatcher with a client and a worker.
fn dispatcher() -> Dispatcher {
    let mut dispatcher = Dispatcher::new(Config::embedded());
    let register = Message::FromWorker(FromWorker::Register(Capacity::default()));
    let hello = |role| packet(Body::Hello(Hello::new(role, Identity::default())));
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
    let (mut dispatcher, mut seqs) = (dispatcher(), [0, 0]);
    // Messages of a client. The first byte of each is its length.
    let mut rest = bytes;
    while let Some((&n, more)) = rest.split_first() {
        let (body, more) = more.split_at((n as usize).min(more.len()));
        rest = more;
        let head: Vec<u8> = HEADER.iter().chain(body).copied().collect();
        let Ok(mut packet) = decode(&head, None) else { continue };
        let frames = encode(&packet).expect("what was decoded is within the limits");
        assert_eq!(decode(&frames.head, frames.payload).expect("what was encoded decodes"), packet);
        packet.incarnation = Incarnation(1);
        if let Body::Data { seq, .. } = &mut packet.body {
            *seq = seqs[packet.stream as usize];
            seqs[packet.stream as usize] += 1;
        }
        dispatcher.handle(Duration::ZERO, Event::Packet(PeerId(1), packet), &mut Vec::new());
        dispatcher.check();
    }
}
