//! What clients and workers do by themselves, for tracers.
//!
//! A tracer's question is passed on to every peer that has answered the last one. A peer that does
//! not answer is therefore asked once, and one that was not asked says nothing.

use std::collections::BTreeMap;

use super::Action;
use super::core::Dispatcher;
use super::party::{Owed, Party};
use crate::ids::{Incarnation, PeerId};
use crate::wire::{Moments, Stream, ToClient, ToWorker};

impl Dispatcher {
    /// Asks clients and workers what they do.
    pub(super) fn watch(&mut self) {
        let now = self.now;
        let free = self.peers.iter_mut().filter(|(_, peer)| peer.asked.is_none());
        let asked: Vec<Party> = free
            .map(|(_, peer)| {
                peer.asked = Some(now);
                peer.party
            })
            .collect();
        for party in asked {
            match party {
                Party::Session(id) => {
                    self.give_client(id, Stream::Control, ToClient::Watch, Owed::NOTHING);
                }
                Party::Worker(id) => {
                    self.give_worker(id, Stream::Control, ToWorker::Watch, Owed::NOTHING);
                }
            }
        }
    }

    /// Takes the answer of a client or a worker. A worker knows members of gangs by other names,
    /// and other workers by their doors.
    pub(super) fn moments(&mut self, party: Party, mut moments: Moments) {
        let Some(peer) = self.peer_of(party) else { return };
        let asked = self.peers.get_mut(&peer).and_then(|peer| peer.asked.take());
        let Some(asked) = asked else { return };
        for moment in &mut moments.list {
            moment.of = moment.of.map(|(session, segment)| (self.whose(session), segment));
        }
        if moments.list.iter().any(|moment| moment.to.is_some()) {
            let doors = self.workers.iter();
            let doors =
                doors.filter_map(|(id, w)| Some((w.capacity.as_ref()?.door.as_ref()?.tag(), id.0)));
            let doors: BTreeMap<u64, u64> = doors.collect();
            for moment in &mut moments.list {
                moment.to = moment.to.and_then(|tag| doors.get(&tag).copied());
            }
        }
        self.out.push(Action::Moments { party, asked, moments });
    }

    /// The life of a party's connection.
    #[must_use]
    pub fn life_of(&self, party: Party) -> Option<Incarnation> {
        let peer = self.peers.get(&self.peer_of(party)?)?;
        Some(peer.connection.incarnation())
    }

    fn peer_of(&self, party: Party) -> Option<PeerId> {
        match party {
            Party::Session(id) => self.sessions.get(&id).map(|session| session.peer),
            Party::Worker(id) => self.workers.get(&id).map(|worker| worker.peer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Time;
    use crate::dispatcher::{Config, Event};
    use crate::identity::Identity;
    use crate::ids::SessionId;
    use crate::wire::{Body, FromClient, Hello, Message, Packet, Role};

    fn tell(core: &mut Dispatcher, now: u64, peer: u64, body: Body) -> Vec<Action> {
        let packet = Packet { stream: Stream::Control, incarnation: Incarnation(peer), body };
        let (mut out, event) = (Vec::new(), Event::Packet(PeerId(peer), packet));
        core.handle(Time::from_millis(now), event, &mut out);
        out
    }

    fn hello(role: Role) -> Body {
        Body::Hello(Box::new(Hello::new(role, Identity::default())))
    }

    /// The number of questions among these actions.
    fn asked(actions: &[Action]) -> usize {
        let is_question = |action: &&Action| {
            let Action::Send(_, Packet { body: Body::Data { message, .. }, .. }) = action else {
                return false;
            };
            matches!(
                message,
                Message::ToClient(ToClient::Watch) | Message::ToWorker(ToWorker::Watch)
            )
        };
        actions.iter().filter(is_question).count()
    }

    #[test]
    fn every_peer_is_asked_once_until_it_answers_and_says_nothing_unasked() {
        let mut core = Dispatcher::new(Config::remote());
        tell(&mut core, 0, 1, hello(Role::Client));
        tell(&mut core, 0, 2, hello(Role::Worker));
        let answer = |seq| {
            let message = Message::FromClient(FromClient::Moments(Box::default()));
            Body::Data { seq, ack: 0, message }
        };
        let taken = |actions: Vec<Action>| {
            actions.into_iter().find_map(|action| match action {
                Action::Moments { party, asked, .. } => Some((party, asked)),
                _ => None,
            })
        };
        assert_eq!(taken(tell(&mut core, 1, 1, answer(0))), None, "nobody asked");
        assert_eq!(asked(&tell(&mut core, 5, 9, hello(Role::Tracer(0)))), 2);
        assert_eq!(asked(&tell(&mut core, 6, 9, hello(Role::Tracer(0)))), 0);
        let client = Party::Session(SessionId(1));
        let answered = taken(tell(&mut core, 7, 1, answer(1)));
        assert_eq!(answered, Some((client, Time::from_millis(5))));
        assert_eq!(taken(tell(&mut core, 7, 1, answer(2))), None);
        assert_eq!(asked(&tell(&mut core, 8, 9, hello(Role::Tracer(0)))), 1);
    }
}
