//! Servers, workers and clients over real sockets; those that are to be killed are processes.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use gt_compiler::{Native, NativeConfig};
use gt_ir::Op;
use gt_ir::backend::{Backend, ErrorKind};
use gt_runtime::Shutdown;
use gt_runtime::client::connect;
use gt_runtime::log::Log;
use gt_runtime::server::{Server, ServerConfig};
use gt_runtime::worker::{End, Worker, WorkerConfig, WorkerError};
use gt_runtime::zmq::{Address, Sent, Socket, ipc_path};

use crate::programs::{
    Moody, add_scalar, count_while, free, give, id, input, output, read, tape, tensor, unary,
};

const LONG: Duration = Duration::from_secs(20);

/// A server in a thread of its own.
struct Running {
    address: Address,
    shutdown: Shutdown,
    lines: Receiver<String>,
    thread: JoinHandle<()>,
}

fn server() -> Running {
    let server = Server::bind(ServerConfig { log: Log::off(), ..ServerConfig::local(0) }).unwrap();
    let (address, shutdown) = (server.address().clone(), server.shutdown());
    let (say, lines) = channel();
    let thread =
        thread::spawn(move || server.run(|line| say.send(line.to_owned()).unwrap_or(())).unwrap());
    Running { address, shutdown, lines, thread }
}

impl Running {
    /// Waits until the server says something with this in it.
    fn says(&self, what: &str) -> String {
        let mut said = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(LONG) {
            if line.contains(what) {
                return line;
            }
            said.push(line);
        }
        panic!("the server never said `{what}`, only {said:#?}");
    }

    fn worker(&self) -> (Shutdown, JoinHandle<Result<End, WorkerError>>) {
        let started = worker(&self.address, Log::off(), channel().0);
        self.says("joined");
        started
    }

    fn client(&self) -> Arc<dyn Backend> {
        connect(&self.address.to_string()).unwrap()
    }

    fn end(self) {
        self.shutdown.shut_down("the test is over");
        self.thread.join().unwrap();
    }
}

fn worker(
    address: &Address,
    log: Log,
    say: Sender<String>,
) -> (Shutdown, JoinHandle<Result<End, WorkerError>>) {
    let worker = Worker::new(WorkerConfig { log, ..WorkerConfig::new(address.clone()) }).unwrap();
    let shutdown = worker.shutdown();
    let engine = || Box::new(Native::new(NativeConfig::host()).unwrap());
    let thread =
        thread::spawn(move || worker.serve(engine(), |line| say.send(line.into()).unwrap_or(())));
    (shutdown, thread)
}

/// Runs one of the `child_` tests below in a process of its own, which ends with the test.
struct Process(Child);

impl Process {
    fn start(child: &str, address: &Address) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &format!("remote::{child}"), "--nocapture"]);
        command.env("GT_TEST_ADDRESS", address.to_string());
        Process(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn child_address() -> Option<Address> {
    std::env::var("GT_TEST_ADDRESS").ok().map(|address| address.parse().unwrap())
}

#[test]
fn child_worker() {
    let Some(address) = child_address() else { return };
    let worker = Worker::new(WorkerConfig::new(address)).unwrap();
    let _ = worker.serve(Moody::boxed(), |_| ());
}

#[test]
fn child_client() {
    let Some(address) = child_address() else { return };
    let session = connect(&address.to_string()).unwrap();
    give(&*session, 0, tensor(vec![1.0; 1000]));
    read(&*session, 0).unwrap();
    thread::sleep(LONG);
}

fn runs_a_chain(session: &dyn Backend, first: f32) {
    give(session, 0, tensor(vec![first; 4]));
    for i in 0..100 {
        session.submit(tape(vec![add_scalar(i + 1, i, 1.0), free(i)]));
        let got = read(session, i + 1).unwrap();
        assert_eq!(got, vec![first + (i + 1) as f32; 4]);
    }
}

#[test]
fn clients_at_the_same_time_get_their_own_results_over_ipc_and_tcp() {
    let server = server();
    let _worker = server.worker();
    let ipc: Vec<_> = (0..2).map(|_| server.client()).collect();
    // Without the socket file there is only tcp.
    std::fs::remove_file(ipc_path(server.address.port).unwrap().unwrap()).unwrap();
    let tcp: Vec<_> = (0..2).map(|_| server.client()).collect();
    thread::scope(|scope| {
        for (n, session) in ipc.iter().chain(&tcp).enumerate() {
            scope.spawn(move || runs_a_chain(&**session, n as f32 * 1000.0));
        }
    });
    drop((ipc, tcp));
    for n in 1..=4 {
        server.says(&format!("session s{n}"));
    }
    server.end();
}

#[test]
fn a_large_tensor_goes_both_ways_beside_small_work() {
    let server = server();
    let _worker = server.worker();
    let (large, small) = (server.client(), server.client());
    let mover = thread::spawn(move || {
        let data = tensor((0..25 << 20).map(|i| i as f32).collect());
        give(&*large, 0, data.clone());
        large.submit(tape(vec![output(0)]));
        assert!(large.fetch(id(0)).unwrap() == data);
    });
    let reads = count_while(&*small, mover);
    assert!(reads > 10, "only {reads} reads while the large tensor moved");
    server.end();
}

#[test]
fn the_end_of_a_server_is_told_to_everybody() {
    let server = server();
    let (_, worker) = server.worker();
    let session = server.client();
    runs_a_chain(&*session, 0.0);
    let address = server.address.clone();
    server.end();
    let error = read(&*session, 100).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Connection);
    let expected = format!("the server at {address} ended the session: the test is over");
    assert_eq!(error.message, expected);
    assert_eq!(worker.join().unwrap().unwrap(), End::Server("the test is over".into()));
}

