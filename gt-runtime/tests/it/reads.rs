//! Reads of a device while other sessions use it: they delay nobody, arrive in order, and none is
//! lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use gt_compiler::simulated::{Faults, Simulation, SimulationConfig};
use gt_ir::backend::{Backend, ErrorKind, RunError};
use gt_ir::testing::{Config, Source};
use gt_runtime::client::connect;
use gt_runtime::clock;
use gt_runtime::embedded::System;
use gt_runtime::log::Log;
use gt_runtime::server::{Server, ServerConfig};
use gt_runtime::testing::{Program, first_difference};
use gt_runtime::tier::{Tiers, When};
use gt_runtime::worker::{Stopped, Worker, WorkerConfig};

use crate::programs::{add_scalar, free, give, id, read, tape, tensor};

/// A device that copies values to the host in slices of 16 bytes.
fn device(memory: usize) -> Simulation {
    Simulation::new(SimulationConfig { slice: 16, memory, ..SimulationConfig::default() })
}

fn on(simulation: &Simulation, when: When) -> System {
    let simulation = simulation.clone();
    let engine = Box::new(move |_| simulation.engine());
    System::configured(1, engine, Tiers::compiled(when), Log::off()).unwrap()
}

fn count(session: &dyn Backend, from: u64, n: u64) {
    for i in from..from + n {
        session.submit(tape(vec![add_scalar(i + 1, i, 1.0), free(i)]));
    }
}

/// Waits until the worker has done all orders of the session except reads.
fn arrive(session: &dyn Backend) -> u64 {
    session.stats().unwrap().total().instructions
}

type Reading<'s> = thread::ScopedJoinHandle<'s, Result<Vec<f32>, RunError>>;

/// A read on a thread of its own, which the worker has begun.
fn begin<'s>(
    scope: &'s thread::Scope<'s, '_>,
    session: &Arc<dyn Backend>,
    value: u64,
) -> Reading<'s> {
    let (other, waits) = (session.clone(), session.stats().unwrap().total().bytes_out);
    let reading = scope.spawn(move || read(&*other, value));
    while session.stats().unwrap().total().bytes_out == waits {
        thread::yield_now();
    }
    reading
}

#[test]
fn a_read_that_takes_long_holds_up_nobodys_work() {
    for when in [When::Never, When::Blocking] {
        let simulation = device(1 << 30);
        let system = on(&simulation, when);
        let (one, two) = (system.session(), system.session());
        give(&*one, 0, tensor(vec![1.0; 8]));
        count(&*one, 0, 10);
        give(&*two, 0, tensor(vec![2.0; 8]));
        simulation.let_reads(Some(0));
        thread::scope(|scope| {
            let reading = begin(scope, &one, 10);
            // The value is freed meanwhile. Its memory must not be overwritten before the read
            // ends.
            count(&*one, 10, 100);
            count(&*two, 0, 100);
            assert_eq!((arrive(&*one), arrive(&*two)), (110, 100));
            assert!(!reading.is_finished());
            simulation.let_reads(None);
            assert_eq!(reading.join().unwrap().unwrap(), [11.0; 8]);
        });
        assert_eq!(read(&*one, 110).unwrap(), [111.0; 8]);
        assert_eq!(read(&*two, 100).unwrap(), [102.0; 8]);
    }
}

#[test]
fn a_short_read_overtakes_a_long_one_of_another_session() {
    let simulation = device(1 << 30);
    let system = on(&simulation, When::Blocking);
    let (one, two) = (system.session(), system.session());
    give(&*one, 0, tensor(vec![1.0; 400]));
    give(&*two, 0, tensor(vec![2.0; 4]));
    simulation.let_reads(Some(0));
    thread::scope(|scope| {
        let long = begin(scope, &one, 0);
        let short = begin(scope, &two, 0);
        simulation.let_reads(Some(10));
        assert_eq!(short.join().unwrap().unwrap(), [2.0; 4]);
        assert!(!long.is_finished());
        simulation.let_reads(None);
        assert_eq!(long.join().unwrap().unwrap(), [1.0; 400]);
    });
}

/// Sessions on threads of their own run random programs on one device, whose values leave it a few
/// bytes at a time.
#[test]
fn reads_of_many_sessions_at_once_have_the_bits_of_the_native_engine() {
    let native = System::start_with(1, Tiers::compiled(When::Never), Log::off()).unwrap();
    for when in [When::Never, When::Blocking] {
        let simulation = device(1 << 30);
        let system = on(&simulation, when);
        let one = |n: u64| {
            for seed in (2000 + n..2040).step_by(4) {
                let program = Program::new(&mut Source::from_seed(seed), &Config::default(), 16);
                let wanted = program.run(&*native.session(), false);
                let got = program.run(&*system.session(), false);
                let difference = first_difference(&wanted, &got);
                assert!(difference.is_none(), "seed {seed}: {difference:?}\n{program:?}");
            }
        };
        thread::scope(|scope| (0..4).for_each(|n| drop(scope.spawn(move || one(n)))));
        assert!(simulation.counters().reads > 500, "{:?}", simulation.counters());
    }
}

