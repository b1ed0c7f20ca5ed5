//! Threads that make partitions, so that a long one delays only the session that waits for it.
//!
//! Guarantees: a partition that is wanted until its turn comes is made once. The threads end when
//! the server is dropped, each after its last partition.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

use crate::clock;
use crate::dispatcher::{Job, Made};
use crate::ids::SessionId;
use crate::roles::User;
use crate::zmq::Waker;

/// The most threads. They compete with workers of the same machine.
const MOST: usize = 4;

/// The session that a partition is for, and its user.
type Client = (SessionId, User);

/// A partition that is to be made, unless its session ends before.
type Wanted = (Client, Weak<Job>);

/// The threads, the partitions that they are to make, and those that they have made.
#[derive(Debug)]
pub(super) struct Partitioner {
    wanted: Sender<Wanted>,
    queue: Arc<Mutex<Receiver<Wanted>>>,
    done: Sender<Made>,
    made: Receiver<Made>,
    waker: Waker,
    n_threads: usize,
    most: usize,
}

impl Partitioner {
    /// Without threads, until one is needed. `waker` wakes the server when a partition is there.
    pub(super) fn new(waker: Waker) -> Partitioner {
        let ((wanted, queue), (done, made)) = (channel(), channel());
        let queue = Arc::new(Mutex::new(queue));
        let most = thread::available_parallelism().map_or(1, usize::from).min(MOST);
        Partitioner { wanted, queue, done, made, waker, n_threads: 0, most }
    }

    /// Has a partition made.
    pub(super) fn add(&mut self, client: Client, job: &Arc<Job>) {
        if self.n_threads < self.most && self.start() {
            self.n_threads += 1;
        }
        match self.n_threads {
            // The system has no thread to spare.
            0 => drop(self.done.send(make(client, Arc::clone(job)))),
            _ => drop(self.wanted.send((client, Arc::downgrade(job)))),
        }
    }

    /// The next partition that was made.
    pub(super) fn made(&mut self) -> Option<Made> {
        self.made.try_recv().ok()
    }

    /// Starts a thread, if the system has one to spare.
    fn start(&self) -> bool {
        let (queue, done) = (Arc::clone(&self.queue), self.done.clone());
        let waker = self.waker.clone();
        let work = move || {
            while let Some((client, job)) = next(&queue) {
                if let Some(job) = job.upgrade() {
                    let _ = done.send(make(client, job));
                    waker.wake();
                }
            }
        };
        thread::Builder::new().name("gt partitioner".into()).spawn(work).is_ok()
    }
}

fn next(queue: &Mutex<Receiver<Wanted>>) -> Option<Wanted> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

fn make((session, user): Client, job: Arc<Job>) -> Made {
    let began = clock::now();
    let partition = job.make();
    let nanos = (clock::now() - began).as_nanos();
    Made { session, user, job, partition, nanos: u64::try_from(nanos).unwrap_or(u64::MAX) }
}
