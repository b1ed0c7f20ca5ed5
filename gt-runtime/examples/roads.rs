//! What a value costs on its way from one worker process to another: over memory that both share,
//! over tcp, encrypted or not, and over lanes of libtorch's Gloo. Prints by how much longer a step
//! takes in which one worker makes a value and another one adds it up, than on one worker.
//!
//! `cargo run --release -p gt-runtime --features torch --example roads [-- HOST]`. HOST is an
//! address of this machine other than loopback, which tcp needs. Lanes need the feature `torch`.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a report for people, with a clock"
)]

mod cluster;

use std::process::Child;
use std::time::{Duration, Instant};

use cluster::{Cluster, Program, role, serves};
use gt_ir::signal::{ShardConfig, SignalConfig, Signals};
use gt_ir::{Entry, Operand};

/// The sizes of the values, in KiB.
const SIZES: [usize; 6] = [64, 256, 512, 1 << 10, 16 << 10, 64 << 10];

/// How long steps run before they are measured.
const WARM_UP: Duration = Duration::from_millis(150);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        _ if serves(&args) => {}
        ["way", ref listen @ ..] => measure(listen),
        [] => report(&["localhost"]),
        [host] => report(&["localhost", host]),
        _ => panic!("an address of this machine"),
    }
}

fn report(hosts: &[&str]) {
    let lanes = cfg!(feature = "torch").then_some("gloo");
    for host in hosts {
        let exposures: &[&str] =
            if *host == "localhost" { &["shared", "encrypted"] } else { &["encrypted", "open"] };
        for exposure in exposures {
            for kind in ["sockets"].into_iter().chain(lanes) {
                if kind == "gloo" && *exposure == "encrypted" && *host != "localhost" {
                    continue; // It would not be encrypted.
                }
                let mut way = role(&["way", &format!("{host}:0"), exposure]);
                let child: Child = way.env("GT_ROAD", kind).spawn().unwrap();
                let said = child.wait_with_output().unwrap().stdout;
                print!("{host}, {exposure}, {kind}:\n{}", String::from_utf8(said).unwrap());
            }
        }
    }
}

/// Measures one way, between two workers of its own.
fn measure(listen: &[&str]) {
    let Cluster { address, .. } = &Cluster::start(2, listen);
    std::thread::sleep(Duration::from_millis(1_500));
    for size in SIZES {
        let [alone, apart] = [[0, 0], [0, 1]].map(|on| step(address, on, size << 8));
        let cost = apart.saturating_sub(alone);
        let rate = (size << 10) as f64 / cost.as_secs_f64() / 1e9;
        println!("  {size:5} KiB in {cost:9.1?}: {rate:.2} GB/s; alone {alone:.1?}");
    }
}

/// The median time of a step whose halves are on these workers.
fn step(address: &str, on: [u32; 2], n: usize) -> Duration {
    let mut program = Program::connect(address);
    let mut signals = Signals::new();
    for (name, worker) in ["make", "sum"].into_iter().zip(on) {
        let shard = ShardConfig { workers: Some(vec![worker]), ..ShardConfig::default() };
        signals.set(name, SignalConfig { shard: Some(shard), ..SignalConfig::default() }).unwrap();
    }
    program.session.configure(signals);
    let mut x = program.give(vec![1.0; n], &[n]);
    let n_steps = if n > 4 << 20 { 25 } else { 100 };
    let (start, mut times) = (Instant::now(), Vec::new());
    while times.len() < n_steps {
        let began = Instant::now();
        program.entries.push(Entry::Enter("make".into()));
        x = program.add(x);
        program.entries.extend([Entry::Exit("make".into()), Entry::Enter("sum".into())]);
        let sum = program.make("sum[0]".parse().unwrap(), &[Operand::Value(x)]);
        program.entries.push(Entry::Exit("sum".into()));
        program.read(sum);
        program.entries.push(Entry::Free(sum));
        // Meanwhile plans are compiled, and lanes are made.
        if start.elapsed() > WARM_UP {
            times.push(began.elapsed());
        }
    }
    times.sort();
    times[times.len() / 2]
}
