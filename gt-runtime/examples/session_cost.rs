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

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gt_compiler::{Native, NativeConfig};
use gt_ir::backend::Backend;
use gt_ir::{Entry, HostTensor, Instr, Loc, Op, Operand, Scalar, Shape, Tape, ValueId};
use gt_runtime::client::connect;
use gt_runtime::embedded::System;
use gt_runtime::log::Log;
use gt_runtime::server::{Server, ServerConfig};
use gt_runtime::worker::{Worker, WorkerConfig};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    match args.get(1).map(String::as_str) {
        Some("server") => serve(args[2].parse().unwrap()),
        Some("worker") => work(&args[2]),
        _ => report(),
    }
}

fn serve(port: u16) {
    let server = Server::bind(ServerConfig::local(port)).unwrap();
    server.run(|_| ()).unwrap();
}

fn work(address: &str) {
    std::thread::sleep(Duration::from_millis(300));
    let worker = Worker::new(WorkerConfig::new(address.parse().unwrap())).unwrap();
    worker.serve(Box::new(Native::new(NativeConfig::host()).unwrap()), |_| ()).unwrap();
}

fn report() {
    let began = Instant::now();
    let system = System::start(1, Log::off()).unwrap();
    let session = system.session();
    let mut program = Program { session, next: 0 };
    let x = program.give(vec![0.0; 4]);
    program.read(x);
    println!("embedded: start to first result {:?}", began.elapsed());
    program.measure("embedded");
    drop(program);

    let port = 21_000 + (std::process::id() % 10_000) as u16;
    let _server = child(&["server", &port.to_string()]);
    let _worker = child(&["worker", &format!("localhost:{port}")]);
    let began = Instant::now();
    let session = loop {
        match connect(&format!("localhost:{port}")) {
            Ok(session) => break session,
            Err(_) if began.elapsed() < Duration::from_secs(10) => {}
            Err(error) => panic!("{error}"),
        }
    };
    Program { session, next: 0 }.measure("over ipc");
}

fn child(args: &[&str]) -> Kill {
    let mut command = Command::new(std::env::current_exe().unwrap());
    Kill(command.args(args).stderr(Stdio::null()).spawn().unwrap())
}

struct Kill(Child);

impl Drop for Kill {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

struct Program {
    session: Arc<dyn Backend>,
    next: u64,
}

impl Program {
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

    /// `n` dependent adds in segments of `size`, then a read.
    fn chain(&mut self, mut x: ValueId, n: usize, size: usize) -> ValueId {
        let mut entries = Vec::new();
        for i in 1..=n {
            let out = self.id();
            let inputs =
                [Operand::Value(x), Operand::Scalar(Scalar::F64(1.0))].into_iter().collect();
            entries.push(Entry::Instr(Instr { out, op: Op::Add, inputs, loc: Loc::NONE }));
            entries.push(Entry::Free(x));
            x = out;
            if i % size == 0 || i == n {
                self.session.submit(Tape { entries: std::mem::take(&mut entries) });
            }
        }
        self.read(x);
        x
    }

    fn measure(&mut self, name: &str) {
        let x = self.give(vec![0.0; 4]);
        let read = median(2000, || self.read(x));
        let mut x = self.give(vec![0.0; 4]);
        let step = median(1000, || x = self.chain(x, 50, 50));
        let long = median(100, || x = self.chain(x, 2000, 2000));
        let single = median(20, || x = self.chain(x, 2000, 1));
        let big = vec![0.0; 25 << 20];
        let move_100_mb = median(5, || {
            let big = self.give(big.clone());
            self.read(big);
            self.session.submit(Tape { entries: vec![Entry::Free(big)] });
        });
        println!("{name}: a read {read:?}; 50 adds and a read {step:?}");
        println!("{name}: 2,000 adds and a read {long:?}; each its own segment {single:?}");
        println!("{name}: 100 MB cloned, up and down {move_100_mb:?}");
        println!("{name}: {:?}", self.session.stats().unwrap().total());
    }
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
