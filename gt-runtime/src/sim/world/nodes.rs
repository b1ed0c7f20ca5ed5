//! The nodes of a world: their turns, their ends and their new lives.

use super::{Node, World, note};
use crate::clock::Time;
use crate::dispatcher::Event;
use crate::ids::Incarnation;
use crate::sim::client::Client;
use crate::sim::network::Way;
use crate::sim::rogue::Rogue;
use crate::sim::worker::Worker;
use std::time::Duration;

impl World {
    pub(super) fn misfortune(&mut self, i: usize) {
        let profile = self.profile;
        if self.quiet {
            return;
        }
        let crash = match &self.nodes[i] {
            Node::Client(_) => profile.client_crash,
            Node::Worker(_) => profile.worker_crash,
            Node::Rogue(_) | Node::Down { .. } => return,
        };
        // Steps are many: chances are for a hundred milliseconds, about a step in ten.
        if self.random.percent(90) {
            return;
        }
        if self.chance(crash) {
            // Some come back so soon that packets of their last life still arrive.
            let longest = if self.random.percent(40) { 100 } else { 15_000 };
            let back = self.now + Duration::from_millis(self.random.below(longest));
            self.crash(i, back);
        } else if self.chance(profile.partition) {
            let until = self.now + Duration::from_millis(self.random.below(30_000));
            self.cut.insert(i, until);
        } else if self.chance(profile.client_move)
            && let Node::Client(client) = &mut self.nodes[i]
        {
            self.addresses[i].0 += 1;
            client.move_away(self.now);
        }
    }

    pub(super) fn crash(&mut self, i: usize, back: Time) {
        self.n_workers_lost += u64::from(matches!(self.nodes[i], Node::Worker(_)));
        self.nodes[i] = Node::Down { back };
        if self.profile.weather.reliable {
            self.network.forget(self.addresses[i]);
            self.tell(Event::PeerLost(self.addresses[i]));
        }
    }

    pub(super) fn ended(&mut self, i: usize, reason: &str) {
        let may = self.profile.connections_may_end();
        assert!(may || self.quiet_close(i), "seed {}: a connection ended: {reason}", self.seed);
        let back = self.now + Duration::from_millis(self.random.below(3_000));
        self.crash(
            i,
            if matches!(self.nodes[i], Node::Client(_)) && self.quiet { Time::MAX } else { back },
        );
    }

    /// The only answer to a client that has closed its session may be that the connection is
    /// unknown.
    fn quiet_close(&self, i: usize) -> bool {
        self.quiet && matches!(&self.nodes[i], Node::Client(client) if client.n_waiting() == 0)
    }

    /// The actions of a node at this moment.
    pub(super) fn node(&mut self, i: usize) {
        let (now, address) = (self.now, self.addresses[i]);
        let mut out = Vec::new();
        let mut values = Vec::new();
        let mut ended = None;
        match &mut self.nodes[i] {
            Node::Down { back } if *back <= now => return self.start(i),
            Node::Down { .. } => (),
            Node::Rogue(rogue) => {
                if !self.quiet && self.random.percent(20) {
                    out.push(rogue.say(&mut self.random));
                }
            }
            Node::Client(client) => {
                if client.next_act <= now {
                    client.act(now, &mut self.random);
                    if self.quiet {
                        client.next_act = Time::MAX;
                    }
                }
                client.take(now);
                let mut incoming = Vec::new();
                client
                    .connection
                    .transmit(now, &mut |packet| out.push(packet), &mut |what| incoming.push(what));
                ended = incoming.into_iter().find_map(|what| client.incoming(now, what));
            }
            Node::Worker(worker) => {
                let ran =
                    if worker.next_job <= now { worker.work(now, &mut self.random) } else { None };
                if worker.next_read <= now {
                    worker.read(now, &mut self.random);
                }
                worker.end.transmit_values(now, &mut values);
                let over = worker.end.transmit(now, &mut |packet| out.push(packet));
                ended = over.map(|ending| ending.to_string());
                // Another dispatcher's sessions have the same names.
                let ran = ran.filter(|_| self.profile.restart == 0);
                // A session that has moved has another name on its worker.
                let ran = ran.map(|(name, attempt, seq)| {
                    (self.dispatcher.session_called(name), attempt, seq)
                });
                ran.into_iter().for_each(|ran| note(&mut self.ran, self.seed, ran));
            }
        }
        for packet in out {
            let had_room =
                self.network.send(now, &mut self.random, Way::ToDispatcher, address, packet);
            if let (false, Node::Client(client)) = (had_room, &mut self.nodes[i]) {
                client.connection.unreachable(now);
            }
        }
        self.send_values(i, values);
        ended.into_iter().for_each(|reason| self.ended(i, &reason));
    }

    pub(super) fn start(&mut self, i: usize) {
        self.n_lives += 1;
        // Some come back at their old address, others at a new one.
        if self.random.percent(50) || self.profile.weather.reliable {
            self.addresses[i].0 += 1;
        }
        let (now, peer, life) =
            (self.now, self.addresses[i], Incarnation(self.n_lives << 8 | i as u64));
        let config = self.profile.connection();
        self.nodes[i] = if i < self.profile.n_clients {
            let habits = self.profile.habits(&mut self.random);
            Node::Client(Box::new(Client::new(now, peer, life, config, habits)))
        } else if i < self.profile.n_clients + self.profile.n_workers {
            let piece = 1 + self.random.below(24) as usize;
            Node::Worker(Box::new(Worker::new(now, peer, life, config, piece, self.profile.greedy)))
        } else {
            // Honest clients do not ask for a rogue's engine, so they wait where there is no other.
            Node::Rogue(Rogue::new(self.random.percent(50)))
        };
    }
}
