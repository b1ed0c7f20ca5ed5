//! The world of a simulation: everybody, the network between them, and what goes wrong when.

use super::Random;
use super::client::Client;
use super::network::{Network, Way, Weather};
use super::rogue::Rogue;
use super::worker::{Ran, Worker};
use crate::client::TemplateConfig;
use crate::clock::Time;
use crate::connection::ConnectionConfig;
use crate::dispatcher::{Action, Config, Dispatcher, Event};
use crate::ids::{Incarnation, PeerId, SessionId};
use crate::link::{LinkConfig, Timing, Transport};
use crate::wire::Packet;
use gt_ir::backend::SegmentStats;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a run is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Profile {
    weather: Weather,
    window: u64,
    n_clients: usize,
    n_workers: usize,
    n_rogues: usize,
    /// Chances in ten thousand, at each step of a node.
    client_crash: u64,
    client_move: u64,
    worker_crash: u64,
    partition: u64,
    restart: u64,
    /// How long things go wrong.
    until: Duration,
}

impl Profile {
    fn base(seed: u64) -> Profile {
        let mut random = Random::new(!seed);
        let weather = Weather {
            lost: random.below(30),
            repeated: random.below(30),
            delay: [100, 2_000, 50_000][random.below(3) as usize],
            reliable: false,
        };
        Profile {
            weather,
            window: if random.percent(50) { 1 << 12 } else { 1 << 20 },
            n_clients: 1 + random.below(4) as usize,
            n_workers: 1 + random.below(3) as usize,
            n_rogues: 0,
            client_crash: 0,
            client_move: 0,
            worker_crash: 0,
            partition: 0,
            restart: 0,
            until: Duration::from_secs(8),
        }
    }

    pub(super) fn network(seed: u64) -> Profile {
        Profile { client_move: 20, ..Profile::base(seed) }
    }

    pub(super) fn clients(seed: u64) -> Profile {
        let base = Profile::base(seed);
        Profile {
            client_crash: 80,
            client_move: 20,
            n_clients: base.n_clients + 1,
            n_rogues: (seed % 3) as usize,
            ..base
        }
    }

    pub(super) fn everything(seed: u64) -> Profile {
        let mut random = Random::new(seed + 17);
        let restart = if random.percent(20) { 5 } else { 0 };
        Profile {
            worker_crash: random.below(60),
            partition: random.below(20),
            restart,
            until: Duration::from_secs(30),
            ..Profile::clients(seed)
        }
    }

    pub(super) fn embedded(seed: u64) -> Profile {
        let base = Profile::clients(seed);
        let weather = Weather { lost: 0, repeated: 0, reliable: true, ..base.weather };
        Profile { weather, client_move: 0, n_rogues: 0, worker_crash: (seed % 2) * 40, ..base }
    }

    fn values_may_be_lost(&self) -> bool {
        self.worker_crash + self.partition + self.restart > 0
    }

    fn connections_may_end(&self) -> bool {
        self.partition + self.restart > 0
    }

    fn connection(&self) -> ConnectionConfig {
        let transport = if self.weather.reliable {
            Transport::Reliable
        } else {
            Transport::Lossy(Timing::default())
        };
        let link = LinkConfig { transport, window: self.window };
        let grace = Duration::from_secs(4);
        ConnectionConfig {
            control: link,
            bulk: link,
            answer: None,
            grace,
            ..ConnectionConfig::remote()
        }
    }

    /// Few templates, so that they are given up often, or as many as there may be.
    fn templates(&self, random: &mut Random) -> TemplateConfig {
        let most = [0, 1, 2, 3, 64][random.below(5) as usize];
        let entries = if random.percent(50) { 12 } else { 1 << 10 };
        TemplateConfig { most, entries, least: 1 + random.below(3) as usize }
    }

    fn dispatcher(&self) -> Config {
        let connection = self.connection();
        let lease = Duration::from_secs(20);
        Config {
            client: ConnectionConfig { lease, patience: Some(lease), ..connection },
            worker: connection,
            relay: self.window / 2,
            ..Config::remote()
        }
    }
}

