//! Unfinished reads: values that a worker copies to the host. A thread waits for the copies while
//! the worker goes on.
//!
//! Guarantees: every added read is answered, unless its session ends, the worker ends, or the
//! thread is lost, which is reported. The answers of one session come in the order of its reads. A
//! long read delays reads of other sessions by one slice at a time. The number of reads is limited:
//! adding another one waits. An engine whose values are available at once adds no reads and has no
//! such thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use gt_compiler::Download;
use gt_compiler::engine::EngineError;
use gt_ir::backend::RunError;
use gt_ir::error::Hinted as _;
use gt_ir::{HostTensor, Loc, ValueId};

use super::faults::{self, kind, panic_text};
#[cfg(doc)]
use super::job::Job;
use super::line::Line;
use super::queue::Fifo;
use crate::assembly::whole;
use crate::ids::{RequestId, SessionId};
use crate::wire::FromWorker;

/// The most unfinished reads. Each holds its value's memory.
const MOST: usize = 1024;

/// The owner of a read: the session, and the registration of the worker, because sessions of
/// different registrations may have the same name.
pub type Owner = (u64, SessionId);

/// A request for a value.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) owner: Owner,
    pub(super) request: RequestId,
    pub(super) value: ValueId,
    /// The name of the worker.
    pub(super) worker: Arc<str>,
}

impl Question {
    pub(super) fn answer(&self, data: Result<HostTensor, EngineError>) -> FromWorker {
        let (session, request) = (self.owner.1, self.request);
        match data {
            Ok(data) => FromWorker::Chunk { session, request, chunk: (whole(self.value, data)) },
            Err(error) => FromWorker::Failed { session, request, error: self.failed(&error) },
        }
    }

    pub(super) fn failed(&self, error: &EngineError) -> Arc<RunError> {
        let (kind, message, hint) = (kind(error), error.message(), error.hint());
        let error = faults::error(kind, message, self.value, Loc::NONE, &self.worker);
        Arc::new(RunError { hint, ..error })
    }
}

/// News of a worker that comes later than the report on its job.
#[derive(Debug)]
pub enum Late {
    /// The answer to a read of this registration.
    Answer(u64, FromWorker),
    /// A plan is made for which launches wait. The shell answers with a [`Job::Planned`].
    Planned,
    /// A plan was made for this session, in so many nanoseconds of all threads.
    Compiled(Owner, u64),
    /// The device is lost, for this reason.
    Lost(String),
}

/// The function that receives the news, called from the threads of the reads and of the compiler.
pub type Tell = Arc<dyn Fn(Late) + Send + Sync>;

/// The reads of a worker.
pub(super) struct Reads {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    line: Mutex<Line<Owner, (Question, Download)>>,
    /// One item for each turn that a read needs.
    bell: Fifo<()>,
    /// Notified when a read is over.
    over: Condvar,
    tell: Tell,
    failure: OnceLock<String>,
}

impl Reads {
    pub(super) fn new(tell: Tell) -> Reads {
        let (line, bell) = (Mutex::default(), Fifo::new());
        let (over, failure) = (Condvar::new(), OnceLock::new());
        Reads { shared: Arc::new(Shared { line, bell, over, tell, failure }), thread: None }
    }

    /// Adds a read. Waits while there are too many.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn add(&mut self, question: Question, download: Download) -> std::io::Result<()> {
        if self.thread.is_none() {
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new().name("gt-reads".into());
            self.thread = Some(thread.spawn(move || shared.serve())?);
        }
        let shared = &self.shared;
        let full = |line: &mut Line<_, _>| line.len() >= MOST && !shared.is_lost();
        let line = shared.over.wait_while(shared.lock(), full);
        let mut line = line.unwrap_or_else(PoisonError::into_inner);
        line.add(question.owner, (question, download));
        drop(line);
        shared.bell.push(());
        Ok(())
    }

    /// Whether a session has unfinished reads. The answer to its next read must come after them.
    pub(super) fn has(&self, owner: Owner) -> bool {
        self.thread.is_some() && self.shared.lock().has(owner)
    }

    /// Forgets the reads of a session that has ended.
    pub(super) fn forget(&self, owner: Owner) {
        if self.thread.is_some() {
            self.shared.lock().forget(owner);
        }
    }

    /// Waits until all reads are finished and hold no memory. Says whether there were any.
    pub(super) fn settle(&self) -> bool {
        let line = self.shared.lock();
        if self.thread.is_none() || line.is_empty() {
            return false;
        }
        let busy = |line: &mut Line<_, _>| !line.is_empty() && !self.shared.is_lost();
        drop(self.shared.over.wait_while(line, busy).unwrap_or_else(PoisonError::into_inner));
        true
    }

    /// Why the device or the thread is lost, if one is.
    pub(super) fn failure(&self) -> Option<&str> {
        self.shared.failure.get().map(String::as_str)
    }
}

