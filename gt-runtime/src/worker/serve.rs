//! A worker in a process of its own: registers with a server and works until it is told to end.
//!
//! The calling thread owns the sockets, the connection and the core, and does quick jobs
//! (`registration`). A second thread does all other jobs, and a third waits for reads of devices
//! (`hands`). If the server is lost, the worker tries to register again for a time, without the
//! sessions of the old registration (`life`).

mod hands;
mod life;
mod registration;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gt_compiler::engine::{Engine, EngineInfo};

use super::capacity;
use super::executor::Executor;
use super::jobs::Jobs;
use super::queue::Fifo;
use super::roads::Listen;
use super::wanted::Wanted;
use crate::connection::ConnectionConfig;
use crate::log::Log;
use crate::machine::Machine;
use crate::profile;
use crate::shutdown::Shutdown;
use crate::slot::Slot;
use crate::tier::PlanConfig;
use crate::wire::{Capacity, Refusal};
use crate::zmq::{Address, Entry, SocketError, Wakeups};
use hands::{later, spawn};
use life::Life;
use registration::Parts;

/// The beginning of the line for watchers that reports a registration.
pub const REGISTERED: &str = "registered with the server at";
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
    /// Where lanes beside these roads are wanted.
    pub lanes: Wanted,
    /// A name for the worker, shown beside the number that the server gives it. It may be empty.
    pub name: String,
    /// The timeouts and windows of its connection.
    pub connection: ConnectionConfig,
    /// How long it tries to reach a server that it has lost. Zero: it ends.
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
            lanes: Wanted::from_environment().unwrap_or_default(),
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
        profile::from_environment();
        let info = engine.info();
        let (plans, log) = (self.config.plans, self.config.log.clone());
        let (orders, told) = (Arc::new(Jobs::new()), Arc::new(Fifo::new()));
        let waker = self.shutdown.waker().clone();
        let tell = later(orders.clone(), told.clone(), waker.clone());
        let executor = Executor::new(engine, "worker", plans, log, tell);
        let capture = executor.capture();
        let executor = Arc::new(Mutex::new(executor));
        let gone = Slot::new();
        let thread = spawn(executor.clone(), orders.clone(), told.clone(), waker, gone.clone())
            .map_err(SocketError::from)?;
        let mut life = Life {
            parts: Parts {
                worker: &self,
                executor: &executor,
                orders: &orders,
                told: &told,
                capture: &capture,
            },
            capacity: measured(&info),
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

/// The capacity of a worker with this engine, and how fast it is. Estimates for devices with their
/// own memory are constants.
fn measured(info: &EngineInfo) -> Capacity {
    let capacity = capacity(info);
    if info.device != "cpu" {
        return capacity;
    }
    let machine = Machine::with_threads(info.threads);
    Capacity { flops: machine.flops as u64, bytes: machine.bytes as u64, ..capacity }
}
