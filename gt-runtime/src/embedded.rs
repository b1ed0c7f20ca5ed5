//! The whole system inside one process: no sockets, no ports, no thread for the dispatcher.
//!
//! Dispatcher, connections and worker cores are passive state in one lock; whoever brings an event (a thread that submits or
//! reads, an executor that reports) carries its consequences through to the last packet. Only the executors, one a worker, are threads.
//! Packets travel as they are; tensors are never copied on the way. A worker whose engine panics is lost like any other, with an
//! error for those who read from it, and is replaced.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError, Weak};

use gt_compiler::NativeConfig;
use gt_compiler::engine::{Engine, EngineError};
use gt_ir::backend::{Backend, ErrorKind, MAX_WORKERS, RunError, Stats, Target, possible_workers};
use gt_ir::signal::Signals;
use gt_ir::{HostTensor, Tape, ValueId};

use crate::choice::{Begun, Choice, Wish};
use crate::client::{self, Session, Submitter, Travel, identity, program};
use crate::clock;
use crate::connection::{Connection, ConnectionConfig, Incoming};
use crate::dispatcher::{Action, Config, Dispatcher, Event};
use crate::ids::{Incarnation, PeerId};
use crate::log::{Log, Source, What};
use crate::tier::Tiers;
use crate::wire::{FromWorker, Hello, Message, Packet, Role, Stream, Weight};
use crate::worker::queue::Queue;
use crate::worker::serve::{capacity, panic_text};
use crate::worker::{Core, Executor, Job};

/// The variable that names a server to use instead.
pub const CONNECT: &str = "GT_CONNECT";
/// The variable that says how many workers there are.
pub const WORKERS: &str = "GT_WORKERS";

/// Makes the engine of the n-th worker.
pub type MakeEngine = Box<dyn Fn(usize) -> Result<Box<dyn Engine>, EngineError> + Send + Sync>;

/// A running system. It ends with its last handle and the last of its sessions.
#[derive(Clone)]
pub struct System(Arc<Handle>);

/// What the sessions hold, but the executors do not: when it drops, they end.
struct Handle(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Signalled when a session may have room again.
    moved: Condvar,
    engine: MakeEngine,
    n_workers: usize,
    tiers: Tiers,
    log: Log,
}

struct State {
    dispatcher: Dispatcher,
    sessions: BTreeMap<PeerId, Session>,
    workers: BTreeMap<PeerId, Worker>,
    next_peer: u64,
    /// Peers whose connection may have something to send.
    stirred: VecDeque<PeerId>,
    actions: Vec<Action>,
    packets: Vec<Packet>,
    jobs: Vec<Job>,
    log: Log,
}

struct Worker {
    connection: Connection,
    core: Core,
    queue: Arc<Queue<Job>>,
    name: String,
}

impl System {
    /// A system with the engines that the environment asks for, or else this build and this machine have (see [`crate::choice`]); they share
    /// the machine's cores.
    ///
    /// # Errors
    /// What is asked for is not here, there can be no such number of workers, or no thread can be started.
    pub fn start(workers: usize, log: Log) -> Result<System, RunError> {
        System::start_with(workers, Tiers::from_environment()?, log)
    }

    /// As [`System::start`], with plans as chosen and not as the environment says.
    ///
    /// # Errors
    /// As [`System::start`].
    pub fn start_with(workers: usize, tiers: Tiers, log: Log) -> Result<System, RunError> {
        System::chosen(workers, Choice::make(&Wish::default())?, tiers, log)
    }

    /// As [`System::start_with`], with engines as chosen.
    ///
    /// # Errors
    /// There can be no such number of workers, an engine cannot be made, or no thread can be started.
    pub fn chosen(
        workers: usize,
        choice: Choice,
        tiers: Tiers,
        log: Log,
    ) -> Result<System, RunError> {
        possible_workers(workers)?;
        let host = share_of_host(workers);
        let cannot = |why: EngineError| RunError::new(ErrorKind::Resource, why.to_string());
        let Begun { engine, choice, news } = choice.begin(host.clone()).map_err(cannot)?;
        news.iter().for_each(|news| announce(news));
        let first = Mutex::new(Some(engine));
        let engine = move |n| {
            let begun = first.lock().unwrap_or_else(PoisonError::into_inner).take();
            begun.map_or_else(|| choice.engine(choice.device(n), host.clone()), Ok)
        };
        System::configured(workers, Box::new(engine), tiers, log)
    }

