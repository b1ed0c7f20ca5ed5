//! The jobs that wait for an executor. Sessions share its time (`fair`), and the jobs of a session
//! stay in order, except that a read goes ahead of segments that it does not need.
//!
//! Guarantees: the queued jobs of a session that ends are dropped, and its end is the next job. A
//! closed queue gives no job more. A session whose task waits for a plan gives way to the others.

use super::executor::Ran;
use super::fair::Fair;
use super::job::Job;
use super::queue::{Items, Queue};
use super::reads::Owner;
use crate::ids::SessionId;
use crate::wire::Order;

/// A job, with the number of the registration that it is of.
#[derive(Debug)]
pub struct Assigned(pub u64, pub Job);

/// The jobs of an executor, which other threads add.
#[derive(Debug, Default)]
pub struct Jobs(Queue<Lines>);

/// The jobs, and whether one of them is out.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    fair: Fair<Owner, Assigned>,
    is_out: bool,
}

impl Items for Lines {
    type Item = Assigned;

    fn take(&mut self) -> Option<Assigned> {
        let job = self.fair.take();
        self.is_out |= job.is_some();
        job
    }

    fn is_empty(&self) -> bool {
        self.fair.is_empty()
    }
}

impl Lines {
    /// Adds a job of a registration.
    pub(crate) fn add(&mut self, registration: u64, job: Job) {
        let fair = &mut self.fair;
        let owner = |session| (registration, session);
        match job {
            Job::Open { session, .. } => {
                fair.open(owner(session), 10);
                fair.add(owner(session), Assigned(registration, job));
            }
            Job::Task(task) => {
                let (owner, own) = (owner(task.session), task.place());
                let is_ahead = matches!(task.order, Order::Fetch { .. });
                let job = Assigned(registration, Job::Task(task));
                match is_ahead {
                    true => fair.add_behind(owner, job, |Assigned(_, before)| match before {
                        Job::Task(before) => before.place() <= own,
                        Job::Open { .. } | Job::Planned | Job::End { .. } => true,
                    }),
                    false => fair.add(owner, job),
                }
            }
            Job::End { session } => {
                fair.end(owner(session));
                fair.add_first(Assigned(registration, job));
            }
            Job::Planned => fair.add_first(Assigned(registration, job)),
        }
    }
}

impl Lines {
    /// Ends the turn of the job that is out.
    pub(crate) fn settle(&mut self, registration: u64, ran: Ran) {
        self.is_out = false;
        match ran {
            Ran::Done(None, _) => {}
            Ran::Done(Some(session), nanos) => self.fair.charge((registration, session), nanos),
            Ran::Waits(task) => {
                let owner = (registration, task.session);
                self.fair.park(owner, Assigned(registration, Job::Task(task)));
            }
            Ran::Planned => self.fair.resume(),
        }
    }
}

impl Jobs {
    /// No jobs.
    #[must_use]
    pub fn new() -> Jobs {
        Jobs::default()
    }

    /// Adds a job of a registration.
    pub fn add(&self, registration: u64, job: Job) {
        self.0.change(|lines| lines.add(registration, job));
    }

    /// Takes a job out if it is the next one and no other is out. Else adds it. A job that is taken
    /// out must be settled.
    pub(super) fn try_begin(&self, registration: u64, job: Job) -> Option<Job> {
        self.0.change(|lines| {
            let free = |session| lines.fair.is_free_for((registration, session));
            if lines.is_out || !job.session().is_none_or(free) {
                lines.add(registration, job);
                return None;
            }
            lines.is_out = true;
            Some(job)
        })
    }

    /// Takes the next job out, and waits for it if necessary. None if the queue is closed. The job
    /// must be settled.
    #[must_use]
    pub fn next(&self) -> Option<Assigned> {
        self.0.pop()
    }

    /// Ends the turn of the job that is out: charges its session, and puts the rest back.
    pub fn settle(&self, registration: u64, ran: Ran) {
        self.0.change(|lines| lines.settle(registration, ran));
    }

    /// Closes the queue and drops its jobs.
    pub fn close(&self) {
        self.0.change(|lines| lines.fair = Fair::default());
        self.0.close();
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