/// Somebody at an address, or the time when they start again.
enum Node {
    Client(Box<Client>),
    Worker(Box<Worker>),
    Rogue(Rogue),
    Down { back: Time },
}

pub(super) struct World {
    seed: u64,
    profile: Profile,
    random: Random,
    now: Time,
    dispatcher: Dispatcher,
    network: Network,
    nodes: Vec<Node>,
    /// The address of each node; its number is in it, so a late packet finds nobody.
    addresses: Vec<PeerId>,
    /// Until when a node is cut off.
    cut: BTreeMap<usize, Time>,
    n_lives: u64,
    ran: BTreeMap<SessionId, (u32, Vec<u64>)>,
    n_workers_lost: u64,
    quiet: bool,
    n_steps: u64,
    actions: Vec<Action>,
}

/// Nodes are this far apart in the numbering of addresses.
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
            n_workers_lost: 0,
            quiet: false,
            n_steps: 0,
            actions: Vec::new(),
        }
    }

    /// Gives what became of the segments of the clients that were there in the end.
    pub(super) fn run(mut self) -> SegmentStats {
        while self.now < self.profile.until {
            self.step();
        }
        self.settle();
        self.check_complete();
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
        self.end_clients();
        sent
    }

    /// The faults stop; whoever is down comes back; everybody does some fresh work, which must succeed.
    fn settle(&mut self) {
        self.quiet = true;
        self.cut.clear();
        for node in &mut self.nodes {
            if let Node::Down { back } = node {
                *back = self.now;
            }
        }
        // Leases of those cut off run out first.
        let lull = self.now + Duration::from_secs(45);
        while self.now < lull {
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
        while self
            .nodes
            .iter()
            .any(|node| matches!(node, Node::Client(client) if client.n_waiting() > 0))
        {
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

    /// Without losses of workers every segment has run, and nobody has seen an error.
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
            let n_ran = self.ran.get(&session).map_or(0, |(_, seqs)| seqs.len() as u64);
            assert_eq!(
                n_ran, client.n_submitted,
                "seed {}: segments of {session} that ran",
                self.seed
            );
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

    /// To the next moment anything happens, and what happens then.
    fn step(&mut self) {
        self.n_steps += 1;
        assert!(self.n_steps < 3_000_000, "seed {}: something is busy with nothing", self.seed);
        let nodes = self.nodes.iter().map(|node| match node {
            Node::Client(client) => client
                .connection
                .next_deadline()
                .map_or(client.next_act, |at| at.min(client.next_act)),
            Node::Worker(worker) => worker
                .connection
                .next_deadline()
                .map_or(worker.next_job, |at| at.min(worker.next_job)),
            Node::Rogue(_) => self.now + Duration::from_millis(50),
            Node::Down { back } => *back,
        });
        let next =
            nodes.chain(self.network.next_arrival()).chain(self.dispatcher.next_deadline()).min();
        let slice = self.now + Duration::from_millis(if self.quiet { 2000 } else { 100 });
        self.now = self.now.max(next.unwrap_or(slice).min(slice));
        while let Some((way, peer, packet)) = self.network.take_arrived(self.now) {
            self.arrive(way, peer, packet);
        }
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
        if !self.quiet && self.chance(self.profile.restart) {
            self.dispatcher = Dispatcher::new(self.profile.dispatcher());
        }
    }

    fn chance(&mut self, in_ten_thousand: u64) -> bool {
        self.random.below(10_000) < in_ten_thousand
    }

    fn arrive(&mut self, way: Way, peer: PeerId, packet: Packet) {
        let i = (peer.0 / APART) as usize;
        if self.cut.get(&i).is_some_and(|&until| self.now < until) {
            return;
        }
        match way {
            Way::ToDispatcher => self.tell(Event::Packet(peer, packet)),
            Way::FromDispatcher if self.addresses[i] != peer => (),
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

    /// Hands the dispatcher an event and does what it wants done.
    fn tell(&mut self, event: Event) {
        let mut actions = std::mem::take(&mut self.actions);
        self.dispatcher.handle(self.now, event, &mut actions);
        let mut unreachable = Vec::new();
        for action in actions.drain(..) {
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

    fn misfortune(&mut self, i: usize) {
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
            // Some come back so soon that packets of their last life are still under way.
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

    fn crash(&mut self, i: usize, back: Time) {
        self.n_workers_lost += u64::from(matches!(self.nodes[i], Node::Worker(_)));
        self.nodes[i] = Node::Down { back };
        if self.profile.weather.reliable {
            self.network.forget(self.addresses[i]);
            self.tell(Event::PeerLost(self.addresses[i]));
        }
    }

    fn ended(&mut self, i: usize, reason: &str) {
        let may = self.profile.connections_may_end();
        assert!(may || self.quiet_close(i), "seed {}: a connection ended: {reason}", self.seed);
        let back = self.now + Duration::from_millis(self.random.below(3_000));
        self.crash(
            i,
            if matches!(self.nodes[i], Node::Client(_)) && self.quiet { Time::MAX } else { back },
        );
    }

    /// A client that has closed its session is told, at most, that nobody knows it any more.
    fn quiet_close(&self, i: usize) -> bool {
        self.quiet && matches!(&self.nodes[i], Node::Client(client) if client.n_waiting() == 0)
    }

    /// What a node does of its own at this moment.
    fn node(&mut self, i: usize) {
        let (now, address) = (self.now, self.addresses[i]);
        let mut out = Vec::new();
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
                let mut incoming = Vec::new();
                client
                    .connection
                    .transmit(now, &mut |packet| out.push(packet), &mut |what| incoming.push(what));
                ended = incoming.into_iter().find_map(|what| client.incoming(what));
            }
            Node::Worker(worker) => {
                let ran =
                    if worker.next_job <= now { worker.work(now, &mut self.random) } else { None };
                let mut incoming = Vec::new();
                worker
                    .connection
                    .transmit(now, &mut |packet| out.push(packet), &mut |what| incoming.push(what));
                ended = incoming
                    .into_iter()
                    .find_map(|what| worker.incoming(now, &mut self.random, what));
                // Another dispatcher's sessions have the same names.
                let ran = ran.filter(|_| self.profile.restart == 0);
                ran.into_iter().for_each(|ran| note(&mut self.ran, self.seed, ran));
            }
        }
        for packet in out {
            self.network.send(now, &mut self.random, Way::ToDispatcher, address, packet);
        }
        ended.into_iter().for_each(|reason| self.ended(i, &reason));
    }

    fn start(&mut self, i: usize) {
        self.n_lives += 1;
        // Some come back under their old address, some under a new one.
        if self.random.percent(50) || self.profile.weather.reliable {
            self.addresses[i].0 += 1;
        }
        let (now, peer, life) =
            (self.now, self.addresses[i], Incarnation(self.n_lives << 8 | i as u64));
        let config = self.profile.connection();
        let n_elements = self.random.below(7) as usize;
        self.nodes[i] = if i < self.profile.n_clients {
            let templates = self.profile.templates(&mut self.random);
            Node::Client(Box::new(Client::new(now, peer, life, config, templates, n_elements)))
        } else if i < self.profile.n_clients + self.profile.n_workers {
            Node::Worker(Box::new(Worker::new(now, peer, life, config)))
        } else {
            Node::Rogue(Rogue::new())
        };
    }
}

/// A segment ran: never before, and after those before it.
fn note(all: &mut BTreeMap<SessionId, (u32, Vec<u64>)>, seed: u64, (session, attempt, seq): Ran) {
    let (last, seqs) = all.entry(session).or_default();
    if attempt < *last {
        return; // On a worker that was given up, and does not know it yet.
    }
    *last = attempt;
    assert!(
        seqs.last().is_none_or(|&last| seq > last),
        "seed {seed}: segment {seq} of {session} ran again, or too late"
    );
    seqs.push(seq);
}
