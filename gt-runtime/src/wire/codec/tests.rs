//! Encoded packets decode, damaged bytes are an error or another packet within the limits, and both
//! directions check the limits.

use super::*;
use crate::identity::Identity;
use crate::ids::{Incarnation, RequestId};
use crate::sim::Random;
use crate::wire::{
    Arrival, Chunk, Destination, Door, Hello, Literal, Name, Parcel, Performance, Performed,
    Receiver, Role, Routine, Step, Stream,
};
use gt_ir::backend::Demand;
use gt_ir::signal::{ShardConfig, SignalConfig, Signals};
use gt_ir::tape::{Tape, ValueId};
use std::sync::Arc;

#[test]
fn every_tape_that_is_taken_can_be_passed_on() {
    const ENTRY: usize = 256;
    let packet = |seq, incarnation, message| Packet {
        stream: Stream::Control,
        incarnation: Incarnation(incarnation),
        body: Body::Data { seq, ack: seq, message },
    };
    let tape = |size| {
        let name = |size| gt_ir::tape::Entry::Enter("a".repeat(size).as_str().into());
        let whole = std::iter::repeat_n(name(ENTRY - 3), size / ENTRY);
        Arc::new(Tape { entries: whole.chain([name(size % ENTRY)]).collect() })
    };
    let from_client = |size| packet(0, 0, Message::FromClient(Order::Run(tape(size)).into()));
    let fits = |size| encode(&from_client(size)).is_ok();
    let largest = (MAX_HEAD - 2 * PASSED_ON..MAX_HEAD).rev().find(|&size| fits(size)).unwrap();
    let run = ToWorker::Order {
        session: crate::ids::SessionId(u64::MAX),
        seq: u64::MAX,
        attempt: u32::MAX,
        order: Order::Run(tape(largest)),
    };
    encode(&packet(u64::MAX, u64::MAX, Message::ToWorker(run))).unwrap();
    // Nor is such a packet accepted from others.
    let bytes = postcard::to_extend(&from_client(largest + 1), vec![b'G', b'T', PROTOCOL as u8, 0])
        .unwrap();
    assert!(bytes.len() <= MAX_HEAD);
    assert!(matches!(decode(&bytes, None), Err(WireError::Limit { .. })));
}

fn signals() -> Arc<Signals> {
    let shard = ShardConfig {
        axis: "Batch".into(),
        workers: Some(vec![0, 1, 300]),
        ..ShardConfig::default()
    };
    let config = SignalConfig { shard: Some(shard), backward: Some("b".into()), compile: true };
    let mut signals = Signals::new();
    signals.set("layer1", config).unwrap();
    signals.set("layer2", SignalConfig::default()).unwrap();
    Arc::new(signals)
}

#[test]
fn signals_above_a_limit_do_not_arrive() {
    // The bytes of a faulty client: those of a correct client, except for one part.
    let raw = |name: &str, axis: i64, workers: &[u32]| {
        let shard = ShardConfig {
            axis: axis.into(),
            workers: Some(workers.to_vec()),
            ..ShardConfig::default()
        };
        let config = SignalConfig { shard: Some(shard), ..SignalConfig::default() };
        std::collections::BTreeMap::from([(name.to_owned(), config)])
    };
    let arrives = |map: &std::collections::BTreeMap<String, SignalConfig>| {
        let honest = Message::FromClient(FromClient::Configure(Arc::default()));
        let body = Body::Data { seq: 0, ack: 0, message: honest };
        let packet = Packet { stream: Stream::Control, incarnation: Incarnation(1), body };
        let mut head = encode(&packet).unwrap().head;
        // The empty map is the last byte.
        assert_eq!(head.pop(), Some(0));
        head.extend(postcard::to_stdvec(map).unwrap());
        decode(&head, None)
    };
    assert!(arrives(&raw("a", 0, &[0, 1])).is_ok());
    let long = "x".repeat(gt_ir::tape::MAX_STRING + 1);
    let many: Vec<u32> = (0..2000).collect();
    for bad in [
        raw("a", 0, &[]),
        raw("a", 0, &[1, 1]),
        raw("a", 0, &many),
        raw("a", 8, &[0]),
        raw("", 0, &[0]),
        raw(&long, 0, &[0]),
    ] {
        assert!(matches!(arrives(&bad), Err(WireError::Damaged(_))), "{bad:?}");
    }
    let crowd: std::collections::BTreeMap<_, _> =
        (0..2000).map(|i| (i.to_string(), SignalConfig::default())).collect();
    assert!(matches!(arrives(&crowd), Err(WireError::Damaged(_))));
}

