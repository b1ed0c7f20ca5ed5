//! The memory of sessions: the statistics about it, and the errors when there is no more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gt_compiler::engine::{Arg, Compile, Engine, EngineError, EngineInfo, EngineStats, Value};
use gt_compiler::{Native, NativeConfig, Program};
use gt_ir::backend::{Backend, ErrorKind};
use gt_ir::{HostTensor, Op, Scalar, Tape};
use gt_runtime::embedded::System;
use gt_runtime::log::Log;
use smallvec::SmallVec;

use crate::programs::{add_scalar, free, give, read, tape, tensor};

/// The elements of a value in these tests, and its bytes.
const N: usize = 25_000;
const BYTES: u64 = 100_000;

/// A system of one worker with room for ten values.
fn small() -> System {
    with_room_for(10)
}

/// A system of one worker with room for so many values.
fn with_room_for(n: usize) -> System {
    let config = NativeConfig { memory_limit: n * BYTES as usize, ..NativeConfig::host() };
    let engine = move |_| Ok(Box::new(Native::new(config.clone())?) as Box<dyn Engine>);
    System::with_engines(1, Box::new(engine), Log::off()).unwrap()
}

/// Makes `n` values, numbered from 1.
fn fill(session: &dyn Backend, n: u64) {
    // Uploaded values stay in the memory in which they came, and do not count for an engine.
    give(session, 0, tensor(vec![1.0; N]));
    for i in 1..=n {
        session.submit(tape(vec![add_scalar(i, 0, i as f64)]));
    }
}

#[test]
fn what_is_kept_for_reuse_goes_back_when_the_last_session_ends() {
    let system = small();
    let kept = |session: &dyn Backend| session.stats().unwrap().workers[0].memory.cached;
    let (one, two) = (system.session(), system.session());
    for session in [&one, &two] {
        fill(&**session, 4);
        assert!(read(&**session, 4).is_ok());
        session.submit(tape(vec![free(1), free(2), free(3)]));
    }
    assert!(kept(&*two) >= 3 * BYTES);
    drop(one);
    assert!(kept(&*two) >= 3 * BYTES, "a session is left");
    drop(two);
    let three = system.session();
    fill(&*three, 1);
    assert!(read(&*three, 1).is_ok());
    assert!(kept(&*three) < BYTES);
}

#[test]
fn out_of_memory_names_who_holds_it_and_by_how_much() {
    let system = small();
    let (one, two, three) = (system.session(), system.session(), system.session());
    fill(&*two, 2);
    fill(&*three, 4);
    assert!(read(&*two, 2).is_ok() && read(&*three, 4).is_ok());
    fill(&*one, 5);
    assert!(read(&*one, 4).is_ok());
    let error = read(&*one, 5).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Resource, "{error}");
    let lines: Vec<&str> = error.message.lines().collect();
    let [what, own, first, second, engine] = lines[..] else { panic!("{error}") };
    assert!(
        what.starts_with("add of f32[25000], 5.0: out of memory: 100000 bytes asked"),
        "{what}"
    );
    assert_eq!(own, "  this client holds 488.3 KB in 5 values");
    assert!(first.starts_with("  s3 ") && first.ends_with(") holds 488.3 KB"), "{first}");
    assert!(second.starts_with("  s2 ") && second.ends_with(") holds 293.0 KB"), "{second}");
    assert!(engine.starts_with("  the engine uses 976.6 KB of 976.6 KB and keeps "), "{engine}");
    assert!(error.hint.is_some(), "{error}");

    // A session that frees values makes room for the other.
    three.submit(tape(vec![free(1), free(2)]));
    assert!(read(&*three, 3).is_ok());
    one.submit(tape(vec![add_scalar(6, 0, 6.0)]));
    assert_eq!(read(&*one, 6).unwrap()[0], 7.0);
}

#[test]
fn statistics_tell_a_session_what_is_its_own_and_the_others_totals() {
    let system = small();
    let (one, two) = (system.session(), system.session());
    fill(&*one, 2);
    fill(&*two, 3);
    assert!(read(&*two, 3).is_ok());
    let stats = one.stats().unwrap();
    let worker = &stats.workers[0];
    assert_eq!((worker.engine.as_str(), worker.device.as_str()), ("native", "cpu"));
    assert_eq!((worker.live_bytes, worker.live_values), (3 * BYTES, 3));
    assert_eq!((worker.memory.live, worker.memory.limit), (5 * BYTES, 10 * BYTES));
    let [other] = &worker.others[..] else { panic!("{worker:?}") };
    assert!(other.client.starts_with("s2 ") && other.bytes == 4 * BYTES, "{other:?}");
    drop(two);
    assert_eq!(one.stats().unwrap().workers[0].others, []);
}

/// A step that makes a chain of values from value 0 and then uses them in the opposite order, so
/// that all are alive in its middle. Its values are numbered from `first`; the last one is left.
fn there_and_back(first: u64) -> (Tape, u64) {
    const LENGTH: usize = 16;
    let (mut text, mut next) = (String::from("gt tape 1\n"), first);
    let mut line = |text: &mut String, op: &str| {
        *text += &format!("%{next} = {op}\n");
        next += 1;
        next - 1
    };
    let mut chain = vec![0];
    for _ in 0..LENGTH {
        let sums = line(&mut text, &format!("cumsum[0] %{}", chain[chain.len() - 1]));
        chain.push(line(&mut text, &format!("mul %{sums}, 3e-5")));
        text += &format!("free %{sums}\n");
    }
    let mut last = chain[LENGTH];
    for value in chain[1..LENGTH].iter().rev() {
        let sum = line(&mut text, &format!("add %{last}, %{value}"));
        let sums = line(&mut text, &format!("cumsum[0] %{sum}"));
        text += &format!("free %{sum}\nfree %{value}\nfree %{last}\n");
        last = line(&mut text, &format!("mul %{sums}, 2e-5"));
        text += &format!("free %{sums}\n");
    }
    (gt_ir::text::parse(&text).unwrap().0, last)
}

