//! A worker in a process of its own: registers with a server and works until it is told to end.
//!
//! The calling thread owns the sockets, the connection and the core, and does quick jobs. A second
//! thread does all other jobs, and a third waits for reads of devices. If the server is lost, the
//! worker tries to register again for a time, without the sessions of the old registration.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gt_compiler::engine::{Engine, EngineInfo};
use smallvec::SmallVec;
use zmq::Context;

use super::end::{News, WorkerEnd};
use super::executor::Executor;
use super::faults::panic_text;
use super::job::{Job, Ran};
use super::jobs::{Assigned, Jobs};
use super::queue::Fifo;
use super::reads::{Late, Tell};
use super::roads::{Listen, Roads, Trouble};
use super::siblings::{Action, Road};
use crate::assembly::Travel;
use crate::clock::{self, Time};
use crate::connection::{ConnectionConfig, Ending};
use crate::identity::Identity;
use crate::ids::Incarnation;
use crate::log::Log;
use crate::shutdown::{Manner, Shutdown};
use crate::slot::Slot;
use crate::tier::PlanConfig;
use crate::wire::{Capacity, FromWorker, Refusal};
use crate::zmq::{Address, Entry, Sent, SocketError, Uplink, UplinkError, Waker, Wakeups, context};

/// The beginning of the line for watchers that reports a registration.
pub const REGISTERED: &str = "registered with the server at";
/// The most packets or reports taken before queued packets are sent.
const BATCH: usize = 256;
/// The timeout of one attempt to reach a server.
const PATIENCE: Duration = Duration::from_millis(1_900);
/// How long the end of a worker waits for its current job.
const FAREWELL: Duration = Duration::from_millis(500);

/// The configuration of a worker.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// The server's address.
    pub address: Address,
    /// What it brings to the server's door.
    pub entry: Entry,
    /// Where other workers bring it values. If nowhere, the values pass through the server.
    pub listen: Option<Listen>,
    /// A name for the worker, shown beside the number that the server gives it. It may be empty.
    pub name: String,
    /// The timeouts and windows of its connection.
    pub connection: ConnectionConfig,
    /// How long it tries to reach a server that it has lost.
    pub reconnect: Duration,
    /// The configuration of plans.
    pub plans: PlanConfig,
    /// The log of its events.
    pub log: Log,
}

impl WorkerConfig {
    /// A worker for the server at `address`.
    #[must_use]
    pub fn new(address: Address) -> Self {
        let reconnect = Duration::from_secs(60);
        WorkerConfig {
            listen: Listen::usual(&address),
            address,
            entry: Entry::from_environment(),
            name: String::new(),
            connection: ConnectionConfig::remote(),
            reconnect,
            plans: PlanConfig::from_environment().unwrap_or_default(),
            log: Log::from_environment(),
        }
    }
}

/// Why a worker ended in good order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// This process was told to end, for this reason.
    ShutDown(String),
    /// The server ended, for this reason.
    Server(String),
}

/// Why a worker could not go on.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// A socket failed, or the server cannot be reached.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The first message was no packet of this protocol.
    #[error("the server at {0} does not speak this program's protocol: {1}")]
    Protocol(Address, crate::wire::codec::WireError),
    /// The server refused the worker.
    #[error("the server at {0} refused: {1}")]
    Refused(Address, Refusal),
    /// The server was lost and did not come back.
    #[error("the server at {0} is lost: {1}")]
    Lost(Address, String),
    /// The device failed, and its values are lost.
    #[error("the device failed: {0}")]
    Device(String),
    /// The engine panicked, which is a bug.
    #[error("the engine panicked: {0}")]
    Panic(String),
}

/// A worker that does not serve yet.
pub struct Worker {
    config: WorkerConfig,
    shutdown: Shutdown,
    wakeups: Wakeups,
}

/// News of the executor's thread, and of the thread of the reads.
enum Told {
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

impl Worker {
    /// Makes a worker of this configuration.
    ///
    /// # Errors
    /// The operating system cannot open another socket.
    pub fn new(config: WorkerConfig) -> Result<Worker, SocketError> {
        let (shutdown, wakeups) = Shutdown::new()?;
        Ok(Worker { config, shutdown, wakeups })
    }

