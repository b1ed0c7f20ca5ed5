//! What programs on one worker feel of each other: server, worker and every client are processes.
//! Prints the shares of equal and of weighted clients, and the times of a light client's reads
//! alone, beside a client that records far ahead, and beside one that sends ever new programs.
//!
//! `cargo run --release -p gt-runtime --example neighbours`
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
use gt_ir::{Entry, Op, Operand, Scalar};

/// How long each measurement takes.
const TIME: Duration = Duration::from_secs(8);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        _ if serves(&args) => {}
        ["heavy", address] => heavy(address),
        ["storm", address] => storm(address),
        ["light", address] => light(address),
        _ => report(),
    }
}

fn report() {
    let Cluster { address, .. } = &Cluster::start(1, &[]);
    let run = |clients: &[(&str, &str)]| -> Vec<String> {
        let start = |(role, priority): &(&str, &str)| child(&[role, address], priority);
        let children: Vec<Child> = clients.iter().map(start).collect();
        let said =
            |child: Child| String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        children.into_iter().map(|child| said(child).trim().to_owned()).collect()
    };
    println!("four equal clients: segments {:?}", run(&[("heavy", ""); 4]));
    println!(
        "weights 1, 2, 4: segments {:?}",
        run(&[("heavy", "10"), ("heavy", "20"), ("heavy", "40")])
    );
    println!("a light client alone: {:?}", run(&[("light", "")]));
    println!("a light and a heavy client: {:?}", run(&[("light", ""), ("heavy", "")]));
    println!("a light client and a storm: {:?}", run(&[("light", ""), ("storm", "")]));
    let all = ["light", "heavy", "heavy", "storm"].map(|role| (role, ""));
    println!("a light client, two heavy ones and a storm: {:?}", run(&all));
}

fn child(words: &[&str], priority: &str) -> Child {
    let mut command = role(words);
    if !priority.is_empty() {
        command.env("GT_PRIORITY", priority);
    }
    command.spawn().unwrap()
}

/// Records rounds of products, and reads the result of the round before the last one, so that the
/// worker always has some. Says how many rounds ran, and how long one takes.
fn heavy(address: &str) {
    const ROUND: u64 = 20;
    let mut program = Program::connect(address);
    let side = 512;
    let w = program.give(vec![1.0 / side as f32; side * side], &[side, side]);
    let mut x = program.give(vec![1.0; side * side], &[side, side]);
    let mut marks = std::collections::VecDeque::new();
    let (began, mut n) = (Instant::now(), 0);
    while began.elapsed() < TIME {
        for _ in 0..ROUND {
            let y = program.make(Op::MatMul, &[Operand::Value(x), Operand::Value(w)]);
            program.entries.push(Entry::Free(x));
            program.submit();
            x = y;
        }
        let mark = program.make("sum[0,1]".parse().unwrap(), &[Operand::Value(x)]);
        program.submit();
        marks.push_back(mark);
        if marks.len() > 5 {
            program.session.fetch(marks.pop_front().unwrap()).unwrap();
            n += ROUND;
        }
    }
    let total = program.session.stats().unwrap().total();
    println!("{n} in {:?}; {total:?}", began.elapsed());
}

/// Sends programs of which no two are equal.
fn storm(address: &str) {
    let mut program = Program::connect(address);
    let (began, mut n) = (Instant::now(), 0);
    while began.elapsed() < TIME {
        n += 1;
        let shape = [1 + n % 32, 1 + n / 32 % 32, 1 + n / 1_024];
        let mut x = program.give(vec![0.5; shape.iter().product()], &shape);
        for _ in 0..2 {
            let y = (0..30).fold(x, |x, i| {
                let op = [Op::Exp, Op::Neg, Op::Tanh, Op::Add][(n + i * i) % 4];
                let scalar = [Operand::Scalar(Scalar::F64(0.5))];
                let more: &[Operand] = if op == Op::Add { &scalar } else { &[] };
                let args: Vec<Operand> = [Operand::Value(x)].iter().chain(more).cloned().collect();
                let y = program.make(op, &args);
                program.entries.push(Entry::Free(x));
                y
            });
            program.submit();
            x = y;
        }
        program.entries.push(Entry::Free(x));
    }
    let x = program.give(vec![0.0], &[1]);
    program.session.fetch(x).unwrap();
    println!("{n} programs");
}

/// A tiny step and a read, again and again. Says the median, the 99th percentile and the maximum.
fn light(address: &str) {
    let mut program = Program::connect(address);
    let mut x = program.give(vec![0.0; 4], &[4]);
    let (began, mut times) = (Instant::now(), Vec::new());
    while began.elapsed() < TIME {
        let at = Instant::now();
        let y = program.add(x);
        program.submit();
        program.session.fetch(y).unwrap();
        x = y;
        times.push(at.elapsed());
        std::thread::sleep(Duration::from_millis(2));
    }
    times.sort();
    let n = times.len();
    println!(
        "{n} reads, p50 {:?}, p99 {:?}, max {:?}",
        times[n / 2],
        times[n * 99 / 100],
        times[n - 1]
    );
}
