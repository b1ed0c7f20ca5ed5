//! What a front end needs of a running system: one session with it, embedded or remote.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    data::HostTensor,
    error::Hinted,
    intern::Loc,
    signal::Signals,
    tape::{Tape, ValueId},
};

/// A session: takes tape segments and data, gives values back. Calls are in order; dropping the
/// last handle ends the session.
pub trait Backend: Send + Sync {
    /// Hands over the next segment. Returns at once, unless the session's credit is used up.
    fn submit(&self, segment: Tape);

    /// Gives the contents of an input, before the segment that declares it is submitted.
    fn upload(&self, value: ValueId, data: HostTensor);

    /// Says how the signals of all segments submitted from here on are to be taken, in place of
    /// what was said before. Changes no result, so a system that places nothing need not listen.
    fn configure(&self, _signals: Signals) {}

    /// Waits for a value whose segment, with its output entry, has been submitted.
    ///
    /// # Errors
    /// The value could not be computed, or was lost, or the system cannot be reached.
    fn fetch(&self, value: ValueId) -> Result<HostTensor, RunError>;

    /// Asks for a value as [`fetch`](Backend::fetch) does, without waiting for it. The question is
    /// asked by this call, and may be forgotten: a system that answers later keeps no value for it.
    /// A system that has every value at once need not define this.
    fn begin_fetch(&self, value: ValueId) -> Fetching {
        Box::pin(std::future::ready(self.fetch(value)))
    }

    /// Counts of what has run so far.
    ///
    /// # Errors
    /// The system cannot be reached.
    fn stats(&self) -> Result<Stats, RunError>;

    /// Ends the session: frees everything it holds. Doing so twice is fine.
    fn close(&self);
}

/// A value that was asked for.
pub type Fetching = Pin<Box<dyn Future<Output = Result<HostTensor, RunError>> + Send>>;

/// Which system a program wants a session with, and which of its workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The server at `HOST:PORT`; without one, the server that the environment names, else the
    /// process's own system, which this starts if it does not run yet.
    pub server: Option<&'a str>,
    /// The workers that the program asks for.
    pub demand: &'a Demand,
    /// The workers that its configuration asks for, where the program and the environment leave the
    /// choice open.
    pub configured: &'a Demand,
}

/// The workers that a session asks for. What it leaves out may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, expecting = "keys such as `workers` and `engine`")]
pub struct Demand {
    /// The number of workers: how many a process starts, and over how many workers of a server the
    /// session may be spread.
    #[serde(deserialize_with = "n_workers")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 256)))]
    pub workers: Option<usize>,
    /// The engine: `native`, `torch`.
    pub engine: Option<String>,
    /// The device, or several with commas: `cpu`, `cuda:0`. `cuda` and `all` are any CUDA device of
    /// a server.
    pub device: Option<String>,
    /// Whether work is spread over the workers without signals, as its cost says. Signals are
    /// constraints then.
    pub auto: Option<bool>,
    /// What workers share out instead of repeating it (ZeRO): 1 and 2 the state of optimizers and
    /// their updates, 3 the parameters too.
    #[serde(deserialize_with = "level")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 3)))]
    pub zero: Option<u8>,
}

/// The highest level of ZeRO.
pub const MAX_ZERO: u8 = 3;

fn level<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u8>, D::Error> {
    let level = Option::deserialize(from)?;
    let possible = level.map_or(Ok(()), possible_level);
    possible.map_err(|error| D::Error::custom(error.message())).map(|()| level)
}

fn n_workers<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    let n = Option::deserialize(from)?;
    let possible = n.map_or(Ok(()), possible_workers);
    possible.map_err(|error| D::Error::custom(error.message())).map(|()| n)
}

impl Demand {
    /// Anything will do.
    #[must_use]
    pub const fn new() -> Demand {
        Demand { workers: None, engine: None, device: None, auto: None, zero: None }
    }

    /// This demand, completed by another. The other's engine and device count if this demand names
    /// neither.
    #[must_use]
    pub fn or(self, other: &Demand) -> Demand {
        let open = self.engine.is_none() && self.device.is_none();
        let of = |theirs: &Option<String>| theirs.clone().filter(|_| open);
        Demand {
            workers: self.workers.or(other.workers),
            engine: self.engine.or_else(|| of(&other.engine)),
            device: self.device.or_else(|| of(&other.device)),
            auto: self.auto.or(other.auto),
            zero: self.zero.or(other.zero),
        }
    }

