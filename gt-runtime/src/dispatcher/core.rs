//! The core: peers and their connections, and which session or worker stands behind each.
//!
//! Guarantees: every event is legal in every state; a peer is one session or one worker; what a connection delivers reaches its
//! party in order; credit goes back to a sender once, when the message it paid for has been taken by whom it was for.
//! A handler only queues messages; they leave at the end of the event, so that one packet's consequences travel together.

use super::session::Session;
use super::workers::Worker;
use super::{Action, Config, Event, Note, Party, Report, Way};
use crate::clock::Time;
use crate::connection::{Connection, Ending, Incoming};
use crate::ids::{Identity, Incarnation, PeerId, SessionId, WorkerId};
use crate::wire::{
    Body, Hello, Message, PROTOCOL, Packet, Refusal, Role, Stream, ToClient, ToWorker, Weight,
    Welcome,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The state machine.
#[derive(Debug)]
pub struct Dispatcher {
    pub(super) config: Config,
    pub(super) now: Time,
    pub(super) out: Vec<Action>,
    pub(super) peers: BTreeMap<PeerId, Peer>,
    pub(super) sessions: BTreeMap<SessionId, Session>,
    pub(super) workers: BTreeMap<WorkerId, Worker>,
    n_sessions: u64,
    n_workers: u64,
    /// Peers whose connection has something to send.
    dirty: BTreeSet<PeerId>,
    /// The lives that ended last, so that a late hello does not begin one again.
    ended: VecDeque<(Incarnation, u32)>,
    over: bool,
}

/// Lives remembered after their end.
const MAX_ENDED: usize = 1024;

/// Somebody connected.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) connection: Connection,
    pub(super) party: Party,
    pub(super) identity: Identity,
    /// Of the hello that brought it to its address.
    move_number: u32,
    /// For each queued message of the two streams, whom its credit goes back to.
    pub(super) owed: [VecDeque<Owed>; 2],
}

/// The credit of a message that was passed on: the party that sent it gets it back when it has been taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Owed {
    pub(super) to: Option<Party>,
    pub(super) weight: u64,
}

impl Owed {
    /// Nobody paid: the dispatcher's own message.
    pub(super) const NOTHING: Owed = Owed { to: None, weight: 0 };
}

impl Dispatcher {
    /// A dispatcher nobody has connected to.
    #[must_use]
    pub fn new(config: Config) -> Dispatcher {
        Dispatcher {
            config,
            now: Time::ZERO,
            out: Vec::new(),
            peers: BTreeMap::new(),
            sessions: BTreeMap::new(),
            workers: BTreeMap::new(),
            n_sessions: 0,
            n_workers: 0,
            dirty: BTreeSet::new(),
            ended: VecDeque::new(),
            over: false,
        }
    }

    /// The only entry point: every event is legal in every state. Actions are added to `out`, to be done in order.
    pub fn handle(&mut self, now: Time, event: Event, out: &mut Vec<Action>) {
        if self.over {
            return;
        }
        self.now = self.now.max(now);
        std::mem::swap(&mut self.out, out);
        match event {
            Event::Packet(peer, packet) => self.packet(peer, packet),
            Event::Unreachable(peer) => {
                if let Some(known) = self.peers.get_mut(&peer) {
                    known.connection.unreachable(now);
                }
            }
            Event::PeerLost(peer) => self.lose(peer, "its process ended"),
            Event::Tick => self.tick(),
            Event::Shutdown { reason } => self.shutdown(&reason),
        }
        self.flush();
        std::mem::swap(&mut self.out, out);
        #[cfg(debug_assertions)]
        self.check();
    }

