//! What the measuring examples share: a server and a worker in processes of their own, and programs
//! that record instruction by instruction. The processes are the example itself, in another role.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gt_compiler::{Native, NativeConfig};
use gt_ir::backend::Backend;
use gt_ir::{Entry, HostTensor, Instr, Loc, Op, Operand, Scalar, Shape, Tape, ValueId};
use gt_runtime::client::connect;
use gt_runtime::server::{Server, ServerConfig};
use gt_runtime::worker::roads::Listen;
use gt_runtime::worker::{Worker, WorkerConfig};
use gt_runtime::zmq::{Address, Exposure, ipc_path};

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// Takes the role of a server or a worker, if these words ask for it. Says whether they did.
pub(crate) fn serves(words: &[&str]) -> bool {
    match words {
        ["server", port] => {
            Server::bind(ServerConfig::local(port.parse().unwrap())).unwrap().run(|_| ()).unwrap();
        }
        ["worker", address] => work(WorkerConfig::new(address.parse().unwrap())),
        ["worker", address, listen, exposure] => {
            let own: Address = listen.parse().unwrap();
            let listen = Some(match *exposure {
                "shared" => Listen { address: own, exposure: Exposure::Sealed },
                "encrypted" => Listen { address: without_file(own), exposure: Exposure::Sealed },
                _ => Listen { address: own, exposure: Exposure::Insecure },
            });
            work(WorkerConfig { listen, ..WorkerConfig::new(address.parse().unwrap()) })
        }
        _ => return false,
    }
    true
}

fn work(config: WorkerConfig) {
    let engine = Box::new(Native::new(NativeConfig::host()).unwrap());
    // It ends when the server is killed.
    let _ = Worker::new(config).unwrap().serve(engine, |_| ());
}

/// A free port of this host, whose socket file is removed as soon as it is there. Others come by
/// tcp.
fn without_file(Address { host, .. }: Address) -> Address {
    let port = TcpListener::bind((&*host, 0)).unwrap().local_addr().unwrap().port();
    std::thread::spawn(move || {
        let path = ipc_path(port).unwrap();
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(10));
            // At other addresses there is none.
            let _ = std::fs::remove_file(&path);
        }
    });
    Address { host, port }
}

/// This example in another role.
pub(crate) fn role(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(words).stdout(Stdio::piped());
    command
}

/// A server and workers, which end with it.
pub(crate) struct Cluster {
    pub(crate) address: String,
    _parts: Vec<Kill>,
}

impl Cluster {
    /// Starts a server and so many workers, and waits until one works. `listen` is where workers
    /// listen for each other, if not at the usual place.
    pub(crate) fn start(n_workers: usize, listen: &[&str]) -> Cluster {
        let port = (21_000 + std::process::id() % 10_000).to_string();
        let address = format!("localhost:{port}");
        let start = |words: &[&str]| Kill(role(words).stdout(Stdio::null()).spawn().unwrap());
        let mut parts = vec![start(&["server", &port])];
        std::thread::sleep(Duration::from_millis(200));
        let worker = [&["worker", &address], listen].concat();
        parts.extend((0..n_workers).map(|_| start(&worker)));
        let cluster = Cluster { address, _parts: parts };
        let mut program = Program::connect(&cluster.address);
        let x = program.give(vec![0.0; 4], &[4]);
        program.read(x);
        cluster
    }
}

/// A process that is killed at the end.
pub(crate) struct Kill(pub(crate) Child);

impl Drop for Kill {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program: its session, and the entries of its next segment.
pub(crate) struct Program {
    pub(crate) session: Arc<dyn Backend>,
    pub(crate) entries: Vec<Entry>,
    next: u64,
}

impl Program {
    pub(crate) fn new(session: Arc<dyn Backend>) -> Program {
        Program { session, entries: Vec::new(), next: 0 }
    }

    pub(crate) fn connect(address: &str) -> Program {
        let began = Instant::now();
        loop {
            match connect(address) {
                Ok(session) => return Program::new(session),
                Err(_) if began.elapsed() < PATIENCE => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn id(&mut self) -> ValueId {
        self.next += 1;
        ValueId(self.next)
    }

    /// Uploads a value, as a segment of its own.
    pub(crate) fn give(&mut self, data: Vec<f32>, shape: &[usize]) -> ValueId {
        let data = HostTensor::from_vec(data, Shape::new(shape).unwrap()).unwrap();
        let (out, ty) = (self.id(), *data.ty());
        self.session.upload(out, data);
        self.entries.push(Entry::Input { out, ty, name: None });
        self.submit();
        out
    }

    /// Records an instruction.
    pub(crate) fn make(&mut self, op: Op, inputs: &[Operand]) -> ValueId {
        let (out, inputs) = (self.id(), inputs.iter().cloned().collect());
        self.entries.push(Entry::Instr(Instr { out, op, inputs, loc: Loc::NONE }));
        out
    }

    /// Records `x + 1.0`, in the place of `x`.
    pub(crate) fn add(&mut self, x: ValueId) -> ValueId {
        let out = self.make(Op::Add, &[Operand::Value(x), Operand::Scalar(Scalar::F64(1.0))]);
        self.entries.push(Entry::Free(x));
        out
    }

    /// Submits what is recorded as a segment.
    pub(crate) fn submit(&mut self) {
        self.session.submit(Tape { entries: std::mem::take(&mut self.entries) });
    }

    /// Ends the segment with the output of a value, and reads the value.
    pub(crate) fn read(&mut self, value: ValueId) {
        self.entries.push(Entry::Output { value, name: None });
        self.submit();
        self.session.fetch(value).unwrap();
    }
}