    /// The system of a program that leaves open what its environment says: how many workers, unless the program says so, on which
    /// devices, with which plans.
    ///
    /// # Errors
    /// The wish or the environment asks for what is not here, or the system cannot be started.
    pub fn own(wish: &Wish, workers: Option<usize>) -> Result<System, RunError> {
        let choice = Choice::make(wish)?;
        let workers = workers.map_or_else(|| usual_workers(choice.devices.len()), Ok)?;
        System::chosen(workers, choice, Tiers::from_environment()?, Log::from_environment())
    }

    /// A system with engines of the caller's.
    ///
    /// # Errors
    /// There can be no such number of workers, or no thread can be started.
    pub fn with_engines(workers: usize, engine: MakeEngine, log: Log) -> Result<System, RunError> {
        System::configured(workers, engine, Tiers::from_environment()?, log)
    }

    /// A system with engines of the caller's, and plans as chosen.
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
        let state = State {
            dispatcher: Dispatcher::new(Config { notes: log.is_on(), ..Config::embedded() }),
            sessions: BTreeMap::new(),
            workers: BTreeMap::new(),
            next_peer: 0,
            stirred: VecDeque::new(),
            actions: Vec::new(),
            packets: Vec::new(),
            jobs: Vec::new(),
            log: log.clone(),
        };
        let (state, moved) = (Mutex::new(state), Condvar::new());
        let shared = Arc::new(Shared { state, moved, engine, n_workers: workers, tiers, log });
        let handle = Handle(shared.clone());
        for n in 0..workers {
            shared.clone().start_worker(n)?;
        }
        Ok(System(Arc::new(handle)))
    }

    /// A new session.
    #[must_use]
    pub fn session(&self) -> Arc<dyn Backend> {
        let shared = &self.0.0;
        let mut state = shared.lock();
        let peer = state.new_peer();
        let session = Session::new(
            dial(Role::Client, program()),
            "the embedded system".into(),
            Travel::Whole,
            shared.log.clone(),
        );
        state.sessions.insert(peer, session);
        state.settle(peer);
        let submitter = Submitter::new(shared.tiers.templates);
        Arc::new(Embedded { handle: self.0.clone(), peer, submitter })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.lock().workers.values().for_each(|worker| worker.queue.close());
    }
}

/// Says once where the process computes, when nobody asked for it.
#[expect(clippy::print_stderr, reason = "a user is to know that a GPU is used, and how not to")]
fn announce(news: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| eprintln!("gt: {news}"));
}

/// What each of so many engines takes of this host.
#[must_use]
pub fn share_of_host(workers: usize) -> NativeConfig {
    let host = NativeConfig::host();
    NativeConfig {
        threads: (host.threads / workers.max(1)).max(1),
        memory_limit: host.memory_limit / workers.max(1),
        ..host
    }
}