    /// A handle that ends it.
    #[must_use]
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }

    /// Serves until it is told to end, by its shutdown handle or the server. `watch` receives lines
    /// for users.
    ///
    /// # Errors
    /// The server cannot be reached, refuses, or is lost for too long; or the device or the engine
    /// failed.
    pub fn serve(
        self,
        engine: Box<dyn Engine>,
        mut watch: impl FnMut(&str),
    ) -> Result<Stopped, WorkerError> {
        let info = engine.info();
        let (plans, log) = (self.config.plans, self.config.log.clone());
        let (orders, told) = (Arc::new(Jobs::new()), Arc::new(Fifo::new()));
        let waker = self.shutdown.waker().clone();
        let tell = later(orders.clone(), told.clone(), waker.clone());
        let executor = Arc::new(Mutex::new(Executor::new(engine, "worker", plans, log, tell)));
        let gone = Slot::new();
        let thread = spawn(executor.clone(), orders.clone(), told.clone(), waker, gone.clone())
            .map_err(SocketError::from)?;
        let mut life = Life {
            worker: &self,
            executor: &executor,
            orders: &orders,
            told: &told,
            capacity: capacity(&info),
            n: 0,
        };
        let end = life.until_the_end(&mut watch);
        orders.close();
        // The thread finishes its current job, or ends with the process if that takes longer. A
        // panic of the thread has been reported.
        if gone.wait_for(FAREWELL).is_some() {
            let _ = thread.join();
        }
        end
    }
}

/// The capacity of a worker with this engine.
pub(crate) fn capacity(info: &EngineInfo) -> Capacity {
    Capacity {
        engine: info.name.clone(),
        device: info.device.clone(),
        threads: u32::try_from(info.threads).unwrap_or(u32::MAX),
        memory: info.memory_limit as u64,
        door: None,
    }
}

/// The function that answers reads that had to wait for the device.
fn later(orders: Arc<Jobs>, told: Arc<Fifo<Told>>, waker: Waker) -> Tell {
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
fn spawn(
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
fn run(executor: &Mutex<Executor>, orders: &Jobs, told: &Fifo<Told>, life: u64, job: Job) -> Ran {
    let mut reports = Vec::with_capacity(1);
    let mut executor = locked(executor);
    let ran = executor.run(life, job, orders, &mut reports);
    told.push(Told::Report(life, reports));
    executor.failure().into_iter().for_each(|why| told.push(Told::Failure(why.to_owned())));
    ran
}

/// The executor. If its engine panicked, it is not used again, because the worker ends.
fn locked(executor: &Mutex<Executor>) -> MutexGuard<'_, Executor> {
    executor.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How one registration ended.
enum Broken {
    Over(Stopped),
    Lost(String),
}

struct Life<'a> {
    worker: &'a Worker,
    executor: &'a Mutex<Executor>,
    orders: &'a Jobs,
    told: &'a Fifo<Told>,
    capacity: Capacity,
    /// The number of the current registration. Reports of an earlier one are dropped.
    n: u64,
}

impl Life<'_> {
    fn until_the_end(&mut self, watch: &mut impl FnMut(&str)) -> Result<Stopped, WorkerError> {
        let address = &self.worker.config.address;
        let ctx = context();
        let mut lost: Option<(String, Time)> = None;
        loop {
            if let Some(asked) = self.worker.shutdown.asked() {
                return Ok(Stopped::ShutDown(asked.reason()));
            }
            match self.once(&ctx, watch) {
                Ok(Broken::Over(end)) => return Ok(end),
                Ok(Broken::Lost(why)) => {
                    watch(&format!("the server at {address} is lost: {why}; looking for it"));
                    lost = Some((why, clock::now()));
                }
                // A server that is lost may come back. A server that was never reached is an error
                // at once.
                Err(error @ (WorkerError::Socket(_) | WorkerError::Lost(..))) => match &lost {
                    None => return Err(error),
                    Some((why, since)) if clock::now() > *since + self.worker.config.reconnect => {
                        return Err(WorkerError::Lost(address.clone(), why.clone()));
                    }
                    Some(_) => {}
                },
                Err(error) => return Err(error),
            }
        }
    }

    /// Serves one registration, from its first packet to its last.
    fn once(&mut self, ctx: &Context, watch: &mut impl FnMut(&str)) -> Result<Broken, WorkerError> {
        let config = &self.worker.config;
        let uplink = Uplink::open(ctx, &config.address, PATIENCE, &config.entry)?;
        let roads = Roads::open(ctx, config.listen.as_ref())?;
        self.n += 1;
        let end = WorkerEnd::dial(
            clock::now(),
            Incarnation(clock::wall_nanos()),
            Identity::here(config.name.clone()),
            Capacity { door: roads.door(), ..self.capacity.clone() },
            config.connection,
            Travel::REMOTE,
        );
        let mut registration =
            Registration { life: self, end, roads, jobs: Vec::new(), opened: false, ending: None };
        let broken = registration.exchange(&uplink, watch);
        // The sessions of this registration are over.
        registration.end.end_all(&mut registration.jobs);
        registration.hand_over();
        uplink.set_linger(Duration::from_millis(200))?;
        broken
    }
}

