//! Clients beside one that asks for much: it delays the others little, and what is its own fault is
//! its own loss.

use std::thread;
use std::time::Duration;

use gt_ir::backend::{Backend, ErrorKind};
use gt_ir::{DType, Op, Operand, Scalar, Shape, Type};
use gt_runtime::clock;
use gt_runtime::dispatcher::Config;
use gt_runtime::ids::Incarnation;
use gt_runtime::log::Log;
use gt_runtime::server::ServerConfig;
use gt_runtime::wire::codec::encode;
use gt_runtime::wire::{Body, Packet, Stream};

use super::running::{Process, Running, child_dealer, child_session, server, server_with, step};
use super::runs_a_chain;
use crate::programs::{add_scalar, free, give, id, instr, output, read, tape, tensor};

/// The longest time of most small steps of a client. Alone it is below a millisecond.
const SOON: Duration = Duration::from_millis(300);

pub(super) fn full(out: u64, shape: &[usize]) -> gt_ir::Entry {
    let ty = Type { dtype: DType::F32, shape: Shape::new(shape).unwrap() };
    instr(out, Op::Full(ty), &[Operand::Scalar(Scalar::F64(1.0))])
}

/// Products, as many as the client may record.
#[test]
fn child_recorder() {
    let Some(session) = child_session() else { return };
    session.submit(tape(vec![full(0, &[256, 256])]));
    for i in 1.. {
        let product = instr(i, Op::MatMul, &[Operand::Value(id(i - 1)), Operand::Value(id(0))]);
        let before = (i > 1).then(|| free(i - 1));
        session.submit(tape([product].into_iter().chain(before).collect()));
    }
}

/// Programs that nobody has compiled.
#[test]
fn child_inventor() {
    let Some(session) = child_session() else { return };
    for n in 1..100_000 {
        for again in 0..3 {
            let i = 4 * (3 * n + again);
            let sums = (i..i + 3).map(|i| add_scalar(i + 1, i, 0.5));
            let frees = (i..i + 4).map(free);
            session.submit(tape(
                [full(i, &[n as usize, 3])].into_iter().chain(sums).chain(frees).collect(),
            ));
        }
    }
}

/// Asks for large values.
#[test]
fn child_reader() {
    let Some(session) = child_session() else { return };
    let values: Vec<_> = (0..10).flat_map(|i| [full(i, &[4 << 20]), output(i)]).collect();
    session.submit(tape(values));
    thread::scope(|scope| {
        for i in 0..10 {
            let session = &session;
            scope.spawn(move || (0..100).for_each(|_| drop(session.fetch(id(i)))));
        }
    });
}

/// Packets of connections that there are not.
#[test]
fn child_stray() {
    let Some(socket) = child_dealer() else { return };
    for life in 0.. {
        let packet =
            Packet { stream: Stream::Control, incarnation: Incarnation(life), body: Body::Ping };
        socket.send(&[], encode(&packet).unwrap().head, &[]).unwrap();
    }
}

/// The time that most steps take: half of them less.
fn usual_step(session: &dyn Backend) -> Duration {
    give(session, 0, tensor(vec![0.0]));
    let step = |i| {
        let began = clock::now();
        step(session, i);
        clock::now() - began
    };
    let mut times: Vec<Duration> = (0..31).map(step).collect();
    times.sort();
    times[times.len() / 2]
}

/// A client's steps are quick beside a process of a kind.
pub(super) fn quick_beside(child: &str, meanwhile: impl FnOnce(&Process)) -> Running {
    let server = server();
    let _worker = server.worker();
    let session = server.client();
    runs_a_chain(&*session, 1.0);
    let neighbour = Process::start(child, &server.address);
    thread::sleep(Duration::from_secs(1));
    meanwhile(&neighbour);
    let usual = usual_step(&*server.client());
    assert!(usual < SOON, "{usual:?} beside {child}");
    server
}

#[test]
fn a_client_that_records_ahead_delays_others_little() {
    quick_beside("neighbours::child_recorder", |_| ()).end();
}

#[test]
fn a_client_with_ever_new_programs_delays_others_little() {
    quick_beside("neighbours::child_inventor", |_| ()).end();
}

#[test]
fn a_reader_that_stops_delays_itself_alone() {
    quick_beside("neighbours::child_reader", |reader| reader.signal("-STOP")).end();
}

#[test]
fn packets_of_unknown_connections_delay_nobody_and_fill_no_log() {
    let server = quick_beside("neighbours::child_stray", |_| ());
    let n_lines = server.lines.try_iter().count();
    assert!(n_lines < 100, "{n_lines} lines");
    server.end();
}

#[test]
fn a_worker_that_ends_drops_the_work_that_waits() {
    let server = server();
    let (shutdown, worker) = server.worker();
    let session = server.client();
    session.submit(tape(vec![full(0, &[1 << 10, 1 << 10])]));
    for i in 1..400 {
        let operands = [Operand::Value(id(i - 1)), Operand::Value(id(0))];
        session.submit(tape(vec![instr(i, Op::MatMul, &operands)]));
    }
    thread::sleep(Duration::from_millis(300));
    let began = clock::now();
    shutdown.shut_down("the test is over");
    worker.join().unwrap().unwrap();
    assert!(clock::now() - began < Duration::from_secs(5));
    server.end();
}

#[test]
fn a_value_above_the_quota_is_lost_alone() {
    let dispatcher = Config { quota: 1 << 20, quota_of_workers: false, ..Config::remote() };
    let server =
        server_with(ServerConfig { log: Log::off(), dispatcher, ..ServerConfig::local(0) });
    let _worker = server.worker();
    let session = server.client();
    give(&*session, 0, tensor(vec![3.0]));
    session.submit(tape(vec![full(1, &[1 << 20, 1 << 20]), add_scalar(2, 0, 1.0)]));
    let error = read(&*session, 1).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Resource, "{error}");
    assert_eq!(read(&*session, 2).unwrap(), [4.0]);
    server.end();
}

#[test]
fn a_client_that_ends_in_order_is_done_at_once() {
    let server = server();
    let _worker = server.worker();
    let session = server.client();
    runs_a_chain(&*session, 1.0);
    let began = clock::now();
    session.close();
    let line = server.says("closed");
    assert!(line.contains("it is done"), "{line}");
    assert!(clock::now() - began < Duration::from_secs(1));
    server.end();
}

#[test]
fn a_new_client_has_its_first_answer_before_a_hello_would_be_repeated() {
    let server = server();
    let _worker = server.worker();
    let first_answer = |_| {
        let began = clock::now();
        let session = server.client();
        give(&*session, 0, tensor(vec![1.0]));
        assert_eq!(read(&*session, 0).unwrap(), [1.0]);
        clock::now() - began
    };
    let mut times: Vec<Duration> = (0..9).map(first_answer).collect();
    times.sort();
    assert!(times[4] < Duration::from_millis(190), "{times:?}");
    server.end();
}