fn dial(role: Role, name: String) -> Connection {
    let hello = Hello::new(role, identity(name));
    Connection::dial(
        clock::now(),
        Incarnation(clock::wall_nanos()),
        hello,
        ConnectionConfig::embedded(),
    )
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic inside is a bug of the state machines; what they still can do for the other sessions is done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a session is open.
    fn in_use(&self) -> bool {
        self.lock().sessions.values().any(|session| !session.is_closed())
    }

    /// Does something with a session's side and carries it through.
    fn with<T>(&self, peer: PeerId, act: impl FnOnce(&mut Session) -> T) -> Option<T> {
        let mut state = self.lock();
        let result = act(state.sessions.get_mut(&peer)?);
        state.settle(peer);
        Some(result)
    }

    /// As [`with`](Shared::with), when the session has room.
    fn when_roomy(&self, peer: PeerId, act: impl FnOnce(&mut Session)) {
        let full = |state: &mut State| state.sessions.get(&peer).is_some_and(Session::is_full);
        let mut state =
            self.moved.wait_while(self.lock(), full).unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = state.sessions.get_mut(&peer) {
            act(session);
            state.settle(peer);
        }
    }

    fn start_worker(self: Arc<Self>, n: usize) -> Result<(), RunError> {
        let cannot = |why: String| {
            RunError::new(ErrorKind::Resource, format!("cannot start a worker: {why}"))
        };
        let engine = (self.engine)(n).map_err(|e| cannot(e.to_string()))?;
        let (peer, executor, queue) = self.join(engine);
        let shared = self.clone();
        let work = move || {
            let ended = catch_unwind(AssertUnwindSafe(|| shared.work(peer, executor, &queue)));
            let ended = ended.unwrap_or_else(|panic| {
                Some(format!("its engine panicked: {}", panic_text(&*panic)))
            });
            if let Some(why) = ended {
                shared.lose(peer, &why);
                // Without a new one the sessions find no worker and say so.
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
    fn join(&self, engine: Box<dyn Engine>) -> (PeerId, Executor, Arc<Queue<Job>>) {
        let capacity = capacity(&engine.info());
        let mut state = self.lock();
        let (peer, queue) = (state.new_peer(), Arc::new(Queue::new()));
        let mut connection = dial(Role::Worker, String::new());
        connection.send(
            clock::now(),
            Stream::Control,
            Message::FromWorker(FromWorker::Register(capacity)),
        );
        let worker =
            Worker { connection, core: Core::new(), queue: queue.clone(), name: "worker".into() };
        state.workers.insert(peer, worker);
        state.settle(peer);
        let name = state.workers.get(&peer).map_or_else(String::new, |worker| worker.name.clone());
        let executor = Executor::new(engine, name, self.tiers.plans, self.log.clone());
        (peer, executor, queue)
    }

    /// An executor's thread. Gives the reason when its worker is lost.
    fn work(&self, peer: PeerId, mut executor: Executor, queue: &Queue<Job>) -> Option<String> {
        let mut reports = Vec::new();
        while let Some(job) = queue.pop() {
            let owed = job.owed();
            executor.run(job, &mut reports);
            if reports.is_empty() && owed == 0 {
                continue;
            }
            let mut state = self.lock();
            if let Some(worker) = state.workers.get_mut(&peer) {
                worker.connection.release(Stream::Control, owed);
                for report in reports.drain(..).map(Message::FromWorker) {
                    worker.connection.send(clock::now(), report.stream(), report);
                }
                state.settle(peer);
            }
            drop(state);
            reports.clear();
            self.moved.notify_all();
            if let Some(why) = executor.failure() {
                return Some(format!("its device failed: {why}"));
            }
        }
        None
    }

    /// A worker is gone; the dispatcher hears why.
    fn lose(&self, peer: PeerId, why: &str) {
        let mut state = self.lock();
        if let Some(mut worker) = state.workers.remove(&peer) {
            let bye = worker.connection.close(why.to_owned());
            state.bring(Event::Packet(peer, bye));
            state.settle(peer);
        }
        drop(state);
        self.moved.notify_all();
    }
}

impl State {
    fn new_peer(&mut self) -> PeerId {
        self.next_peer += 1;
        PeerId(self.next_peer)
    }

    /// Carries what a peer has to say, and all that follows from it, through to the end.
    fn settle(&mut self, peer: PeerId) {
        self.stirred.push_back(peer);
        while let Some(peer) = self.stirred.pop_front() {
            let mut packets = std::mem::take(&mut self.packets);
            self.transmit(peer, &mut packets);
            for packet in packets.drain(..) {
                self.bring(Event::Packet(peer, packet));
            }
            self.packets = packets;
        }
    }

    fn transmit(&mut self, peer: PeerId, packets: &mut Vec<Packet>) {
        let (now, mut say) = (clock::now(), |packet| packets.push(packet));
        if let Some(session) = self.sessions.get_mut(&peer) {
            session.transmit(now, &mut say);
        } else if let Some(worker) = self.workers.get_mut(&peer) {
            worker.connection.transmit(now, &mut say, &mut |_| ());
        }
    }

    /// Brings an event to the dispatcher and does what it wants done.
    fn bring(&mut self, event: Event) {
        let mut actions = std::mem::take(&mut self.actions);
        self.dispatcher.handle(clock::now(), event, &mut actions);
        for action in actions.drain(..) {
            match action {
                Action::Send(peer, packet) => self.deliver(peer, packet),
                Action::Note(note) => self.log.note(&note),
                Action::Report(report) => self.log.line(
                    What::Connect,
                    Source::Dispatcher,
                    "Report",
                    0,
                    format_args!("{}", crate::server::describe(&report)),
                ),
                Action::Forget(_) => {}
            }
        }
        self.actions = actions;
    }

    fn deliver(&mut self, peer: PeerId, packet: Packet) {
        let now = clock::now();
        if let Some(session) = self.sessions.get_mut(&peer) {
            session.receive(now, packet);
        } else if let Some(worker) = self.workers.get_mut(&peer) {
            worker.receive(packet, &mut self.jobs);
            self.jobs.drain(..).for_each(|job| worker.queue.push(job));
        }
        if self.stirred.back() != Some(&peer) {
            self.stirred.push_back(peer);
        }
    }
}

impl Worker {
    fn receive(&mut self, packet: Packet, jobs: &mut Vec<Job>) {
        let mut arrived: smallvec::SmallVec<[Incoming; 2]> = smallvec::SmallVec::new();
        self.connection.receive(clock::now(), packet, &mut |incoming| arrived.push(incoming));
        for incoming in arrived {
            match incoming {
                Incoming::Opened(welcome) => self.name = welcome.name,
                Incoming::Message(stream, message) => {
                    let weight = message.weight();
                    let free = match message {
                        Message::ToWorker(message) => {
                            self.core.handle(stream, message, weight, jobs)
                        }
                        Message::FromClient(_) | Message::ToClient(_) | Message::FromWorker(_) => {
                            weight
                        }
                    };
                    self.connection.release(stream, free);
                }
                Incoming::Ended(_) => self.queue.close(),
            }
        }
    }
}

/// One session of a system.
struct Embedded {
    handle: Arc<Handle>,
    peer: PeerId,
    submitter: Submitter,
}

impl Embedded {
    fn shared(&self) -> &Shared {
        &self.handle.0
    }
}

impl Backend for Embedded {
    fn submit(&self, segment: Tape) {
        if self.shared().log.is_on() {
            self.shared().with(self.peer, |session| session.log_segment(&segment));
        }
        self.submitter.submit(segment, |messages| {
            self.shared().when_roomy(self.peer, |session| session.submit(clock::now(), messages));
        });
    }

    fn upload(&self, value: ValueId, data: HostTensor) {
        self.shared().when_roomy(self.peer, |session| session.upload(clock::now(), value, data));
    }

    fn configure(&self, signals: Signals) {
        self.shared().when_roomy(self.peer, |session| session.configure(clock::now(), signals));
    }

    fn fetch(&self, value: ValueId) -> Result<HostTensor, RunError> {
        let slot = self.shared().with(self.peer, |session| session.fetch(clock::now(), value));
        slot.and_then(|slot| slot.wait()).unwrap_or_else(|| Err(gone()))
    }

    fn stats(&self) -> Result<Stats, RunError> {
        let slot = self.shared().with(self.peer, |session| session.stats(clock::now()));
        let stats = slot.and_then(|slot| slot.wait()).unwrap_or_else(|| Err(gone()));
        stats.map(|stats| self.submitter.complete(stats))
    }

    fn close(&self) {
        self.shared().with(self.peer, |session| session.close(clock::now()));
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.close();
        self.shared().lock().sessions.remove(&self.peer);
    }
}

fn gone() -> RunError {
    RunError::new(ErrorKind::Internal, "the session is gone")
}

/// The process's own system, while somebody has a session with it.
static SYSTEM: Mutex<Weak<Handle>> = Mutex::new(Weak::new());

/// How many workers the environment asks for, else so many.
fn usual_workers(usual: usize) -> Result<usize, RunError> {
    let Ok(text) = std::env::var(WORKERS) else { return Ok(usual) };
    match text.trim().parse() {
        Ok(n) if possible_workers(n).is_ok() => Ok(n),
        _ => Err(RunError::new(
            ErrorKind::Resource,
            format!("{WORKERS}={text} is not a number of workers from 1 to {MAX_WORKERS}"),
        )),
    }
}

/// The process's own system: the one that runs, else a new one.
fn own(workers: Option<usize>) -> Result<System, RunError> {
    // Starting one leaves nothing half-done behind when it panics.
    let mut running = SYSTEM.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = running.upgrade() {
        let (n_workers, in_use) = (handle.0.n_workers, handle.0.in_use());
        match workers {
            Some(wanted) if wanted != n_workers && in_use => {
                let hint = "hint: choose their number before the first operation";
                let message = format!(
                    "the process runs {n_workers} worker(s) already, but {wanted} were asked for\n{hint}"
                );
                return Err(RunError::new(ErrorKind::Resource, message));
            }
            Some(wanted) if wanted != n_workers => (),
            Some(_) | None => return Ok(System(handle)),
        }
    }
    let system = System::own(&Wish::default(), workers)?;
    *running = Arc::downgrade(&system.0);
    Ok(system)
}

/// A new session with a server, or with the system programs use when they name none: the server that `GT_CONNECT` names, else the
/// process's own, which ends with its last session.
///
/// # Errors
/// The server cannot be reached, the system cannot be started, or it runs with another number of workers.
pub fn open(target: Target<'_>) -> Result<Arc<dyn Backend>, RunError> {
    let named = std::env::var(CONNECT).ok().filter(|address| !address.trim().is_empty());
    match (target, named) {
        (Target::Server(address), _) => client::connect(address),
        (Target::Usual { .. }, Some(address)) => client::connect(&address),
        (Target::Usual { workers }, None) => own(workers).map(|system| system.session()),
    }
}

#[expect(
    unsafe_code,
    reason = "the one symbol by which a front end that knows no runtime finds it: see gt_ir::backend::OpenBackend"
)]
// SAFETY: no other item of the program has this name, and gt-lang declares it with this very signature.
#[unsafe(no_mangle)]
fn __gt_embedded_backend(target: Target<'_>) -> Result<Arc<dyn Backend>, RunError> {
    open(target)
}
