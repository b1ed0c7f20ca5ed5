//! Two workers' lanes in one process, whose sockets are this file.

use gt_ir::tape::ValueId;
use gt_ir::{DType, Shape, Type};

use super::*;
use crate::ids::SessionId;
use crate::wire::{MAX_CHUNK, Parcel};
use crate::zmq::{Wakeups, wait, wake_pair};

const PEER: PeerId = PeerId(7);
const LIFE: Incarnation = Incarnation(3);
/// The fewest bytes for a lane.
const LEAST: usize = 64 << 10;

/// A worker's side.
struct Side {
    lanes: Lanes,
    wakeups: Wakeups,
    arrived: Vec<Packet>,
}

/// A sender and a receiver, and the receiver's door as the sender knows it.
struct World {
    sender: Side,
    receiver: Side,
    to: Road,
}

fn door(key: u8) -> Arc<Door> {
    Arc::new(Door { address: "127.0.0.1:1".into(), local: true, sealed: true, key: [key; 16] })
}

fn side(key: u8) -> Side {
    let (waker, wakeups) = wake_pair().unwrap();
    let lanes = Lanes::new(Wanted::Gloo, Some(door(key)), waker);
    Side { lanes, wakeups, arrived: Vec::new() }
}

impl World {
    fn new(known: u8) -> World {
        let (sender, mut receiver) = (side(1), side(2));
        let welcome = crate::wire::Welcome { name: String::new(), accepted: 0, offer: None };
        let welcome = of(Stream::Control, Body::Welcome(Box::new(welcome)));
        receiver.lanes.fate(&Road::From(PEER), &welcome, false);
        World { sender, receiver, to: Road::To(door(known)) }
    }

    /// Sends a packet by lane or by the sockets. Says which, or that the road is over.
    fn send(&mut self, packet: &Packet) -> &'static str {
        let (used, sent) = match self.sender.lanes.fate(&self.to, packet, true) {
            Fate::Sockets => ("sockets", packet.clone()),
            Fate::Instead(other) => ("lane", *other),
            Fate::Underway => return "underway",
            Fate::Over => return "over",
        };
        self.brought(sent);
        if used == "lane" {
            self.sender.lanes.follow(&self.to, packet);
        }
        used
    }

    fn brought(&mut self, packet: Packet) {
        self.receiver.arrived.extend(self.receiver.lanes.sort(&Road::From(PEER), packet));
    }

    /// Lets the lanes go on until something holds, for ten seconds at most.
    fn until(&mut self, holds: impl Fn(&World) -> bool) {
        for _ in 0..1_000 {
            self.turn();
            if holds(self) {
                return;
            }
            let pause = Some(Duration::from_millis(10));
            wait(&[], &self.sender.wakeups, pause).unwrap();
        }
        panic!("it never holds");
    }

    fn turn(&mut self) {
        while let Some(come) = self.sender.lanes.next() {
            let Come::Say(_, packet) = come else { panic!("a packet came back") };
            self.brought(packet);
        }
        while let Some(come) = self.receiver.lanes.next() {
            match come {
                Come::Packet(_, packet) => self.receiver.arrived.push(packet),
                Come::Say(_, packet) => assert!(self.sender.lanes.sort(&self.to, packet).is_none()),
            }
        }
        self.receiver.wakeups.clear(true);
    }

    fn is_open(&self) -> bool {
        self.sender.lanes.outgoing.values().any(|lane| lane.is_open)
    }

    /// Opens a lane with a first piece.
    fn opened() -> World {
        let mut world = World::new(2);
        assert_eq!(world.send(&piece(0, LEAST)), "sockets");
        world.until(World::is_open);
        world.receiver.arrived.clear();
        world
    }
}

fn of(stream: Stream, body: Body) -> Packet {
    Packet { stream, incarnation: LIFE, body }
}

fn piece(seq: u64, len: usize) -> Packet {
    let ty = Type { dtype: DType::U8, shape: Shape::new(&[2 * MAX_CHUNK]).unwrap() };
    let bytes: Vec<u8> = (0..len).map(|i| (i as u64 * 7 + (i as u64 >> 8) + seq) as u8).collect();
    let (value, total) = (ValueId(seq), ty.bytes() as u64);
    let chunk = Chunk { value, ty, offset: 0, total, bytes: bytes.into() };
    let message =
        Message::Parcel(Parcel { session: SessionId(1), opened: 1, chunk: Box::new(chunk) });
    of(Stream::Bulk, Body::Data { seq, ack: 0, message })
}

