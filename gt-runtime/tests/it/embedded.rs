//! The embedded system: results, isolation, errors, panics, large tensors beside small work, the
//! log.

use std::sync::Arc;
use std::thread;

use gt_compiler::{Engine, Native, NativeConfig};
use gt_ir::Op;
use gt_ir::backend::ErrorKind;
use gt_runtime::choice::{Choice, EngineKind, Here, Wish, decide};
use gt_runtime::embedded::System;
use gt_runtime::log::Log;
use gt_runtime::tier::Tiers;

use crate::programs::{
    Moody, add, add_scalar, count_while, free, give, id, input, output, read, tape, tensor, unary,
};

fn system() -> System {
    System::start(1, Log::off()).unwrap()
}

/// The native engine, regardless of other devices of this machine.
fn native_choice() -> Choice {
    let wish = Wish { engine: Some(EngineKind::Native), devices: None };
    decide(&wish, &Here::default()).unwrap()
}

fn moody(workers: usize) -> System {
    System::with_engines(workers, Box::new(|_| Ok(Moody::boxed())), Log::off()).unwrap()
}

#[test]
fn a_system_needs_a_worker() {
    let error = System::start(0, Log::off()).err().expect("none is too few");
    assert_eq!(error.message, "0 workers were asked for, but there can be 1 to 256");
}

#[test]
fn a_chain_of_instructions_gives_its_result() {
    let session = system().session();
    give(&*session, 0, tensor(vec![1.0, 2.0]));
    for i in 0..100 {
        session.submit(tape(vec![add_scalar(i + 1, i, 1.0), free(i)]));
    }
    assert_eq!(read(&*session, 100).unwrap(), [101.0, 102.0]);
    let total = session.stats().unwrap().total();
    assert_eq!((total.instructions, total.live_bytes, total.bytes_in), (100, 8, 8));
}

#[test]
fn data_may_come_in_any_order_with_its_segment() {
    let session = system().session();
    let data = tensor(vec![3.0]);
    session.submit(tape(vec![input(0, *data.ty()), add_scalar(1, 0, 1.0), output(1)]));
    session.upload(id(0), data);
    assert_eq!(session.fetch(id(1)).unwrap(), tensor(vec![4.0]));
}

#[test]
fn workers_of_a_process_share_its_memory() {
    let limit = |workers: usize| {
        let session = System::chosen(workers, native_choice(), Tiers::default(), Log::off());
        let session = session.unwrap().session();
        give(&*session, 0, tensor(vec![1.0]));
        session.stats().unwrap().workers[0].memory.limit
    };
    assert_eq!(limit(3), limit(1));
}

#[test]
fn uploads_and_reads_are_not_copied() {
    // Regardless of other devices of this machine.
    let native = |_| Ok(Box::new(Native::new(NativeConfig::host())?) as Box<dyn Engine>);
    let session = System::with_engines(1, Box::new(native), Log::off()).unwrap().session();
    let data = tensor(vec![5.0; 1 << 16]);
    let at = data.bytes().as_ptr();
    give(&*session, 0, data);
    session.submit(tape(vec![output(0)]));
    assert_eq!(session.fetch(id(0)).unwrap().bytes().as_ptr(), at);
}

#[test]
fn sessions_on_many_threads_see_their_own_values_only() {
    for workers in [1, 3] {
        let system = System::start(workers, Log::off()).unwrap();
        thread::scope(|scope| {
            for n in 0..6 {
                let session = system.session();
                scope.spawn(move || {
                    give(&*session, 0, tensor(vec![n as f32; 8]));
                    for i in 0..200 {
                        session.submit(tape(vec![add_scalar(i + 1, i, 1.0), free(i)]));
                        let got = read(&*session, i + 1).unwrap();
                        assert_eq!(got, vec![(n + i + 1) as f32; 8]);
                    }
                });
            }
        });
    }
}

#[test]
fn threads_may_share_a_session() {
    let session = system().session();
    give(&*session, 0, tensor(vec![1.0]));
    session.submit(tape(vec![output(0)]));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    assert_eq!(session.fetch(id(0)).unwrap(), tensor(vec![1.0]));
                }
            });
        }
    });
}

#[test]
fn a_failure_poisons_what_depends_on_it_and_nothing_else() {
    let session = moody(1).session();
    give(&*session, 0, tensor(vec![1.0]));
    let failing = unary(1, Op::Neg, 0);
    session.submit(tape(vec![failing, add(2, 1, 0), add(3, 0, 0), add(4, 2, 3)]));
    for value in [4, 2, 1] {
        let error = read(&*session, value).unwrap_err();
        assert_eq!((error.kind, error.value), (ErrorKind::Resource, Some(id(1))), "{error}");
        assert!(error.message.starts_with("neg of f32[1]: out of memory"), "{error}");
        assert!(error.loc.to_string().contains("embedded.rs"), "{}", error.loc);
        assert_eq!(error.worker.as_deref(), Some("w1"));
    }
    assert_eq!(read(&*session, 3).unwrap(), [2.0]);
}

