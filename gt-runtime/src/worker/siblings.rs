//! A worker's connections with the other workers of its sessions: the values that it sends them,
//! and the values that they send it.
//!
//! Guarantees: a value that is sent arrives once, or is given back to go through the dispatcher. It
//! is given back when the other worker cannot be reached or is lost; then the road to that worker
//! rests for a time. A worker talks only to peers that know its key. A connection serves one
//! direction, so two workers that exchange values have two.
//!
//! Pure, as the connections themselves: it owns no socket and reads no clock.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::assembly::Travel;
use crate::clock::Time;
use crate::connection::{Connection, ConnectionConfig, Incoming};
use crate::identity::Identity;
use crate::ids::{Incarnation, PeerId, RequestId, SessionId};
use crate::wire::{
    Body, Chunk, Destination, Door, FromWorker, Hello, Message, PROTOCOL, Packet, Parcel, Role,
    Stream, Welcome,
};

/// The silence after which a road has failed. It is shorter than the lease of a connection with the
/// server: a program waits for what is on the road, and nothing is lost with it.
pub(super) const SILENCE: Duration = Duration::from_secs(5);
/// How long the road to a worker is not tried again after it failed.
const REST: Duration = Duration::from_secs(60);
/// The most workers that may be connected with this one.
const MAX_INCOMING: usize = 1 << 12;

/// One end of a road between two workers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Road {
    /// To the worker behind a door.
    To(Arc<Door>),
    /// From a worker that came to this one's door.
    From(PeerId),
}

/// What the shell does for a road.
#[derive(Debug)]
pub(crate) enum Action {
    /// Sends a packet, and opens the sockets of the road before the first.
    Send(Road, Packet),
    /// Closes the sockets of the road.
    Close(Road),
}

/// The connections of one registration.
pub(super) struct Siblings {
    identity: Identity,
    incarnation: Incarnation,
    config: ConnectionConfig,
    travel: Travel,
    door: Option<Arc<Door>>,
    outgoing: BTreeMap<Arc<Door>, Outgoing>,
    incoming: BTreeMap<PeerId, Connection>,
    /// The number of roads that it has opened.
    n_dialed: u64,
}

/// The road to one worker.
struct Outgoing {
    connection: Connection,
    /// Values that have not arrived, in the order of their pieces.
    underway: VecDeque<Underway>,
    /// When a road that failed is tried again.
    rests: Option<Time>,
}

/// A value on its way.
struct Underway {
    session: SessionId,
    request: RequestId,
    /// The whole of it, as the dispatcher knows it.
    whole: Box<Chunk>,
    /// The number of its pieces that have not arrived.
    n_pieces: usize,
    /// When it was sent.
    began: Time,
}

/// A value that has arrived at another worker.
pub(super) struct Given<'a> {
    pub(super) to: &'a Door,
    pub(super) session: SessionId,
    pub(super) bytes: u64,
    pub(super) began: Time,
}

impl Siblings {
    pub(super) fn new(
        identity: Identity,
        incarnation: Incarnation,
        config: ConnectionConfig,
        travel: Travel,
        door: Option<Arc<Door>>,
    ) -> Siblings {
        // A worker that does not answer is passed over, so there is always a limit.
        let lease = config.lease.min(SILENCE);
        let config = ConnectionConfig { lease, answer: config.answer.or(Some(lease)), ..config };
        let (outgoing, incoming) = (BTreeMap::new(), BTreeMap::new());
        let n_dialed = 0;
        Siblings { identity, incarnation, config, travel, door, outgoing, incoming, n_dialed }
    }

    /// Sends a value. Gives it back if the road rests.
    pub(super) fn send(
        &mut self,
        now: Time,
        (session, request): (SessionId, RequestId),
        whole: Box<Chunk>,
        to: &Destination,
    ) -> Option<Box<Chunk>> {
        let known = self.outgoing.get(&to.door);
        if known.is_some_and(|road| road.rests.is_some_and(|until| now < until)) {
            return Some(whole);
        }
        if known.is_none_or(|road| road.rests.is_some()) {
            let road = self.dial(now, &to.door);
            self.outgoing.insert(Arc::clone(&to.door), road);
        }
        let road = self.outgoing.get_mut(&to.door)?;
        let mut named = whole.clone();
        named.value = to.value;
        let mut n_pieces = 0;
        for chunk in self.travel.pieces(named) {
            n_pieces += 1;
            let (session, opened) = (to.session, to.opened);
            let parcel = Message::Parcel(Parcel { session, opened, chunk });
            road.connection.send(now, Stream::Bulk, parcel);
        }
        road.underway.push_back(Underway { session, request, whole, n_pieces, began: now });
        None
    }

    /// Opens a road. Each has an incarnation of its own, so that a late packet for a worker that is
    /// gone means nothing to the next worker at its address.
    fn dial(&mut self, now: Time, door: &Door) -> Outgoing {
        let hello = Hello::new(Role::Sibling(door.key), self.identity.clone());
        let life = Incarnation(self.incarnation.0 + self.n_dialed);
        self.n_dialed += 1;
        let connection = Connection::dial(now, life, hello, self.config);
        Outgoing { connection, underway: VecDeque::new(), rests: None }
    }