impl Drop for Reads {
    /// Drops the unfinished reads, because nobody receives their answers any more.
    fn drop(&mut self) {
        *self.shared.lock() = Line::default();
        self.shared.bell.close();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Line<Owner, (Question, Download)>> {
        // Code under the lock cannot panic half-way.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the thread is lost. A failed device does not stop the thread, so reads are answered.
    fn is_lost(&self) -> bool {
        self.bell.is_closed()
    }

    fn serve(&self) {
        let turns = || {
            while let Some(()) = self.bell.pop() {
                self.turn();
            }
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(turns)) {
            self.bell.close();
            // A thread that holds the lock may not have seen that the bell is closed. Once it has
            // released the lock, it waits and is notified.
            drop(self.lock());
            self.over.notify_all();
            self.fail(&format!(
                "the thread that waits for reads panicked: {}",
                panic_text(&*panic)
            ));
        }
    }

    /// Waits for a slice of the next read.
    fn turn(&self) {
        let taken = self.lock().take();
        let Some((_, (question, download))) = taken else { return };
        match download.advance() {
            Ok(coming @ Download::Coming(_)) => self.again(question, coming),
            Ok(Download::Here(data)) => self.end(&question, Ok(data)),
            Err(error) => self.end(&question, Err(error)),
        }
    }

    fn again(&self, question: Question, download: Download) {
        // The read is dropped after the lock, because dropping it may wait.
        let unwanted = self.lock().put_back((question, download));
        if unwanted.is_some() {
            self.over.notify_all();
        } else {
            self.bell.push(());
        }
    }

    fn end(&self, question: &Question, data: Result<HostTensor, EngineError>) {
        let why = match &data {
            Err(EngineError::Device(why)) => Some(why.clone()),
            Ok(_) | Err(_) => None,
        };
        let wanted = self.lock().is_wanted();
        if wanted {
            (self.tell)(Late::Answer(question.owner.0, question.answer(data)));
        }
        self.lock().finish();
        self.over.notify_all();
        why.into_iter().for_each(|why| self.fail(&why));
    }

    fn fail(&self, why: &str) {
        if self.failure.set(why.to_owned()).is_ok() {
            (self.tell)(Late::Lost(why.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gt_compiler::Transfer;
    use gt_ir::Shape;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A transfer that ends with a permit, and panics if no permit can come.
    struct Let(Arc<Mutex<Receiver<()>>>);

    impl Transfer for Let {
        fn advance(&mut self) -> Result<Option<HostTensor>, EngineError> {
            self.0.lock().unwrap().recv().unwrap();
            Ok(Some(HostTensor::from_vec(vec![1_u8], Shape::new(&[1]).unwrap()).unwrap()))
        }
    }

    fn question(n: usize) -> Question {
        let (owner, worker) = ((0, SessionId(n as u64 % 3)), "w".into());
        Question { owner, request: RequestId(n as u64), value: ValueId(1), worker }
    }

    fn reads() -> (Reads, Receiver<Late>, Sender<()>, impl Fn() -> Download) {
        let ((tell, told), (permit, permits)) = (channel(), channel());
        let permits = Arc::new(Mutex::new(permits));
        let reads = Reads::new(Arc::new(move |late| tell.send(late).unwrap_or(())));
        (reads, told, permit, move || Download::Coming(Box::new(Let(permits.clone()))))
    }

    #[test]
    fn there_are_so_many_at_most_and_each_is_answered() {
        let (mut reads, told, permit, download) = reads();
        let (added, n) = (AtomicUsize::new(0), MOST + 100);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for i in 0..n {
                    reads.add(question(i), download()).unwrap();
                    added.fetch_add(1, SeqCst);
                }
                assert!(reads.settle() && !reads.settle());
            });
            let mut last = [None; 3];
            for answered in 0..n {
                while added.load(SeqCst) < (answered + MOST).min(n) {
                    std::thread::yield_now();
                }
                // If a read above the limit could be added, the other thread can do it now.
                std::thread::yield_now();
                assert!(added.load(SeqCst) <= answered + MOST);
                permit.send(()).unwrap();
                let Late::Answer(0, FromWorker::Chunk { session, request, .. }) =
                    told.recv().unwrap()
                else {
                    panic!("no answer")
                };
                let last = &mut last[session.0 as usize];
                assert!(*last < Some(request.0), "out of order");
                *last = Some(request.0);
            }
        });
    }

    #[test]
    fn a_thread_that_panics_tells_and_nobody_waits_for_it() {
        let (mut reads, told, permit, download) = reads();
        drop(permit);
        reads.add(question(0), download()).unwrap();
        let Late::Lost(why) = told.recv().unwrap() else { panic!("an answer from nowhere") };
        assert!(why.starts_with("the thread that waits for reads panicked: "), "{why}");
        assert_eq!(reads.failure(), Some(&*why));
        for n in 0..2 * MOST {
            reads.add(question(n), download()).unwrap();
        }
        assert!(reads.settle());
    }
}
