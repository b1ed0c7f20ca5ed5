//! The core: its state, its one entry point, and the messages of open connections. Connecting and
//! disconnecting are in `peers`.
//!
//! Guarantees: every event is legal in every state. A peer is one session or one worker. Messages
//! of a connection are handled in order. The credit of a message goes back to its sender once, when
//! the receiver of the message has taken it. A handler only queues messages. They are sent at the
//! end of the event, so the messages caused by one packet travel together.

use super::budget::Budget;
use super::party::{Owed, Party, Peer, Worker};
use super::session::Session;
use super::{Action, Config, Event, Note, Report, Way};
use crate::clock::Time;
use crate::connection::Incoming;
use crate::ids::{Incarnation, PeerId, SessionId, WorkerId};
use crate::machine::Machine;
use crate::roles::{Pass, User};
use crate::wire::{
    Body, Message, Packet, Role, Stream, ToClient, ToWorker, Totals, Traffic, Weight,
};
use crate::words::describe;
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
    /// The sessions by the names under which their workers know them, where these are not theirs.
    pub(super) seats: BTreeMap<SessionId, SessionId>,
    pub(super) n_sessions: u64,
    pub(super) n_workers: u64,
    /// The quota by the memory of the workers. 0 before the first worker.
    pub(super) memory_quota: u64,
    /// What users have used of the time for compiling, if it is limited.
    pub(super) budgets: BTreeMap<User, Budget>,
    /// Peers whose connections may have something to send.
    pub(super) dirty: BTreeSet<PeerId>,
    /// The incarnations and process ids of the peers that left last. A late hello of such a peer
    /// does not begin a new session.
    pub(super) ended: VecDeque<(Incarnation, u32)>,
    /// What has happened since its start.
    pub(super) totals: Totals,
    /// The values that workers have brought each other for sessions that have left them.
    pub(super) roads: BTreeMap<(WorkerId, WorkerId), Traffic>,
    /// Why it ends soon and takes no new sessions, if it does.
    pub(super) ending: Option<String>,
    /// Whether it has shut down: it handles no further event.
    over: bool,
    /// The events since the last check of the invariants.
    #[cfg(debug_assertions)]
    pub(super) n_unchecked: usize,
}

impl Dispatcher {
    /// A dispatcher without peers.
    #[must_use]
    pub fn new(config: Config) -> Dispatcher {
        Dispatcher {
            config,
            now: Time::ZERO,
            out: Vec::new(),
            peers: BTreeMap::new(),
            sessions: BTreeMap::new(),
            workers: BTreeMap::new(),
            seats: BTreeMap::new(),
            n_sessions: 0,
            n_workers: 0,
            memory_quota: 0,
            budgets: BTreeMap::new(),
            dirty: BTreeSet::new(),
            ended: VecDeque::new(),
            totals: Totals::default(),
            roads: BTreeMap::new(),
            ending: None,
            over: false,
            #[cfg(debug_assertions)]
            n_unchecked: 0,
        }
    }

    /// The only entry point. Every event is legal in every state. Actions are added to `out`; the
    /// caller performs them in order.
    pub fn handle(&mut self, now: Time, event: Event, out: &mut Vec<Action>) {
        if self.over {
            return;
        }
        self.now = self.now.max(now);
        std::mem::swap(&mut self.out, out);
        match event {
            Event::Packet(peer, packet) => self.packet(peer, Pass::OWNER, packet),
            Event::Guest(peer, pass, packet) => self.packet(peer, pass, packet),
            Event::Revoked(peer) => self.expel(peer, "its key was revoked"),
            Event::Unreachable(peer) => {
                if let Some(known) = self.peers.get_mut(&peer) {
                    known.connection.unreachable(now);
                }
            }
            Event::PeerLost(peer) => self.lose(peer, "its process ended"),
            Event::Partitioned(made) => self.partitioned(made),
            Event::Tick => self.tick(),
            Event::Drain { reason } => self.drain(&reason),
            Event::Shutdown { reason } => self.shutdown(&reason),
        }
        self.flush();
        std::mem::swap(&mut self.out, out);
        #[cfg(debug_assertions)]
        self.check_often();
    }