fn send() -> Order {
    let door = Door { address: "node7:1".into(), local: false, sealed: true, key: [7; 16] };
    let to = Destination {
        door: Arc::new(door),
        session: crate::ids::SessionId(1),
        opened: 1,
        value: ValueId(2),
    };
    Order::Send { request: RequestId(9), value: ValueId(3), to: Arc::new(to) }
}

/// A routine with a step of each kind.
fn routine(n_steps: usize) -> Routine {
    let door = Door { address: "node7:1".into(), local: false, sealed: true, key: [7; 16] };
    let receiver =
        Receiver { door: Arc::new(door), session: crate::ids::SessionId(1), opened: u64::MAX };
    let run = Step::Run {
        template: 3,
        inputs: vec![Name::Given(0), Name::Made(4)],
        first: 5,
        literals: vec![Literal::Slot(1), Literal::Number(gt_ir::Scalar::F64(0.5))],
    };
    let to = Some(Arrival { receiver: 0, made: 9 });
    let send = Step::Send { value: Name::Made(5), request: 0, to };
    let steps = [run, send].into_iter().cycle().take(n_steps).collect();
    Routine { steps, receivers: vec![receiver] }
}

fn learn() -> Order {
    Order::Learn { routine: 7, steps: Arc::new(routine(3)) }
}

fn perform() -> Order {
    Order::Perform(Box::new(Performance {
        routine: 7,
        n_segments: 2,
        given: vec![ValueId(3), ValueId(u64::MAX)],
        scalars: Arc::new([gt_ir::Scalar::I64(-1)]),
        first: ValueId(1 << 62),
        request: RequestId(1 << 62),
    }))
}

fn performed() -> FromWorker {
    let arrived = vec![1, u32::MAX];
    let performed = Performed { n_ran: 2, is_over: true, arrived, ..Performed::default() };
    let (session, performed) = (crate::ids::SessionId(1), Box::new(performed));
    FromWorker::Performed { session, seq: 3, attempt: 1, performed }
}

fn lane(message: LaneMessage) -> Body {
    Body::Lane(Box::new(message))
}

fn meeting(n_entries: usize, len: usize) -> Meeting {
    Meeting { nonce: [3; 32], entries: vec![("0/0".into(), vec![5; len]); n_entries] }
}

