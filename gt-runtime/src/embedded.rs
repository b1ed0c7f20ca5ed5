//! The whole system inside one process: no sockets, no ports, no thread for the dispatcher.
//!
//! Dispatcher, connections and worker cores are passive state behind one lock (`state`). A thread
//! that brings an event handles it with all packets that follow from it: a thread that submits or
//! reads (`session`), or an executor that reports (this file). Each worker has one thread for its
//! executor, and one that waits for reads if it has a device. A thread that waits for a value does
//! jobs of the executor (`post`). Packets are not encoded, and tensors are not copied on their way.
//!
//! A worker whose engine panics is lost, as a worker process is: reads of its values fail, and a
//! new worker takes its place. `process` chooses the system of programs that name none.

mod post;
mod process;
mod session;
mod state;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::task::Waker;

use gt_compiler::NativeConfig;
use gt_compiler::engine::{Engine, EngineError};
use gt_compiler::threads::wanted;
use gt_ir::backend::{Backend, Demand, ErrorKind, RunError, possible_workers};
use gt_ir::error::Hinted as _;

pub use process::{CONNECT, WORKERS, open};

use crate::assembly::Travel;
use crate::choice::{Begun, Choice, Wish};
use crate::client::{Session, Submitter};
use crate::clock;
use crate::connection::{Connection, ConnectionConfig};
use crate::dispatcher::Event;
use crate::identity::{Identity, program};
use crate::ids::{Incarnation, PeerId};
use crate::log::Log;
use crate::machine::Machine;
use crate::messages::{self, Area, Rank};
use crate::profile::{self, Call};
use crate::tier::Tiers;
use crate::wire::{FromWorker, Hello, Role};
use crate::worker::capacity;
use crate::worker::jobs::Jobs;
use crate::worker::reads::{Late, Tell};
use crate::worker::{Executor, Job, WorkerEnd};
use post::Post;
use session::Embedded;
use state::{State, Worker};

/// The registration of every worker, because workers register once here.
const ONLY: u64 = 0;

/// A function that makes the engine of the n-th worker.
pub type MakeEngine = Box<dyn Fn(usize) -> Result<Box<dyn Engine>, EngineError> + Send + Sync>;

/// A running system. It ends when its last handle and its last session are dropped.
#[derive(Clone)]
pub struct System(Arc<Handle>);

/// Held by systems and sessions, not by executors. The executors end when it is dropped.
struct Handle(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Notified when a session may have room again.
    moved: Condvar,
    engine: MakeEngine,
    n_workers: usize,
    tiers: Tiers,
    log: Log,
}

impl System {
    /// A system with the engines of the environment, or else of this build and this machine (see
    /// [`crate::choice`]). The engines share the machine's cores and memory: one that
    /// works alone has all cores.
    ///
    /// # Errors
    /// The engines are not available, the number of workers is not possible, or a thread cannot be
    /// started.
    pub fn start(workers: usize, log: Log) -> Result<System, RunError> {
        System::start_with(workers, Tiers::from_environment()?, log)
    }

    /// As [`System::start`], with this configuration of plans in place of the environment's.
    ///
    /// # Errors
    /// As [`System::start`].
    pub fn start_with(workers: usize, tiers: Tiers, log: Log) -> Result<System, RunError> {
        System::chosen(workers, Choice::make(&Wish::default())?, tiers, log)
    }

    /// As [`System::start_with`], with this choice of engines.
    ///
    /// # Errors
    /// The number of workers is not possible, an engine cannot be made, or a thread cannot be
    /// started.
    pub fn chosen(
        workers: usize,
        choice: Choice,
        tiers: Tiers,
        log: Log,
    ) -> Result<System, RunError> {
        possible_workers(workers)?;
        let host = NativeConfig::host().shared_by(workers);
        let cannot = |why: EngineError| RunError::of(ErrorKind::Resource, &why);
        let Begun { engine, choice, news } = choice.begin(host.clone()).map_err(cannot)?;
        news.iter().for_each(|news| announce(news));
        let first = Mutex::new(Some(engine));
        let engine = move |n| {
            let begun = first.lock().unwrap_or_else(PoisonError::into_inner).take();
            begun.map_or_else(|| choice.engine(choice.device(n), host.clone()), Ok)
        };
        System::configured(workers, Box::new(engine), tiers, log)
    }