#[test]
fn steps_that_do_not_fit_run_as_plans_that_make_values_again() {
    let (small, large) = (small(), System::start(1, Log::off()));
    let (small, large) = (small.session(), large.unwrap().session());
    for session in [&small, &large] {
        give(&**session, 0, tensor((0..N).map(|i| (i % 7) as f32).collect()));
    }
    // The first steps have no plan yet.
    for step in 0..8 {
        let (tape, last) = there_and_back(1 + 1000 * step);
        for session in [&small, &large] {
            session.submit(tape.clone());
        }
        let (found, wanted) = (read(&*small, last), read(&*large, last));
        assert_eq!(found.unwrap(), wanted.unwrap(), "step {step}");
        for session in [&small, &large] {
            session.submit(crate::programs::tape(vec![free(last)]));
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let stats = small.stats().unwrap();
    let worker = &stats.workers[0];
    assert_eq!(worker.interpreted, 0, "nothing runs instruction by instruction");
    assert!(worker.launches > 0, "{worker:?}");
    assert!(worker.memory.peak <= 10 * BYTES, "{worker:?}");
}

#[test]
fn the_parts_of_a_step_that_does_not_fit_wait_for_each_other() {
    let (small, large) = (with_room_for(12), System::start(1, Log::off()).unwrap());
    let (session, wide) = (small.session(), large.session());
    let (step, last) = there_and_back(1);
    // No part is like another one, so none is a launch.
    let (mut parts, mut rest) = (Vec::new(), &step.entries[..]);
    while let Some((part, others)) = rest.split_at_checked((6 + parts.len()).min(rest.len())) {
        if part.is_empty() {
            break;
        }
        parts.push(Tape { entries: part.to_vec() });
        rest = others;
    }
    for session in [&session, &wide] {
        give(&**session, 0, tensor((0..N).map(|i| (i % 5) as f32).collect()));
        parts.iter().for_each(|part| session.submit(part.clone()));
    }
    assert_eq!(read(&*session, last).unwrap(), read(&*wide, last).unwrap());
    let stats = session.stats().unwrap();
    let worker = &stats.workers[0];
    assert!(worker.interpreted < 20 && worker.instructions > 70, "{worker:?}");

    // What waits is run before another session's work.
    let other = small.session();
    session.submit(tape(vec![add_scalar(5001, 0, 1.0), add_scalar(5002, 5001, 1.0)]));
    session.submit(tape(vec![free(5001)]));
    give(&*other, 0, tensor(vec![1.0; N]));
    other.submit(tape(vec![add_scalar(1, 0, 1.0)]));
    assert_eq!(read(&*other, 1).unwrap()[0], 2.0);
    assert_eq!(read(&*session, 5002).unwrap()[1], 3.0);
}

/// An engine without free memory until it drops the memory kept for reuse.
struct Miser {
    native: Native,
    trimmed: Arc<AtomicUsize>,
    gives: Arc<AtomicBool>,
}

impl Miser {
    fn room(&self) -> Result<(), EngineError> {
        match self.trimmed.load(Ordering::Relaxed) {
            0 => Err(EngineError::OutOfMemory { asked: 1, live: 2, limit: 3 }),
            _ => Ok(()),
        }
    }
}

impl Engine for Miser {
    fn info(&self) -> EngineInfo {
        self.native.info()
    }
    fn upload(&mut self, data: &HostTensor) -> Result<Value, EngineError> {
        self.native.upload(data)
    }
    fn execute(&mut self, op: &Op, args: &[Arg<'_>]) -> Result<Value, EngineError> {
        self.room()?;
        self.native.execute(op, args)
    }
    fn compiler(&self) -> Arc<dyn Compile> {
        self.native.compiler()
    }
    fn run(
        &mut self,
        program: &Program,
        inputs: &mut Vec<Value>,
        scalars: &[Scalar],
    ) -> Result<SmallVec<[Value; 4]>, EngineError> {
        self.room()?;
        self.native.run(program, inputs, scalars)
    }
    fn download(&mut self, value: &Value) -> Result<HostTensor, EngineError> {
        self.native.download(value)
    }
    fn stats(&self) -> EngineStats {
        self.native.stats()
    }
    fn trim(&mut self) -> usize {
        let given = usize::from(self.gives.load(Ordering::Relaxed));
        self.trimmed.fetch_add(given, Ordering::Relaxed);
        given
    }
}

#[test]
fn work_is_tried_again_once_the_engine_gave_up_what_it_kept() {
    let (trimmed, gives) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let shared = (trimmed.clone(), gives.clone());
    let engine = move |_| {
        let native = Native::new(NativeConfig::host())?;
        let (trimmed, gives) = shared.clone();
        Ok(Box::new(Miser { native, trimmed, gives }) as Box<dyn Engine>)
    };
    let session = System::with_engines(1, Box::new(engine), Log::off()).unwrap().session();
    fill(&*session, 1);
    // It keeps no memory, so the operation fails.
    let error = read(&*session, 1).unwrap_err();
    assert!(error.message.contains("\n  this client holds "), "{error}");
    gives.store(true, Ordering::Relaxed);
    session.submit(tape(vec![add_scalar(2, 0, 1.0)]));
    assert_eq!(read(&*session, 2).unwrap()[0], 2.0);
    assert_eq!(trimmed.load(Ordering::Relaxed), 1);
}