    /// When [`Event::Tick`] is due, if nothing else happens before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        let peers = self.peers.values().filter_map(|peer| peer.connection.next_deadline());
        let reads = self.sessions.values().filter_map(|session| self.read_deadline(session));
        peers.chain(reads).min()
    }

    /// How many sessions are open.
    #[must_use]
    pub fn n_sessions(&self) -> usize {
        self.sessions.len()
    }

    /// How many workers are ready to work.
    #[must_use]
    pub fn n_workers(&self) -> usize {
        self.workers.values().filter(|worker| worker.capacity.is_some()).count()
    }

    fn tick(&mut self) {
        self.dirty.extend(self.peers.keys());
        self.expire_reads();
    }

    fn shutdown(&mut self, reason: &str) {
        for (&peer, known) in &mut self.peers {
            let bye = known.connection.close(reason.to_owned());
            self.out.push(Action::Send(peer, bye));
            self.out.push(Action::Forget(peer));
        }
        *self = Dispatcher {
            over: true,
            out: std::mem::take(&mut self.out),
            ..Dispatcher::new(self.config.clone())
        };
    }

    fn packet(&mut self, peer: PeerId, packet: Packet) {
        let incarnation = packet.incarnation;
        match packet.body {
            Body::Hello(hello) => self.hello(peer, incarnation, hello),
            // What only a dispatcher says.
            Body::Welcome(_) | Body::Refused(_) => (),
            Body::Data { .. } | Body::Ack { .. } | Body::Ping | Body::Bye { .. } => {
                self.traffic(peer, packet)
            }
        }
    }

    fn traffic(&mut self, peer: PeerId, packet: Packet) {
        let Some(known) = self.peers.get_mut(&peer) else {
            if !matches!(packet.body, Body::Bye { .. }) {
                self.stray(peer, packet.incarnation);
            }
            return;
        };
        let party = known.party;
        let mut arrived: smallvec::SmallVec<[Incoming; 2]> = smallvec::SmallVec::new();
        known.connection.receive(self.now, packet, &mut |incoming| arrived.push(incoming));
        self.dirty.insert(peer);
        for incoming in arrived {
            // A message may end its own sender.
            if self.peers.get(&peer).is_none_or(|known| known.party != party) {
                return;
            }
            match incoming {
                Incoming::Opened(_) => (),
                Incoming::Message(stream, message) => self.message(peer, party, stream, message),
                Incoming::Ended(ending) => self.ended(peer, &ending),
            }
        }
    }

    fn message(&mut self, peer: PeerId, party: Party, stream: Stream, message: Message) {
        if self.config.notes {
            self.out.push(Action::Note(Note { party, way: Way::In, message: message.clone() }));
        }
        let weight = message.weight();
        match (party, message) {
            (Party::Session(session), Message::FromClient(message)) => {
                self.client_says(session, stream, weight, message)
            }
            (Party::Worker(worker), Message::FromWorker(message)) => {
                self.worker_says(worker, stream, weight, message)
            }
            (
                _,
                Message::FromClient(_)
                | Message::ToClient(_)
                | Message::FromWorker(_)
                | Message::ToWorker(_),
            ) => {
                self.expel(peer, "it sent a message that is not its to send");
            }
        }
    }

    fn hello(&mut self, peer: PeerId, incarnation: Incarnation, hello: Hello) {
        if let Some(known) = self.peers.get(&peer) {
            let current = known.connection.incarnation();
            if incarnation < current {
                return; // Of an earlier life, late.
            }
            if incarnation == current {
                self.peers.entry(peer).and_modify(|known| {
                    known.connection.greeted(self.now);
                    known.move_number = known.move_number.max(hello.move_number);
                });
                return self.welcome(peer);
            }
            self.lose(peer, "it was started again");
        }
        if hello.protocol != PROTOCOL {
            let refusal = Refusal::Protocol { ours: PROTOCOL, theirs: hello.protocol };
            return self.refuse(peer, incarnation, refusal);
        }
        if hello.fingerprint != gt_ir::op::FINGERPRINT {
            return self.refuse(peer, incarnation, Refusal::Ops);
        }
        let before =
            self.same_life(incarnation, &hello).map(|old| (old, self.peers[&old].move_number));
        match before {
            Some((old, number)) if hello.move_number > number => {
                return self.attach(old, peer, hello.move_number);
            }
            Some((_, 1..)) => return, // Of where it was before, late: it moves nothing back.
            Some(_) | None => (),
        }
        // What this life held is gone; it must not take an empty session for it.
        if hello.resumes || self.ended.contains(&(incarnation, hello.identity.pid)) {
            return self.refuse(peer, incarnation, Refusal::Unknown);
        }
        if self.peers.len() >= self.config.max_peers {
            return self.refuse(peer, incarnation, Refusal::Full { limit: self.config.max_peers });
        }
        self.join(peer, incarnation, hello);
    }

    fn join(&mut self, peer: PeerId, incarnation: Incarnation, hello: Hello) {
        let (party, config) = match hello.role {
            Role::Client => {
                self.n_sessions += 1;
                let id = SessionId(self.n_sessions);
                self.sessions.insert(id, Session::new(peer, self.now));
                self.out.push(Action::Report(Report::SessionOpened(id, hello.identity.clone())));
                (Party::Session(id), self.config.client)
            }
            Role::Worker => {
                self.n_workers += 1;
                let id = WorkerId(self.n_workers);
                self.workers.insert(id, Worker::new(peer));
                (Party::Worker(id), self.config.worker)
            }
        };
        let connection = Connection::accept(self.now, incarnation, config);
        self.peers.insert(
            peer,
            Peer {
                connection,
                party,
                move_number: hello.move_number,
                identity: hello.identity,
                owed: Default::default(),
            },
        );
        self.welcome(peer);
    }

    fn welcome(&mut self, peer: PeerId) {
        let Some(known) = self.peers.get(&peer) else { return };
        let name = match known.party {
            Party::Session(session) => session.to_string(),
            Party::Worker(worker) => worker.to_string(),
        };
        let welcome =
            Welcome { name, accepted: known.connection.link(Stream::Control).n_received() };
        let incarnation = known.connection.incarnation();
        self.out.push(Action::Send(
            peer,
            Packet { stream: Stream::Control, incarnation, body: Body::Welcome(welcome) },
        ));
        self.dirty.insert(peer);
    }

    /// The peer that is this newcomer, come back by another route.
    fn same_life(&self, incarnation: Incarnation, hello: &Hello) -> Option<PeerId> {
        let same = |peer: &Peer| {
            let role = match peer.party {
                Party::Session(_) => Role::Client,
                Party::Worker(_) => Role::Worker,
            };
            peer.connection.incarnation() == incarnation
                && peer.identity == hello.identity
                && role == hello.role
        };
        self.peers.iter().find(|(_, peer)| same(peer)).map(|(&id, _)| id)
    }

    /// The same life comes from another address: everything it holds moves there.
    fn attach(&mut self, old: PeerId, new: PeerId, move_number: u32) {
        let Some(mut peer) = self.peers.remove(&old) else { return };
        peer.move_number = move_number;
        peer.connection.greeted(self.now);
        match peer.party {
            Party::Session(session) => {
                self.sessions.get_mut(&session).into_iter().for_each(|session| session.peer = new)
            }
            Party::Worker(worker) => {
                self.workers.get_mut(&worker).into_iter().for_each(|worker| worker.peer = new)
            }
        }
        self.dirty.remove(&old);
        self.out.push(Action::Forget(old));
        self.peers.insert(new, peer);
        self.welcome(new);
    }

    fn refuse(&mut self, peer: PeerId, incarnation: Incarnation, refusal: Refusal) {
        self.out.push(Action::Report(Report::Refused(peer, refusal.to_string())));
        self.turn_away(peer, incarnation, refusal);
    }

    fn turn_away(&mut self, peer: PeerId, incarnation: Incarnation, refusal: Refusal) {
        let body = Body::Refused(refusal);
        self.out.push(Action::Send(peer, Packet { stream: Stream::Control, incarnation, body }));
        self.out.push(Action::Forget(peer));
    }

    /// Traffic of a connection there is none of. The last packets of one that just ended are no news to anybody here.
    fn stray(&mut self, peer: PeerId, incarnation: Incarnation) {
        if self.ended.iter().any(|(life, _)| *life == incarnation) {
            self.turn_away(peer, incarnation, Refusal::Unknown);
        } else {
            self.refuse(peer, incarnation, Refusal::Unknown);
        }
    }

    fn ended(&mut self, peer: PeerId, ending: &Ending) {
        match ending {
            Ending::Bye(reason) if reason.is_empty() => self.lose(peer, "it closed the connection"),
            Ending::Bye(reason) => self.lose(peer, &format!("it closed the connection: {reason}")),
            Ending::Refused(_) | Ending::Silent(_) | Ending::Stuck(_) | Ending::NoAnswer(_) => {
                let reason = ending.to_string();
                self.expel(peer, &reason);
            }
        }
    }

    /// Tells a peer that it is given up, and forgets it.
    pub(super) fn expel(&mut self, peer: PeerId, reason: &str) {
        if let Some(known) = self.peers.get(&peer) {
            let incarnation = known.connection.incarnation();
            let body = Body::Refused(Refusal::Fault(crate::wire::codec::cut(format!(
                "the server closed the connection: {reason}"
            ))));
            self.out
                .push(Action::Send(peer, Packet { stream: Stream::Control, incarnation, body }));
        }
        self.lose(peer, reason);
    }

    /// A peer is gone, and its party with it.
    pub(super) fn lose(&mut self, peer: PeerId, reason: &str) {
        let Some(gone) = self.peers.remove(&peer) else { return };
        self.dirty.remove(&peer);
        self.out.push(Action::Forget(peer));
        self.ended.truncate(MAX_ENDED - 1);
        self.ended.push_front((gone.connection.incarnation(), gone.identity.pid));
        let [control, bulk] = gone.owed;
        for (stream, owed) in [(Stream::Control, control), (Stream::Bulk, bulk)] {
            owed.into_iter().for_each(|owed| self.pay(stream, owed));
        }
        match gone.party {
            Party::Session(session) => self.end_session(session, gone.identity, reason),
            Party::Worker(worker) => self.lose_worker(worker, gone.identity, reason),
        }
    }

    /// Gives back the credit of a message that has been dealt with.
    pub(super) fn pay(&mut self, stream: Stream, owed: Owed) {
        let peer = match owed.to {
            None => return,
            Some(Party::Session(session)) => {
                self.sessions.get(&session).map(|session| session.peer)
            }
            Some(Party::Worker(worker)) => self.workers.get(&worker).map(|worker| worker.peer),
        };
        let Some(peer) = peer else { return };
        if let Some(known) = self.peers.get_mut(&peer) {
            known.connection.release(stream, owed.weight);
            self.dirty.insert(peer);
        }
    }

    /// Queues a message for a worker.
    pub(super) fn give_worker(
        &mut self,
        worker: WorkerId,
        stream: Stream,
        message: ToWorker,
        owed: Owed,
    ) {
        let Some(peer) = self.workers.get(&worker).map(|worker| worker.peer) else {
            return self.pay(stream, owed);
        };
        self.give(peer, stream, Message::ToWorker(message), owed);
    }

    /// Queues a message for a client.
    pub(super) fn give_client(
        &mut self,
        session: SessionId,
        stream: Stream,
        message: ToClient,
        owed: Owed,
    ) {
        let Some(peer) = self.sessions.get(&session).map(|session| session.peer) else {
            return self.pay(stream, owed);
        };
        self.give(peer, stream, Message::ToClient(message), owed);
    }

    fn give(&mut self, peer: PeerId, stream: Stream, message: Message, owed: Owed) {
        let Some(known) = self.peers.get_mut(&peer) else { return self.pay(stream, owed) };
        if self.config.notes {
            self.out.push(Action::Note(Note {
                party: known.party,
                way: Way::Out,
                message: message.clone(),
            }));
        }
        known.connection.send(self.now, stream, message);
        known.owed[stream as usize].push_back(owed);
        self.dirty.insert(peer);
    }

    /// Weight of what waits to be sent on a peer's stream.
    pub(super) fn queued(&self, peer: PeerId, stream: Stream) -> u64 {
        self.peers.get(&peer).map_or(0, |peer| peer.connection.link(stream).queued())
    }

    /// Sends what the event has queued, and pays back what was taken; paying may give others something to send.
    fn flush(&mut self) {
        while let Some(peer) = self.dirty.pop_first() {
            let Some(known) = self.peers.get_mut(&peer) else { continue };
            let (out, mut ended) = (&mut self.out, None);
            let mut end = |incoming| {
                if let Incoming::Ended(ending) = incoming {
                    ended = Some(ending);
                }
            };
            known.connection.transmit(
                self.now,
                &mut |packet| out.push(Action::Send(peer, packet)),
                &mut end,
            );
            for stream in [Stream::Control, Stream::Bulk] {
                self.settle(peer, stream);
            }
            if let Some(ending) = ended {
                self.ended(peer, &ending);
            }
        }
    }

    fn settle(&mut self, peer: PeerId, stream: Stream) {
        let Some(known) = self.peers.get_mut(&peer) else { return };
        let n_taken = known.connection.take_acked(stream);
        let owed = &mut known.owed[stream as usize];
        let taken: smallvec::SmallVec<[Owed; 4]> = owed.drain(..n_taken.min(owed.len())).collect();
        taken.into_iter().for_each(|owed| self.pay(stream, owed));
    }
}
