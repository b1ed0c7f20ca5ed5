//! The jobs that wait for an executor. Sessions share its time (`fair`), and the jobs of a session
//! stay in order, except that a read goes ahead of segments that it does not need.
//!
//! Guarantees: the queued jobs of a session that ends are dropped, and its end is the next job. A
//! closed queue gives no job more. A session whose task waits for a plan gives way to the others. A
//! long segment that runs instruction by instruction does so, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::fair::Fair;
use super::job::{Job, Ran};
use super::queue::{Items, Queue};
use super::reads::Owner;
use crate::ids::SessionId;
use crate::wire::Order;

/// A job, with the number of the registration that it is of.
#[derive(Debug)]
pub struct Assigned(pub u64, pub Job);

/// The jobs of an executor, which other threads add.
#[derive(Debug)]
pub struct Jobs {
    queue: Queue<Lines>,
    contended: Arc<AtomicBool>,
    /// Whether the executor has put segments off, so that any task may take long.
    behind: AtomicBool,
}

/// The jobs, and the one that is out.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    fair: Fair<Owner, Assigned>,
    out: Option<Out>,
    /// The number of segments that were added since a job was taken.
    n_untaken: usize,
    /// Whether another session waits than that of the job that is out. Read without the lock.
    contended: Arc<AtomicBool>,
}

/// A job that is out: its session, if it is of one.
#[derive(Clone, Copy, Debug)]
struct Out(Option<Owner>);

impl Items for Lines {
    type Item = Assigned;

    fn take(&mut self) -> Option<Assigned> {
        if self.out.is_some() {
            return None;
        }
        let job = self.fair.take()?;
        self.begin(&job);
        Some(job)
    }

    fn is_empty(&self) -> bool {
        self.out.is_some() || self.fair.is_empty()
    }
}

impl Lines {
    /// Adds a job of a registration.
    pub(crate) fn add(&mut self, registration: u64, job: Job) {
        let fair = &mut self.fair;
        let owner = |session| (registration, session);
        match job {
            Job::Open { session, weight, .. } => {
                fair.open(owner(session), weight);
                fair.add(owner(session), Assigned(registration, job));
            }
            Job::Task(task) => {
                let (owner, own) = (owner(task.session), task.place());
                let is_ahead = matches!(task.order, Order::Fetch { .. });
                let job = Assigned(registration, Job::Task(task));
                match is_ahead {
                    true => {
                        let is_before = |Assigned(_, before): &Assigned| match before {
                            Job::Task(before) => before.place() <= own,
                            Job::Open { .. } | Job::Planned | Job::End { .. } => true,
                        };
                        // What a program freed before a read is free after it.
                        let frees = |Assigned(_, before): &Assigned| before.computes_nothing();
                        fair.add_behind(owner, job, is_before, frees);
                    }
                    false => fair.add(owner, job),
                }
            }
            Job::End { session } => {
                fair.end(owner(session));
                fair.add_first(Assigned(registration, job));
            }
            Job::Planned => fair.add_first(Assigned(registration, job)),
        }
        self.compare();
    }

    fn begin(&mut self, Assigned(registration, job): &Assigned) {
        self.n_untaken = 0;
        self.out = Some(Out(job.session().map(|session| (*registration, session))));
        self.compare();
    }

    /// Notes whether other sessions wait for the job that is out.
    fn compare(&self) {
        let contended = self.out.is_some_and(|Out(owner)| self.fair.has_others(owner));
        self.contended.store(contended, Ordering::Relaxed);
    }
}

impl Lines {
    /// Ends the turn of the job that is out.
    pub(crate) fn settle(&mut self, registration: u64, ran: Ran) {
        let owner = |session| (registration, session);
        match ran {
            Ran::Done(None, _) => {}
            Ran::Done(Some(session), nanos) => self.fair.charge(owner(session), nanos),
            Ran::Paused(task, nanos) => {
                let owner = owner(task.session);
                self.fair.charge(owner, nanos);
                self.fair.put_back(owner, Assigned(registration, Job::Task(task)));
            }
            Ran::Waits(task) => {
                let owner = owner(task.session);
                self.fair.park(owner, Assigned(registration, Job::Task(task)));
            }
            Ran::Planned => self.fair.resume(),
        }
        self.out = None;
        self.compare();
    }
}

