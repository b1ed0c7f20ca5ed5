//! What the dispatcher tells about itself to those who ask. Nothing changes, and nobody joins.

use super::core::Dispatcher;
use super::session::Session;
use super::{Action, Report};
use crate::doors::{Pass, Roles};
use crate::ids::{Incarnation, PeerId, SessionId};
use crate::wire::{
    Body, Capacity, Hello, PROTOCOL, Packet, Refusal, Role, SessionStatus, Status, Stream,
    WorkerStatus,
};

/// The most bytes of a name.
const MAX_NAME: usize = 200;

impl Dispatcher {
    /// Answers a hello that asks for the state. Monitors see all sessions, clients those of their
    /// user.
    pub(super) fn show(&mut self, peer: PeerId, pass: Pass, life: Incarnation, hello: &Hello) {
        let refusal = match pass.roles {
            _ if self.peers.contains_key(&peer) => return, // It is connected as something else.
            _ if hello.protocol != PROTOCOL => {
                Some(Refusal::Protocol { ours: PROTOCOL, theirs: hello.protocol })
            }
            roles if !roles.allow(Role::Monitor) => Some(Refusal::Forbidden(Role::Monitor)),
            _ => None,
        };
        let body = match refusal {
            None => Body::Status(Box::new(self.status(pass))),
            Some(refusal) => {
                self.out.push(Action::Report(Report::Refused(peer, refusal.to_string())));
                Body::Refused(refusal)
            }
        };
        let packet = Packet { stream: Stream::Control, incarnation: life, body };
        self.out.push(Action::Send(peer, packet));
        self.out.push(Action::Forget(peer));
    }

    fn status(&self, pass: Pass) -> Status {
        let sees_all = pass.roles.has(Roles::MONITOR);
        let sessions = self.sessions.iter().map(|(&id, held)| self.session_status(id, held));
        let sessions: Vec<SessionStatus> = sessions.collect();
        Status {
            workers: self.ready().map(|(id, _)| self.worker_status(id)).collect(),
            n_sessions: sessions.len() as u64,
            kept: sessions.iter().map(|session| session.kept).sum(),
            sessions: sessions.into_iter().filter(|s| sees_all || s.user == pass.user.0).collect(),
        }
    }

    fn worker_status(&self, id: crate::ids::WorkerId) -> WorkerStatus {
        let worker = self.workers.get(&id);
        let unknown = Capacity::default();
        let capacity = worker.and_then(|worker| worker.capacity.as_ref()).unwrap_or(&unknown);
        WorkerStatus {
            name: short(self.worker_name(id)),
            engine: short(capacity.engine.clone()),
            device: short(capacity.device.clone()),
            threads: capacity.threads,
            memory: capacity.memory,
            sessions: worker.map_or(0, |worker| worker.sessions.len() as u64),
        }
    }

    fn session_status(&self, id: SessionId, session: &Session) -> SessionStatus {
        let peer = self.peers.get(&session.peer);
        let members = session.gang.iter().flat_map(|gang| &gang.seats).map(|seat| seat.worker);
        let mut workers: Vec<_> = session.home.into_iter().chain(members).collect();
        workers.dedup();
        SessionStatus {
            name: short(peer.map_or_else(String::new, |peer| peer.identity.known_as(id))),
            user: peer.map_or(0, |peer| peer.pass.user.0),
            weight: session.priority.weight(),
            workers: workers.iter().map(ToString::to_string).collect(),
            segments: session.n_segments,
            waiting: session.flight.len() as u64,
            requests: session.requests.len() as u64,
            values: session.n_live() as u64,
            bytes: u64::try_from(session.held()).unwrap_or(u64::MAX),
            kept: self.kept(session),
            ran: session.spent.run,
            compiled: session.spent.compile,
        }
    }

    /// The bytes that are kept for a session: what its client sent and no worker has taken, and
    /// what was sent to its client and not taken.
    pub(super) fn kept(&self, session: &Session) -> u64 {
        let Some(peer) = self.peers.get(&session.peer) else { return 0 };
        let links = [Stream::Control, Stream::Bulk].map(|stream| peer.connection.link(stream));
        links.iter().map(|link| link.held() + link.queued()).sum()
    }
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
    use crate::doors::User;
    use crate::identity::Identity;
    use gt_ir::error::Hinted as _;
    use std::time::Duration;

    fn tell(core: &mut Dispatcher, peer: u64, roles: Roles, role: Role) -> Vec<Action> {
        let identity = Identity { name: "x".into(), host: "pi".into(), pid: peer as u32 };
        let body = Body::Hello(Hello::new(role, identity));
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
}