    /// The system of a program with this wish. The environment fills in open choices: the number of
    /// workers, the devices and the configuration of plans.
    ///
    /// # Errors
    /// The wish or the environment names an engine or a device that is not available, or the system
    /// cannot be started.
    pub fn own(wish: &Wish, workers: Option<usize>) -> Result<System, RunError> {
        let choice = Choice::make(wish)?;
        let workers = workers.map_or_else(|| process::usual_workers(choice.devices.len()), Ok)?;
        System::chosen(workers, choice, Tiers::from_environment()?, Log::from_environment())
    }

    /// A system with the caller's engines.
    ///
    /// # Errors
    /// There can be no such number of workers, or no thread can be started.
    pub fn with_engines(workers: usize, engine: MakeEngine, log: Log) -> Result<System, RunError> {
        System::configured(workers, engine, Tiers::from_environment()?, log)
    }

    /// A system with the caller's engines and this configuration of plans.
    ///
    /// # Errors
    /// There can be no such number of workers, or no thread can be started.
    pub fn configured(
        workers: usize,
        engine: MakeEngine,
        tiers: Tiers,
        log: Log,
    ) -> Result<System, RunError> {
        possible_workers(workers)?;
        let (state, moved) = (Mutex::new(State::new(log.clone())), Condvar::new());
        let shared = Arc::new(Shared { state, moved, engine, n_workers: workers, tiers, log });
        let handle = Handle(shared.clone());
        for n in 0..workers {
            shared.clone().start_worker(n)?;
        }
        Ok(System(Arc::new(handle)))
    }

    /// Opens a new session.
    #[must_use]
    pub fn session(&self) -> Arc<dyn Backend> {
        self.session_asking(&Demand::default())
    }

    /// Opens a new session, which asks for certain workers.
    #[must_use]
    pub fn session_asking(&self, demand: &Demand) -> Arc<dyn Backend> {
        profile::from_environment();
        let shared = &self.0.0;
        let machine = demand.plans().map(|_| Machine::with_threads(wanted()));
        let mut state = shared.lock();
        machine.into_iter().for_each(|machine| state.dispatcher.knows(machine));
        let peer = state.new_peer();
        let hello = Hello::new(Role::Client, Identity::here(program())).asking(demand.clone());
        let session = Session::new(
            Connection::dial(clock::now(), life(), hello, ConnectionConfig::embedded()),
            "the embedded system".into(),
            Travel::Whole,
            shared.log.clone(),
        );
        let capture = session.capture.clone();
        state.sessions.insert(peer, session);
        state.settle(peer);
        let submitter = Submitter::new(shared.tiers.templates);
        Arc::new(Embedded { handle: self.0.clone(), peer, submitter, capture })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.workers.values().for_each(|worker| worker.queue.close());
        // The executor knows the system, which would otherwise live on with it.
        state.post = None;
    }
}

/// Prints once which GPU the process uses, if the GPU was chosen without a wish.
fn announce(news: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| messages::say(Rank::News, Area::Client, &news));
}

/// The share of this host's threads and memory for each of `workers` engines.
#[must_use]
pub fn share_of_host(workers: usize) -> NativeConfig {
    let host = NativeConfig::host();
    NativeConfig {
        threads: (host.threads / workers.max(1)).max(1),
        memory_limit: host.memory_limit / workers.max(1),
        ..host
    }
}