#[test]
fn large_pieces_take_the_lane_and_all_pieces_keep_their_order() {
    let mut world = World::opened();
    let sizes = [LEAST, 10, MAX_CHUNK, LEAST - 1, 3 * LEAST + 1, MAX_CHUNK];
    let packets: Vec<Packet> = (1..).zip(sizes).map(|(seq, len)| piece(seq, len)).collect();
    for packet in &packets {
        let is_large = world.sender.lanes.large(packet).is_some();
        assert_eq!(world.send(packet), if is_large { "lane" } else { "sockets" });
    }
    // What the link sends again meanwhile is not sent twice.
    let again = world.send(packets.last().unwrap());
    assert!(["underway", "lane"].contains(&again), "{again}");
    world.until(|world| world.receiver.arrived.len() >= packets.len());
    assert!(world.receiver.arrived[..packets.len()] == packets[..]);
    // Control messages do not wait, and neither does a piece when none is before it.
    assert_eq!(world.send(&piece(9, 5)), "sockets");
    assert!(world.receiver.arrived.last() == Some(&piece(9, 5)) || again == "lane");
}

#[test]
fn a_lane_to_a_worker_that_is_gone_takes_its_road_with_it_and_there_is_no_other() {
    let mut world = World::opened();
    assert_eq!(world.send(&piece(1, LEAST)), "lane");
    world.until(|world| world.receiver.arrived.len() == 1);
    world.receiver = side(2);
    assert_eq!(world.send(&piece(2, MAX_CHUNK)), "lane");
    world.until(|world| !world.sender.lanes.failed.is_empty());
    assert_eq!(world.send(&of(Stream::Control, Body::Ping)), "over");
    world.sender.lanes.forget(&world.to);
    assert_eq!(world.send(&piece(0, MAX_CHUNK)), "sockets");
    assert!(world.sender.lanes.roads.is_empty());
}

#[test]
fn a_piece_that_nobody_takes_ends_the_lane_in_time() {
    let mut world = World::opened();
    let packet = piece(1, MAX_CHUNK);
    // The packet that announces it is lost.
    assert!(matches!(world.sender.lanes.fate(&world.to, &packet, true), Fate::Instead(_)));
    world.sender.lanes.follow(&world.to, &packet);
    assert_eq!(world.send(&packet), "underway");
    world.until(|world| !world.sender.lanes.failed.is_empty());
    assert_eq!(world.send(&packet), "over");
}

#[test]
fn a_worker_that_does_not_know_the_key_gets_no_lane() {
    // The sender believes that it talks to a door with another key.
    let mut world = World::new(3);
    assert_eq!(world.send(&piece(0, LEAST)), "sockets");
    world.until(|world| !world.sender.lanes.failed.is_empty());
    assert!(!world.is_open());
    assert_eq!(world.send(&piece(1, LEAST)), "sockets");
    world.until(|world| world.receiver.lanes.incoming.is_empty());
}

#[test]
fn strangers_and_wishes_that_are_not_allowed_get_no_lane() {
    let mut world = World::new(2);
    world.receiver.lanes.forget(&Road::From(PEER));
    world.send(&piece(0, LEAST));
    world.until(|world| !world.receiver.arrived.is_empty());
    world.turn();
    assert!(world.receiver.lanes.roads.is_empty(), "a stranger is not heard");
    for wanted in [Wanted::Sockets, Wanted::Auto] {
        let mut world = World::new(2);
        world.sender.lanes.wanted = wanted;
        assert_eq!(world.send(&piece(0, LEAST)), "sockets");
        assert!(world.sender.lanes.roads.is_empty(), "the road is a socket file");
    }
}

#[test]
fn pieces_that_are_announced_and_never_come_are_limited() {
    let mut world = World::opened();
    for tag in 0..2 * MAX_WAITING.1 / MAX_CHUNK as u64 {
        let len = MAX_CHUNK as u32;
        let message = LaneMessage::Piece { tag: 100 + tag as u32, len, head: Vec::new() };
        world.brought(of(Stream::Bulk, Body::Lane(Box::new(message))));
    }
    assert!(world.receiver.lanes.roads.is_empty());
    assert!(world.receiver.arrived.is_empty());
}