/// A value that was freed during its read still takes memory. An operation that needs the memory
/// waits for the read before it fails.
#[test]
fn memory_held_by_a_read_is_waited_for() {
    let simulation = device(1 << 20);
    let system = on(&simulation, When::Never);
    let (one, two) = (system.session(), system.session());
    give(&*one, 0, tensor(vec![1.0; 150_000]));
    simulation.let_reads(Some(0));
    thread::scope(|scope| {
        let reading = begin(scope, &one, 0);
        one.submit(tape(vec![free(0)]));
        arrive(&*one);
        give(&*two, 0, tensor(vec![2.0; 150_000]));
        // The result does not depend on whether the worker waits already.
        thread::sleep(Duration::from_millis(20));
        simulation.let_reads(None);
        assert_eq!(reading.join().unwrap().unwrap()[149_999], 1.0);
    });
    assert_eq!(read(&*two, 0).unwrap()[0], 2.0);
}

#[test]
fn a_device_that_fails_at_a_read_fails_every_read_and_is_replaced() {
    let simulation = device(1 << 30);
    let made = Arc::new(AtomicUsize::new(0));
    let engine = {
        let (simulation, made) = (simulation.clone(), made.clone());
        move |_| {
            made.fetch_add(1, Ordering::SeqCst);
            simulation.engine()
        }
    };
    let tiers = Tiers::compiled(When::Blocking);
    let system = System::configured(1, Box::new(engine), tiers, Log::off()).unwrap();
    let sessions = [0; 3].map(|_| system.session());
    simulation.let_reads(Some(0));
    thread::scope(|scope| {
        let reads = [0, 1, 2].map(|n| {
            give(&*sessions[n], 0, tensor(vec![1.0; 100]));
            begin(scope, &sessions[n], 0)
        });
        simulation.fail(Faults { read: Some(7), ..Faults::default() });
        simulation.let_reads(None);
        for reading in reads {
            let error = reading.join().unwrap().unwrap_err();
            assert!(error.message.contains("a read failed as it was told to"), "{error}");
        }
    });
    // No order is necessary for this.
    let end = clock::now() + Duration::from_secs(20);
    while made.load(Ordering::SeqCst) < 2 {
        assert!(clock::now() < end, "the worker was not replaced");
        thread::yield_now();
    }
    let error = read(&*sessions[0], 0).unwrap_err();
    assert_eq!(error.kind, ErrorKind::WorkerLost, "{error}");
    let fresh = system.session();
    give(&*fresh, 0, tensor(vec![4.0]));
    assert_eq!(read(&*fresh, 0).unwrap(), [4.0]);
}

#[test]
fn the_end_of_a_session_calls_its_reads_off() {
    let simulation = device(1 << 30);
    let system = on(&simulation, When::Blocking);
    let (one, two) = (system.session(), system.session());
    give(&*one, 0, tensor(vec![1.0; 4000]));
    simulation.let_reads(Some(0));
    thread::scope(|scope| {
        let reading = begin(scope, &one, 0);
        one.close();
        assert!(reading.join().unwrap().is_err());
        give(&*two, 0, tensor(vec![2.0]));
        // The worker has received the end of the session.
        arrive(&*two);
        // The current slice, and another session's.
        simulation.let_reads(Some(2));
        assert_eq!(read(&*two, 0).unwrap(), [2.0]);
    });
    assert_eq!(two.stats().unwrap().workers[0].memory.live, 4);
}

/// A worker of a server ends during a read, and the read fails with the reason.
#[test]
fn the_end_of_a_worker_is_told_to_those_who_read() {
    let server = Server::bind(ServerConfig { log: Log::off(), ..ServerConfig::local(0) }).unwrap();
    let (address, end) = (server.address().clone(), server.shutdown());
    let serving = thread::spawn(move || server.run(|_| ()).unwrap());
    let simulation = device(1 << 30);
    let config = WorkerConfig { log: Log::off(), ..WorkerConfig::new(address.clone()) };
    let worker = Worker::new(config).unwrap();
    let (stop, engine) = (worker.shutdown(), simulation.engine().unwrap());
    let working = thread::spawn(move || worker.serve(engine, |_| ()));
    let (one, two) = [0; 2].map(|_| connect(&address.to_string()).unwrap()).into();
    give(&*one, 0, tensor(vec![1.0; 4000]));
    assert_eq!(read(&*one, 0).unwrap(), [1.0; 4000]);
    simulation.let_reads(Some(3));
    thread::scope(|scope| {
        let reading = begin(scope, &one, 0);
        give(&*two, 0, tensor(vec![0.0; 4]));
        count(&*two, 0, 50);
        assert_eq!(arrive(&*two), 50);
        stop.shut_down("enough");
        let error = reading.join().unwrap().unwrap_err();
        assert!(error.message.contains("enough"), "{error}");
    });
    simulation.let_reads(None);
    assert_eq!(working.join().unwrap().unwrap(), Stopped::ShutDown("enough".into()));
    assert!(one.fetch(id(0)).is_err());
    end.shut_down("the test is over");
    serving.join().unwrap();
}
