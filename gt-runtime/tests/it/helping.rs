//! Threads that wait for a value do the executor's jobs meanwhile, and nothing else changes.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use gt_compiler::engine::{Arg, Compile, Engine, EngineError, EngineInfo, EngineStats, Value};
use gt_compiler::{Native, NativeConfig, Program};
use gt_ir::backend::{Backend, ErrorKind};
use gt_ir::{HostTensor, Op, Scalar};
use gt_runtime::clock;
use gt_runtime::embedded::System;
use gt_runtime::log::Log;
use gt_runtime::tier::{Tiers, When};
use smallvec::SmallVec;

use crate::programs::{add_scalar, free, give, read, tape, tensor};

const PATIENCE: Duration = Duration::from_secs(60);

/// How plans ended, and on which threads.
#[derive(Default)]
struct Seen {
    n_plans: AtomicU64,
    threads: Mutex<HashSet<ThreadId>>,
    /// How the next plan of a thread ends.
    next: Mutex<Option<(ThreadId, End)>>,
}

#[derive(Clone, Copy)]
enum End {
    Panic,
    Failure,
}

/// An engine whose plans take a while, and end badly on request. Any thread may use it.
struct Watched(Native, Arc<Seen>, Result<(), EngineError>);

impl Engine for Watched {
    fn info(&self) -> EngineInfo {
        self.0.info()
    }
    fn is_bound_to_a_thread(&self) -> bool {
        false
    }
    fn upload(&mut self, data: &HostTensor) -> Result<Value, EngineError> {
        self.0.upload(data)
    }
    fn execute(&mut self, op: &Op, args: &[Arg<'_>]) -> Result<Value, EngineError> {
        self.2.clone()?;
        self.0.execute(op, args)
    }
    fn compiler(&self) -> Arc<dyn Compile> {
        self.0.compiler()
    }
    fn run(
        &mut self,
        program: &Program,
        inputs: &mut Vec<Value>,
        scalars: &[Scalar],
    ) -> Result<SmallVec<[Value; 4]>, EngineError> {
        let here = thread::current().id();
        self.1.threads.lock().unwrap().insert(here);
        let next = self.1.next.lock().unwrap().take_if(|(thread, _)| *thread == here);
        match next {
            Some((_, End::Panic)) => panic!("plans are too much"),
            Some((_, End::Failure)) => self.2 = Err(EngineError::Device("it fell off".into())),
            None => {}
        }
        self.2.clone()?;
        // Longer than a thread spins.
        thread::sleep(Duration::from_micros(200));
        self.1.n_plans.fetch_add(1, Ordering::SeqCst);
        self.0.run(program, inputs, scalars)
    }
    fn download(&mut self, value: &Value) -> Result<HostTensor, EngineError> {
        self.0.download(value)
    }
    fn stats(&self) -> EngineStats {
        self.0.stats()
    }
}

fn system() -> (System, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let of_engine = seen.clone();
    let engine = move |_| {
        let native = Native::new(NativeConfig::host())?;
        Ok(Box::new(Watched(native, of_engine.clone(), Ok(()))) as Box<dyn Engine>)
    };
    let tiers = Tiers::compiled(When::Blocking);
    (System::configured(1, Box::new(engine), tiers, Log::off()).unwrap(), seen)
}

/// Submits a segment that adds 3 to the value `n`, which becomes the value `n + 3`.
fn step(session: &dyn Backend, n: u64) {
    let sums = (n..n + 3).flat_map(|n| [add_scalar(n + 1, n, 1.0), free(n)]);
    session.submit(tape(sums.collect()));
}

/// Runs and reads steps until `so`. Returns the number of the last value.
fn steps_until(session: &dyn Backend, so: impl Fn() -> bool) -> u64 {
    give(session, 0, tensor(vec![0.0]));
    let (start, mut n) = (clock::now(), 0);
    while !so() {
        assert!(clock::now() - start < PATIENCE, "after {n} steps");
        step(session, n);
        n += 3;
        assert_eq!(read(session, n).unwrap(), [n as f32]);
    }
    n
}

#[test]
fn a_thread_that_waits_runs_plans() {
    let (system, seen) = system();
    let here = thread::current().id();
    steps_until(&*system.session(), || seen.threads.lock().unwrap().contains(&here));
}

/// Nobody waits for the last segment of a program that has read all others.
#[test]
fn what_nobody_waits_for_is_done_too() {
    let (system, seen) = system();
    let session = system.session();
    let here = thread::current().id();
    let mut n = steps_until(&*session, || seen.threads.lock().unwrap().contains(&here));
    for _ in 0..20 {
        let before = seen.n_plans.load(Ordering::SeqCst);
        step(&*session, n);
        let start = clock::now();
        while seen.n_plans.load(Ordering::SeqCst) == before {
            assert!(clock::now() - start < PATIENCE);
            thread::yield_now();
        }
        n += 3;
        assert_eq!(read(&*session, n).unwrap(), [n as f32]);
    }
}

#[test]
fn threads_that_wait_together_get_their_own_values() {
    let (system, seen) = system();
    thread::scope(|scope| {
        for _ in 0..4 {
            let session = system.session();
            let seen = &seen;
            scope.spawn(move || {
                let most = seen.n_plans.load(Ordering::SeqCst) + 400;
                steps_until(&*session, || seen.n_plans.load(Ordering::SeqCst) > most);
            });
        }
    });
}

#[test]
fn an_engine_that_ends_on_a_thread_that_waits_loses_the_worker_alone() {
    for (end, why) in [(End::Panic, "plans are too much"), (End::Failure, "it fell off")] {
        let (system, seen) = system();
        let (one, two) = (system.session(), system.session());
        give(&*two, 0, tensor(vec![7.0]));
        assert_eq!(read(&*two, 0).unwrap(), [7.0]);
        let here = thread::current().id();
        let mut n = steps_until(&*one, || seen.threads.lock().unwrap().contains(&here));
        *seen.next.lock().unwrap() = Some((here, end));
        let start = clock::now();
        let error = loop {
            assert!(clock::now() - start < PATIENCE);
            step(&*one, n);
            n += 3;
            if let Err(error) = read(&*one, n) {
                break error;
            }
        };
        assert!(error.to_string().contains(why), "{error}");
        // The other session lost its value, gets an error, and goes on.
        assert_eq!(read(&*two, 0).unwrap_err().kind, ErrorKind::WorkerLost);
        give(&*two, 5, tensor(vec![8.0]));
        assert_eq!(read(&*two, 5).unwrap(), [8.0]);
    }
}
