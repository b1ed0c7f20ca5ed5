//! The wire between processes: launches in a second, a small read, the first result of a new
//! client, and large tensors up and down. Server, worker and clients are processes on this machine.
//!
//! `cargo run --release -p gt-runtime --example wire -- [--json] [NAME..]` measures the named rows
//! (`launches`, `read`, `first`, `large`), or all.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a report for people, with a clock"
)]

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gt_compiler::{Native, NativeConfig};
use gt_ir::backend::Backend;
use gt_ir::{Entry, HostTensor, Instr, Loc, Op, Operand, Scalar, Shape, Tape, ValueId};
use gt_runtime::client::connect;
use gt_runtime::server::{Server, ServerConfig};
use gt_runtime::worker::{Worker, WorkerConfig};

/// The launches of one client.
const LAUNCHES: usize = 200_000;
const READS: usize = 5_000;
/// The elements of a large tensor: 256 MB.
const LARGE: usize = 64 << 20;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["server", port] => {
            Server::bind(ServerConfig::local(port.parse().unwrap())).unwrap().run(|_| ()).unwrap()
        }
        ["worker", address] => work(address),
        ["launches-of", address] => launches_of(address),
        ["first-of", address] => first_of(address),
        _ => report(&words),
    }
}

fn work(address: &str) {
    let engine = Box::new(Native::new(NativeConfig::host()).unwrap());
    let worker = Worker::new(WorkerConfig::new(address.parse().unwrap())).unwrap();
    // It ends when the server is killed.
    let _ = worker.serve(engine, |_| ());
}

