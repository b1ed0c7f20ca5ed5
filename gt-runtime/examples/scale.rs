//! The dispatcher alone: how many launches of programs on many workers it orders in a second, and
//! how much memory it takes. Its workers answer at once and compute nothing, and no packet leaves
//! the process.
//!
//! `cargo run --release -p gt-runtime --example scale -- [SESSIONSxMEMBERS..]`, by default 1x8,
//! 1x72, 1x1000, 10x72 and 100x72. Each session is a program of its own, and lives on all members.
//! Sessions launch one after the other. Each row is measured by a process of its own.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a report for people, with a clock"
)]

use std::collections::{BTreeMap, VecDeque};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gt_ir::canonical::{Bindings, Defined, canonical};
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
const SECONDS: f64 = 1.0;
/// The clock of the dispatcher, which nothing waits for.
const NOW: Duration = Duration::from_secs(1);
/// What is measured if nothing is asked for: sessions and members.
const USUAL: [&str; 5] = ["1x8", "1x72", "1x1000", "10x72", "100x72"];
/// The argument before the name of a step, by which the program measures one row.
const ROW: &str = "--row";

/// A step of which each member computes its part.
const APART: &str = "%2 = mul %1, 0.5\n%3 = add %2, 1.0\nfree %1\nfree %2\n";
/// A step of which all members need a sum.
const SUM: &str = "%2 = sum[0] %0\n%3 = sub %1, %2\nfree %1\nfree %2\n";

/// The steps, by their names.
const STEPS: [(&str, &str); 2] = [("apart", APART), ("sum", SUM)];

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    if let [row, name, size] = &asked[..]
        && row == ROW
    {
        return println!("{}", measured(name, size));
    }
    let usual = || USUAL.map(str::to_owned).to_vec();
    let sizes = if asked.is_empty() { usual() } else { asked };
    println!(
        "sessions  members  step   first launch  launches a second  orders of a launch     memory"
    );
    for size in sizes {
        for (name, _) in STEPS {
            let mut command = Command::new(std::env::current_exe().unwrap());
            let output = command.args([ROW, name, &size]).output().unwrap();
            assert!(output.status.success(), "{size}: {}", String::from_utf8_lossy(&output.stderr));
            print!("{}", String::from_utf8_lossy(&output.stdout));
        }
    }
}

/// A row of the table.
fn measured(name: &str, size: &str) -> String {
    let numbers = size.split_once('x').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
    let (n_sessions, n): (usize, usize) = numbers.expect("SESSIONSxMEMBERS, such as 100x72");
    let step = STEPS.iter().find(|step| step.0 == name).expect("a step").1;
    let before = resident();
    let row = System::new(n_sessions, n).measure(step);
    format!(
        "{n_sessions:8}  {n:7}  {name:5}  {:9.1} ms  {:17.0}  {:18.1}  {:6.1} MB",
        row.first * 1e3,
        row.launches,
        row.orders,
        (row.resident - before) / 1e6
    )
}

/// The bytes of memory of this process. 0 where the system does not say.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    1024.0 * kib.unwrap_or(0.0)
}

/// A dispatcher with its workers and clients.
struct System {
    dispatcher: Dispatcher,
    n: usize,
    /// The clients, of one session each.
    clients: Vec<PeerId>,
    peers: BTreeMap<PeerId, Connection>,
    events: VecDeque<Event>,
    /// The orders that workers were given.
    n_orders: usize,
}

struct Row {
    /// The seconds of a session's first launch, in which the step is partitioned.
    first: f64,
    /// Launches in a second, of all sessions together.
    launches: f64,
    /// Orders to all workers for each launch.
    orders: f64,
    /// The bytes of memory at the end, both ends of all connections included.
    resident: f64,
}

/// A program that launches one step again and again.
struct Program {
    client: PeerId,
    bindings: Bindings,
}

impl System {
    fn new(n_sessions: usize, n: usize) -> System {
        let max_peers = 4 * n + n_sessions + 100;
        let config = Config { max_peers, worker_places: n, ..Config::embedded() };
        let dispatcher = Dispatcher::new(config);
        let (peers, events) = (BTreeMap::new(), VecDeque::new());
        let clients = (0..n_sessions).map(|k| PeerId((n + 1 + k) as u64)).collect();
        let mut system = System { dispatcher, n, clients, peers, events, n_orders: 0 };
        for worker in 1..=n as u64 {
            let door = Door { address: format!("w{worker}:1"), local: false, ..door() };
            let capacity = Capacity { door: Some(Arc::new(door)), ..Capacity::default() };
            system.join(PeerId(worker), Role::Worker);
            system
                .say(PeerId(worker), Message::FromWorker(FromWorker::Register(Box::new(capacity))));
        }
        for client in system.clients.clone() {
            system.join(client, Role::Client);
        }
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

    fn order(&mut self, client: PeerId, order: Order) {
        self.say(client, Message::FromClient(order.into()));
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

    /// Gives a session its state and its step.
    fn begin(&mut self, client: PeerId, step: &str) -> Program {
        let (start, step) = program(4 * self.n, step);
        let mut signals = Signals::new();
        let shard = Some(ShardConfig::default());
        signals.set("all", SignalConfig { shard, ..SignalConfig::default() }).unwrap();
        self.say(client, Message::FromClient(FromClient::Configure(Arc::new(signals))));
        self.order(client, Order::Run(Arc::new(start)));
        let (template, bindings) = canonical(&step);
        let tape = Arc::clone(&template.tape);
        self.order(client, Order::Define { template: 0, tape, planned: false });
        Program { client, bindings }
    }

    fn launch(&mut self, program: &mut Program) {
        let Program { client, bindings } = program;
        self.order(*client, Order::Launch { template: 0, bindings: Arc::new(bindings.clone()) });
        let Defined::Run(first, n) = bindings.defined else { unreachable!("of a recorder") };
        // The last result is the next step's operand.
        *bindings.inputs.last_mut().unwrap() = ValueId(first.0 + n - 1);
        bindings.defined = Defined::Run(ValueId(first.0 + n), n);
    }

    fn measure(mut self, step: &str) -> Row {
        let clients = self.clients.clone();
        let mut programs: Vec<Program> =
            clients.into_iter().map(|client| self.begin(client, step)).collect();
        let began = Instant::now();
        programs.iter_mut().for_each(|program| self.launch(program));
        let first = began.elapsed().as_secs_f64() / programs.len() as f64;
        programs.iter_mut().for_each(|program| self.launch(program));
        self.n_orders = 0;
        let (began, mut n_launches) = (Instant::now(), 0);
        while began.elapsed().as_secs_f64() < SECONDS {
            let next = n_launches % programs.len();
            self.launch(&mut programs[next]);
            n_launches += 1;
        }
        let launches = n_launches as f64 / began.elapsed().as_secs_f64();
        let orders = self.n_orders as f64 / n_launches as f64;
        Row { first, launches, orders, resident: resident() }
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
