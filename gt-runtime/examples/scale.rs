//! The dispatcher alone: how many launches of a program on many workers it orders in a second. Its
//! workers answer at once and compute nothing, and no packet leaves the process.
//!
//! `cargo run --release -p gt-runtime --example scale -- [MEMBERS..]`, by default 8, 72 and 1000.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a report for people, with a clock"
)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gt_ir::canonical::{Defined, canonical};
use gt_ir::signal::{ShardConfig, SignalConfig, Signals};
use gt_ir::{Tape, ValueId, text};
use gt_runtime::connection::{Connection, ConnectionConfig, Incoming};
use gt_runtime::dispatcher::{Action, Config, Dispatcher, Event};
use gt_runtime::identity::Identity;
use gt_runtime::ids::{Incarnation, PeerId};
use gt_runtime::wire::{
    Capacity, Counts, Door, FromClient, FromWorker, Hello, Message, Order, Performed, Role, Stream,
    ToWorker,
};

/// How long each row is measured.
const SECONDS: f64 = 2.0;
/// The clock of the dispatcher, which nothing waits for.
const NOW: Duration = Duration::from_secs(1);
const CLIENT: PeerId = PeerId(0);

/// A step of which each member computes its part.
const APART: &str = "%2 = mul %1, 0.5\n%3 = add %2, 1.0\nfree %1\nfree %2\n";
/// A step of which all members need a sum.
const SUM: &str = "%2 = sum[0] %0\n%3 = sub %1, %2\nfree %1\nfree %2\n";

fn main() {
    let asked: Vec<usize> =
        std::env::args().skip(1).map(|n| n.parse().expect("a number of workers")).collect();
    let members = if asked.is_empty() { vec![8, 72, 1000] } else { asked };
    println!("members  step    first launch  launches a second  orders of a launch");
    for n in members {
        for (name, step) in [("apart", APART), ("sum", SUM)] {
            let row = System::new(n).measure(step);
            println!(
                "{n:7}  {name:6}  {:9.1} ms  {:17.0}  {:18.1}",
                row.first * 1e3,
                row.launches,
                row.orders
            );
        }
    }
}

/// A dispatcher with its workers and one client.
struct System {
    dispatcher: Dispatcher,
    n: usize,
    peers: BTreeMap<PeerId, Connection>,
    events: VecDeque<Event>,
    /// The orders that workers were given.
    n_orders: usize,
}

struct Row {
    /// The seconds of the first launch, in which the step is partitioned.
    first: f64,
    /// Launches in a second.
    launches: f64,
    /// Orders to all workers for each launch.
    orders: f64,
}

impl System {
    fn new(n: usize) -> System {
        let config = Config { max_peers: 4 * n + 100, worker_places: n, ..Config::embedded() };
        let dispatcher = Dispatcher::new(config);
        let (peers, events) = (BTreeMap::new(), VecDeque::new());
        let mut system = System { dispatcher, n, peers, events, n_orders: 0 };
        for worker in 1..=n as u64 {
            let door = Door { address: format!("w{worker}:1"), local: false, ..door() };
            let capacity = Capacity { door: Some(Arc::new(door)), ..Capacity::default() };
            system.join(PeerId(worker), Role::Worker);
            system.say(PeerId(worker), Message::FromWorker(FromWorker::Register(capacity)));
        }
        system.join(CLIENT, Role::Client);
        system
    }

    fn join(&mut self, peer: PeerId, role: Role) {
        let identity = Identity { name: "scale".into(), host: format!("{peer}"), pid: 1 };
        let hello = Hello::new(role, identity);
        let connection = Connection::dial(NOW, Incarnation(1), hello, ConnectionConfig::embedded());
        self.peers.insert(peer, connection);
        self.transmit(peer);
        self.settle();
    }

    fn say(&mut self, peer: PeerId, message: Message) {
        let connection = self.peers.get_mut(&peer).unwrap();
        connection.send(NOW, Stream::Control, message);
        self.transmit(peer);
    }

    fn order(&mut self, order: Order) {
        self.say(CLIENT, Message::FromClient(order.into()));
        self.settle();
    }

