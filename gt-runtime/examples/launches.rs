//! What the dispatcher can do: eight programs replay a step on eight workers that compute nothing.
//! Embedded, all are threads of this process. Over a socket file, the server, the workers and the
//! programs are a process each.
//!
//! `cargo run --release -p gt-runtime --example launches -- [embedded] [ipc]`, by default both. A
//! row is a number of launches between two reads: launches of all programs in a second, and how
//! long such a round takes, from its first launch to the value.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a report for people, with a clock"
)]

#[expect(dead_code, reason = "other examples use the rest of it")]
mod cluster;

use std::process::{Child, Stdio};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use cluster::{Kill, Program, role};
use gt_compiler::engine::{Arg, Compile, Engine, EngineInfo, EngineStats, Value};
use gt_compiler::{EngineError, Native, NativeConfig, Program as Plan};
use gt_ir::{HostTensor, Op, Scalar};
use gt_runtime::embedded::System;
use gt_runtime::log::Log;
use gt_runtime::server::{Server, ServerConfig};
use gt_runtime::worker::{Worker, WorkerConfig};
use smallvec::{SmallVec, smallvec};

/// The number of programs, and of workers.
const N: usize = 8;
/// How long each row is measured.
const TIME: Duration = Duration::from_secs(2);
/// The launches between two reads.
const ROUNDS: [usize; 3] = [1, 16, 256];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["server", port] => {
            Server::bind(ServerConfig::local(port.parse().unwrap())).unwrap().run(|_| ()).unwrap();
        }
        ["workers", address] => workers(address),
        ["programs", address] => {
            for row in report("ipc", &|| Program::connect(address)) {
                println!("{row}");
            }
        }
        _ => {
            println!("system    launches a round  launches/s    p50 us    p99 us");
            if words.is_empty() || words.contains(&"embedded") {
                embedded();
            }
            if words.is_empty() || words.contains(&"ipc") {
                ipc();
            }
        }
    }
}

fn embedded() {
    let engine = Box::new(|_| Ok(null()));
    let system = System::with_engines(N, engine, Log::off()).unwrap();
    for row in report("embedded", &|| Program::new(system.session())) {
        println!("{row}");
    }
}

fn ipc() {
    let port = (21_000 + std::process::id() % 10_000).to_string();
    let address = format!("localhost:{port}");
    let start = |words: &[&str]| Kill(role(words).stdout(Stdio::null()).spawn().unwrap());
    let _server = start(&["server", &port]);
    thread::sleep(Duration::from_millis(300));
    let _workers = start(&["workers", &address]);
    thread::sleep(Duration::from_millis(500));
    let programs: Child = role(&["programs", &address]).stdout(Stdio::inherit()).spawn().unwrap();
    assert!(programs.wait_with_output().unwrap().status.success());
}

/// The workers of a server, each a thread of this process. They end when the process is killed.
fn workers(address: &str) {
    thread::scope(|scope| {
        for _ in 0..N {
            scope.spawn(|| {
                let worker = Worker::new(WorkerConfig::new(address.parse().unwrap())).unwrap();
                let _ = worker.serve(null(), |_| ());
            });
        }
    });
}

/// The rows of a system, to which programs connect in this way.
fn report<'a>(
    name: &'a str,
    connect: &'a (impl Fn() -> Program + Sync),
) -> impl Iterator<Item = String> + 'a {
    ROUNDS.into_iter().map(move |round| {
        let start = Barrier::new(N);
        let mut all: Vec<Duration> = thread::scope(|scope| {
            let programs: Vec<_> =
                (0..N).map(|_| scope.spawn(|| replay(&mut connect(), round, &start))).collect();
            programs.into_iter().flat_map(|program| program.join().unwrap()).collect()
        });
        all.sort_unstable();
        let rate = (all.len() * round) as f64 / TIME.as_secs_f64();
        let us = |percent: usize| all[all.len() * percent / 100].as_secs_f64() * 1e6;
        format!("{name:9} {round:16} {rate:11.0} {:9.0} {:9.0}", us(50), us(99))
    })
}

/// One program: the times of its rounds.
fn replay(program: &mut Program, round: usize, start: &Barrier) -> Vec<Duration> {
    let mut x = program.give(vec![0.0; 4], &[4]);
    let mut rounds = |time: Duration| {
        let (began, mut times) = (Instant::now(), Vec::new());
        while began.elapsed() < time {
            let at = Instant::now();
            for n in 1..=round {
                x = program.add(x);
                x = program.add(x);
                if n < round {
                    program.submit();
                }
            }
            program.read(x);
            times.push(at.elapsed());
        }
        times
    };
    rounds(TIME / 8);
    start.wait();
    rounds(TIME)
}

/// An engine that computes nothing: each result is its first operand.
struct Null(Native);

fn null() -> Box<dyn Engine> {
    let config = NativeConfig { threads: 1, ..NativeConfig::host() };
    Box::new(Null(Native::new(config).unwrap()))
}

impl Engine for Null {
    fn info(&self) -> EngineInfo {
        self.0.info()
    }

    fn upload(&mut self, data: &HostTensor) -> Result<Value, EngineError> {
        self.0.upload(data)
    }

    fn execute(&mut self, op: &Op, args: &[Arg<'_>]) -> Result<Value, EngineError> {
        match args.first() {
            Some(Arg::Value(value)) => Ok((*value).clone()),
            _ => self.0.execute(op, args),
        }
    }

    fn compiler(&self) -> Arc<dyn Compile> {
        self.0.compiler()
    }

    fn run(
        &mut self,
        _: &Plan,
        inputs: &mut Vec<Value>,
        _: &[Scalar],
    ) -> Result<SmallVec<[Value; 4]>, EngineError> {
        Ok(smallvec![inputs[0].clone()])
    }

    fn download(&mut self, value: &Value) -> Result<HostTensor, EngineError> {
        self.0.download(value)
    }

    fn stats(&self) -> EngineStats {
        self.0.stats()
    }
}
