//! Reads by futures: what they ask, when they wake their task, and that they may be dropped.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use gt_ir::backend::{Backend, Fetching, RunError, Stats};
use gt_ir::{HostTensor, Tape, ValueId};

use super::numbers;
use crate::core::*;
use crate::error::ErrorKind;
use crate::reference::Reference;
use crate::session::Session;
use crate::{autograd, debug};

/// A system whose answers come when [`Late::answer`] is called.
struct Late {
    system: Arc<Reference>,
    asked: Arc<Mutex<VecDeque<Asked>>>,
}

/// A question, and who waits for it.
#[derive(Default)]
struct Asked {
    open: Arc<Mutex<(bool, Option<Waker>)>>,
}

impl Late {
    fn session() -> (Session, Arc<Late>) {
        let late = Arc::new(Late { system: Reference::new(), asked: Arc::default() });
        (Session::with_backend(late.clone()), late)
    }

    /// Answers the first of the open questions.
    fn answer(&self) {
        let asked = self.asked.lock().unwrap().pop_front().unwrap();
        let mut open = asked.open.lock().unwrap();
        open.0 = true;
        if let Some(waker) = open.1.take() {
            waker.wake();
        }
    }

    fn n_asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Backend for Late {
    fn submit(&self, segment: Tape) {
        self.system.submit(segment);
    }

    fn upload(&self, value: ValueId, data: HostTensor) {
        self.system.upload(value, data);
    }

    fn fetch(&self, value: ValueId) -> Result<HostTensor, RunError> {
        self.system.fetch(value)
    }

    fn begin_fetch(&self, value: ValueId) -> Fetching {
        let (answer, asked) = (self.system.fetch(value), Asked::default());
        let open = asked.open.clone();
        self.asked.lock().unwrap().push_back(asked);
        let mut answer = Some(answer);
        Box::pin(std::future::poll_fn(move |context| {
            let mut open = open.lock().unwrap();
            if open.0 {
                return Poll::Ready(answer.take().unwrap());
            }
            open.1 = Some(context.waker().clone());
            Poll::Pending
        }))
    }

    fn stats(&self) -> Result<Stats, RunError> {
        self.system.stats()
    }

    fn close(&self) {
        self.system.close();
    }
}

/// Counts how often a task is woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a future says without waiting.
fn ask<T>(reading: Pin<&mut Reading<T>>) -> Poll<crate::Result<T>> {
    reading.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn reads_are_asked_for_at_once_and_wake_their_task() {
    let (session, late) = Late::session();
    let _entered = session.enter();
    let x = numbers(3, &[3]);
    let (sum, all) = (x.sum(..).item_async(), x.to_vec_async::<f32>());
    assert_eq!(late.n_asked(), 2);
    let (mut sum, mut all) = (pin!(sum), pin!(all));
    let count: Arc<Count> = Arc::default();
    let waker = Waker::from(count.clone());
    assert!(sum.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    late.answer();
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    assert!(matches!(ask(sum), Poll::Ready(Ok(sum)) if sum == 3.0));
    assert!(ask(all.as_mut()).is_pending());
    late.answer();
    assert!(matches!(ask(all), Poll::Ready(Ok(all)) if all == [0.0, 1.0, 2.0]));
}

#[test]
fn a_read_that_is_dropped_frees_its_value() {
    let (session, late) = Late::session();
    let _entered = session.enter();
    let x = numbers(3, &[3]);
    let reading = (&x + 1.0).to_host_async();
    drop(reading);
    session.flush();
    assert_eq!(late.system.live(), 1);
    late.answer();
    assert_eq!(x.sum(..).item().unwrap(), 3.0);
}

#[test]
fn errors_are_those_of_reads_that_wait() {
    let (session, late) = Late::session();
    let _entered = session.enter();
    let x = numbers(3, &[3]);
    let says = |reading| match ask(pin!(reading)) {
        Poll::Ready(Err(error)) => error,
        answer => panic!("{answer:?}"),
    };
    let line = line!() + 1;
    let error = says(x.item_async());
    assert_eq!(error.message(), x.item().unwrap_err().message());
    assert!(error.to_string().contains(&format!("reading.rs:{line}:")), "{error}");
    let wrong = x.to_vec_async::<i64>();
    let Poll::Ready(Err(error)) = ask(pin!(wrong)) else { panic!("no error") };
    assert_eq!(error.message(), x.to_vec::<i64>().unwrap_err().message());
    let error = says(x.matmul(&numbers(4, &[4, 1])).sum(..).item_async());
    assert!(error.message().starts_with("matmul: "), "{error}");
    let reads = |x: &[DynTensor]| {
        let error = says(x[0].item_async());
        assert!(error.message().starts_with("vmap: the function reads"), "{error}");
        &x[0] + 1.0
    };
    assert_eq!(autograd::vmap(reads, &[&x]).unwrap().sum(..).item().unwrap(), 6.0);
    assert_eq!(late.n_asked(), 0);
    session.close();
    assert_eq!(says(x.sum(..).item_async()).message(), "the session is closed");
}

/// A read that is given up before its checks were judged leaves them to the next read.
#[test]
fn a_watch_misses_nothing_when_a_read_is_dropped() {
    let (session, late) = Late::session();
    let _entered = session.enter();
    let watching = debug::watch_nan();
    let x = numbers(1, &[1]) - 1.0;
    let bad = x.log();
    let reading = x.item_async();
    assert_eq!(late.n_asked(), 2);
    drop(reading);
    let error = x.item().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Run);
    assert!(error.message().starts_with("log: the first NaN"), "{error}");
    drop(bad);

    let reading = x.item_async();
    drop(watching);
    drop(reading);
    drop(x);
    session.flush();
    assert_eq!(late.system.live(), 0);
}

#[test]
fn a_watch_reports_to_a_future() {
    let (session, late) = Late::session();
    let _entered = session.enter();
    let _watching = debug::watch_nan();
    let x = (numbers(1, &[1]) - 1.0).sqrt();
    let mut reading = pin!(x.item_async());
    assert!(ask(reading.as_mut()).is_pending());
    late.answer();
    let Poll::Ready(Err(error)) = ask(reading) else { panic!("no error") };
    assert!(error.message().starts_with("sqrt: the first NaN"), "{error}");
}
