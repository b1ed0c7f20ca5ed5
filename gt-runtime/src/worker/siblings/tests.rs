//! Two workers that bring each other values, packet by packet, and strangers at a door.

use super::*;
use gt_ir::{DType, Shape, Type, ValueId};

const PEER: PeerId = PeerId(7);

fn door(key: u8) -> Arc<Door> {
    Arc::new(Door { address: "there:1".into(), local: true, sealed: true, key: [key; 16] })
}

fn siblings(door: Option<Arc<Door>>) -> Siblings {
    let travel = Travel::Pieces(8);
    Siblings::new(Identity::default(), Incarnation(1), ConnectionConfig::remote(), travel, door)
}

fn destination(key: u8) -> Destination {
    Destination { door: door(key), session: SessionId(3), opened: 1, value: ValueId(9) }
}

fn value() -> Chunk {
    let ty = Type::new(DType::U8, Shape::new(&[20]).unwrap());
    Chunk { value: ValueId(5), ty, offset: 0, total: 20, bytes: vec![1; 20].into() }
}

/// The sender, the receiver, and what became of the values.
struct Pair {
    from: Siblings,
    to: Siblings,
    arrived: Vec<Parcel>,
    reports: Vec<FromWorker>,
    now: Time,
}

impl Pair {
    fn new(key: u8) -> Pair {
        let (from, to) = (siblings(None), siblings(Some(door(key))));
        Pair { from, to, arrived: Vec::new(), reports: Vec::new(), now: Time::ZERO }
    }

    fn send(&mut self, key: u8) -> Option<Box<Chunk>> {
        self.from.send(self.now, (SessionId(2), RequestId(4)), Box::new(value()), &destination(key))
    }

    /// Carries packets both ways for so many seconds.
    fn carry(&mut self, key: u8, seconds: u64) {
        for _ in 0..10 * seconds {
            let mut there = Vec::new();
            self.from.transmit(self.now, &mut there, &mut self.reports, |_| ());
            let mut back = Vec::new();
            let mut deliver = |parcel: Parcel| self.arrived.push(parcel);
            for packet in packets(there) {
                self.to.receive(self.now, &Road::From(PEER), packet, &mut back, &mut deliver);
            }
            self.to.transmit(self.now, &mut back, &mut Vec::new(), |_| ());
            let road = Road::To(door(key));
            for packet in packets(back) {
                self.from.receive(self.now, &road, packet, &mut Vec::new(), &mut |_| ());
            }
            self.now += Duration::from_millis(100);
        }
    }
}

fn packets(actions: Vec<Action>) -> impl Iterator<Item = Packet> {
    actions.into_iter().filter_map(|action| match action {
        Action::Send(_, packet) => Some(packet),
        Action::Close(_) => None,
    })
}

fn is_back(report: &FromWorker) -> bool {
    matches!(report, FromWorker::Chunk { session: SessionId(2), request: RequestId(4), chunk }
        if *chunk == Box::new(value()))
}

#[test]
fn a_value_arrives_in_pieces_and_its_sender_is_told() {
    let mut pair = Pair::new(1);
    assert_eq!(pair.send(1), None);
    pair.carry(1, 1);
    let offsets: Vec<u64> = pair.arrived.iter().map(|parcel| parcel.chunk.offset).collect();
    assert_eq!(offsets, [0, 8, 16]);
    assert!(pair.arrived.iter().all(|parcel| parcel.chunk.value == ValueId(9)));
    let sent = FromWorker::Sent { session: SessionId(2), request: RequestId(4), bytes: 20 };
    assert_eq!(pair.reports, [sent]);
    assert!(pair.from.is_idle());
}

#[test]
fn without_the_key_nobody_answers_and_the_value_comes_back() {
    let mut pair = Pair::new(1);
    assert_eq!(pair.send(2), None);
    pair.carry(2, 3);
    assert_eq!((pair.arrived.len(), pair.to.incoming.len()), (0, 0));
    assert!(matches!(&pair.reports[..], [back] if is_back(back)), "{:?}", pair.reports);
    // The road rests, and is tried again later.
    assert_eq!(pair.send(2), Some(Box::new(value())));
    pair.now += REST;
    assert_eq!(pair.send(2), None);
}

#[test]
fn values_come_back_from_a_road_that_is_closed_or_silent() {
    let mut pair = Pair::new(1);
    pair.send(1);
    pair.from.impassable(&door(1));
    assert_eq!(pair.from.next_deadline(), Some(Time::ZERO));
    pair.carry(1, 1);
    assert!(matches!(&pair.reports[..], [back] if is_back(back)), "{:?}", pair.reports);
    let mut pair = Pair::new(1);
    pair.send(1);
    pair.carry(1, 1);
    pair.send(1);
    let cut = pair.now;
    while pair.reports.len() < 2 && pair.now < cut + 2 * SILENCE {
        pair.now += Duration::from_secs(1);
        pair.from.transmit(pair.now, &mut Vec::new(), &mut pair.reports, |_| ());
        pair.to.transmit(pair.now, &mut Vec::new(), &mut Vec::new(), |_| ());
    }
    assert!(matches!(&pair.reports[..], [_, back] if is_back(back)), "{:?}", pair.reports);
    assert!(pair.now <= cut + SILENCE, "{:?} after the road was cut", pair.now - cut);
    assert!(pair.to.incoming.is_empty(), "a silent peer is forgotten");
}

#[test]
fn a_stranger_who_skips_the_hello_is_closed() {
    let mut to = siblings(Some(door(1)));
    let body = Body::Ping;
    let packet = Packet { stream: Stream::Bulk, incarnation: Incarnation(1), body };
    let (mut actions, mut n_parcels) = (Vec::new(), 0);
    to.receive(Time::ZERO, &Road::From(PEER), packet, &mut actions, &mut |_| n_parcels += 1);
    assert!(matches!(&actions[..], [Action::Close(Road::From(PEER))]), "{actions:?}");
    assert_eq!((n_parcels, to.incoming.len()), (0, 0));
}
