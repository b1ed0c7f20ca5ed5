//! The post of a worker's executor, whose jobs its own thread does, or a thread of the program that
//! waits for a value.
//!
//! A step that reads its loss would otherwise wake the worker's thread and be woken by it, which
//! takes longer than many steps, and three threads would share two cores. A thread that waits
//! therefore does the jobs itself, until its answer is there or another thread is at work. It waits
//! as before where an engine is bound to a thread, and where several workers run at the same time.
//!
//! Jobs may compile, so a thread that reads needs a stack like the standard library's threads have.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Shared;
use crate::ids::PeerId;
use crate::slot::spin_until;
use crate::worker::faults::panic_text;
use crate::worker::job::Ran;
use crate::worker::jobs::{Assigned, Jobs};
use crate::worker::{Executor, Job};

/// An executor and its jobs. Whoever has taken a job has the executor for it.
pub(super) struct Post {
    pub(super) peer: PeerId,
    pub(super) jobs: Arc<Jobs>,
    executor: Mutex<Executor>,
    /// What the engine said when it panicked.
    panic: Mutex<Option<String>>,
}

impl Post {
    pub(super) fn new(peer: PeerId, jobs: Arc<Jobs>, executor: Executor) -> Post {
        Post { peer, jobs, executor: Mutex::new(executor), panic: Mutex::new(None) }
    }

    /// Why no job is done any more, if the engine is the reason.
    fn trouble(&self) -> Option<String> {
        if let Some(panic) = &*locked(&self.panic) {
            return Some(format!("its engine panicked: {panic}"));
        }
        locked(&self.executor).failure().map(|why| format!("its device failed: {why}"))
    }
}

impl Shared {
    /// The work of an executor's own thread. Returns the reason if its worker is lost.
    pub(super) fn work(&self, post: &Post) -> Option<String> {
        let mut next = post.jobs.next();
        while let Some(Assigned(life, job)) = next {
            let Some(ran) = self.run(post, life, job) else { break };
            next = post.jobs.settle_and_next(life, ran);
        }
        post.trouble()
    }

    /// Does jobs until `done`, or until another thread is at work.
    pub(super) fn help(&self, done: impl Fn() -> bool) {
        let post = self.lock().post.clone();
        let Some(post) = post else { return };
        while !done() {
            match post.jobs.help() {
                Some(job) => self.run_until(&post, job, &done),
                // The jobs are closed, and a new worker takes the place of this one.
                None if post.jobs.is_busy() => return,
                // Another thread has the job that is out.
                None => {
                    if !spin_until(|| done() || post.jobs.is_busy()) {
                        return post.jobs.leave();
                    }
                }
            }
        }
    }

    /// Leaves all jobs to the executor's own thread.
    pub(super) fn leave(&self) {
        if let Some(post) = &self.lock().post {
            post.jobs.leave();
        }
    }

    /// Does this job and the next ones. What is left then is for the executor's own thread.
    fn run_until(&self, post: &Post, first: Assigned, done: impl Fn() -> bool) {
        let mut next = Some(first);
        while let Some(Assigned(life, job)) = next
            && let Some(ran) = self.run(post, life, job)
        {
            next = match done() {
                false => post.jobs.settle_and_help(life, ran),
                true => {
                    post.jobs.settle(life, ran);
                    None
                }
            };
        }
    }

    /// Does a job, and reports. None if the engine is lost: its own thread then finds the reason.
    fn run(&self, post: &Post, life: u64, job: Job) -> Option<Ran> {
        let work = || {
            let mut reports = Vec::new();
            let mut executor = locked(&post.executor);
            let ran = executor.run(life, job, &post.jobs, &mut reports);
            let has_failed = !reports.is_empty() && executor.failure().is_some();
            drop(executor);
            if !reports.is_empty() {
                self.report(post.peer, reports.into_iter());
            }
            (!has_failed).then_some(ran)
        };
        let ran = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
            *locked(&post.panic) = Some(panic_text(&*panic));
            None
        });
        if ran.is_none() {
            post.jobs.close();
        }
        ran
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // After a panic the executor does no job more.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