struct Registration<'a, 'b> {
    life: &'a mut Life<'b>,
    end: WorkerEnd,
    roads: Roads<'a>,
    jobs: Vec<Job>,
    opened: bool,
    ending: Option<Ending>,
}

impl Registration<'_, '_> {
    fn exchange(
        &mut self,
        uplink: &Uplink,
        watch: &mut impl FnMut(&str),
    ) -> Result<Broken, WorkerError> {
        loop {
            let more =
                self.receive(uplink, watch)? | self.receive_values()? | self.report(uplink)?;
            let now = clock::now();
            if let Some(asked) = self.life.worker.shutdown.asked() {
                if let Manner::Politely(reason) = &asked {
                    send(uplink, &self.end.close(reason.clone()))?;
                }
                return Ok(Broken::Over(Stopped::ShutDown(asked.reason())));
            }
            self.transmit_values(now);
            let mut packets = Vec::new();
            let ending = self.end.transmit(now, &mut |packet| packets.push(packet));
            for packet in &packets {
                if send(uplink, packet)? != Sent::Queued {
                    // There is no connection, or the server takes no packets. It is lost unless it
                    // is heard from within the grace.
                    self.end.unreachable(now);
                }
            }
            if let Some(ending) = ending.or(self.ending.take()) {
                return self.ended(ending);
            }
            if !more {
                let due = self.end.next_deadline().map(|at| at.saturating_sub(now));
                self.roads.wait(uplink, &self.life.worker.wakeups, due)?;
            }
        }
    }

    /// Takes packets of the server, a batch at most. Says whether there may be more.
    fn receive(
        &mut self,
        uplink: &Uplink,
        watch: &mut impl FnMut(&str),
    ) -> Result<bool, WorkerError> {
        for _ in 0..BATCH {
            let packet = match uplink.receive() {
                Ok(None) => return Ok(false),
                Ok(Some(packet)) => packet,
                Err(UplinkError::Wire(error)) if self.opened => {
                    watch(&format!("a message was dropped: {error}"));
                    continue;
                }
                Err(UplinkError::Wire(error)) => {
                    return Err(WorkerError::Protocol(
                        self.life.worker.config.address.clone(),
                        error,
                    ));
                }
                Err(UplinkError::Socket(error)) => return Err(error.into()),
            };
            let mut news = SmallVec::<[News; 1]>::new();
            self.end.receive(clock::now(), packet, &mut self.jobs, |new| news.push(new));
            self.hand_over();
            for new in news {
                match new {
                    News::Opened(welcome) => self.opened(&welcome.name, watch),
                    News::Ended(ending) => self.ending = Some(ending),
                }
            }
        }
        Ok(true)
    }

    /// Takes packets of other workers, a batch at most. Says whether there may be more.
    fn receive_values(&mut self) -> Result<bool, WorkerError> {
        let mut actions = Vec::new();
        for _ in 0..BATCH {
            let Some((road, packet)) = self.roads.receive()? else { return Ok(false) };
            self.end.receive_from(clock::now(), &road, packet, &mut self.jobs, &mut actions);
            self.hand_over();
            actions.drain(..).for_each(|action| self.act(action));
        }
        Ok(true)
    }

