//! Sessions on several worker processes, of which one dies or stops in the middle of their work.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use gt_ir::Op;
use gt_ir::backend::{Backend, ErrorKind, RunError};
use gt_runtime::connection::ConnectionConfig;
use gt_runtime::dispatcher::Config;
use gt_runtime::log::Log;
use gt_runtime::server::ServerConfig;

use super::running::{Process, Running, server_with};
use super::{read, runs_a_chain};
use crate::gang::{configure, within};
use crate::programs::{add, add_scalar, free, give, tape, tensor, unary};

/// The time without a sign of life after which a worker counts as lost.
const LEASE: Duration = Duration::from_secs(4);

fn server() -> Running {
    let worker = ConnectionConfig { lease: LEASE, ..ConnectionConfig::remote() };
    let dispatcher = Config { worker, ..Config::remote() };
    server_with(ServerConfig { log: Log::off(), dispatcher, ..ServerConfig::local(0) })
}

/// The error that a session on two workers gets when `harm` is done to the second, whose process
/// is at work. A session on the first worker is not disturbed, and the spread one goes on.
fn lose(server: &Running, harm: impl FnOnce(&mut Process)) -> RunError {
    let _first = server.worker();
    let other = server.client();
    runs_a_chain(&*other, 0.0);
    let mut second = Process::start("child_worker", &server.address);
    server.says("joined");
    let session = server.client();
    configure(&*session);
    // Data may overtake signals if a packet gets lost. The session would then begin on the worker
    // with the fewest sessions, which is the second one, and number its workers from there.
    session.stats().unwrap();
    give(&*session, 0, tensor(vec![1.0, 2.0, 3.0]));
    session.submit(tape(within("all", add(1, 0, 0)).into()));
    assert_eq!(read(&*session, 1).unwrap(), [2.0, 4.0, 6.0]);

    // About 50 s of work, so that the second worker is harmed in the middle of it on a slow
    // machine, too.
    let roots = (0..1_000).flat_map(|i| within("second", unary(i + 2, Op::Sqrt, i + 1)));
    session.submit(tape(roots.collect()));
    let waiting = {
        let session = Arc::clone(&session);
        thread::spawn(move || read(&*session, 1_001))
    };
    thread::sleep(Duration::from_millis(300));
    harm(&mut second);
    let error = waiting.join().unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::WorkerLost, "{error}");
    assert!(error.message.starts_with("worker w2 ("), "{error}");
    assert!(error.message.contains(&format!("pid {})", second.0.id())), "{error}");

    other.submit(tape(vec![add_scalar(101, 100, 1.0), free(100)]));
    assert_eq!(read(&*other, 101).unwrap(), [101.0; 4]);
    works(&*session, 1_100);
    let _third = server.worker();
    works(&*session, 1_200);
    works(&*other, 1_300);
    error
}

/// A program from its beginning.
fn works(session: &dyn Backend, first: u64) {
    give(session, first, tensor(vec![1.0, 2.0, 3.0]));
    let mut entries = Vec::from(within("all", add(first + 1, first, first)));
    entries.extend(within("second", add(first + 2, first + 1, first)));
    session.submit(tape(entries));
    assert_eq!(read(session, first + 2).unwrap(), [3.0, 6.0, 9.0]);
}

#[test]
fn a_member_killed_at_work_is_named_and_the_others_live_on() {
    let server = server();
    let error = lose(&server, |second| second.0.kill().unwrap());
    assert!(error.message.contains("was lost with the values it held"), "{error}");
    server.end();
}

#[test]
fn a_member_that_stops_is_named_within_its_lease() {
    let server = server();
    let mut began = None;
    let error = lose(&server, |second| {
        began = Some(SystemTime::now());
        second.signal("-STOP");
    });
    let took = began.unwrap().elapsed().unwrap();
    assert!(took < LEASE * 5 / 2, "{took:?}");
    assert!(error.message.contains("nothing was heard from it for 4 s"), "{error}");
    server.end();
}

#[test]
fn sessions_with_different_signals_share_workers() {
    let server = server();
    let workers = [server.worker(), server.worker(), server.worker()];
    let sessions: Vec<_> = (0..4).map(|_| server.client()).collect();
    thread::scope(|scope| {
        for (n, session) in sessions.iter().enumerate() {
            if n > 0 {
                configure(&**session);
            }
            scope.spawn(move || (0..20).for_each(|i| works(&**session, 10 * i + n as u64)));
        }
    });
    drop(workers);
    server.end();
}
