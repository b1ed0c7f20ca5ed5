//! Lanes beside the roads of a worker: the bytes of large pieces go through libtorch's c10d (Gloo),
//! everything else through the road's sockets. The setting `GT_ROAD` says where there are lanes.
//!
//! The end that has values begins. Both ends say over the road how they are reached
//! ([`Meeting`]), connect, and prove to each other that they know the key of the door. From then on
//! a packet with a large chunk travels without the chunk, inside of a
//! [`Piece`](LaneMessage::Piece), and is complete again before the connection sees it.
//!
//! Guarantees: the packets of a road's bulk stream keep their order. The packets that wait at the
//! receiving end are limited in number and bytes, as the lanes of a worker are. A lane that fails
//! takes its road with it, so its values pass through the server, and the two workers have no
//! further lane. If a lane is never made, the road goes on without it. A lane is not encrypted, so
//! there is one only where both workers are on one machine or their road is not encrypted either.

mod allowed;
mod end;
mod failure;
mod meet;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use end::{Handle, News, Order, Plan};
use gt_compiler::torch::lane::End;

use super::siblings::Road;
use super::wanted::Wanted;
use crate::clock;
use crate::connection::WIDEST_WINDOW;
use crate::ids::{Incarnation, PeerId};
use crate::messages::{self, Area, Rank};
use crate::wire::codec::encode;
use crate::wire::{
    Body, Chunk, Door, LaneMessage, MAX_PIECE_HEAD, Meeting, Message, Packet, Stream,
};
use crate::worker::queue::Fifo;
use crate::zmq::{Address, Waker};

/// The most lanes of a worker. Each has a few threads.
const MAX_LANES: usize = 64;
/// The most packets, and bytes, that wait for a lane at its receiving end. A sender that keeps to
/// its window stays below.
const MAX_WAITING: (usize, u64) = (1 << 14, 2 * WIDEST_WINDOW);
/// How long the end of a worker waits for the threads of its lanes.
const FAREWELL: Duration = Duration::from_millis(500);
/// The most workers that are remembered because a lane to them failed.
const MAX_FAILED: usize = 1 << 10;

/// What becomes of a packet that is to be sent.
pub(super) enum Fate {
    /// The sockets take it.
    Sockets,
    /// The sockets take this one in its place. If they do, [`Lanes::follow`].
    Instead(Box<Packet>),
    /// It is on the lane already.
    Underway,
    /// The lane has failed, and the road with it.
    Over,
}

/// What comes from the lanes.
pub(super) enum Come {
    /// A packet that is complete.
    Packet(Road, Packet),
    /// A packet for the sockets.
    Say(Road, Packet),
}

/// The lanes of a worker.
pub(super) struct Lanes {
    wanted: Wanted,
    own: Option<Arc<Door>>,
    waker: Waker,
    news: Arc<Fifo<(u64, News)>>,
    /// The roads of the lanes, by their numbers.
    roads: BTreeMap<u64, Road>,
    outgoing: BTreeMap<Arc<Door>, Outgoing>,
    incoming: BTreeMap<PeerId, Incoming>,
    /// The peers that know the door's key.
    welcome: BTreeSet<PeerId>,
    /// The doors to which lanes have failed.
    failed: BTreeSet<Arc<Door>>,
    n_made: u64,
}

/// A lane to another worker.
struct Outgoing {
    handle: Handle,
    life: Incarnation,
    is_open: bool,
    /// The tag of the next piece. The proofs have tag 0.
    tag: u32,
}

/// A lane from another worker.
struct Incoming {
    handle: Handle,
    life: Incarnation,
    n_waiting: usize,
    /// The bytes of the chunks that wait.
    bytes: u64,
}

impl Lanes {
    /// No lanes yet. Their threads wake this waker.
    pub(super) fn new(wanted: Wanted, own: Option<Arc<Door>>, waker: Waker) -> Lanes {
        Lanes {
            wanted,
            own,
            waker,
            news: Arc::default(),
            roads: BTreeMap::new(),
            outgoing: BTreeMap::new(),
            incoming: BTreeMap::new(),
            welcome: BTreeSet::new(),
            failed: BTreeSet::new(),
            n_made: 0,
        }
    }

    /// Decides how a packet for another worker travels. Begins a lane with the first large piece.
    /// `by_file` is whether the road is a socket file.
    pub(super) fn fate(&mut self, road: &Road, packet: &Packet, by_file: bool) -> Fate {
        let door = match (road, &packet.body) {
            (Road::From(peer), Body::Welcome(_)) => {
                self.welcome.insert(*peer);
                return Fate::Sockets;
            }
            (Road::From(_), _) => return Fate::Sockets,
            (Road::To(door), _) => door,
        };
        if self.failed.contains(door) {
            // A lane that failed before it was open has done no harm.
            let is_over = self.outgoing.get(door).is_some_and(|lane| lane.is_open);
            return if is_over { Fate::Over } else { Fate::Sockets };
        }
        let Some((seq, _)) = self.large(packet) else { return Fate::Sockets };
        match self.outgoing.get(door) {
            None => self.begin(door, packet.incarnation, by_file),
            Some(lane) if lane.is_open && lane.handle.is_underway(seq) => return Fate::Underway,
            Some(lane) if lane.is_open => return lane.instead(packet),
            Some(_) => {}
        }
        Fate::Sockets
    }

