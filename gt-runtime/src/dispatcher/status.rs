//! What the dispatcher tells about itself to those who ask, and the end of a session by somebody
//! who may end it. Nobody joins by asking.
//!
//! Guarantees: nothing is kept for those who ask. An answer is bounded, as peers are.

use super::core::Dispatcher;
use super::gang::{Gang, MAX_ROADS};
use super::party::Party;
use super::session::Session;
use super::{Action, Report};
use crate::clock::Time;
use crate::identity::Identity;
use crate::ids::{Incarnation, PeerId, SessionId, WorkerId};
use crate::roles::{Pass, Roles};
use crate::wire::codec::cut;
use crate::wire::{
    Body, Capacity, Hello, LinkStatus, PROTOCOL, Packet, Refusal, Role, SessionStatus, Status,
    Stream, Traffic, WorkerStatus,
};

/// The most bytes of a name.
const MAX_NAME: usize = 200;
/// The most sessions that are named for a worker.
const MAX_RUNNING: usize = 8;

impl Dispatcher {
    /// Answers a hello that asks for the state, or for the end of a session. Monitors see all
    /// sessions, clients those of their user.
    pub(super) fn show(&mut self, peer: PeerId, pass: Pass, life: Incarnation, hello: &Hello) {
        if self.peers.contains_key(&peer) {
            return; // It is connected as something else.
        }
        let body = match self.obey(pass, hello) {
            Ok(()) => Body::Status(Box::new(self.status(self.now, pass))),
            Err(refusal) => self.refused(peer, refusal),
        };
        let packet = Packet { stream: Stream::Control, incarnation: life, body };
        self.out.push(Action::Send(peer, packet));
        self.out.push(Action::Forget(peer));
    }

    /// Takes a hello that asks for events from a number on. The shell, which keeps them, answers.
    pub(super) fn trace(
        &mut self,
        peer: PeerId,
        pass: Pass,
        life: Incarnation,
        hello: &Hello,
        from: u64,
    ) {
        if self.peers.contains_key(&peer) {
            return; // It is connected as something else.
        }
        match self.obey(pass, hello) {
            Ok(()) => {
                self.watch();
                self.out.push(Action::Trace { peer, life, from });
            }
            Err(refusal) => {
                let body = self.refused(peer, refusal);
                let packet = Packet { stream: Stream::Control, incarnation: life, body };
                self.out.push(Action::Send(peer, packet));
                self.out.push(Action::Forget(peer));
            }
        }
    }

    fn refused(&mut self, peer: PeerId, refusal: Refusal) -> Body {
        self.totals.refused += 1;
        self.out.push(Action::Report(Report::Refused(peer, refusal.to_string())));
        Body::Refused(refusal)
    }

    /// Does what a hello asks for besides the answer.
    fn obey(&mut self, pass: Pass, hello: &Hello) -> Result<(), Refusal> {
        match hello.role {
            _ if hello.protocol != PROTOCOL => {
                Err(Refusal::Protocol { ours: PROTOCOL, theirs: hello.protocol })
            }
            role if !pass.roles.allow(role) => Err(Refusal::Forbidden(role)),
            Role::Operator(session) => self.kill(pass, session, &hello.identity),
            _ => Ok(()),
        }
    }

    /// Ends a session. That it has ended already is no error, because a question is repeated until
    /// it is answered.
    fn kill(&mut self, pass: Pass, id: SessionId, by: &Identity) -> Result<(), Refusal> {
        let Some(session) = self.sessions.get(&id) else {
            let was_there = (1..=self.n_sessions).contains(&id.0);
            let missing = || Refusal::Fault(format!("the server has no session {id}"));
            return if was_there { Ok(()) } else { Err(missing()) };
        };
        let peer = session.peer;
        let owner = self.peers.get(&peer).map(|peer| peer.pass.user);
        if owner != Some(pass.user) && !pass.roles.has(Roles::OPERATOR) {
            return Err(Refusal::Forbidden(Role::Operator(id)));
        }
        self.totals.killed += 1;
        self.expel(peer, &cut(format!("session {id} was ended by {}", by.who())));
        Ok(())
    }