    fn transmit(&mut self, peer: PeerId) {
        let events = &mut self.events;
        let mut out = |packet| events.push_back(Event::Packet(peer, packet));
        self.peers.get_mut(&peer).unwrap().transmit(NOW, &mut out, &mut |_| ());
    }

    /// Carries packets back and forth until there are none.
    fn settle(&mut self) {
        let mut actions = Vec::new();
        while let Some(event) = self.events.pop_front() {
            self.dispatcher.handle(NOW, event, &mut actions);
            for action in actions.drain(..) {
                if let Action::Send(peer, packet) = action {
                    let mut answers = Vec::new();
                    let connection = self.peers.get_mut(&peer).unwrap();
                    connection.receive(NOW, packet, &mut |incoming| {
                        if let Incoming::Message(_, Message::ToWorker(message)) = incoming {
                            answers.push(message);
                        }
                    });
                    for message in answers {
                        self.answer(peer, message);
                    }
                    self.transmit(peer);
                }
            }
        }
    }

    /// A worker does at once what it is told.
    fn answer(&mut self, peer: PeerId, message: ToWorker) {
        let ToWorker::Order { session, attempt, seq, order } = message else { return };
        self.n_orders += 1;
        let counts = Counts::default();
        let report = match order {
            Order::Run(_) | Order::Launch { .. } => {
                FromWorker::Done { session, seq, attempt, counts }
            }
            Order::Perform(performance) => {
                let (request, n_ran) = (performance.request, performance.n_segments);
                let performed = Performed { request, n_ran, is_over: true, ..Performed::default() };
                FromWorker::Performed { session, seq, attempt, performed: Box::new(performed) }
            }
            Order::Send { request, .. } => FromWorker::Sent { session, request, bytes: 0 },
            _ => return,
        };
        let connection = self.peers.get_mut(&peer).unwrap();
        connection.send(NOW, Stream::Control, Message::FromWorker(report));
    }

    fn measure(mut self, step: &str) -> Row {
        let (start, step) = program(4 * self.n, step);
        let mut signals = Signals::new();
        let shard = Some(ShardConfig::default());
        signals.set("all", SignalConfig { shard, ..SignalConfig::default() }).unwrap();
        self.say(CLIENT, Message::FromClient(FromClient::Configure(Arc::new(signals))));
        self.order(Order::Run(Arc::new(start)));
        let (template, mut bindings) = canonical(&step);
        let tape = Arc::clone(&template.tape);
        self.order(Order::Define { template: 0, tape, planned: false });
        let mut launch = |system: &mut System| {
            system.order(Order::Launch { template: 0, bindings: Arc::new(bindings.clone()) });
            let Defined::Run(first, n) = bindings.defined else { unreachable!("of a recorder") };
            // The last result is the next step's operand.
            *bindings.inputs.last_mut().unwrap() = ValueId(first.0 + n - 1);
            bindings.defined = Defined::Run(ValueId(first.0 + n), n);
        };
        let began = Instant::now();
        launch(&mut self);
        let first = began.elapsed().as_secs_f64();
        launch(&mut self);
        self.n_orders = 0;
        let (began, mut n_launches) = (Instant::now(), 0);
        while began.elapsed().as_secs_f64() < SECONDS {
            launch(&mut self);
            n_launches += 1;
        }
        let launches = f64::from(n_launches) / began.elapsed().as_secs_f64();
        Row { first, launches, orders: self.n_orders as f64 / f64::from(n_launches) }
    }
}

fn door() -> Door {
    Door { address: String::new(), local: false, sealed: false, key: [0; 16] }
}

/// The segment that makes the state, `n` numbers cut over all workers, and the first step.
fn program(n: usize, step: &str) -> (Tape, Tape) {
    let made = |i: u32| format!("%{i} = full[f32[{n}]] 1.0\n");
    let start = format!("enter \"all\"\n{}{}exit \"all\"\n", made(0), made(1));
    let mut whole = text::parse(&format!("gt tape 1\n{start}{step}")).unwrap().0.entries;
    let step = whole.split_off(4);
    (Tape { entries: whole }, Tape { entries: step })
}