    /// Sends the chunk of a packet on its lane: the sockets have taken what stands for it.
    pub(super) fn follow(&mut self, road: &Road, packet: &Packet) {
        if let Road::To(door) = road
            && let Some(lane) = self.outgoing.get_mut(door)
            && let Some((seq, chunk)) = data(packet)
        {
            lane.handle.order(Order::Send { seq, tag: lane.tag, bytes: chunk.bytes.clone() });
            lane.tag = next(lane.tag);
        }
    }

    /// The number of a packet that may go over a lane, among those of its link, and its chunk.
    fn large<'a>(&self, packet: &'a Packet) -> Option<(u64, &'a Chunk)> {
        data(packet).filter(|(_, chunk)| chunk.bytes.len() >= self.wanted.least())
    }

    fn begin(&mut self, door: &Arc<Door>, life: Incarnation, by_file: bool) {
        if !self.wanted.asks(door, by_file) {
            return;
        }
        let road = Road::To(Arc::clone(door));
        if let Some(handle) = self.make(road, End::First, &door.key, None) {
            let lane = Outgoing { handle, life, is_open: false, tag: next(0) };
            self.outgoing.insert(Arc::clone(door), lane);
        }
    }

    fn make(
        &mut self,
        road: Road,
        end: End,
        key: &[u8; 16],
        theirs: Option<Meeting>,
    ) -> Option<Handle> {
        let own = self.own.as_ref()?;
        if self.roads.len() >= MAX_LANES {
            return None;
        }
        let host = own.address.parse().map(|address: Address| address.host).ok()?;
        // A name may stand for several addresses of the machine itself.
        let host = if host == "localhost" { "127.0.0.1".into() } else { host };
        self.n_made += 1;
        let plan = Plan { n: self.n_made, end, host, key: *key, theirs };
        let handle = Handle::start(plan, self.news.clone(), self.waker.clone()).ok()?;
        self.roads.insert(self.n_made, road);
        Some(handle)
    }

    /// Takes what another worker says about a lane, and packets that have to wait for a lane. Gives
    /// back all others.
    pub(super) fn sort(&mut self, road: &Road, packet: Packet) -> Option<Packet> {
        match (road, packet.body) {
            (Road::To(door), Body::Lane(message)) => {
                if let (LaneMessage::Meet(theirs), Some(lane)) = (*message, self.outgoing.get(door))
                {
                    lane.handle.meet(theirs);
                }
                None
            }
            (Road::From(peer), Body::Lane(message)) => {
                match *message {
                    LaneMessage::Meet(theirs) => self.met(*peer, packet.incarnation, theirs),
                    LaneMessage::Piece { tag, len, head } => {
                        self.wait(*peer, u64::from(len), Order::Receive { tag, len, head });
                    }
                }
                None
            }
            (Road::From(peer), body)
                if packet.stream == Stream::Bulk
                    && self.incoming.get(peer).is_some_and(|lane| lane.n_waiting > 0) =>
            {
                let packet = Packet { body, ..packet };
                let bytes = data(&packet).map_or(0, |(_, chunk)| chunk.bytes.len() as u64);
                self.wait(*peer, bytes, Order::Pass(Box::new(packet), bytes));
                None
            }
            (_, body) => Some(Packet { body, ..packet }),
        }
    }

    /// Another worker begins a lane to this one.
    fn met(&mut self, peer: PeerId, life: Incarnation, theirs: Meeting) {
        let Some(own) = self.own.clone() else { return };
        let takes = self.wanted.takes(&own) && self.welcome.contains(&peer);
        if !takes || self.incoming.contains_key(&peer) {
            return;
        }
        if let Some(handle) = self.make(Road::From(peer), End::Second, &own.key, Some(theirs)) {
            self.incoming.insert(peer, Incoming { handle, life, n_waiting: 0, bytes: 0 });
        }
    }

    /// Queues a packet at the receiving end of a lane. Without the lane it is dropped, and its
    /// sender hears of that by the lane's end.
    fn wait(&mut self, peer: PeerId, bytes: u64, order: Order) {
        let Some(lane) = self.incoming.get_mut(&peer) else { return };
        lane.n_waiting += 1;
        lane.bytes += bytes;
        if lane.n_waiting > MAX_WAITING.0 || lane.bytes > MAX_WAITING.1 {
            self.close(&Road::From(peer));
        } else {
            lane.handle.order(order);
        }
    }

    /// Takes the next thing that comes from the lanes.
    pub(super) fn next(&mut self) -> Option<Come> {
        while let Some((n, news)) = self.news.try_pop() {
            // News of a lane that is closed are late.
            let Some(road) = self.roads.get(&n).cloned() else { continue };
            match news {
                News::Meet(meeting) => {
                    let body = Body::Lane(Box::new(LaneMessage::Meet(meeting)));
                    let incarnation = self.life(&road)?;
                    let packet = Packet { stream: Stream::Control, incarnation, body };
                    return Some(Come::Say(road, packet));
                }
                News::Open => self.opened(&road),
                News::Arrived(packet, bytes) => {
                    if let Road::From(peer) = road
                        && let Some(lane) = self.incoming.get_mut(&peer)
                    {
                        lane.n_waiting -= 1;
                        lane.bytes -= bytes;
                    }
                    return Some(Come::Packet(road, packet));
                }
                News::Failed(why) => self.failed(&road, &why),
            }
        }
        None
    }

    fn life(&self, road: &Road) -> Option<Incarnation> {
        match road {
            Road::To(door) => self.outgoing.get(door).map(|lane| lane.life),
            Road::From(peer) => self.incoming.get(peer).map(|lane| lane.life),
        }
    }

    fn opened(&mut self, road: &Road) {
        tell(&|| format!("a lane {} is open", name(road)));
        if let Road::To(door) = road
            && let Some(lane) = self.outgoing.get_mut(door)
        {
            lane.is_open = true;
        }
    }

    fn failed(&mut self, road: &Road, why: &str) {
        tell(&|| format!("a lane {} has failed: {why}", name(road)));
        match road {
            // It stays until its road is closed, so that the road is.
            Road::To(door) => {
                if self.failed.len() < MAX_FAILED {
                    self.failed.insert(Arc::clone(door));
                }
            }
            Road::From(_) => self.close(road),
        }
    }

    /// Closes the lane beside a road.
    pub(super) fn close(&mut self, road: &Road) {
        let handle = match road {
            Road::To(door) => self.outgoing.remove(door).map(|lane| lane.handle),
            Road::From(peer) => self.incoming.remove(peer).map(|lane| lane.handle),
        };
        if let Some(handle) = handle {
            self.roads.remove(&handle.n);
        }
    }

    /// Forgets a peer, whose road is closed.
    pub(super) fn forget(&mut self, road: &Road) {
        self.close(road);
        if let Road::From(peer) = road {
            self.welcome.remove(peer);
        }
    }
}