    /// Whether it asks for a plan of the work, and for which level of ZeRO.
    #[must_use]
    pub fn plans(&self) -> Option<u8> {
        let level = self.zero.unwrap_or(0);
        (self.auto == Some(true) || level > 0).then_some(level)
    }

    /// Whether a worker with this engine and device is one of those asked for. A device is named
    /// by its address, which the name of its model may follow.
    ///
    /// ```
    /// # use gt_ir::backend::Demand;
    /// let demand = Demand { device: Some("cuda".into()), ..Demand::default() };
    /// assert!(demand.fits("torch", "cuda:1") && !demand.fits("native", "cpu"));
    /// let demand = Demand { device: Some("cuda:1".into()), ..Demand::default() };
    /// assert!(demand.fits("torch", "cuda:1 (NVIDIA H100)") && !demand.fits("torch", "cuda:10"));
    /// ```
    pub fn fits(&self, engine: &str, device: &str) -> bool {
        let device = device.split(' ').next().unwrap_or(device);
        let any = |name: &str| matches!(name, "cuda" | "all") && device.starts_with("cuda:");
        let one = |name: &str| name.trim() == device || any(name.trim());
        self.engine.as_deref().is_none_or(|wanted| wanted.trim() == engine)
            && self.device.as_deref().is_none_or(|wanted| wanted.split(',').any(one))
    }
}

/// The most workers one process may have.
pub const MAX_WORKERS: usize = 256;

/// Whether a process can have so many workers.
///
/// # Errors
/// It cannot; the message says how many it can have.
pub fn possible_workers(n_workers: usize) -> Result<(), RunError> {
    if (1..=MAX_WORKERS).contains(&n_workers) {
        return Ok(());
    }
    let message =
        format!("{n_workers} workers were asked for, but there can be 1 to {MAX_WORKERS}");
    Err(RunError::new(ErrorKind::Resource, message))
}

/// Whether there is such a level of ZeRO.
///
/// # Errors
/// There is not; the message says which levels there are.
pub fn possible_level(level: u8) -> Result<(), RunError> {
    if level <= MAX_ZERO {
        return Ok(());
    }
    let message = format!("there is no level {level} of ZeRO; the levels are 0 to {MAX_ZERO}");
    Err(RunError::new(ErrorKind::Resource, message))
}

/// Opens a session with a running system, or starts one; the linker finds it by the name
/// `__gt_embedded_backend`.
pub type OpenBackend = fn(Target<'_>) -> Result<Arc<dyn Backend>, RunError>;

/// The kind of a failure, which says whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorKind {
    /// An instruction cannot be carried out on its operands: the program's fault.
    Instruction,
    /// A limit was reached: memory, quota, message size.
    Resource,
    /// A worker went away with the value.
    WorkerLost,
    /// The dispatcher cannot be reached, or sent the session away.
    Connection,
    /// GT broke its own rules: a bug worth reporting.
    Internal,
}

/// Why a value cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct RunError {
    /// Whose fault it is.
    pub kind: ErrorKind,
    /// What happened and where, in lower case without a final stop.
    pub message: String,
    /// The cure, when one is known.
    pub hint: Option<String>,
    /// The value whose computation failed first.
    pub value: Option<ValueId>,
    /// Where the user wrote it.
    pub loc: Loc,
    /// The worker concerned.
    pub worker: Option<String>,
}

impl RunError {
    /// An error of this kind about no particular value, without a hint.
    ///
    /// ```
    /// use gt_ir::backend::{ErrorKind, RunError};
    /// let error = RunError::new(ErrorKind::Connection, "no server at localhost:1");
    /// let error = error.hint("start `gt-cli server`");
    /// assert_eq!(error.to_string(), "no server at localhost:1\nhint: start `gt-cli server`");
    /// ```
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> RunError {
        let message = message.into();
        RunError { kind, message, hint: None, value: None, loc: Loc::NONE, worker: None }
    }

    /// An error of this kind with the message and the hint of another.
    pub fn of(kind: ErrorKind, error: &impl Hinted) -> RunError {
        RunError { hint: error.hint(), ..RunError::new(kind, error.message()) }
    }

    /// The same error with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> RunError {
        self.hint = Some(hint.into());
        self
    }
}

impl Hinted for RunError {
    fn message(&self) -> String {
        self.message.clone()
    }

    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f)
    }
}