#[test]
fn a_worker_with_a_name_is_called_by_it() {
    let server = server();
    let config = WorkerConfig { name: "alpha".into(), ..WorkerConfig::new(server.address.clone()) };
    let worker = Worker::new(WorkerConfig { log: Log::off(), ..config }).unwrap();
    let shutdown = worker.shutdown();
    let worker = thread::spawn(move || worker.serve(Moody::boxed(), |_| ()));
    let line = server.says("joined");
    assert!(line.starts_with("worker w1 alpha (") && line.contains("moody on cpu with "), "{line}");
    let session = server.client();
    give(&*session, 0, tensor(vec![1.0]));
    session.submit(tape(vec![unary(1, Op::Neg, 0)]));
    let error = read(&*session, 1).unwrap_err();
    assert!(
        error.worker.as_deref().is_some_and(|name| name.starts_with("w1 alpha (")),
        "{error:?}"
    );
    assert!(error.message.contains("\n  this client holds 4 B in 1 value\n"), "{error}");
    shutdown.shut_down("enough");
    worker.join().unwrap().unwrap();
    server.says("worker w1 alpha (");
    let error = read(&*session, 0).unwrap_err();
    assert!(error.message.starts_with("worker w1 alpha ("), "{error}");
    server.end();
}

#[test]
fn a_worker_whose_device_failed_says_so_and_ends() {
    let server = server();
    let config = WorkerConfig { log: Log::off(), ..WorkerConfig::new(server.address.clone()) };
    let worker = Worker::new(config).unwrap();
    let worker = thread::spawn(move || worker.serve(Moody::boxed(), |_| ()));
    server.says("joined");
    let session = server.client();
    give(&*session, 0, tensor(vec![1.0]));
    session.submit(tape(vec![unary(1, Op::Cos, 0)]));
    let error = read(&*session, 1).unwrap_err();
    assert!(error.message.contains("it fell off the bus"), "{error}");
    let Err(WorkerError::Device(why)) = worker.join().unwrap() else { panic!("it goes on") };
    assert_eq!(why, "it fell off the bus");
    let line = server.says("lost");
    assert!(line.contains("its device failed: it fell off the bus"), "{line}");
    server.end();
}

#[test]
fn the_end_of_a_worker_is_told_to_its_sessions() {
    let server = server();
    let (shutdown, worker) = server.worker();
    let session = server.client();
    runs_a_chain(&*session, 0.0);
    shutdown.shut_down("the test ends it");
    assert_eq!(worker.join().unwrap().unwrap(), End::ShutDown("the test ends it".into()));
    assert!(server.says("w1").contains("the test ends it"));
    let error = read(&*session, 100).unwrap_err();
    assert_eq!(error.kind, ErrorKind::WorkerLost);
    assert!(error.message.contains("w1") && error.message.contains("the test ends it"), "{error}");
    server.end();
}

#[test]
fn a_worker_killed_at_work_is_named_and_the_server_lives_on() {
    let server = server();
    let mut doomed = Process::start("child_worker", &server.address);
    server.says("joined");
    let session = server.client();
    give(&*session, 0, tensor(vec![1.0]));
    let work = (0..200).map(|i| unary(i + 1, Op::Sqrt, i)).collect();
    session.submit(tape(work));
    let waiting = {
        let session = Arc::clone(&session);
        thread::spawn(move || read(&*session, 200))
    };
    thread::sleep(Duration::from_millis(300));
    doomed.kill();
    let error = waiting.join().unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::WorkerLost, "{error}");
    assert!(error.message.contains("w1"), "{error}");
    assert!(error.message.contains(&format!("pid {}", doomed.0.id())), "{error}");
    let _worker = server.worker();
    give(&*session, 300, tensor(vec![2.0]));
    assert_eq!(read(&*session, 300).unwrap(), [2.0]);
    server.end();
}