impl Jobs {
    /// No jobs.
    #[must_use]
    pub fn new() -> Jobs {
        let queue: Queue<Lines> = Queue::new();
        let contended = queue.change(|lines| lines.contended.clone());
        Jobs { queue, contended, behind: AtomicBool::new(false) }
    }

    /// Notes whether the executor has put segments off.
    pub(super) fn puts_off(&self, behind: bool) {
        self.behind.store(behind, Ordering::Relaxed);
    }

    /// Adds a job of a registration. A second segment is not left to threads that wait, because a
    /// program that submits several segments does not wait for each. Nor is one that only frees
    /// values, because others may need the memory.
    pub fn add(&self, registration: u64, job: Job) {
        self.queue.change_quietly(|lines| {
            let is_left = matches!(job, Job::Task(_)) && !job.computes_nothing();
            lines.n_untaken += usize::from(job.is_segment());
            lines.add(registration, job);
            is_left && lines.n_untaken <= 1
        });
    }

    /// Takes the next job out for a thread that waits, if no other job is out. The job must be
    /// settled. Until [`leave`](Jobs::leave), jobs are left to such threads.
    pub(crate) fn help(&self) -> Option<Assigned> {
        self.queue.help(Lines::take)
    }

    /// Ends the turn of the job that is out, and takes the next one as [`Jobs::help`] does.
    pub(crate) fn settle_and_help(&self, registration: u64, ran: Ran) -> Option<Assigned> {
        self.queue.help(|lines| {
            lines.settle(registration, ran);
            lines.take()
        })
    }

    /// Leaves all jobs to the thread of the executor.
    pub(crate) fn leave(&self) {
        self.queue.leave();
    }

    /// Whether there may be a job to take.
    pub(crate) fn is_busy(&self) -> bool {
        self.queue.is_busy()
    }

    /// Takes a task out if it is the next job, no other is out, and nothing is put off. Else adds
    /// the job. A job that is taken out must be settled.
    pub(super) fn try_begin(&self, registration: u64, job: Job) -> Option<Job> {
        self.queue.change(|lines| {
            let free = |session| lines.fair.is_free_for((registration, session));
            // The others change the queue itself, too.
            let is_task = matches!(job, Job::Task(_)) && !self.behind.load(Ordering::Relaxed);
            if !is_task || lines.out.is_some() || !job.session().is_none_or(free) {
                lines.add(registration, job);
                return None;
            }
            let job = Assigned(registration, job);
            lines.begin(&job);
            Some(job.1)
        })
    }

    /// Takes the next job out, and waits for it if necessary. None if the queue is closed. The job
    /// must be settled.
    #[must_use]
    pub fn next(&self) -> Option<Assigned> {
        self.queue.pop()
    }

    /// Ends the turn of the job that is out: charges its session, and puts the rest back.
    pub fn settle(&self, registration: u64, ran: Ran) {
        self.queue.change(|lines| lines.settle(registration, ran));
    }

    /// Ends the turn of the job that is out, and takes the next one as [`Jobs::next`] does.
    #[must_use]
    pub fn settle_and_next(&self, registration: u64, ran: Ran) -> Option<Assigned> {
        let next = self.queue.change(|lines| {
            lines.settle(registration, ran);
            lines.take()
        });
        next.or_else(|| self.next())
    }

    /// Whether other sessions wait for the job that is out.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.contended.load(Ordering::Relaxed)
    }

    /// Whether another session goes first once that of the job that is out has used so many
    /// nanoseconds.
    #[must_use]
    pub fn is_due(&self, nanos: u64) -> bool {
        self.queue.change(|lines| {
            let owner = lines.out.and_then(|Out(owner)| owner);
            owner.is_some_and(|owner| lines.fair.is_due(owner, nanos))
        })
    }

    /// Charges a session for work beside its jobs.
    pub fn owe(&self, owner: Owner, nanos: u64) {
        self.queue.change(|lines| lines.fair.owe(owner, nanos));
    }

    /// Closes the queue and drops its jobs.
    pub fn close(&self) {
        self.queue.change(|lines| lines.fair = Fair::default());
        self.queue.close();
    }
}

impl Default for Jobs {
    fn default() -> Jobs {
        Jobs::new()
    }
}

impl Job {
    /// The session that it is of.
    fn session(&self) -> Option<SessionId> {
        match self {
            Job::Open { session, .. } | Job::End { session } => Some(*session),
            Job::Task(task) => Some(task.session),
            Job::Planned => None,
        }
    }
}