#[test]
fn a_panic_loses_the_worker_and_a_new_one_takes_its_place() {
    let system = moody(1);
    let (one, two) = (system.session(), system.session());
    give(&*two, 0, tensor(vec![7.0]));
    assert_eq!(read(&*two, 0).unwrap(), [7.0]);
    give(&*one, 0, tensor(vec![1.0]));
    one.submit(tape(vec![unary(1, Op::Exp, 0)]));
    let error = read(&*one, 1).unwrap_err();
    assert_eq!(error.kind, ErrorKind::WorkerLost, "{error}");
    assert!(error.message.contains("w1") && error.message.contains("exp is too much"), "{error}");
    // The other session lost its values, gets an error, and goes on.
    assert_eq!(read(&*two, 0).unwrap_err().kind, ErrorKind::WorkerLost);
    give(&*two, 5, tensor(vec![8.0]));
    assert_eq!(read(&*two, 5).unwrap(), [8.0]);
}

#[test]
fn a_device_that_failed_loses_the_worker_and_a_new_one_takes_its_place() {
    let session = moody(1).session();
    give(&*session, 0, tensor(vec![1.0]));
    session.submit(tape(vec![unary(1, Op::Cos, 0)]));
    let error = read(&*session, 1).unwrap_err();
    assert!(error.message.contains("it fell off the bus"), "{error}");
    let error = read(&*session, 0).unwrap_err();
    assert_eq!(error.kind, ErrorKind::WorkerLost, "{error}");
    assert!(error.message.contains("its device failed: it fell off the bus"), "{error}");
    give(&*session, 5, tensor(vec![8.0]));
    assert_eq!(read(&*session, 5).unwrap(), [8.0]);
}

#[test]
fn a_large_tensor_goes_up_and_down_beside_small_work() {
    let system = system();
    let (large, small) = (system.session(), system.session());
    let mover = thread::spawn(move || {
        for round in 0..3 {
            give(&*large, round, tensor(vec![round as f32; 25 << 20]));
            let back = read(&*large, round).unwrap();
            assert!(back.len() == 25 << 20 && back.iter().all(|&x| x == round as f32));
            large.submit(tape(vec![free(round)]));
        }
    });
    count_while(&*small, mover);
}

#[test]
fn the_end_of_a_session_frees_what_it_held_and_answers_who_waits() {
    let system = moody(1);
    let session = system.session();
    give(&*session, 0, tensor(vec![1.0; 1000]));
    session.submit(tape(vec![unary(1, Op::Sqrt, 0), output(1)]));
    let waiting = {
        let session = Arc::clone(&session);
        thread::spawn(move || session.fetch(id(1)))
    };
    while session.stats().is_ok_and(|stats| stats.total().segments < 1) {}
    session.close();
    session.close();
    assert!(session.fetch(id(0)).unwrap_err().message.contains("was closed"));
    session.submit(tape(vec![add(2, 1, 1)]));
    let _ = waiting.join().unwrap();
    drop(session);
    let next = system.session();
    give(&*next, 0, tensor(vec![1.0]));
    assert_eq!(next.stats().unwrap().total().live_bytes, 4);
}

#[test]
fn the_log_tells_of_every_party_with_instructions_and_lines() {
    let path = std::env::temp_dir().join(format!("gt-embedded-{}.log", std::process::id()));
    let log = Log::to_file(&path).unwrap();
    let system = System::start(1, log.clone()).unwrap();
    let session = system.session();
    give(&*session, 0, tensor(vec![1.0]));
    session.submit(tape(vec![add_scalar(1, 0, 2.0)]));
    assert_eq!(read(&*session, 1).unwrap(), [3.0]);
    session.close();
    log.flush();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let lines: Vec<Vec<&str>> =
        text.lines().skip(4).map(|line| line.split(" | ").map(str::trim).collect()).collect();
    for (n, line) in lines.iter().enumerate() {
        assert_eq!(line.len(), 7, "{line:?}");
        assert_eq!(line[1], format!("#{:04}", n + 1));
    }
    let has = |event: &str, source: &str, command: &str, details: &str| {
        let found = lines.iter().any(|line| {
            (line[2], line[4]) == (event, command)
                && line[3].starts_with(source)
                && line[6].contains(details)
        });
        assert!(found, "no {event} {source} {command} {details} in\n{text}");
    };
    has("CONNECT", "SERVER dispatcher", "Worker", "worker w1");
    has("CONNECT", "SERVER dispatcher", "Session", "session s1 opened");
    has("CLIENT_SEND", "CLIENT s1", "add", "%1 = add %0, 2");
    has("CLIENT_SEND", "CLIENT s1", "Upload", "%0: f32[1]");
    has("RECV", "CLIENT s1", "Run", "[1 entries from %1");
    has("WORKER_SEND", "WORKER w1", "Run", "s1 segment 1 attempt 0");
    has("EXECUTE", "WORKER w1", "add", "embedded.rs");
    has("WORKER_RECV", "WORKER w1", "Done", "1 instructions");
    has("SEND", "CLIENT s1", "Chunk", "4 bytes");
    has("CLIENT_RECV", "CLIENT s1", "Chunk", "%1");
    has("EXECUTE", "WORKER w1", "add", " took ");
    has("RECV", "CLIENT s1", "Close", "");
    has("DISCONNECT", "SERVER dispatcher", "Session", "session s1");
}