/// The incarnation of a new client or worker.
fn life() -> Incarnation {
    Incarnation(clock::wall_nanos())
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock is a bug of the state machines. Other sessions go on with the
        // state as it is.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a session is open.
    fn in_use(&self) -> bool {
        self.lock().sessions.values().any(|session| !session.is_closed())
    }

    /// Whether a worker is one of those that a program asks for.
    fn fits(&self, demand: &Demand) -> bool {
        let workers = &self.lock().workers;
        let mut capacities = workers.values().map(|worker| &worker.capacity);
        capacities.any(|capacity| demand.fits(&capacity.engine, &capacity.device))
    }

    /// Lets go of the lock, and wakes the tasks whose answers have arrived.
    fn release(mut state: MutexGuard<'_, State>) {
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        tasks.into_iter().for_each(Waker::wake);
    }

    /// Calls `act` on a session, and handles the packets that follow from it.
    fn with<T>(&self, peer: PeerId, act: impl FnOnce(&mut Session) -> T) -> Option<T> {
        let mut state = self.lock();
        let result = act(state.sessions.get_mut(&peer)?);
        state.settle(peer);
        Shared::release(state);
        Some(result)
    }

    /// As [`with`](Shared::with), after waiting until the session has room. The wait is no
    /// recording, though the call that waits hands over work.
    fn when_roomy(&self, peer: PeerId, act: impl FnOnce(&mut Session)) {
        let mut state = self.lock();
        let full = state.sessions.get(&peer).filter(|session| session.is_full());
        let full = full.map(|session| session.capture.clone());
        let waits = full.as_ref().map(|capture| (Call::wait(), capture.waits()));
        while state.sessions.get(&peer).is_some_and(Session::is_full) {
            state.post.iter().for_each(|post| post.jobs.leave());
            state.n_waiting += 1;
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.n_waiting -= 1;
        }
        drop(waits);
        if let Some(session) = state.sessions.get_mut(&peer) {
            act(session);
            state.settle(peer);
        }
        Shared::release(state);
    }

    fn start_worker(self: Arc<Self>, n: usize) -> Result<(), RunError> {
        let cannot = |why: String| {
            RunError::new(ErrorKind::Resource, format!("cannot start a worker: {why}"))
        };
        let engine =
            (self.engine)(n).map_err(|e| RunError { hint: e.hint(), ..cannot(e.message()) })?;
        let post = self.join(engine);
        let peer = post.peer;
        let shared = self.clone();
        let work = move || {
            if let Some(why) = shared.work(&post) {
                shared.lose(peer, &why);
                // Without a new worker, reads fail with an error that says so.
                let _ = shared.start_worker(n);
            }
        };
        let thread = std::thread::Builder::new().name(format!("gt-worker-{n}")).spawn(work);
        thread.map(drop).map_err(|e| {
            self.lose(peer, &e.to_string());
            cannot(e.to_string())
        })
    }

    /// Registers a worker with the dispatcher.
    fn join(self: &Arc<Self>, engine: Box<dyn Engine>) -> Arc<Post> {
        let is_helped = self.n_workers == 1 && !engine.is_bound_to_a_thread();
        let capacity = capacity(&engine.info());
        let mut state = self.lock();
        let (peer, queue) = (state.new_peer(), Arc::new(Jobs::new()));
        let (who, config) = (Identity::here(String::new()), ConnectionConfig::embedded());
        let (now, known) = (clock::now(), capacity.clone());
        let end = WorkerEnd::dial(now, life(), who, known, config, Travel::Whole);
        let worker = Worker { end, queue: queue.clone(), name: "worker".into(), capacity };
        state.workers.insert(peer, worker);
        state.settle(peer);
        let name = state.workers.get(&peer).map_or_else(String::new, |worker| worker.name.clone());
        Shared::release(state);
        let tell = self.later(peer, queue.clone());
        let executor = Executor::new(engine, &name, self.tiers.plans, self.log.clone(), tell);
        let post = Arc::new(Post::new(peer, queue, executor));
        if is_helped {
            self.lock().post = Some(post.clone());
        }
        post
    }

    /// Sends a worker's reports.
    fn report(&self, peer: PeerId, reports: impl Iterator<Item = FromWorker>) {
        let mut state = self.lock();
        if let Some(worker) = state.workers.get_mut(&peer) {
            reports.for_each(|report| worker.end.report(clock::now(), report));
            state.settle(peer);
        }
        let is_awaited = state.n_waiting > 0;
        Shared::release(state);
        if is_awaited {
            self.moved.notify_all();
        }
    }

    /// The function that answers reads that had to wait for the device. If the device is lost, it
    /// closes the queue, and the worker's thread then finds the reason.
    fn later(self: &Arc<Self>, peer: PeerId, queue: Arc<Jobs>) -> Tell {
        let shared = self.clone();
        Arc::new(move |late| match late {
            Late::Answer(_, answer) => shared.report(peer, std::iter::once(answer)),
            Late::Planned => queue.add(ONLY, Job::Planned),
            Late::Compiled(owner, nanos) => queue.owe(owner, nanos),
            Late::Lost(_) => queue.close(),
        })
    }

    /// Removes a worker, and tells the dispatcher the reason.
    fn lose(&self, peer: PeerId, why: &str) {
        let mut state = self.lock();
        if let Some(mut worker) = state.workers.remove(&peer) {
            state.post = None;
            let bye = worker.end.close(why.to_owned());
            state.bring(clock::now(), Event::Packet(peer, bye));
            state.settle(peer);
        }
        Shared::release(state);
        self.moved.notify_all();
    }
}