#[test]
fn a_client_killed_is_noticed_and_freed() {
    let server = server();
    let path = std::env::temp_dir().join(format!("gt-worker-{}.log", std::process::id()));
    let _worker = worker(&server.address, Log::to_file(&path).unwrap(), channel().0);
    let mut doomed = Process::start("child_client", &server.address);
    let worker_did = |what: &str| {
        for _ in 0..200 {
            if std::fs::read_to_string(&path).unwrap().contains(what) {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("the worker never did `{what}`");
    };
    worker_did("Download");
    doomed.kill();
    server.says("session s1");
    worker_did("s1: 1 values freed");
    std::fs::remove_file(&path).unwrap();
    server.end();
}

#[test]
fn a_server_killed_is_missed_and_found_again() {
    let first = server();
    let (say, lines) = channel();
    let (shutdown, worker) = worker(&first.address, Log::off(), say);
    first.says("joined");
    let address = first.address.clone();
    // As if killed: nobody is told, and the next server at the address knows nobody.
    let session = first.client();
    runs_a_chain(&*session, 0.0);
    first.shutdown.vanish();
    first.thread.join().unwrap();
    let error = read(&*session, 100).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Connection);
    assert!(error.message.starts_with(&format!("the server at {address} is lost")), "{error}");
    let config = ServerConfig { log: Log::off(), ..ServerConfig::local(address.port) };
    let second = Server::bind(config).unwrap();
    let end = second.shutdown();
    let thread = thread::spawn(move || second.run(|_| ()).unwrap());
    runs_a_chain(&*connect(&address.to_string()).unwrap(), 5.0);
    let said: Vec<String> = lines.try_iter().collect();
    assert!(said.iter().any(|line| line.contains("is lost")), "{said:?}");
    shutdown.shut_down("enough");
    worker.join().unwrap().unwrap();
    end.shut_down("enough");
    thread.join().unwrap();
}

#[test]
fn no_server_is_an_error_within_two_seconds_that_names_the_address() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for address in [free, silent.local_addr().unwrap()] {
        let began = SystemTime::now();
        let error = connect(&address.to_string()).err().unwrap();
        let took = began.elapsed().unwrap();
        assert!(took < Duration::from_millis(2_500), "{took:?}");
        assert_eq!(error.kind, ErrorKind::Connection);
        assert!(error.message.contains(&address.to_string()), "{error}");
    }
    for address in ["nowhere", "localhost:x", ":1"] {
        assert!(connect(address).is_err());
    }
}

fn dealer(ctx: &zmq::Context, address: &Address) -> Socket {
    Socket::connect(ctx, &address.tcp_endpoint(), b"cnobody-at-all-xx").unwrap()
}

fn send(socket: &Socket, head: &[u8], payload: Option<&[u8]>) {
    while socket.send(&[], head.to_vec(), payload).unwrap() != Sent::Queued {
        thread::sleep(Duration::from_millis(10));
    }
}

fn receive(socket: &Socket) -> Vec<Bytes> {
    for _ in 0..500 {
        if let Some(incoming) = socket.receive().unwrap() {
            return incoming.frames;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("no answer");
}

#[test]
fn random_bytes_harm_nobody() {
    let server = server();
    let _worker = server.worker();
    let session = server.client();
    let ctx = gt_runtime::zmq::context();
    let noise = dealer(&ctx, &server.address);
    let mut state = 1u64;
    let mut random = |n: usize| -> Vec<u8> {
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..n).map(|_| next()).collect()
    };
    for n in 0..200 {
        let mut bytes = random(n);
        if n % 2 == 0 {
            // Past the header, into the decoder.
            bytes.splice(0..0, *b"GT\x03\x00");
        }
        send(&noise, &bytes, (n % 3 == 0).then_some(&[1, 2, 3]));
        let mut raw = TcpStream::connect(("127.0.0.1", server.address.port)).unwrap();
        raw.write_all(&random(n)).unwrap();
    }
    server.says("dropped");
    runs_a_chain(&*session, 1.0);
    server.end();
}

#[test]
fn another_version_is_told_so_on_either_side() {
    let server = server();
    let ctx = gt_runtime::zmq::context();
    let old = dealer(&ctx, &server.address);
    send(&old, b"GT\x63\x00whatever that version says", None);
    assert_eq!(receive(&old)[0][..4], *b"GT\x04\x00");
    server.says("version 99");
    server.end();

    let exposure = gt_runtime::zmq::Exposure::Loopback;
    let (router, address) = Socket::listen(&ctx, &Address::local(0), exposure).unwrap();
    let router = Arc::new(Mutex::new(router));
    let stranger = {
        let router = Arc::clone(&router);
        thread::spawn(move || {
            let router = router.lock().unwrap();
            loop {
                if let Some(incoming) = router.receive().unwrap() {
                    router.send(&incoming.from, b"GT\x63\x00hello".to_vec(), None).unwrap();
                    return;
                }
                thread::sleep(Duration::from_millis(5));
            }
        })
    };
    let error = connect(&address.to_string()).err().unwrap();
    assert!(error.message.contains("version 99") && error.message.contains("version 4"), "{error}");
    stranger.join().unwrap();
}

#[test]
fn data_and_segments_cross_on_their_streams() {
    let server = server();
    let _worker = server.worker();
    let session = server.client();
    let data = tensor(vec![1.0; 4 << 20]);
    session.submit(tape(vec![input(0, *data.ty()), add_scalar(1, 0, 1.0), output(1)]));
    session.upload(id(0), data);
    assert!(session.fetch(id(1)).unwrap() == tensor(vec![2.0; 4 << 20]));
    let total = session.stats().unwrap().total();
    assert_eq!((total.instructions, total.segments), (1, 1));
    server.end();
}