    /// The state, as a peer with this pass may see it.
    #[must_use]
    pub fn status(&self, now: Time, pass: Pass) -> Status {
        let sees_all = pass.roles.has(Roles::MONITOR);
        let sees = |session: &Session| {
            let peer = self.peers.get(&session.peer);
            sees_all || peer.is_some_and(|peer| peer.pass.user == pass.user)
        };
        let seen = self.sessions.iter().filter(|(_, session)| sees(session));
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            now: nanos(now),
            ending: self.ending.is_some(),
            workers: self.ready().map(|(id, _)| self.worker_status(now, id)).collect(),
            sessions: seen.map(|(&id, held)| self.session_status(now, id, held)).collect(),
            links: self.links(sees),
            n_sessions: self.sessions.len() as u64,
            kept: self.sessions.values().map(|session| self.kept(session)).sum(),
            totals: self.totals,
        }
    }

    fn worker_status(&self, now: Time, id: WorkerId) -> WorkerStatus {
        let Some(worker) = self.workers.get(&id) else { return WorkerStatus::default() };
        let unknown = Capacity::default();
        let capacity = worker.capacity.as_ref().unwrap_or(&unknown);
        let held = worker.sessions.iter().filter_map(|id| Some((id, self.sessions.get(id)?)));
        let busy = held.filter(|(_, session)| session.flight.sent().0 > 0);
        let busy: Vec<(&SessionId, &Session)> = busy.collect();
        let since = busy.iter().filter_map(|(_, session)| session.flight.sent_at()).min();
        let since = since.map(|since| since.max(worker.reported));
        WorkerStatus {
            id: id.to_string(),
            name: short(self.worker_name(id)),
            engine: short(capacity.engine.clone()),
            device: short(capacity.device.clone()),
            threads: capacity.threads,
            memory: capacity.memory,
            used: worker.used,
            sessions: worker.sessions.len() as u64,
            running: busy.iter().take(MAX_RUNNING).map(|(id, _)| id.to_string()).collect(),
            queue: busy.iter().map(|(_, session)| session.flight.sent().0 as u64).sum(),
            underway: since.map_or(0, |since| nanos(now.saturating_sub(since))),
            work: worker.work,
        }
    }

    fn session_status(&self, now: Time, id: SessionId, session: &Session) -> SessionStatus {
        let peer = self.peers.get(&session.peer);
        let members = session.gang.iter().flat_map(|gang| &gang.seats).map(|seat| seat.worker);
        let mut workers: Vec<_> = session.home.into_iter().chain(members).collect();
        workers.dedup();
        SessionStatus {
            id: id.to_string(),
            name: short(peer.map_or_else(String::new, |peer| peer.identity.known_as(id))),
            program: short(peer.map_or_else(String::new, |peer| peer.identity.name.clone())),
            user: peer.map_or(0, |peer| peer.pass.user.0),
            weight: session.priority.weight(),
            age: nanos(now.saturating_sub(session.since)),
            workers: workers.iter().map(ToString::to_string).collect(),
            signals: short(session.flight.signals().join(", ")),
            segments: session.n_segments,
            waiting: session.flight.len() as u64,
            requests: session.requests.len() as u64,
            values: session.n_live() as u64,
            bytes: u64::try_from(session.held()).unwrap_or(u64::MAX),
            kept: self.kept(session),
            up: session.spent.up,
            down: session.spent.down,
            plans: session.spent.plans,
            compiled: session.spent.compile,
            work: session.spent.work,
        }
    }

    /// The connections of workers and of the sessions that are seen, and the roads between workers.
    fn links(&self, sees: impl Fn(&Session) -> bool) -> Vec<LinkStatus> {
        let peers = self.peers.values().filter(|peer| match peer.party {
            Party::Session(id) => self.sessions.get(&id).is_some_and(&sees),
            Party::Worker(_) => true,
        });
        let links = peers.map(|peer| {
            let queued = |stream| peer.connection.link(stream).queued();
            LinkStatus {
                from: match peer.party {
                    Party::Session(id) => id.to_string(),
                    Party::Worker(id) => id.to_string(),
                },
                to: "server".into(),
                there: peer.traffic[0],
                back: peer.traffic[1],
                queued: queued(Stream::Control) + queued(Stream::Bulk),
            }
        });
        links.chain(self.road_links()).collect()
    }

    /// The roads between workers. Both directions of a pair are one link.
    fn road_links(&self) -> Vec<LinkStatus> {
        let mut roads = self.roads.clone();
        let gangs = self.sessions.values().filter_map(|session| session.gang.as_deref());
        for (ends, traffic) in gangs.flat_map(Gang::traffic) {
            if roads.len() < MAX_ROADS || roads.contains_key(&ends) {
                roads.entry(ends).or_default().add(traffic);
            }
        }
        let other = |&(from, to): &(WorkerId, WorkerId)| roads.get(&(to, from)).copied();
        let first = |(pair, _): &(&(WorkerId, WorkerId), &Traffic)| {
            pair.0 < pair.1 || other(pair).is_none()
        };
        let links = roads.iter().filter(first).map(|(pair, &there)| LinkStatus {
            from: pair.0.to_string(),
            to: pair.1.to_string(),
            there,
            back: other(pair).unwrap_or_default(),
            queued: 0,
        });
        links.collect()
    }

    /// The bytes that are kept for a session: what its client sent and no worker has taken, and
    /// what was sent to its client and not taken.
    pub(super) fn kept(&self, session: &Session) -> u64 {
        let Some(peer) = self.peers.get(&session.peer) else { return 0 };
        let links = [Stream::Control, Stream::Bulk].map(|stream| peer.connection.link(stream));
        links.iter().map(|link| link.held() + link.queued()).sum()
    }
}

