//! The threads of a worker: one does the jobs that are not quick, one waits for reads of the device
//! (`reads`). Both tell the thread of the sockets what came of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::slot::Slot;
use crate::wire::FromWorker;
use crate::worker::executor::Executor;
use crate::worker::faults::panic_text;
use crate::worker::job::{Job, Ran};
use crate::worker::jobs::{Assigned, Jobs};
use crate::worker::queue::Fifo;
use crate::worker::reads::{Late, Tell};
use crate::zmq::Waker;

/// News of the executor's thread, and of the thread of the reads.
pub(super) enum Told {
    /// The reports on a job of this registration.
    Report(u64, Vec<FromWorker>),
    /// The answer to a read of this registration.
    Answer(u64, FromWorker),
    /// A plan is made for which sessions wait.
    Planned,
    /// The engine panicked.
    Panic(String),
    /// The device is lost.
    Failure(String),
}

/// The function that answers reads that had to wait for the device.
pub(super) fn later(orders: Arc<Jobs>, told: Arc<Fifo<Told>>, waker: Waker) -> Tell {
    Arc::new(move |late| {
        told.push(match late {
            Late::Answer(life, report) => Told::Answer(life, report),
            Late::Planned => Told::Planned,
            Late::Compiled(owner, nanos) => return orders.owe(owner, nanos),
            Late::Lost(why) => Told::Failure(why),
        });
        waker.wake();
    })
}

/// Starts the thread that does long jobs. It fills `gone` when it ends.
pub(super) fn spawn(
    executor: Arc<Mutex<Executor>>,
    orders: Arc<Jobs>,
    told: Arc<Fifo<Told>>,
    waker: Waker,
    gone: Slot<()>,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name("gt-worker".into()).spawn(move || {
        let work = || {
            while let Some(Assigned(life, job)) = orders.next() {
                let ran = run(&executor, &orders, &told, life, job);
                orders.settle(life, ran);
                waker.wake();
            }
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            told.push(Told::Panic(panic_text(&*panic)));
            waker.wake();
        }
        gone.put(());
    })
}

/// Does a job, and tells the outcome.
pub(super) fn run(
    executor: &Mutex<Executor>,
    orders: &Jobs,
    told: &Fifo<Told>,
    life: u64,
    job: Job,
) -> Ran {
    let mut reports = Vec::with_capacity(1);
    let mut executor = locked(executor);
    let ran = executor.run(life, job, orders, &mut reports);
    told.push(Told::Report(life, reports));
    executor.failure().into_iter().for_each(|why| told.push(Told::Failure(why.to_owned())));
    ran
}

/// The executor. If its engine panicked, it is not used again, because the worker ends.
pub(super) fn locked(executor: &Mutex<Executor>) -> MutexGuard<'_, Executor> {
    executor.lock().unwrap_or_else(PoisonError::into_inner)
}
