//! Servers and workers that run beside a test, in threads, or in processes if the test kills them.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gt_compiler::{Native, NativeConfig};
use gt_ir::backend::Backend;
use gt_runtime::Shutdown;
use gt_runtime::client::connect;
use gt_runtime::log::Log;
use gt_runtime::server::{Server, ServerConfig};
use gt_runtime::worker::{Stopped, Worker, WorkerConfig, WorkerError};
use gt_runtime::zmq::{Address, Incoming, Sent, Socket, wait, wake_pair};

use crate::programs::{add_scalar, free, read, tape};

pub(super) const LONG: Duration = Duration::from_secs(20);

/// A server in a thread of its own.
pub(super) struct Running {
    pub(super) address: Address,
    pub(super) shutdown: Shutdown,
    pub(super) lines: Receiver<String>,
    pub(super) thread: JoinHandle<()>,
}

pub(super) fn server() -> Running {
    server_with(ServerConfig { log: Log::off(), ..ServerConfig::local(0) })
}

pub(super) fn server_with(config: ServerConfig) -> Running {
    let server = Server::bind(config).unwrap();
    let (address, shutdown) = (server.address().clone(), server.shutdown());
    let (say, lines) = channel();
    let thread = thread::spawn(move || {
        server.run(|line| say.send(line.to_owned()).unwrap_or(())).unwrap();
    });
    Running { address, shutdown, lines, thread }
}

impl Running {
    /// Waits until the server prints a line that contains `what`.
    pub(super) fn says(&self, what: &str) -> String {
        let mut said = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(LONG) {
            if line.contains(what) {
                return line;
            }
            said.push(line);
        }
        panic!("the server never said `{what}`, only {said:#?}");
    }

    pub(super) fn worker(&self) -> (Shutdown, JoinHandle<Result<Stopped, WorkerError>>) {
        let started = worker(&self.address, Log::off(), channel().0);
        self.says("joined");
        started
    }

    pub(super) fn client(&self) -> Arc<dyn Backend> {
        connect(&self.address.to_string()).unwrap()
    }

    pub(super) fn end(self) {
        self.shutdown.shut_down("the test is over");
        self.thread.join().unwrap();
    }
}

pub(super) fn worker(
    address: &Address,
    log: Log,
    say: Sender<String>,
) -> (Shutdown, JoinHandle<Result<Stopped, WorkerError>>) {
    let worker = Worker::new(WorkerConfig { log, ..WorkerConfig::new(address.clone()) }).unwrap();
    let shutdown = worker.shutdown();
    let engine = || Box::new(Native::new(NativeConfig::host()).unwrap());
    let thread =
        thread::spawn(move || worker.serve(engine(), |line| say.send(line.into()).unwrap_or(())));
    (shutdown, thread)
}

/// Runs one of the `child_` tests in a process of its own, which ends with the test.
pub(super) struct Process(pub(super) Child);

impl Process {
    pub(super) fn start(child: &str, address: &Address) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &format!("remote::{child}"), "--nocapture"]);
        command.env("GT_TEST_ADDRESS", address.to_string());
        Process(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    pub(super) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    pub(super) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.0.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(super) fn child_address() -> Option<Address> {
    std::env::var("GT_TEST_ADDRESS").ok().map(|address| address.parse().unwrap())
}

/// The session of a process that a test has started.
pub(super) fn child_session() -> Option<Arc<dyn Backend>> {
    child_address().map(|address| connect(&address.to_string()).unwrap())
}

/// Adds a one to value `i` and reads the sum.
pub(super) fn step(session: &dyn Backend, i: u64) {
    session.submit(tape(vec![add_scalar(i + 1, i, 1.0), free(i)]));
    assert_eq!(read(session, i + 1).unwrap(), [(i + 1) as f32]);
}

/// A socket that connects as the control stream of an unknown peer.
pub(super) fn dealer(ctx: &zmq::Context, endpoint: &str, n: u64) -> Socket {
    let mut name = *b"cnobody-at-all-xx";
    name[9..].copy_from_slice(&n.to_be_bytes());
    Socket::connect(ctx, endpoint, &name).unwrap()
}

/// The same, of a process that a test has started.
pub(super) fn child_dealer() -> Option<Socket> {
    let endpoint = child_address()?.reachable_endpoint(Duration::from_secs(1)).unwrap();
    Some(dealer(&gt_runtime::zmq::context(), &endpoint, 0))
}

pub(super) fn send(socket: &Socket, head: &[u8], rest: &[&[u8]]) {
    while socket.send(&[], head.to_vec(), rest).unwrap() != Sent::Queued {
        thread::sleep(Duration::from_millis(1));
    }
}

pub(super) fn receive(socket: &Socket) -> Incoming {
    let (_waker, wakeups) = wake_pair().unwrap();
    for _ in 0..500 {
        if let Some(incoming) = socket.receive().unwrap() {
            return incoming;
        }
        wait(&[socket], &wakeups, Some(Duration::from_millis(10))).unwrap();
    }
    panic!("no answer");
}