fn packets() -> Vec<Packet> {
    let text = "gt tape 1\n%0 = input : f32[Batch=2,3]\n%1 = exp %0\n%2 = add %1, 2.0\nfree \
                %0\noutput %2\n";
    let tape: Tape = gt_ir::text::parse(text).unwrap().0;
    let ty = "u8[5]".parse().unwrap();
    let chunk =
        Chunk { value: ValueId(7), ty, offset: 2, total: 5, bytes: Bytes::from_static(b"abc") };
    let data = |message| Body::Data { seq: 3, ack: 1 << 40, message };
    let packet = |stream, body| Packet { stream, incarnation: Incarnation(u64::MAX), body };
    let session = crate::ids::SessionId(1);
    let ordered =
        |order| data(Message::ToWorker(ToWorker::Order { session, seq: 2, attempt: 3, order }));
    let hello = |role| Hello::new(role, Identity::default());
    let (engine, device) = (Some("torch".into()), Some("cuda:1".into()));
    let demand = Demand { workers: Some(4), engine, device, ..Demand::new() };
    vec![
        packet(Stream::Control, Body::Hello(Box::new(hello(Role::Worker)))),
        packet(Stream::Control, Body::Hello(Box::new(hello(Role::Client).asking(demand)))),
        packet(
            Stream::Control,
            data(Message::FromClient(FromClient::Order(Order::Define {
                template: 3,
                tape: gt_ir::canonical::canonical(&tape).0.tape,
                planned: true,
            }))),
        ),
        packet(
            Stream::Control,
            data(Message::ToWorker(ToWorker::Open {
                session: crate::ids::SessionId(1),
                client: "s1 digits (pi, pid 7)".into(),
                weight: 10,
                user: 1 << 63,
                life: Incarnation(5),
            })),
        ),
        packet(
            Stream::Control,
            ordered(Order::Launch {
                template: 4,
                bindings: Arc::new(gt_ir::canonical::canonical(&tape).1),
            }),
        ),
        packet(
            Stream::Control,
            data(Message::ToClient(ToClient::Planned(Box::new(crate::wire::Planned {
                key: u128::MAX / 3,
                failed: Some("why".into()),
                retyped: Some("input 0 is i64[2], before i64[3]".into()),
                ..Default::default()
            })))),
        ),
        packet(Stream::Control, data(Message::ToClient(ToClient::Note("no graph".into())))),
        packet(Stream::Control, data(Message::ToClient(ToClient::Warning("one worker".into())))),
        packet(Stream::Control, data(Message::FromClient(FromClient::Configure(signals())))),
        packet(Stream::Control, data(Message::FromClient(Order::Run(Arc::new(tape)).into()))),
        packet(
            Stream::Bulk,
            data(Message::ToClient(ToClient::Chunk {
                request: RequestId(1),
                chunk: Box::new(chunk.clone()),
            })),
        ),
        packet(
            Stream::Bulk,
            data(Message::Parcel(Parcel {
                session: crate::ids::SessionId(1),
                opened: 2,
                chunk: Box::new(chunk.clone()),
            })),
        ),
        packet(Stream::Control, ordered(send())),
        packet(Stream::Control, ordered(learn())),
        packet(Stream::Control, ordered(perform())),
        packet(Stream::Control, data(Message::FromWorker(performed()))),
        packet(Stream::Control, lane(LaneMessage::Meet(meeting(2, 9)))),
        packet(Stream::Bulk, lane(LaneMessage::Piece { tag: 7, len: 1 << 20, head: vec![1, 2] })),
        packet(Stream::Bulk, Body::Ack { upto: 1, seen: 2, credit: u64::MAX }),
    ]
}

#[test]
fn what_is_encoded_decodes() {
    for packet in packets() {
        let frames = encode(&packet).unwrap();
        assert_eq!(decode(&frames.head, frames.payload).unwrap(), packet);
    }
}

#[test]
fn damage_is_an_error_or_another_packet_within_the_limits() {
    let mut random = Random::new(1);
    for packet in packets() {
        let frames = encode(&packet).unwrap();
        for len in 0..frames.head.len() {
            assert!(decode(&frames.head[..len], frames.payload.clone()).is_err(), "cut to {len}");
        }
        for _ in 0..4000 {
            let mut head = frames.head.clone();
            for _ in 0..1 + random.below(4) {
                let at = random.below(head.len() as u64) as usize;
                head[at] = random.below(256) as u8;
            }
            if let Ok(other) = decode(&head, frames.payload.clone()) {
                check(&other).unwrap();
            }
        }
    }
    for _ in 0..20_000 {
        let mut head: Vec<u8> = (0..random.below(80)).map(|_| random.below(256) as u8).collect();
        if head.len() > 4 && random.percent(90) {
            head[..4].copy_from_slice(&[b'G', b'T', PROTOCOL as u8, 0]);
        }
        drop(decode(&head, None));
    }
}

#[test]
fn strangers_and_other_versions_are_named() {
    let frames = encode(&packets()[0]).unwrap();
    let mut newer = frames.head.clone();
    newer[2] = PROTOCOL as u8 + 1;
    let says = |head: &[u8]| decode(head, None).unwrap_err().to_string();
    let versions = format!("protocol version {} does not match version {PROTOCOL}", PROTOCOL + 1);
    assert!(says(&newer).starts_with(&versions));
    assert!(
        says(b"GET / HTTP/1.1")
            .starts_with("these bytes are not a gt packet: they begin with [47, 45, 54, 20]")
    );
    assert!(says(b"").starts_with("these bytes are not a gt packet"));
    assert_eq!(
        decode(&frames.head, Some(Bytes::new())).unwrap_err().to_string(),
        "the packet is damaged: it has a frame too many"
    );
}