    /// When [`Event::Tick`] is due, unless another event happens before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        let peers = self.peers.values().filter_map(|peer| peer.connection.next_deadline());
        let reads = self.sessions.values().filter_map(|session| self.read_deadline(session));
        let uploads = self.sessions.values().filter_map(|session| self.upload_deadline(session));
        let delays = self.sessions.values().filter_map(|session| self.delay(session));
        peers.chain(reads).chain(uploads).chain(delays).min()
    }

    /// The number of open sessions.
    #[must_use]
    pub fn n_sessions(&self) -> usize {
        self.sessions.len()
    }

    /// The number of registered workers.
    #[must_use]
    pub fn n_workers(&self) -> usize {
        self.ready().count()
    }

    /// The workers that are ready to work, by number.
    pub(super) fn ready(&self) -> impl Iterator<Item = (WorkerId, &Worker)> {
        let ready = self.workers.iter().filter(|(_, worker)| worker.capacity.is_some());
        ready.map(|(&id, worker)| (id, worker))
    }

    /// Begins or ends to note the messages that it receives and queues.
    pub fn take_notes(&mut self, notes: bool) {
        self.config.notes = notes;
    }

    /// Notes what the machine can do whose workers are in this process.
    pub fn knows(&mut self, machine: Machine) {
        self.config.machine = Some(machine);
    }

    fn tick(&mut self) {
        self.dirty.extend(self.peers.keys());
        self.expire_reads();
        self.expire_uploads();
        self.end_delays();
    }

    /// Takes no new sessions from now on, and tells those that there are.
    fn drain(&mut self, reason: &str) {
        self.ending = Some(reason.to_owned());
        let text = format!("the server ends soon: {reason}");
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        sessions.into_iter().for_each(|id| self.tell_warning(id, text.clone()));
    }

    fn shutdown(&mut self, reason: &str) {
        for (&peer, known) in &mut self.peers {
            let bye = known.connection.close(reason.to_owned());
            self.out.push(Action::Send(peer, bye));
            self.out.push(Action::Forget(peer));
            let (who, why) = (known.identity.clone(), reason.to_owned());
            let is_registered = |id| self.workers.get(id).is_some_and(|w| w.capacity.is_some());
            match known.party {
                Party::Session(id) => {
                    self.out.push(Action::Report(Report::SessionClosed(id, who, why)));
                }
                Party::Worker(id) if is_registered(&id) => {
                    self.out.push(Action::Report(Report::WorkerLeft(id, who, why)));
                }
                Party::Worker(_) => {}
            }
        }
        *self = Dispatcher {
            over: true,
            out: std::mem::take(&mut self.out),
            ..Dispatcher::new(self.config.clone())
        };
    }

    fn packet(&mut self, peer: PeerId, pass: Pass, packet: Packet) {
        let incarnation = packet.incarnation;
        match packet.body {
            Body::Hello(hello) => match hello.role {
                Role::Monitor | Role::Operator(_) => self.show(peer, pass, incarnation, &hello),
                Role::Tracer(from) => self.trace(peer, pass, incarnation, &hello, from),
                Role::Client | Role::Worker | Role::Sibling(_) => {
                    self.hello(peer, pass, incarnation, *hello);
                }
            },
            // Only a dispatcher sends these, or a worker to a worker.
            Body::Welcome(_)
            | Body::Refused(_)
            | Body::Status(_)
            | Body::Events(_)
            | Body::Lane(_) => (),
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
        for incoming in &arrived {
            if let Incoming::Message(_, message) = incoming {
                known.traffic[0].count(message.weight());
            }
        }
        self.dirty.insert(peer);
        for incoming in arrived {
            // The previous message may have ended its own sender.
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
        if self.config.notes && !message.is_of_trace() {
            let words = describe(&message);
            self.out.push(Action::Note(Box::new(Note { party, way: Way::In, words })));
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
                | Message::ToWorker(_)
                | Message::Parcel(_),
            ) => {
                self.expel(peer, "it sent a message that its role may not send");
            }
        }
    }

    /// Gives back the credit of a message that has been handled.
    pub(super) fn pay(&mut self, stream: Stream, owed: Owed) {
        let peer = match owed.to {
            None => return,
            Some(Party::Session(session)) => self.sessions.get_mut(&session).map(|session| {
                if stream == Stream::Bulk {
                    session.brought = self.now;
                }
                session.peer
            }),
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
        if self.config.notes && !message.is_of_trace() {
            let (party, words) = (known.party, describe(&message));
            self.out.push(Action::Note(Box::new(Note { party, way: Way::Out, words })));
        }
        known.traffic[1].count(message.weight());
        known.connection.send(self.now, stream, message);
        known.owed[stream as usize].push_back(owed);
        self.dirty.insert(peer);
    }

    /// The weight of the messages queued on a peer's stream.
    pub(super) fn queued(&self, peer: PeerId, stream: Stream) -> u64 {
        self.peers.get(&peer).map_or(0, |peer| peer.connection.link(stream).queued())
    }

    /// Sends the messages that the event has queued, and gives back the credit of acknowledged
    /// messages. Credit may allow other peers to send, so this repeats until no peer is dirty.
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
        let party = known.party;
        let owed = &mut known.owed[stream as usize];
        let taken: smallvec::SmallVec<[Owed; 4]> = owed.drain(..n_taken.min(owed.len())).collect();
        let has_read = stream == Stream::Bulk && !taken.is_empty();
        taken.into_iter().for_each(|owed| self.pay(stream, owed));
        if let (Party::Session(session), true) = (party, has_read) {
            self.send_more(session);
        }
    }
}
