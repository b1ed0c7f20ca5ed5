//! The world of a simulation: the nodes, the network between them, and the faults.

mod nodes;
mod shares;

use super::Random;
use super::client::Client;
use super::network::{Network, Way};
use super::profile::Profile;
use super::rogue::Rogue;
use super::worker::{self, Ran, Worker};
use crate::clock::Time;
use crate::dispatcher::{Action, Dispatcher, Event, Job, Made};
use crate::ids::{PeerId, SessionId};
use crate::roles::User;
use crate::wire::{Body, Packet};
use crate::worker::siblings::{Action as RoadAction, Road};
use gt_ir::backend::SegmentStats;
use shares::Shares;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A node at an address, or the time when it starts again.
enum Node {
    Client(Box<Client>),
    Worker(Box<Worker>),
    Rogue(Rogue),
    Down { back: Time },
}

/// What happened in a run, as far as the clients that exist at the end know.
pub(super) struct Counts {
    pub(super) sent: SegmentStats,
    /// Sessions on several workers.
    pub(super) n_gangs: usize,
    /// Reads that were answered with the error of an instruction.
    pub(super) n_poisoned: u64,
    /// Pieces of values that came from another worker directly.
    pub(super) n_parcels: u64,
    /// Roads between workers that were found closed.
    pub(super) n_closed: u64,
    /// Partitions that were made outside of the dispatcher's turn.
    pub(super) n_made: u64,
    /// Packets that were dropped at a mark.
    pub(super) n_full: u64,
    /// The longest time in which two sessions shared a worker.
    pub(super) shared: Duration,
}

pub(super) struct World {
    seed: u64,
    profile: Profile,
    random: Random,
    now: Time,
    dispatcher: Dispatcher,
    network: Network,
    nodes: Vec<Node>,
    /// The address of each node. It contains the number of the node's life, so a late packet finds
    /// no node.
    addresses: Vec<PeerId>,
    /// The time until which a node is cut off.
    cut: BTreeMap<usize, Time>,
    n_lives: u64,
    ran: BTreeMap<SessionId, (u32, Vec<u64>)>,
    shares: Shares,
    n_workers_lost: u64,
    n_parcels: u64,
    n_closed: u64,
    n_made: u64,
    quiet: bool,
    n_steps: u64,
    actions: Vec<Action>,
    /// The partitions that are being made, and when each is there.
    making: Vec<(Time, (SessionId, User), Weak<Job>)>,
}

/// The distance of two nodes in the numbering of addresses.
const APART: u64 = 1_000_000;

impl World {
    pub(super) fn new(seed: u64, profile: Profile) -> World {
        let n_nodes = profile.n_clients + profile.n_workers + profile.n_rogues;
        World {
            seed,
            profile,
            random: Random::new(seed),
            now: Time::ZERO,
            dispatcher: Dispatcher::new(profile.dispatcher()),
            network: Network::new(profile.weather),
            nodes: (0..n_nodes).map(|_| Node::Down { back: Time::ZERO }).collect(),
            addresses: (0..n_nodes as u64).map(|i| PeerId(i * APART)).collect(),
            cut: BTreeMap::new(),
            n_lives: 0,
            ran: BTreeMap::new(),
            shares: Shares::default(),
            n_workers_lost: 0,
            n_parcels: 0,
            n_closed: 0,
            n_made: 0,
            quiet: false,
            n_steps: 0,
            actions: Vec::new(),
            making: Vec::new(),
        }
    }

    /// Returns the counts of the clients that exist at the end.
    pub(super) fn run(mut self) -> Counts {
        while self.now < self.profile.until {
            self.step();
        }
        self.settle();
        self.check_complete();
        self.check_holdings();
        let sent = self.nodes.iter().map(|node| match node {
            Node::Client(client) => client.templates.stats(),
            Node::Worker(_) | Node::Rogue(_) | Node::Down { .. } => SegmentStats::default(),
        });
        let sent = sent.fold(SegmentStats::default(), |a, b| SegmentStats {
            launches: a.launches + b.launches,
            evictions: a.evictions + b.evictions,
            misses: a.misses + b.misses,
            ..a
        });
        let poisoned = self.nodes.iter().map(|node| match node {
            Node::Client(client) => client.n_poisoned,
            Node::Worker(_) | Node::Rogue(_) | Node::Down { .. } => 0,
        });
        let (n_gangs, n_poisoned) = (self.dispatcher.n_gangs(), poisoned.sum());
        self.end_clients();
        let (n_parcels, n_closed, n_made) = (self.n_parcels, self.n_closed, self.n_made);
        let (n_full, shared) = (self.network.n_full, self.shares.longest);
        Counts { sent, n_gangs, n_poisoned, n_parcels, n_closed, n_made, n_full, shared }
    }