#[test]
fn a_demand_is_within_the_limits_of_the_wire() {
    let asks = |len: usize| {
        let demand = Demand { device: Some("c".repeat(len)), ..Demand::default() };
        let hello = Hello::new(Role::Client, Identity::default()).asking(demand);
        let packet: Packet = Packet {
            stream: Stream::Control,
            incarnation: Incarnation(1),
            body: Body::Hello(Box::new(hello)),
        };
        let bytes = postcard::to_extend(&packet, vec![b'G', b'T', PROTOCOL as u8, 0]).unwrap();
        decode(&bytes, None)
    };
    assert!(asks(MAX_TEXT).is_ok());
    assert!(matches!(asks(MAX_TEXT + 1), Err(WireError::Limit { what: "a name", .. })));
}

#[test]
fn limits_are_those_of_the_wire() {
    let chunk = |len: usize, total: u64| {
        let ty =
            gt_ir::Type { dtype: gt_ir::DType::U8, shape: gt_ir::Shape::new(&[2 << 20]).unwrap() };
        let chunk = Chunk { value: ValueId(0), ty, offset: 0, total, bytes: vec![0; len].into() };
        let body = Body::Data {
            seq: 0,
            ack: 0,
            message: Message::FromClient(Order::Chunk(Box::new(chunk)).into()),
        };
        encode(&Packet { stream: Stream::Bulk, incarnation: Incarnation(1), body })
    };
    assert!(chunk(MAX_CHUNK, 2 << 20).is_ok());
    assert!(matches!(chunk(MAX_CHUNK + 1, 2 << 20), Err(WireError::Limit { what: "a chunk", .. })));
    assert!(matches!(chunk(1, 1), Err(WireError::Damaged(_))));
    assert!(matches!(
        decode(&vec![0; MAX_HEAD + 1], None),
        Err(WireError::Limit { what: "a packet", .. })
    ));
    let learn = |n_steps| {
        let order = Order::Learn { routine: 0, steps: Arc::new(routine(n_steps)) };
        let session = crate::ids::SessionId(1);
        let message = Message::ToWorker(ToWorker::Order { session, seq: 0, attempt: 0, order });
        let body = Body::Data { seq: 0, ack: 0, message };
        encode(&Packet { stream: Stream::Control, incarnation: Incarnation(1), body })
    };
    // A step that launches counts five parts, one that sends one, and there is a receiver.
    let most = (MAX_ROUTINE - 1) / 6 * 2;
    assert!(learn(most).is_ok());
    let size = "a routine's parts";
    assert!(matches!(learn(most + 2), Err(WireError::Limit { what, .. }) if what == size));
    let long = cut("é".repeat(MAX_TEXT));
    assert!(long.len() <= MAX_TEXT && long.ends_with("é..."));
}

#[test]
fn what_is_said_about_lanes_has_limits() {
    let encoded = |message| {
        let body = lane(message);
        encode(&Packet { stream: Stream::Bulk, incarnation: Incarnation(1), body })
    };
    let piece = |len, n| LaneMessage::Piece { tag: 0, len, head: vec![0; n] };
    let most = Meeting::MAX_ENTRIES;
    assert!(encoded(LaneMessage::Meet(meeting(most, Meeting::MAX_ENTRY - 3))).is_ok());
    assert!(encoded(piece(MAX_CHUNK as u32, MAX_PIECE_HEAD)).is_ok());
    for bad in [
        LaneMessage::Meet(meeting(most + 1, 0)),
        LaneMessage::Meet(meeting(1, Meeting::MAX_ENTRY - 2)),
        piece(MAX_CHUNK as u32 + 1, 0),
        piece(0, MAX_PIECE_HEAD + 1),
    ] {
        assert!(matches!(encoded(bad), Err(WireError::Limit { .. })));
    }
}
