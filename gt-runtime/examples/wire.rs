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

mod cluster;

use std::process::Child;
use std::thread;
use std::time::Instant;

use cluster::{Cluster, Program, role, serves};
use gt_ir::{Entry, ValueId};

/// The launches of one client.
const LAUNCHES: usize = 200_000;
const READS: usize = 5_000;
/// The elements of a large tensor: 256 MB.
const LARGE: usize = 64 << 20;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        _ if serves(&words) => {}
        ["launches-of", address] => launches_of(address),
        ["first-of", address] => first_of(address),
        _ => report(&words),
    }
}

/// A row of the report: its name, its figure and its unit.
type Row = (String, f64, &'static str);

fn report(words: &[&str]) {
    let json = words.contains(&"--json");
    let wanted = |name: &str| words.iter().all(|word| *word == "--json") || words.contains(&name);
    let cluster = Cluster::start(1, &[]);
    let mut rows: Vec<Row> = Vec::new();
    if wanted("first") {
        rows.extend(first(&cluster));
    }
    if wanted("launches") {
        rows.extend([1, 2, 4].map(|n| launches(&cluster, n)));
    }
    if wanted("read") {
        rows.extend(read(&cluster));
        rows.push(floor());
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
    let start = |_| role(&["launches-of", &cluster.address]).spawn().unwrap();
    let clients: Vec<Child> = (0..n).map(start).collect();
    let seconds = clients.into_iter().map(figure).fold(0.0, f64::max);
    (format!("launches, {n} clients"), (n * LAUNCHES) as f64 / seconds, "per second")
}

/// One client: prints the seconds for its launches.
fn launches_of(address: &str) {
    let mut program = Program::connect(address);
    let mut x = program.give(vec![0.0; 4], &[4]);
    for _ in 0..2_000 {
        x = add_twice(&mut program, x);
    }
    program.read(x);
    let began = Instant::now();
    for _ in 0..LAUNCHES {
        x = add_twice(&mut program, x);
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
        inside.push(figure(role(&["first-of", &cluster.address]).spawn().unwrap()));
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
    let x = program.give(vec![0.0; 4], &[4]);
    program.read(x);
    println!("{}", began.elapsed().as_secs_f64());
}

/// An addition of four numbers, and a read of the result.
fn read(cluster: &Cluster) -> Vec<Row> {
    let mut program = Program::connect(&cluster.address);
    let mut x = program.give(vec![0.0; 4], &[4]);
    let times = timed(|| {
        x = program.add(x);
        program.read(x);
    });
    let row = |percent| (format!("operation and read, p{percent}"), times[READS * percent / 100]);
    let rows = [row(50), row(99)].into_iter();
    let mean = ("operation and read, mean".into(), times.iter().sum::<f64>() / READS as f64);
    rows.chain([mean]).map(|(name, time)| (name, time, "us")).collect()
}

/// The least that a read can take: 64 bytes from one socket of ZeroMQ by way of a second to a third
/// and back, each with a context and a thread of its own, as a client, a server and a worker have.
fn floor() -> Row {
    let folder = std::env::temp_dir().join(format!("gt-wire-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let address = format!("ipc://{}/floor", folder.display());
    let socket = |kind, name: &str| {
        let socket = zmq::Context::new().socket(kind).unwrap();
        socket.set_identity(name.as_bytes()).unwrap();
        socket
    };
    let relay = socket(zmq::ROUTER, "relay");
    relay.bind(&address).unwrap();
    let [client, worker] = ["client", "worker"].map(|name| {
        let socket = socket(zmq::DEALER, name);
        socket.connect(&address).unwrap();
        socket
    });
    // The relay knows its peers when they have spoken.
    worker.send("", 0).unwrap();
    let relayed = thread::spawn(move || {
        relay.recv_multipart(0).unwrap();
        for i in 0..2 * READS {
            let to = if i % 2 == 0 { &b"worker"[..] } else { b"client" };
            let message = relay.recv_multipart(0).unwrap().swap_remove(1);
            relay.send_multipart([to, &message], 0).unwrap();
        }
    });
    let answered = thread::spawn(move || {
        (0..READS).for_each(|_| worker.send(worker.recv_bytes(0).unwrap(), 0).unwrap());
    });
    let times = timed(|| {
        client.send(vec![0; 64], 0).unwrap();
        client.recv_bytes(0).unwrap();
    });
    relayed.join().unwrap();
    answered.join().unwrap();
    // Leftovers of a measurement harm nobody.
    let _ = std::fs::remove_dir_all(folder);
    ("the same way of bare sockets, p50".into(), times[READS / 2], "us")
}

/// The microseconds of each of so many calls, in order of size.
fn timed(mut call: impl FnMut()) -> Vec<f64> {
    let mut times: Vec<f64> = (0..READS)
        .map(|_| {
            let began = Instant::now();
            call();
            began.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times
}

/// 256 MB to the worker, and back.
fn large(cluster: &Cluster) -> [Row; 2] {
    let mut program = Program::connect(&cluster.address);
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..3 {
        let data = vec![1.0; LARGE];
        let small = program.give(vec![0.0; 4], &[4]);
        let began = Instant::now();
        let x = program.give(data, &[LARGE]);
        // The segments of a session wait for each other, so the whole has come.
        program.read(small);
        times[0].push(began.elapsed().as_secs_f64());
        let began = Instant::now();
        program.read(x);
        times[1].push(began.elapsed().as_secs_f64());
        program.entries.extend([Entry::Free(x), Entry::Free(small)]);
        program.submit();
    }
    let [up, down] = times.map(|times| times.into_iter().fold(f64::MAX, f64::min));
    let rate = |seconds: f64| (LARGE * 4) as f64 / seconds / 1e9;
    [("256 MB up".into(), rate(up), "GB/s"), ("256 MB down".into(), rate(down), "GB/s")]
}

/// Two additions, the shortest segment that becomes a template.
fn add_twice(program: &mut Program, x: ValueId) -> ValueId {
    let x = program.add(x);
    let x = program.add(x);
    program.submit();
    x
}

/// Waits for the end of a process, and gives the number that it printed.
fn figure(process: Child) -> f64 {
    let ended = process.wait_with_output().unwrap();
    assert!(ended.status.success());
    String::from_utf8(ended.stdout).unwrap().trim().parse().unwrap()
}
