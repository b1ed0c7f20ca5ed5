//! Servers, workers and clients over real sockets. Those that a test kills are processes.

mod doors;
mod folders;
mod gangs;
mod harm;
mod neighbours;
mod rogues;
mod running;
mod strangers;

use std::net::TcpListener;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake};
use std::thread;
use std::time::{Duration, SystemTime};

use gt_ir::backend::{Backend, Demand, ErrorKind};
use gt_ir::signal::{ShardConfig, SignalConfig, Signals};
use gt_ir::{Entry, Op};
use gt_runtime::client::{connect, connect_asking};
use gt_runtime::dispatcher::Config;
use gt_runtime::log::Log;
use gt_runtime::server::{Server, ServerConfig};
use gt_runtime::wire::RESERVED;
use gt_runtime::worker::wanted::Wanted;
use gt_runtime::worker::{Stopped, Worker, WorkerConfig, WorkerError};
use gt_runtime::zmq::ipc_path;

use crate::programs::{
    Moody, add_scalar, count_while, free, give, id, input, output, read, tape, tensor, unary,
};
use running::{LONG, Process, child_address, server, server_with, worker};

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
    // Without the socket file the client uses tcp.
    std::fs::remove_file(ipc_path(server.address.port).unwrap()).unwrap();
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

/// Ends a future on this thread.
fn block_on<T>(mut future: impl Future<Output = T> + Unpin) -> T {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut context = Context::from_waker(&waker);
    loop {
        match Pin::new(&mut future).poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// Whoever waits serves the session's line, and hands it on when its answer is there. The pauses
/// lie on both sides of the time for which the line's own thread rests.
#[test]
fn threads_and_tasks_of_one_session_all_get_their_answers() {
    let server = server();
    let _worker = server.worker();
    let session = server.client();
    thread::scope(|scope| {
        for n in 0..4 {
            let session = &session;
            scope.spawn(move || {
                for round in 0..300 {
                    let (value, first) = (n * 10_000 + 2 * round, (n * round) as f32);
                    give(&**session, value, tensor(vec![first; 4]));
                    session.submit(tape(vec![add_scalar(value + 1, value, 1.0), free(value)]));
                    session.submit(tape(vec![output(value + 1)]));
                    let got = match n % 2 {
                        0 => session.fetch(id(value + 1)),
                        _ => block_on(session.begin_fetch(id(value + 1))),
                    };
                    assert_eq!(got.unwrap(), tensor(vec![first + 1.0; 4]));
                    session.submit(tape(vec![free(value + 1)]));
                    thread::sleep(Duration::from_micros(
                        [0, 0, 500, 1_900, 2_100][round as usize % 5],
                    ));
                }
            });
        }
    });
    drop(session);
    server.says("session s1");
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

/// Two workers compute one sum. Returns the commands in the log of the server.
fn sum_on_two_workers(listen: bool, lanes: Wanted) -> Vec<String> {
    let name = format!("roads-{}-{listen}-{lanes:?}.log", std::process::id());
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let log = Log::to_file(&file).unwrap();
    let server = server_with(ServerConfig { log, ..ServerConfig::local(0) });
    let ends: Vec<_> = (0..2)
        .map(|_| {
            let usual =
                WorkerConfig { log: Log::off(), ..WorkerConfig::new(server.address.clone()) };
            let listen = usual.listen.clone().filter(|_| listen);
            let worker = Worker::new(WorkerConfig { listen, lanes, ..usual }).unwrap();
            let thread = thread::spawn(move || worker.serve(Moody::boxed(), |_| ()));
            server.says("joined");
            thread
        })
        .collect();
    let session = server.client();
    let mut signals = Signals::new();
    let shard = Some(ShardConfig::default());
    signals.set("all", SignalConfig { shard, ..SignalConfig::default() }).unwrap();
    session.configure(signals);
    // Halves of some megabytes travel both ways.
    let data: Vec<f32> = (0..1 << 20).map(|i| i as f32).collect();
    let all = tensor(data.clone());
    let mut entries = vec![input(0, *all.ty())];
    session.upload(id(0), all);
    entries.push(Entry::Enter("all".into()));
    entries.extend([add_scalar(1, 0, 1.0), Entry::Exit("all".into()), free(0)]);
    session.submit(tape(entries));
    let expected: Vec<f32> = data.iter().map(|x| x + 1.0).collect();
    assert!(read(&*session, 1).unwrap() == expected);
    drop(session);
    server.end();
    ends.into_iter().for_each(|end| drop(end.join().unwrap().unwrap()));
    let log = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    log.lines().map(str::to_owned).collect()
}

#[test]
fn values_go_from_worker_to_worker_where_there_is_a_road_and_through_the_server_where_not() {
    let n = |log: &[String], words: [&str; 2]| {
        log.iter().filter(|line| words.iter().all(|word| line.contains(word))).count()
    };
    // A request of the dispatcher is a very large number.
    let asked = format!("r{}", RESERVED / 1_000_000);
    let direct = sum_on_two_workers(true, Wanted::Sockets);
    assert_eq!(n(&direct, ["Send ", &asked]), 2, "{direct:#?}");
    assert_eq!((n(&direct, ["Sent ", &asked]), n(&direct, ["Chunk ", &asked])), (2, 0));
    // A lane is a part of a road.
    let beside = sum_on_two_workers(true, Wanted::Gloo);
    assert_eq!((n(&beside, ["Sent ", &asked]), n(&beside, ["Chunk ", &asked])), (2, 0));
    let passed_on = sum_on_two_workers(false, Wanted::Auto);
    assert_eq!(n(&passed_on, ["Send ", &asked]), 0);
    assert!(n(&passed_on, ["Chunk ", &asked]) >= 4, "{passed_on:#?}");
}

#[test]
fn a_client_gets_the_workers_it_asks_for_or_hears_which_there_are() {
    let dispatcher = Config { wait_worker: Duration::from_secs(1), ..Config::remote() };
    let server =
        server_with(ServerConfig { log: Log::off(), dispatcher, ..ServerConfig::local(0) });
    let _worker = server.worker();
    let asking = |demand| connect_asking(&server.address.to_string(), &demand).unwrap();
    let on = |device: &str| Demand { device: Some(device.into()), ..Demand::default() };
    runs_a_chain(&*asking(on("cpu")), 0.0);
    let session = asking(on("cuda:7"));
    give(&*session, 0, tensor(vec![1.0]));
    let error = read(&*session, 0).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Resource, "{error}");
    let expected = "no worker has device cuda:7, and none came within 1 s: the workers are w1 (";
    assert!(error.message.starts_with(expected), "{error}");
    assert!(error.message.contains("native on cpu"), "{error}");
    assert!(error.hint.unwrap().contains("gt-cli worker --device cuda:7"));
    // The session goes on with a worker that joins later.
    let later = asking(Demand { engine: Some("moody".into()), ..Demand::default() });
    give(&*later, 0, tensor(vec![1.0]));
    let config = WorkerConfig { log: Log::off(), ..WorkerConfig::new(server.address.clone()) };
    let moody = Worker::new(config).unwrap();
    thread::spawn(move || moody.serve(Moody::boxed(), |_| ()));
    server.says("moody on cpu");
    assert_eq!(read(&*later, 0).unwrap(), [1.0]);
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
    assert_eq!(worker.join().unwrap().unwrap(), Stopped::Server("the test is over".into()));
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
    assert_eq!(worker.join().unwrap().unwrap(), Stopped::ShutDown("the test ends it".into()));
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
    // As if killed: no peer is told, and the next server at the address knows no peer.
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