    /// Takes a packet of another worker. Passes the values that it brings to `deliver`.
    pub(super) fn receive(
        &mut self,
        now: Time,
        road: &Road,
        packet: Packet,
        actions: &mut Vec<Action>,
        deliver: &mut impl FnMut(Parcel),
    ) {
        let connection = match road {
            Road::To(door) => self.outgoing.get_mut(door).map(|road| &mut road.connection),
            Road::From(peer) => {
                if let Body::Hello(hello) = &packet.body {
                    self.greet(now, *peer, packet.incarnation, hello, actions);
                }
                self.incoming.get_mut(peer)
            }
        };
        let Some(connection) = connection else {
            // A stranger, or a late packet of a road that is closed.
            return actions.push(Action::Close(road.clone()));
        };
        connection.receive(now, packet, &mut |incoming| {
            if let Incoming::Message(Stream::Bulk, Message::Parcel(parcel)) = incoming {
                deliver(parcel);
            }
        });
    }

    /// Answers a hello of a worker that knows the key of this one.
    fn greet(
        &mut self,
        now: Time,
        peer: PeerId,
        life: Incarnation,
        hello: &Hello,
        actions: &mut Vec<Action>,
    ) {
        let known = self.incoming.get(&peer).map(Connection::incarnation);
        let key = self.door.as_ref().map(|door| Role::Sibling(door.key));
        let fits = hello.protocol == PROTOCOL && hello.fingerprint == gt_ir::op::FINGERPRINT;
        let room = known.is_some() || self.incoming.len() < MAX_INCOMING;
        if Some(hello.role) != key || !fits || !room || known.is_some_and(|known| life < known) {
            return;
        }
        if known != Some(life) {
            self.incoming.insert(peer, Connection::accept(now, life, self.config));
        }
        let body =
            Body::Welcome(Box::new(Welcome { name: String::new(), accepted: 0, offer: None }));
        let packet = Packet { stream: Stream::Control, incarnation: life, body };
        actions.push(Action::Send(Road::From(peer), packet));
    }

    /// Gives back the credit of a value's piece.
    pub(super) fn release(&mut self, road: &Road, weight: u64) {
        if let Road::From(peer) = road
            && let Some(connection) = self.incoming.get_mut(peer)
        {
            connection.release(Stream::Bulk, weight);
        }
    }

    /// Collects the packets to send now, and the reports on values that arrived or come back. Tells
    /// `tell` of those that arrived.
    pub(super) fn transmit(
        &mut self,
        now: Time,
        actions: &mut Vec<Action>,
        reports: &mut Vec<FromWorker>,
        mut tell: impl FnMut(Given<'_>),
    ) {
        for (door, road) in &mut self.outgoing {
            road.transmit(now, door, actions, reports, &mut tell);
        }
        self.incoming.retain(|peer, connection| {
            let mut send = |packet| actions.push(Action::Send(Road::From(*peer), packet));
            connection.transmit(now, &mut send, &mut |_| ());
            let over = connection.is_ended();
            if over {
                actions.push(Action::Close(Road::From(*peer)));
            }
            !over
        });
    }

    /// Notes that the transport could not reach the other end of a road.
    pub(super) fn unreachable(&mut self, now: Time, road: &Road) {
        let connection = match road {
            Road::To(door) => self.outgoing.get_mut(door).map(|road| &mut road.connection),
            Road::From(peer) => self.incoming.get_mut(peer),
        };
        connection.into_iter().for_each(|connection| connection.unreachable(now));
    }

    /// Notes that there is no such road. What is on it is given back.
    pub(super) fn impassable(&mut self, door: &Door) {
        if let Some(road) = self.outgoing.get_mut(door) {
            drop(road.connection.close(String::new()));
        }
    }

    /// When to call [`transmit`](Siblings::transmit), unless a packet arrives before.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let outgoing = self.outgoing.values().filter_map(Outgoing::next_deadline);
        let incoming = self.incoming.values().filter_map(Connection::next_deadline);
        outgoing.chain(incoming).min()
    }

    /// Whether no value is on its way.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.outgoing.values().all(|road| road.underway.is_empty())
    }
}

impl Outgoing {
    fn transmit(
        &mut self,
        now: Time,
        door: &Arc<Door>,
        actions: &mut Vec<Action>,
        reports: &mut Vec<FromWorker>,
        tell: &mut impl FnMut(Given<'_>),
    ) {
        if self.rests.is_some() {
            return;
        }
        let mut send = |packet| actions.push(Action::Send(Road::To(Arc::clone(door)), packet));
        self.connection.transmit(now, &mut send, &mut |_| ());
        for _ in 0..self.connection.take_acked(Stream::Bulk) {
            let Some(first) = self.underway.front_mut() else { break };
            first.n_pieces -= 1;
            if first.n_pieces == 0 {
                let Underway { session, request, began, .. } = *first;
                let bytes = first.whole.total;
                reports.push(FromWorker::Sent { session, request, bytes });
                tell(Given { to: door, session, bytes, began });
                self.underway.pop_front();
            }
        }
        if self.connection.is_ended() {
            self.rests = Some(now + REST);
            reports.extend(self.underway.drain(..).map(|value| FromWorker::Chunk {
                session: value.session,
                request: value.request,
                chunk: value.whole,
            }));
            actions.push(Action::Close(Road::To(Arc::clone(door))));
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        match self.rests {
            Some(_) => None,
            // A closed connection gives back its values at once.
            None if self.connection.is_ended() => Some(Time::ZERO),
            None => self.connection.next_deadline(),
        }
    }
}