    /// Ends the faults and restarts nodes that are down. Then all clients do new work, which must
    /// succeed.
    fn settle(&mut self) {
        self.quiet = true;
        self.cut.clear();
        for node in &mut self.nodes {
            if let Node::Down { back } = node {
                *back = self.now;
            }
        }
        // The leases of nodes that were cut off end first.
        let lull = self.now + Duration::from_secs(45);
        while self.now < lull {
            self.step();
        }
        // Members that wait for each other in bad weather take longer.
        let bound = self.now + Duration::from_secs(if self.profile.spread > 0 { 120 } else { 0 });
        while self.now < bound && self.is_waiting() {
            self.step();
        }
        (self.network.weather.lost, self.network.weather.repeated) = (0, 0);
        let (now, mut fresh) = (self.now, BTreeMap::new());
        for i in 0..self.nodes.len() {
            if let Node::Client(client) = &mut self.nodes[i] {
                assert_eq!(
                    client.n_waiting(),
                    0,
                    "seed {}: a read of {:?} is not answered at {now:?}",
                    self.seed,
                    client.oldest_read()
                );
                fresh.insert(i, client.errors.len());
                client.last_work(now, &mut self.random);
            }
        }
        let bound = now + Duration::from_secs(30);
        while self.is_waiting() {
            assert!(self.now < bound, "seed {}: fresh reads are not answered", self.seed);
            self.step();
        }
        for (i, n_errors) in fresh {
            let Node::Client(client) = &self.nodes[i] else {
                panic!("seed {}: a client ended in fine weather", self.seed)
            };
            assert_eq!(client.errors.get(n_errors), None, "seed {}: fresh work failed", self.seed);
        }
    }

    /// Whether a client waits for an answer.
    fn is_waiting(&self) -> bool {
        let waits = |node: &Node| matches!(node, Node::Client(client) if client.n_waiting() > 0);
        self.nodes.iter().any(waits)
    }

    /// If no worker was lost, every segment has run, and no client has seen an error.
    fn check_complete(&mut self) {
        for node in &self.nodes {
            let Node::Client(client) = node else { continue };
            if self.n_workers_lost > 0 || self.profile.values_may_be_lost() {
                continue;
            }
            assert_eq!(client.errors, [], "seed {}", self.seed);
            let session = client
                .session
                .as_deref()
                .and_then(|name| name.strip_prefix('s'))
                .and_then(|id| id.parse().ok());
            let session = SessionId(session.expect("a session's name"));
            if client.is_spread() {
                continue; // Its members have segments of their own.
            }
            let n_ran = self.ran.get(&session).map_or(0, |(_, seqs)| seqs.len() as u64);
            assert_eq!(
                n_ran, client.n_submitted,
                "seed {}: segments of {session} that ran",
                self.seed
            );
        }
    }

    /// After a quiet time a worker holds the live values of its sessions, or its parts of them, and
    /// the templates that are launched on it.
    fn check_holdings(&mut self) {
        let bound = self.now + Duration::from_secs(60);
        let busy = |node: &Node| matches!(node, Node::Worker(worker) if !worker.is_idle());
        while !self.dispatcher.is_quiet() || self.nodes.iter().any(busy) {
            assert!(self.now < bound, "seed {}: a gang does not come to rest", self.seed);
            self.step();
        }
        let lull = self.now + Duration::from_secs(10);
        while self.now < lull {
            self.step();
        }
        for (node, peer) in self.nodes.iter().zip(&self.addresses) {
            let Node::Worker(worker) = node else { continue };
            let (held, wanted) = (worker.holdings(), self.dispatcher.holdings(*peer));
            let sessions = held.keys().eq(wanted.keys());
            assert!(sessions, "seed {}: {peer} holds {held:?}, of {wanted:?}", self.seed);
            for (session, held) in &held {
                let wanted = &wanted[session];
                let templates = held.templates.is_subset(&wanted.templates);
                let uploads = held.uploads.is_subset(&wanted.uploads);
                assert!(
                    held.values == wanted.values && templates && uploads,
                    "seed {}: {peer} holds {held:?} of {session}, not {wanted:?}",
                    self.seed
                );
            }
        }
    }