    /// Sends what other workers are to get. Ending a road may give values back, which go to the
    /// server.
    fn transmit_values(&mut self, now: Time) {
        let mut actions = Vec::new();
        self.end.transmit_values(now, &mut actions);
        actions.into_iter().for_each(|action| self.act(action));
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Close(road) => self.roads.close(&road),
            Action::Send(road, packet) => match (self.roads.send(&road, &packet), road) {
                (Ok(()), _) => {}
                (Err(Trouble::Impassable), Road::To(door)) => self.end.impassable(&door),
                // A link sends packets again that were dropped.
                (Err(Trouble::Impassable | Trouble::Unreachable), road) => {
                    self.end.road_unreachable(clock::now(), &road);
                }
            },
        }
    }

    fn opened(&mut self, name: &str, watch: &mut impl FnMut(&str)) {
        let config = &self.life.worker.config;
        watch(&format!("{REGISTERED} {} as {name}", config.address));
        self.opened = true;
        let name = Identity::here(config.name.clone()).known_as(name);
        locked(self.life.executor).set_name(&name);
    }

    /// Hands jobs to the executor's thread. A quick job is done here if that thread is idle,
    /// because waking it and being woken by it would take longer.
    fn hand_over(&mut self) {
        let Life { executor, orders, told, n: life, .. } = *self.life;
        for job in self.jobs.drain(..) {
            if !job.is_quick() {
                orders.add(life, job);
            } else if let Some(job) = orders.try_begin(life, job) {
                match catch_unwind(AssertUnwindSafe(|| run(executor, orders, told, life, job))) {
                    Ok(ran) => orders.settle(life, ran),
                    Err(panic) => told.push(Told::Panic(panic_text(&*panic))),
                }
            }
        }
    }

    /// Passes the executor's reports on, a batch at most. Says whether there may be more.
    fn report(&mut self, uplink: &Uplink) -> Result<bool, WorkerError> {
        for _ in 0..BATCH {
            match self.life.told.try_pop() {
                None => return Ok(false),
                Some(Told::Failure(why)) => {
                    send(uplink, &self.end.close(format!("its device failed: {why}")))?;
                    return Err(WorkerError::Device(why));
                }
                Some(Told::Panic(why)) => {
                    send(uplink, &self.end.close(format!("its engine panicked: {why}")))?;
                    return Err(WorkerError::Panic(why));
                }
                Some(Told::Report(life, reports)) if life == self.life.n => {
                    let now = clock::now();
                    reports.into_iter().for_each(|report| self.end.report(now, report));
                }
                Some(Told::Planned) => self.life.orders.add(self.life.n, Job::Planned),
                Some(Told::Answer(life, answer)) if life == self.life.n => {
                    self.end.report(clock::now(), answer);
                }
                Some(Told::Report(..) | Told::Answer(..)) => {} // Of an earlier registration.
            }
        }
        Ok(true)
    }

    fn ended(&self, ending: Ending) -> Result<Broken, WorkerError> {
        let address = || self.life.worker.config.address.clone();
        match ending {
            Ending::Bye(reason) => Ok(Broken::Over(Stopped::Server(reason))),
            Ending::Refused(
                refusal @ (Refusal::Protocol { .. }
                | Refusal::Ops
                | Refusal::Full { .. }
                | Refusal::Forbidden(_)
                | Refusal::Plain
                | Refusal::Encrypted),
            ) => Err(WorkerError::Refused(address(), refusal)),
            ending if self.opened => Ok(Broken::Lost(ending.to_string())),
            ending => Err(WorkerError::Lost(address(), ending.to_string())),
        }
    }
}

fn send(uplink: &Uplink, packet: &crate::wire::Packet) -> Result<Sent, WorkerError> {
    match uplink.send(packet) {
        Ok(sent) => Ok(sent), // If it was not queued, its link sends it again.
        Err(UplinkError::Socket(error)) => Err(error.into()),
        Err(UplinkError::Wire(error)) => {
            Err(WorkerError::Panic(format!("a report cannot be encoded: {error}")))
        }
    }
}
