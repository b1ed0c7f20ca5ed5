//! Connecting and disconnecting: hellos, refusals, moves to another address, and ends.
//!
//! An incarnation is one life of a client or a worker. Guarantees: an incarnation joins once and
//! has one peer at a time. Late packets of an earlier incarnation or from an earlier address do not
//! undo a move. A peer's end is the end of its session or worker, and gives back the credit of the
//! messages still queued for it.

use super::core::Dispatcher;
use super::party::{Party, Peer, Worker};
use super::session::Session;
use super::{Action, Config, Report};
use crate::connection::{Connection, Ending};
use crate::identity::Identity;
use crate::ids::{Incarnation, PeerId, SessionId, WorkerId};
use crate::priority::Priority;
use crate::roles::Pass;
use crate::wire::{Body, Hello, PROTOCOL, Packet, Refusal, Role, Stream, Welcome};

/// The secret of peers that never move, such as those in the same process.
const NO_SECRET: [u8; 16] = [0; 16];
/// The number of ended incarnations that are remembered.
const MAX_ENDED: usize = 1024;

impl Dispatcher {
    pub(super) fn hello(
        &mut self,
        peer: PeerId,
        pass: Pass,
        incarnation: Incarnation,
        hello: Hello,
    ) {
        if let Some(known) = self.peers.get(&peer) {
            let current = known.connection.incarnation();
            if incarnation < current {
                return; // A late hello of an earlier incarnation.
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
        if !pass.roles.allow(hello.role) {
            return self.refuse(peer, incarnation, Refusal::Forbidden(hello.role));
        }
        let before = self
            .same_life(incarnation, pass, &hello)
            .map(|old| (old, self.peers[&old].move_number));
        match before {
            Some((old, number)) if hello.move_number > number => {
                return self.attach(old, peer, hello.move_number);
            }
            Some((_, 1..)) => return, // A late hello from an earlier address.
            Some(_) | None => (),
        }
        // The session of this incarnation is gone. An empty session must not take its place
        // unnoticed.
        if hello.resumes || self.ended.contains(&(incarnation, hello.identity.pid)) {
            return self.refuse(peer, incarnation, Refusal::Unknown);
        }
        let ending = self.ending.clone().filter(|_| hello.role == Role::Client);
        match ending.map(Refusal::Ending).or_else(|| self.no_place(&hello)) {
            Some(refusal) => self.refuse(peer, incarnation, refusal),
            None => self.join(peer, pass, incarnation, hello),
        }
    }

    /// Why there is no place for a new peer. One process cannot take all places, and clients cannot
    /// take those of workers.
    fn no_place(&self, hello: &Hello) -> Option<Refusal> {
        let Config { max_peers, worker_places, max_of_process, .. } = self.config;
        let is_client = hello.role == Role::Client;
        let kept = if is_client { worker_places.min(max_peers / 4) } else { 0 };
        let limit = max_peers - kept;
        if self.peers.len() >= limit {
            return Some(Refusal::Full { limit });
        }
        let Identity { host, pid, .. } = &hello.identity;
        let is_same = |of: &Identity| of.pid == *pid && of.host == *host;
        let sessions = self.peers.values().filter(|p| matches!(p.party, Party::Session(_)));
        let n = if is_client { sessions.filter(|p| is_same(&p.identity)).count() } else { 0 };
        (n >= max_of_process)
            .then(|| Refusal::Fault(format!("its process has {n} sessions, which is the limit")))
    }

    fn join(&mut self, peer: PeerId, pass: Pass, incarnation: Incarnation, hello: Hello) {
        let (party, config) = match hello.role {
            // Monitors, tracers and operators join nothing: they are answered before.
            Role::Sibling(_) | Role::Monitor | Role::Tracer(_) | Role::Operator(_) => {
                let why = "it has values for a worker, and this is a server".to_owned();
                return self.refuse(peer, incarnation, Refusal::Fault(why));
            }
            Role::Client => {
                let of_user = self.peers.values().filter(|peer| peer.is_client_of(pass.user));
                let (n_open, limit) = (of_user.count(), self.config.max_sessions);
                if n_open >= limit {
                    let why =
                        format!("its user has {n_open} sessions open, and {limit} are the most");
                    return self.refuse(peer, incarnation, Refusal::Fault(why));
                }
                self.n_sessions += 1;
                let id = SessionId(self.n_sessions);
                let priority = Priority::of(hello.weight).min(self.config.max_priority);
                let session = Session::new(peer, id, hello.demand, priority, self.now);
                self.sessions.insert(id, session);
                self.totals.opened += 1;
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
                pass,
                secret: hello.secret,
                traffic: Default::default(),
                owed: Default::default(),
                asked: None,
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
        let accepted = known.connection.link(Stream::Control).n_received();
        let welcome = Welcome { name, accepted, offer: None };
        let incarnation = known.connection.incarnation();
        self.out.push(Action::Send(
            peer,
            Packet { stream: Stream::Control, incarnation, body: Body::Welcome(Box::new(welcome)) },
        ));
        self.dirty.insert(peer);
    }

    /// The known peer that this hello comes from, by another route. Its incarnation and identity
    /// can be guessed; its secret cannot.
    fn same_life(&self, incarnation: Incarnation, pass: Pass, hello: &Hello) -> Option<PeerId> {
        let same = |peer: &Peer| {
            let role = match peer.party {
                Party::Session(_) => Role::Client,
                Party::Worker(_) => Role::Worker,
            };
            peer.connection.incarnation() == incarnation
                && peer.secret == hello.secret
                && hello.secret != NO_SECRET
                && peer.pass.user == pass.user
                && peer.identity == hello.identity
                && role == hello.role
        };
        self.peers.iter().find(|(_, peer)| same(peer)).map(|(&id, _)| id)
    }

    /// Moves a peer to another address, with everything it holds.
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
        self.totals.refused += 1;
        self.out.push(Action::Report(Report::Refused(peer, refusal.to_string())));
        self.turn_away(peer, incarnation, refusal);
    }

    fn turn_away(&mut self, peer: PeerId, incarnation: Incarnation, refusal: Refusal) {
        let body = Body::Refused(refusal);
        self.out.push(Action::Send(peer, Packet { stream: Stream::Control, incarnation, body }));
        self.out.push(Action::Forget(peer));
    }

    /// Refuses a packet of an unknown connection. The last packets of an ended connection are
    /// refused without a report.
    pub(super) fn stray(&mut self, peer: PeerId, incarnation: Incarnation) {
        if self.ended.iter().any(|(life, _)| *life == incarnation) {
            self.turn_away(peer, incarnation, Refusal::Unknown);
        } else {
            self.refuse(peer, incarnation, Refusal::Unknown);
        }
    }

    pub(super) fn ended(&mut self, peer: PeerId, ending: &Ending) {
        match ending {
            Ending::Bye(reason) => {
                let why = if reason.is_empty() { "" } else { ": " };
                let reason = format!("it closed the connection{why}{reason}");
                if let Some(Party::Worker(worker)) = self.peers.get(&peer).map(|known| known.party)
                {
                    self.part_with(worker, peer, &reason);
                }
                self.lose(peer, &reason);
            }
            Ending::Refused(_) | Ending::Silent(_) | Ending::Stuck(_) | Ending::NoAnswer(_) => {
                let reason = ending.to_string();
                self.expel(peer, &reason);
            }
        }
    }

    /// Tells a peer that the server closes its connection, and forgets the peer.
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

    /// Removes a peer, and ends its session or worker.
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatcher::Event;
    use std::time::Duration;

    /// The answers to hellos of one role, each of another incarnation: how many were welcomed, and
    /// the last refusal.
    fn greet(core: &mut Dispatcher, ids: std::ops::Range<u64>, role: Role, pid: u32) -> String {
        let (mut n, mut refused, mut out) = (0, String::new(), Vec::new());
        for id in ids {
            let identity = Identity { name: "x".into(), host: "pi".into(), pid };
            let body = Body::Hello(Box::new(Hello::new(role, identity)));
            let packet = Packet { stream: Stream::Control, incarnation: Incarnation(id), body };
            core.handle(Duration::ZERO, Event::Packet(PeerId(id), packet), &mut out);
        }
        for action in out {
            match action {
                Action::Send(_, Packet { body: Body::Welcome(_), .. }) => n += 1,
                Action::Send(_, Packet { body: Body::Refused(why), .. }) => {
                    refused = why.to_string()
                }
                _ => (),
            }
        }
        format!("{n} {refused}")
    }

    #[test]
    fn no_process_takes_all_places_and_no_client_those_of_workers() {
        let remote = Config::remote();
        let config = Config { max_peers: 20, worker_places: 5, max_of_process: 8, ..remote };
        let mut core = Dispatcher::new(config);
        let of_process = "8 its process has 8 sessions, which is the limit";
        assert_eq!(greet(&mut core, 0..100, Role::Client, 1), of_process);
        let full = "7 the server is full: 15 connections are its limit";
        assert_eq!(greet(&mut core, 100..200, Role::Client, 2), full);
        let full = "5 the server is full: 20 connections are its limit";
        assert_eq!(greet(&mut core, 200..300, Role::Worker, 3), full);
    }
}