/// A row of the report: its name, its figure and its unit.
type Row = (String, f64, &'static str);

fn report(words: &[&str]) {
    let json = words.contains(&"--json");
    let wanted = |name: &str| words.iter().all(|word| *word == "--json") || words.contains(&name);
    let cluster = Cluster::start();
    let mut rows: Vec<Row> = Vec::new();
    if wanted("first") {
        rows.extend(first(&cluster));
    }
    if wanted("launches") {
        rows.extend([1, 2, 4].map(|n| launches(&cluster, n)));
    }
    if wanted("read") {
        rows.extend(read(&cluster));
    }
    if wanted("large") {
        rows.extend(large(&cluster));
    }
    for (name, figure, unit) in rows {
        if json {
            println!("{{\"row\":\"{name}\",\"figure\":{figure:.3},\"unit\":\"{unit}\"}}");
        } else {
            println!("{name:32} {figure:12.1} {unit}");
        }
    }
}

/// The launches in a second of `n` clients together.
fn launches(cluster: &Cluster, n: usize) -> Row {
    let clients: Vec<Kill> =
        (0..n).map(|_| child(&["launches-of", &cluster.address], Stdio::piped())).collect();
    let seconds = clients.into_iter().map(Kill::figure).fold(0.0, f64::max);
    (format!("launches, {n} clients"), (n * LAUNCHES) as f64 / seconds, "per second")
}

/// One client: prints the seconds for its launches.
fn launches_of(address: &str) {
    let mut program = Program::connect(address);
    let mut x = program.give(vec![0.0; 4]);
    for _ in 0..2_000 {
        x = program.add(x);
    }
    program.read(x);
    let began = Instant::now();
    for _ in 0..LAUNCHES {
        x = program.add(x);
    }
    program.read(x);
    println!("{}", began.elapsed().as_secs_f64());
}

/// A new client process: from its call of `connect` to its first result, and with its start and
/// its end.
fn first(cluster: &Cluster) -> [Row; 2] {
    let (mut inside, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        let began = Instant::now();
        inside.push(child(&["first-of", &cluster.address], Stdio::piped()).figure());
        whole.push(began.elapsed().as_secs_f64());
    }
    [("first result", inside), ("a client from start to end", whole)].map(|(name, mut times)| {
        times.sort_by(f64::total_cmp);
        (name.to_owned(), times[times.len() / 2] * 1e3, "ms")
    })
}

fn first_of(address: &str) {
    let began = Instant::now();
    let mut program = Program::connect(address);
    let x = program.give(vec![0.0; 4]);
    program.read(x);
    println!("{}", began.elapsed().as_secs_f64());
}

/// An addition of four numbers, and a read of the result.
fn read(cluster: &Cluster) -> Vec<Row> {
    let mut program = Program::connect(&cluster.address);
    let mut x = program.give(vec![0.0; 4]);
    let mut times: Vec<f64> = (0..READS)
        .map(|_| {
            let began = Instant::now();
            x = program.add_and_read(x);
            began.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let row = |percent| (format!("operation and read, p{percent}"), times[READS * percent / 100]);
    let rows = [row(50), row(99)].into_iter();
    let mean = ("operation and read, mean".into(), times.iter().sum::<f64>() / READS as f64);
    rows.chain([mean]).map(|(name, time)| (name, time, "us")).collect()
}

/// 256 MB to the worker, and back.
fn large(cluster: &Cluster) -> [Row; 2] {
    let mut program = Program::connect(&cluster.address);
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..3 {
        let data = vec![1.0; LARGE];
        let small = program.give(vec![0.0; 4]);
        let began = Instant::now();
        let x = program.give(data);
        // The segments of a session wait for each other, so the whole has come.
        program.read(small);
        times[0].push(began.elapsed().as_secs_f64());
        let began = Instant::now();
        program.read(x);
        times[1].push(began.elapsed().as_secs_f64());
        program.session.submit(Tape { entries: vec![Entry::Free(x), Entry::Free(small)] });
    }
    let [up, down] = times.map(|times| times.into_iter().fold(f64::MAX, f64::min));
    let rate = |seconds: f64| (LARGE * 4) as f64 / seconds / 1e9;
    [("256 MB up".into(), rate(up), "GB/s"), ("256 MB down".into(), rate(down), "GB/s")]
}

/// A server and a worker, which end with it.
struct Cluster {
    address: String,
    _parts: [Kill; 2],
}

impl Cluster {
    fn start() -> Cluster {
        let port = (21_000 + std::process::id() % 10_000).to_string();
        let address = format!("localhost:{port}");
        let server = child(&["server", &port], Stdio::null());
        std::thread::sleep(Duration::from_millis(200));
        let worker = child(&["worker", &address], Stdio::null());
        let cluster = Cluster { address, _parts: [server, worker] };
        let mut program = Program::connect(&cluster.address);
        let x = program.give(vec![0.0; 4]);
        program.read(x);
        cluster
    }
}

fn child(args: &[&str], stdout: Stdio) -> Kill {
    let mut command = Command::new(std::env::current_exe().unwrap());
    Kill(command.args(args).stdout(stdout).spawn().unwrap())
}

struct Kill(Child);

impl Kill {
    /// Waits for its end, and gives the number that it printed.
    fn figure(mut self) -> f64 {
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(self.0.wait().unwrap().success());
        text.trim().parse().unwrap()
    }
}

impl Drop for Kill {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Program {
    session: Arc<dyn Backend>,
    next: u64,
}

impl Program {
    fn connect(address: &str) -> Program {
        let began = Instant::now();
        let session = loop {
            match connect(address) {
                Ok(session) => break session,
                Err(_) if began.elapsed() < Duration::from_secs(10) => {}
                Err(error) => panic!("{error}"),
            }
        };
        Program { session, next: 0 }
    }

    fn id(&mut self) -> ValueId {
        self.next += 1;
        ValueId(self.next)
    }

    fn give(&mut self, data: Vec<f32>) -> ValueId {
        let shape = Shape::new(&[data.len()]).unwrap();
        let data = HostTensor::from_vec(data, shape).unwrap();
        let (out, ty) = (self.id(), *data.ty());
        self.session.upload(out, data);
        self.session.submit(Tape { entries: vec![Entry::Input { out, ty, name: None }] });
        out
    }

    fn read(&mut self, value: ValueId) {
        self.session.submit(Tape { entries: vec![Entry::Output { value, name: None }] });
        self.session.fetch(value).unwrap();
    }

    fn sum(&mut self, x: ValueId) -> (ValueId, [Entry; 2]) {
        let out = self.id();
        let inputs = [Operand::Value(x), Operand::Scalar(Scalar::F64(1.0))].into_iter().collect();
        let instr = Instr { out, op: Op::Add, inputs, loc: Loc::NONE };
        (out, [Entry::Instr(instr), Entry::Free(x)])
    }

    /// Two additions, the shortest segment that becomes a template.
    fn add(&mut self, x: ValueId) -> ValueId {
        let (x, first) = self.sum(x);
        let (x, second) = self.sum(x);
        self.session.submit(Tape { entries: first.into_iter().chain(second).collect() });
        x
    }

    fn add_and_read(&mut self, x: ValueId) -> ValueId {
        let (out, [add, free]) = self.sum(x);
        let output = Entry::Output { value: out, name: None };
        self.session.submit(Tape { entries: vec![add, free, output] });
        self.session.fetch(out).unwrap();
        out
    }
}