impl Drop for Lanes {
    /// Waits a moment for the threads, because libtorch does not expect them at the process's end.
    fn drop(&mut self) {
        let outgoing = mem::take(&mut self.outgoing).into_values().map(|lane| lane.handle);
        let incoming = mem::take(&mut self.incoming).into_values().map(|lane| lane.handle);
        let mut handles: Vec<Handle> = outgoing.chain(incoming).collect();
        handles.iter_mut().for_each(Handle::end);
        let until = clock::now() + FAREWELL;
        handles.iter().for_each(|handle| handle.join(until.saturating_sub(clock::now())));
    }
}

impl Outgoing {
    /// What the sockets carry in the place of a packet.
    fn instead(&self, packet: &Packet) -> Fate {
        let Some((_, chunk)) = data(packet) else { return Fate::Sockets };
        let len = u32::try_from(chunk.bytes.len());
        let (Ok(frames), Ok(len)) = (encode(packet), len) else { return Fate::Sockets };
        if frames.head.len() > MAX_PIECE_HEAD {
            return Fate::Sockets;
        }
        let message = LaneMessage::Piece { tag: self.tag, len, head: frames.head };
        let body = Body::Lane(Box::new(message));
        Fate::Instead(Box::new(Packet { body, ..*packet }))
    }
}

/// The tag after a tag. They begin again at 1, long after the first pieces have arrived.
fn next(tag: u32) -> u32 {
    if tag == i32::MAX as u32 { 1 } else { tag + 1 }
}

/// The number of a packet among those of its link, and its chunk.
fn data(packet: &Packet) -> Option<(u64, &Chunk)> {
    match &packet.body {
        Body::Data { seq, message: Message::Parcel(parcel), .. } => Some((*seq, &parcel.chunk)),
        _ => None,
    }
}

fn name(road: &Road) -> String {
    match road {
        Road::To(door) => format!("to {}", door.address),
        Road::From(peer) => format!("from peer {}", peer.0),
    }
}

fn tell(text: &dyn Fn() -> String) {
    if messages::wants(Rank::News, Area::Worker) {
        messages::say(Rank::News, Area::Worker, &text());
    }
}
