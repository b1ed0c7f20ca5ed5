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

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gt_compiler::{Native, NativeConfig};
use gt_ir::backend::Backend;
use gt_ir::{Entry, HostTensor, Instr, Loc, Op, Operand, Scalar, Shape, Tape, ValueId};
use gt_runtime::client::connect;
use gt_runtime::server::{Server, ServerConfig};
use gt_runtime::worker::{Worker, WorkerConfig};

/// How long each measurement takes.
const TIME: Duration = Duration::from_secs(8);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["server", port] => {
            drop(Server::bind(ServerConfig::local(port.parse().unwrap())).unwrap().run(|_| ()))
        }
        ["worker", address] => work(address),
        ["heavy", address] => heavy(address),
        ["storm", address] => storm(address),
        ["light", address] => light(address),
        _ => report(),
    }
}

fn work(address: &str) {
    std::thread::sleep(Duration::from_millis(300));
    let worker = Worker::new(WorkerConfig::new(address.parse().unwrap())).unwrap();
    worker.serve(Box::new(Native::new(NativeConfig::host()).unwrap()), |_| ()).unwrap();
}

fn report() {
    let port = 21_000 + (std::process::id() % 10_000) as u16;
    let address = format!("localhost:{port}");
    let mut server = child(&["server", &port.to_string()], "");
    let mut worker = child(&["worker", &address], "");
    std::thread::sleep(Duration::from_secs(1));
    let run = |clients: &[(&str, &str)]| -> Vec<String> {
        let start = |(role, priority): &(&str, &str)| child(&[role, &address], priority);
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
    for child in [&mut worker, &mut server] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

fn child(args: &[&str], priority: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    if !priority.is_empty() {
        command.env("GT_PRIORITY", priority);
    }
    command.args(args).stdout(Stdio::piped()).spawn().unwrap()
}

/// Records rounds of products, and reads the result of the round before the last one, so that the
/// worker always has some. Says how many rounds ran, and how long one takes.
fn heavy(address: &str) {
    const ROUND: u64 = 20;
    let mut program = Program::open(address);
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
    let mut program = Program::open(address);
    let (began, mut n) = (Instant::now(), 0);
    while began.elapsed() < TIME {
        n += 1;
        let size = 1_000 + n * 7;
        let mut x = program.give(vec![0.5; size], &[size]);
        for _ in 0..2 {
            let y = (0..30).fold(x, |x, i| {
                let op = [Op::Exp, Op::Neg, Op::Tanh, Op::Add][(n + i * i) % 4];
                let scalar = [Operand::Scalar(Scalar::F64(0.5))];
                let more: &[Operand] = if op == Op::Add { &scalar } else { &[] };
                let args: Vec<Operand> = [Operand::Value(x)].iter().chain(more).cloned().collect();
                program.make(op, &args)
            });
            program.submit();
            x = y;
        }
    }
    println!("{n} programs");
}

/// A tiny step and a read, again and again. Says the median, the 99th percentile and the maximum.
fn light(address: &str) {
    let mut program = Program::open(address);
    let mut x = program.give(vec![0.0; 4], &[4]);
    let (began, mut times) = (Instant::now(), Vec::new());
    while began.elapsed() < TIME {
        let at = Instant::now();
        let y = program.make(Op::Add, &[Operand::Value(x), Operand::Scalar(Scalar::F64(1.0))]);
        program.entries.push(Entry::Free(x));
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

struct Program {
    session: Arc<dyn Backend>,
    entries: Vec<Entry>,
    next: u64,
}

impl Program {
    fn open(address: &str) -> Program {
        Program { session: connect(address).unwrap(), entries: Vec::new(), next: 0 }
    }

    fn id(&mut self) -> ValueId {
        self.next += 1;
        ValueId(self.next)
    }

    fn give(&mut self, data: Vec<f32>, shape: &[usize]) -> ValueId {
        let data = HostTensor::from_vec(data, Shape::new(shape).unwrap()).unwrap();
        let (out, ty) = (self.id(), *data.ty());
        self.session.upload(out, data);
        self.entries.push(Entry::Input { out, ty, name: None });
        self.submit();
        out
    }

    fn make(&mut self, op: Op, inputs: &[Operand]) -> ValueId {
        let (out, inputs) = (self.id(), inputs.iter().cloned().collect());
        self.entries.push(Entry::Instr(Instr { out, op, inputs, loc: Loc::NONE }));
        out
    }

    fn submit(&mut self) {
        self.session.submit(Tape { entries: std::mem::take(&mut self.entries) });
    }
}