    fn end_clients(&mut self) {
        for i in 0..self.nodes.len() {
            let (now, gone) = (self.now, self.random.percent(40));
            match &mut self.nodes[i] {
                Node::Client(client) if !gone => client.close(now),
                Node::Client(_) | Node::Rogue(_) => self.crash(i, Time::MAX),
                Node::Worker(_) | Node::Down { .. } => (),
            }
        }
        let end = self.now + Duration::from_secs(60);
        while self.now < end {
            self.step();
        }
        assert_eq!(
            self.dispatcher.n_sessions(),
            0,
            "seed {}: a session outlives its client",
            self.seed
        );
        for node in &self.nodes {
            if let Node::Worker(worker) = node {
                assert!(
                    worker.is_idle() && worker.held.is_empty(),
                    "seed {}: {:?} outlive their clients",
                    self.seed,
                    worker.held
                );
            }
        }
    }

    /// Advances to the next event and handles it.
    fn step(&mut self) {
        self.n_steps += 1;
        assert!(self.n_steps < 3_000_000, "seed {}: something is busy with nothing", self.seed);
        let nodes = self.nodes.iter().map(|node| match node {
            Node::Client(client) => client.next_deadline(),
            Node::Worker(worker) => worker
                .end
                .next_deadline()
                .map_or(worker.next_job, |at| at.min(worker.next_job))
                .min(worker.next_read),
            Node::Rogue(_) => self.now + Duration::from_millis(50),
            Node::Down { back } => *back,
        });
        let making = self.making.iter().map(|(at, ..)| *at);
        let others = self.network.next_arrival().into_iter().chain(self.dispatcher.next_deadline());
        let next = nodes.chain(others).chain(making).min();
        let slice = self.now + Duration::from_millis(if self.quiet { 2000 } else { 100 });
        self.now = self.now.max(next.unwrap_or(slice).min(slice));
        while let Some((way, peer, packet)) = self.network.take_arrived(self.now) {
            self.arrive(way, peer, packet);
        }
        self.make_partitions();
        if self.dispatcher.next_deadline().is_some_and(|at| at <= self.now) {
            self.tell(Event::Tick);
            let again = self.dispatcher.next_deadline();
            assert!(
                again.is_none_or(|at| at > self.now),
                "seed {}: a deadline that does not move",
                self.seed
            );
        }
        for i in 0..self.nodes.len() {
            self.misfortune(i);
            self.node(i);
        }
        if self.profile.greedy {
            self.check_shares();
        }
        if !self.quiet && self.chance(self.profile.restart) {
            self.dispatcher = Dispatcher::new(self.profile.dispatcher());
        }
    }

    /// Brings the dispatcher the partitions that are made by now. Nobody may want them any more.
    fn make_partitions(&mut self) {
        let now = self.now;
        let made: Vec<_> = self.making.extract_if(.., |(at, ..)| *at <= now).collect();
        for (_, (session, user), job) in made {
            let Some(job) = job.upgrade() else { continue };
            let partition = job.make();
            let nanos = 1_000_000;
            self.tell(Event::Partitioned(Made { session, user, job, partition, nanos }));
            self.n_made += 1;
        }
    }

    fn chance(&mut self, in_ten_thousand: u64) -> bool {
        self.random.below(10_000) < in_ten_thousand
    }