fn nanos(time: Time) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A name within the limit.
fn short(mut text: String) -> String {
    let end = (0..=MAX_NAME.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    text.truncate(end.unwrap_or(0));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatcher::{Config, Event};
    use crate::identity::Identity;
    use crate::roles::User;
    use gt_ir::error::Hinted as _;
    use std::time::Duration;

    fn tell(core: &mut Dispatcher, peer: u64, roles: Roles, role: Role) -> Vec<Action> {
        let identity = Identity { name: "x".into(), host: "pi".into(), pid: peer as u32 };
        let body = Body::Hello(Box::new(Hello::new(role, identity)));
        let packet = Packet { stream: Stream::Control, incarnation: Incarnation(peer), body };
        let (user, mut out) = (User(peer % 10), Vec::new());
        let event = Event::Guest(PeerId(peer), Pass { roles, user }, packet);
        core.handle(Duration::ZERO, event, &mut out);
        out
    }

    /// The sessions that an asker sees, or why it sees none.
    fn seen(core: &mut Dispatcher, peer: u64, roles: Roles) -> String {
        let out = tell(core, peer, roles, Role::Monitor);
        let answer = out.iter().find_map(|action| match action {
            Action::Send(_, Packet { body: Body::Status(status), .. }) => {
                let names: Vec<&str> = status.sessions.iter().map(|s| s.name.as_str()).collect();
                Some(format!("{} of {}", names.join(", "), status.n_sessions))
            }
            Action::Send(_, Packet { body: Body::Refused(why), .. }) => Some(why.message()),
            _ => None,
        });
        assert_eq!(out.last(), Some(&Action::Forget(PeerId(peer))));
        answer.unwrap_or_default()
    }

    #[test]
    fn only_monitors_may_trace_and_nobody_joins_by_it() {
        let mut core = Dispatcher::new(Config::remote());
        let role = Role::Tracer(7);
        let out = tell(&mut core, 33, Roles::MONITOR, role);
        let (peer, life) = (PeerId(33), Incarnation(33));
        assert_eq!(out, [Action::Trace { peer, life, from: 7 }]);
        let out = tell(&mut core, 31, Roles::CLIENT, role);
        assert!(format!("{out:?}").contains("Forbidden(Tracer(7))"), "{out:?}");
        assert_eq!(core.n_sessions(), 0);
    }

    #[test]
    fn monitors_see_all_sessions_clients_their_own_and_workers_none() {
        let mut core = Dispatcher::new(Config::remote());
        for client in [1, 2, 11] {
            tell(&mut core, client, Roles::CLIENT, Role::Client);
        }
        let all = "s1 x (pi, pid 1), s2 x (pi, pid 2), s3 x (pi, pid 11) of 3";
        assert_eq!(seen(&mut core, 33, Roles::MONITOR), all);
        let own = "s1 x (pi, pid 1), s3 x (pi, pid 11) of 3";
        assert_eq!(seen(&mut core, 31, Roles::CLIENT), own);
        let refused = "this program's key does not allow it to be a monitor";
        assert_eq!(seen(&mut core, 31, Roles::WORKER), refused);
        let out = tell(&mut core, 33, Roles::MONITOR, Role::Client);
        assert!(format!("{out:?}").contains("Forbidden(Client)"), "{out:?}");
        assert_eq!(core.n_sessions(), 3);
    }

    #[test]
    fn a_session_is_ended_by_its_user_or_by_an_operator_and_is_told_by_whom() {
        let mut core = Dispatcher::new(Config::remote());
        for client in [1, 2, 11] {
            tell(&mut core, client, Roles::CLIENT, Role::Client);
        }
        let end = |id| Role::Operator(SessionId(id));
        // Peer 31 is of the user of peers 1 and 11.
        let out = format!("{:?}", tell(&mut core, 31, Roles::CLIENT, end(2)));
        assert!(out.contains("Forbidden(Operator(s2))"), "{out}");
        let out = format!("{:?}", tell(&mut core, 31, Roles::CLIENT, end(3)));
        let told = "the server closed the connection: session s3 was ended by x (pi, pid 31)";
        assert!(out.contains(told), "{out}");
        let out = format!("{:?}", tell(&mut core, 33, Roles::OPERATOR, end(2)));
        assert!(out.contains("session s2 was ended by x (pi, pid 33)"), "{out}");
        // The answer may have been lost.
        let out = tell(&mut core, 33, Roles::OPERATOR, end(2));
        let is_status = |action: &Action| {
            matches!(action, Action::Send(_, Packet { body: Body::Status(_), .. }))
        };
        assert!(out.iter().any(is_status), "{out:?}");
        let out = format!("{:?}", tell(&mut core, 33, Roles::OPERATOR, end(9)));
        assert!(out.contains("the server has no session s9"), "{out}");
        assert_eq!((core.n_sessions(), core.totals.killed), (1, 2));
    }

    #[test]
    fn a_server_that_ends_soon_takes_no_new_sessions() {
        let mut core = Dispatcher::new(Config::remote());
        tell(&mut core, 1, Roles::CLIENT, Role::Client);
        let mut out = Vec::new();
        core.handle(Duration::ZERO, Event::Drain { reason: "maintenance".into() }, &mut out);
        assert!(format!("{out:?}").contains("the server ends soon: maintenance"), "{out:?}");
        let out = format!("{:?}", tell(&mut core, 2, Roles::CLIENT, Role::Client));
        assert!(out.contains("Ending(\"maintenance\")"), "{out}");
        tell(&mut core, 3, Roles::WORKER, Role::Worker);
        assert!(core.status(Duration::ZERO, Pass::OWNER).ending);
        assert_eq!((core.n_sessions(), core.workers.len()), (1, 1));
    }
}
