//! The cost of a session: its start, a read, a chain of 2,000 dependent instructions, and a small
//! step like that of training. Embedded, and over sockets with server and worker in processes of
//! their own. Prints medians.
//!
//! `cargo run --release -p gt-runtime --example session_cost`
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a report for people, with a clock"
)]

mod cluster;

use std::time::{Duration, Instant};

use cluster::{Cluster, Program, serves};
use gt_ir::{Entry, ValueId};
use gt_runtime::embedded::System;
use gt_runtime::log::Log;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if !serves(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
        report();
    }
}

fn report() {
    let began = Instant::now();
    let system = System::start(1, Log::off()).unwrap();
    let mut program = Program::new(system.session());
    let x = program.give(vec![0.0; 4], &[4]);
    program.read(x);
    println!("embedded: start to first result {:?}", began.elapsed());
    measure("embedded", &mut program);
    drop(program);

    let cluster = Cluster::start(1, &[]);
    measure("over ipc", &mut Program::connect(&cluster.address));
}

/// `n` dependent adds in segments of `size`, then a read.
fn chain(program: &mut Program, mut x: ValueId, n: usize, size: usize) -> ValueId {
    for i in 1..=n {
        x = program.add(x);
        if i % size == 0 || i == n {
            program.submit();
        }
    }
    program.read(x);
    x
}

fn measure(name: &str, program: &mut Program) {
    let x = program.give(vec![0.0; 4], &[4]);
    let read = median(2000, || program.read(x));
    let mut x = program.give(vec![0.0; 4], &[4]);
    let step = median(1000, || x = chain(program, x, 50, 50));
    let long = median(100, || x = chain(program, x, 2000, 2000));
    let single = median(20, || x = chain(program, x, 2000, 1));
    let big = vec![0.0; 25 << 20];
    let move_100_mb = median(5, || {
        let big = program.give(big.clone(), &[big.len()]);
        program.read(big);
        program.entries.push(Entry::Free(big));
        program.submit();
    });
    println!("{name}: a read {read:?}; 50 adds and a read {step:?}");
    println!("{name}: 2,000 adds and a read {long:?}; each its own segment {single:?}");
    println!("{name}: 100 MB cloned, up and down {move_100_mb:?}");
    println!("{name}: {:?}", program.session.stats().unwrap().total());
}

fn median(n: usize, mut run: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..n)
        .map(|_| {
            let began = Instant::now();
            run();
            began.elapsed()
        })
        .collect();
    times.sort();
    times[n / 2]
}