    fn arrive(&mut self, way: Way, peer: PeerId, packet: Packet) {
        let i = (peer.0 / APART) as usize;
        let cut = |peer: PeerId| {
            let until = self.cut.get(&((peer.0 / APART) as usize));
            until.is_some_and(|&until| self.now < until)
        };
        let from = match way {
            Way::ToSibling(from) | Way::FromSibling(from, _) => from,
            Way::ToDispatcher | Way::FromDispatcher => peer,
        };
        if cut(peer) || cut(from) {
            return;
        }
        match way {
            Way::ToDispatcher => self.tell(Event::Packet(peer, packet)),
            Way::FromDispatcher | Way::ToSibling(_) | Way::FromSibling(..)
                if self.addresses[i] != peer => {}
            Way::ToSibling(from) => self.bring_value(i, &Road::From(from), packet),
            Way::FromSibling(from, life) => {
                self.bring_value(i, &worker::road_to(from, life), packet);
            }
            Way::FromDispatcher => {
                let (now, random) = (self.now, &mut self.random);
                let ended = match &mut self.nodes[i] {
                    Node::Client(client) => client.receive(now, packet),
                    Node::Worker(worker) => worker.receive(now, random, packet),
                    Node::Rogue(_) | Node::Down { .. } => None,
                };
                ended.into_iter().for_each(|reason| self.ended(i, &reason));
            }
        }
    }

    /// Gives a worker a packet of another worker.
    fn bring_value(&mut self, i: usize, road: &Road, packet: Packet) {
        self.n_parcels += u64::from(matches!(&packet.body, Body::Data { .. }));
        if let Node::Worker(worker) = &mut self.nodes[i] {
            let actions = worker.receive_from(self.now, &mut self.random, road, packet);
            self.send_values(i, actions);
        }
    }

    /// Sends what a worker has for other workers. Sometimes there is no road.
    fn send_values(&mut self, i: usize, actions: Vec<RoadAction>) {
        for action in actions {
            let RoadAction::Send(road, packet) = action else { continue };
            let (from, to) = (self.addresses[i], worker::address(&road));
            let down = self.addresses.get((to.0 / APART) as usize) != Some(&to);
            let closed = self.profile.impassable > 0 && self.chance(self.profile.impassable);
            match (&road, &mut self.nodes[i]) {
                (Road::To(door), Node::Worker(worker)) if down || closed => {
                    self.n_closed += 1;
                    worker.end.impassable(door);
                }
                (Road::To(_), _) => {
                    self.network.send(self.now, &mut self.random, Way::ToSibling(from), to, packet);
                }
                (Road::From(_), Node::Worker(worker)) => {
                    let way = Way::FromSibling(from, worker.life);
                    self.network.send(self.now, &mut self.random, way, to, packet);
                }
                (Road::From(_), _) => {}
            }
        }
    }

    /// Gives the dispatcher an event and performs its actions.
    fn tell(&mut self, event: Event) {
        let mut actions = std::mem::take(&mut self.actions);
        self.dispatcher.handle(self.now, event, &mut actions);
        let mut unreachable = Vec::new();
        for action in actions.drain(..) {
            if let Action::Partition { session, user, job } = &action {
                let at = self.now + Duration::from_millis(self.random.below(200));
                self.making.push((at, (*session, *user), Arc::downgrade(job)));
            }
            if let Action::Send(peer, packet) = action {
                let down = matches!(self.nodes[(peer.0 / APART) as usize], Node::Down { .. });
                // The hint may be wrong; in bad weather a wrong one alone would look like an end.
                let wrong = u64::from(self.profile.weather.lost == 0);
                if !self.profile.weather.reliable
                    && self.random.percent(if down { 50 } else { wrong })
                {
                    unreachable.push(peer);
                }
                self.network.send(self.now, &mut self.random, Way::FromDispatcher, peer, packet);
            }
        }
        self.actions = actions;
        unreachable.into_iter().for_each(|peer| self.tell_quietly(Event::Unreachable(peer)));
    }

    fn tell_quietly(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.dispatcher.handle(self.now, event, &mut actions);
        assert_eq!(actions, [], "seed {}: a hint made the dispatcher act", self.seed);
    }
}

/// Notes that a segment ran. It must be the first time, and after the segments before it.
fn note(all: &mut BTreeMap<SessionId, (u32, Vec<u64>)>, seed: u64, (session, attempt, seq): Ran) {
    let (last, seqs) = all.entry(session).or_default();
    if attempt < *last {
        return; // On a worker that the dispatcher has lost.
    }
    *last = attempt;
    assert!(
        seqs.last().is_none_or(|&last| seq > last),
        "seed {seed}: segment {seq} of {session} ran again, or too late"
    );
    seqs.push(seq);
}