/// The work of one worker for a session, in counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerStats {
    /// The worker's name.
    pub name: String,
    /// The engine that runs on it.
    pub engine: String,
    /// What the engine computes on: `cpu`, `cuda:0`.
    pub device: String,
    /// Instructions run.
    pub instructions: u64,
    /// Of these, the instructions run one by one; the others ran inside plans.
    pub interpreted: u64,
    /// Segments run.
    pub segments: u64,
    /// Of these, the segments run as a plan.
    pub launches: u64,
    /// Plans ready to run, of all sessions together.
    pub plans: u64,
    /// Kernels compiled, by all sessions together.
    pub kernels_compiled: u64,
    /// Nanoseconds spent compiling them.
    pub compile_ns: u64,
    /// Nanoseconds for which the session kept it busy.
    pub busy_ns: u64,
    /// The same of all sessions together, also of those that have ended.
    pub all_busy_ns: u64,
    /// Bytes uploaded to it.
    pub bytes_in: u64,
    /// Bytes downloaded from it.
    pub bytes_out: u64,
    /// Bytes of the session's values alive on it; memory that several share counts once.
    pub live_bytes: u64,
    /// How many values of the session are alive on it.
    pub live_values: u64,
    /// The memory of its engine, of all sessions together.
    pub memory: MemoryStats,
    /// The graphs of its device, of all sessions together.
    pub graphs: GraphStats,
    /// What other sessions hold on it, the largest first, as far as there is room to name them.
    pub others: Vec<Holding>,
}

/// The memory of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStats {
    /// Bytes in use: values, and what programs need while they run.
    pub live: u64,
    /// The highest number of bytes in use so far.
    pub peak: u64,
    /// Bytes kept for reuse.
    pub cached: u64,
    /// Bytes that may be in use.
    pub limit: u64,
}

/// Counts of plans that were replayed as graphs, on devices that have graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphStats {
    /// Graphs captured.
    pub captured: u64,
    /// Runs of plans that were replays of a graph.
    pub replays: u64,
    /// Runs that could have been, but went step by step.
    pub fallbacks: u64,
    /// Nanoseconds the host takes for a replay: the median of the last ones measured, zero before.
    pub host_ns: u64,
    /// The same of the device, by its own clock.
    pub device_ns: u64,
}

/// What a client holds on a worker: all that others are told of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// Who: `s1 digits (pi, pid 123)`.
    pub client: String,
    /// Bytes of its values.
    pub bytes: u64,
}

/// Counts of the segments a client recorded, by how they were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentStats {
    /// Segments sent in full, since nothing like them was known.
    pub tapes: u64,
    /// Templates defined: segments seen a second time.
    pub templates: u64,
    /// Segments sent as a template's number and what differs from it.
    pub launches: u64,
    /// Of these, the launches whose inputs had types not met before, so that they were verified in
    /// full.
    pub verified: u64,
    /// Segments that were not the one expected after the last.
    pub misses: u64,
    /// Templates given up for others.
    pub evictions: u64,
}

/// Counts of the work of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// By worker.
    pub workers: Vec<WorkerStats>,
    /// What the client sent.
    pub segments: SegmentStats,
    /// What the dispatcher knows of the session's signals.
    pub signals: Signals,
    /// What the dispatcher calls the session: `s1`.
    pub session: String,
    /// What became of the session's segments lately, the oldest first: plans, and why there was
    /// none. Why a segment was not the one expected is among it from the first question on, or
    /// always with `GT_VERBOSE=1`.
    pub news: Vec<String>,
}

impl Stats {
    /// The sum over workers of what the session did and holds; what is a worker's own is left
    /// empty.
    pub fn total(&self) -> WorkerStats {
        self.workers.iter().fold(WorkerStats::default(), |a, w| WorkerStats {
            instructions: a.instructions + w.instructions,
            interpreted: a.interpreted + w.interpreted,
            segments: a.segments + w.segments,
            launches: a.launches + w.launches,
            plans: a.plans + w.plans,
            kernels_compiled: a.kernels_compiled + w.kernels_compiled,
            compile_ns: a.compile_ns + w.compile_ns,
            busy_ns: a.busy_ns + w.busy_ns,
            all_busy_ns: a.all_busy_ns + w.all_busy_ns,
            bytes_in: a.bytes_in + w.bytes_in,
            bytes_out: a.bytes_out + w.bytes_out,
            live_bytes: a.live_bytes + w.live_bytes,
            live_values: a.live_values + w.live_values,
            ..a
        })
    }
}
