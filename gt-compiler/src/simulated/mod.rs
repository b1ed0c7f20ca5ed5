//! A device that checks programs where there is no GPU.
//!
//! It has memory of its own, which the host cannot reach by mistake; it runs launches, products and
//! copies in the order they are asked for, as the native engine's code for the same pieces of work;
//! its graphs are lists of launches with their addresses, and a replay runs just these. Values
//! leave it on other threads, as late as it is told to. It can be told to fail. So everything above
//! a driver runs and is tested on any machine, with the bits of the native engine.

mod function;
mod reader;
mod single;
mod space;
#[cfg(test)]
mod texts;

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};
use std::time::Duration;

use crate::{
    clock::Clock,
    device::{Added, Call, DeviceConfig, DeviceEngine, DeviceMemory, Gpu, Loader, SLICE, Work},
    engine::Engine,
    error::EngineError,
    schedule::{Attention, MatMul},
};
use function::{Code, Function};
use reader::{Gate, SimulatedReader};
use single::Single;
use space::{Block, Space};

/// How a device is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulationConfig {
    /// Bytes of memory the device has.
    pub memory: usize,
    /// Bytes of it that graphs may hold.
    pub graph_memory: usize,
    /// Whether memory gets the address of what had its size before, as of a caching allocator, or a
    /// new one each time.
    pub reuses_addresses: bool,
    /// Whether programs are captured as graphs.
    pub graphs: bool,
    /// Whether kernels and products are counted only: what is left is the work of the host.
    pub idle: bool,
    /// Bytes of a value that are read at a time.
    pub slice: usize,
}

impl Default for SimulationConfig {
    fn default() -> SimulationConfig {
        SimulationConfig {
            memory: 4 << 30,
            graph_memory: 1 << 30,
            reuses_addresses: true,
            graphs: true,
            idle: false,
            slice: SLICE,
        }
    }
}

/// What a simulated device was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Blocks of memory.
    pub allocations: u64,
    /// Kernels and products run or recorded by themselves.
    pub launches: u64,
    /// Copies to the device.
    pub uploads: u64,
    /// Copies from the device that everything behind them waited for.
    pub downloads: u64,
    /// Slices of values read.
    pub reads: u64,
    /// Copies within it.
    pub copies: u64,
    /// Graphs captured, and replayed.
    pub captures: u64,
    /// Replays of graphs.
    pub replays: u64,
}

/// What is to fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Allocations that still succeed before two fail; `None` where none fails.
    pub allocation: Option<u64>,
    /// Launches that still succeed before one fails.
    pub launch: Option<u64>,
    /// Replays that still succeed before one fails.
    pub replay: Option<u64>,
    /// Slices that are still read before one fails.
    pub read: Option<u64>,
    /// Whether captures end without a graph.
    pub capture: bool,
}

/// A simulated device, as those see it who watch it.
#[derive(Clone)]
pub struct Simulation(Arc<State>);

struct State {
    config: SimulationConfig,
    counters: Mutex<Counters>,
    faults: Mutex<Faults>,
    gate: Gate,
    space: Arc<Space>,
}

impl Simulation {
    /// A device.
    #[must_use]
    pub fn new(config: SimulationConfig) -> Simulation {
        Simulation(Arc::new(State {
            config,
            counters: Mutex::default(),
            faults: Mutex::default(),
            gate: Gate::default(),
            space: Space::new(config.memory, config.reuses_addresses),
        }))
    }

    /// An engine on the device.
    ///
    /// # Errors
    /// The code generator does not know this processor.
    pub fn engine(&self) -> Result<Box<dyn Engine>, EngineError> {
        Ok(self.engine_of(Shared::Code(Box::new(Code::new()?))))
    }

    fn engine_of(&self, loader: Shared) -> Box<dyn Engine> {
        let gpu = Simulated {
            state: self.0.clone(),
            loader: Arc::new(loader),
            reader: Arc::new(SimulatedReader::new(self.0.clone())),
            single: Single::new(),
            recording: Mutex::default(),
            is_spoiled: AtomicBool::new(false),
        };
        let config = DeviceConfig {
            name: "torch",
            memory_limit: usize::MAX,
            graph_limit: self.0.config.graph_memory,
            graphs: self.0.config.graphs,
            cache_capacity: 4096,
            slice: self.0.config.slice,
        };
        Box::new(DeviceEngine::new(gpu, config))
    }

    /// What it was asked for so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        *lock(&self.0.counters)
    }

    /// Bytes of its memory in use, by values, graphs and everything else.
    #[must_use]
    pub fn live_bytes(&self) -> usize {
        self.0.space.account()[0]
    }

    /// Lets only so many more slices of values be read; whoever waits for others waits until more
    /// are let. `None`: all.
    pub fn let_reads(&self, slices: Option<u64>) {
        self.0.gate.set(slices);
    }

    /// Makes it fail.
    pub fn fail(&self, faults: Faults) {
        *lock(&self.0.faults) = faults;
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts down to a failure, which comes `times` in a row.
fn fails(left: &mut Option<u64>, times: u64) -> bool {
    let Some(n) = left.as_mut() else { return false };
    if *n > 0 {
        *n -= 1;
        return false;
    }
    *left = if times > 1 { Some(0) } else { None };
    true
}

/// A simulated device as a [`Gpu`].
pub(crate) struct Simulated {
    state: Arc<State>,
    loader: Arc<Shared>,
    reader: Arc<SimulatedReader>,
    single: Single,
    /// What is being recorded.
    recording: Mutex<Option<Vec<Recorded>>>,
    /// Whether something was asked for during a capture that a graph cannot hold.
    is_spoiled: AtomicBool,
}

/// The loader of a simulated device: what its functions are made of.
pub(crate) enum Shared {
    /// The native engine's code.
    Code(Box<Code>),
    /// The texts of CUDA kernels.
    #[cfg(test)]
    Texts(Arc<texts::Texts>),
}

impl Loader for Shared {
    type Function = Arc<Function>;

    fn load(&self, works: &[Work]) -> Result<Vec<Arc<Function>>, EngineError> {
        let function = |work| match self {
            Shared::Code(code) => code.function(work),
            #[cfg(test)]
            Shared::Texts(texts) => Ok(Function::Text(texts.function(work))),
        };
        works.iter().map(|work| function(work).map(Arc::new)).collect()
    }
}

/// A stopwatch of a device whose work has ended when a call returns.
pub(crate) struct Stopwatch {
    started: Clock,
    nanoseconds: AtomicU64,
}

/// A launch with its addresses.
pub(crate) enum Recorded {
    Launch(Arc<Function>, Vec<u64>),
    Product(Box<MatMul>, Option<Added>, [u64; 3]),
    Attention(Box<Attention>, Call),
    Copy(u64, u64, usize),
}

impl Simulated {
    /// Runs or records.
    fn ask(&self, work: Recorded) -> Result<(), EngineError> {
        if !matches!(work, Recorded::Copy(..)) {
            lock(&self.state.counters).launches += 1;
            if fails(&mut lock(&self.state.faults).launch, 1) {
                return Err(EngineError::Device("a launch failed as it was told to".into()));
            }
        }
        if let Some(recording) = &mut *lock(&self.recording) {
            recording.push(work);
            return Ok(());
        }
        self.run(&work)
    }

    fn run(&self, work: &Recorded) -> Result<(), EngineError> {
        let space = &self.state.space;
        match work {
            Recorded::Copy(from, to, bytes) => function::copy(space, *from, *to, *bytes),
            _ if self.state.config.idle => Ok(()),
            Recorded::Launch(function, args) => function.run(space, &self.single, args),
            Recorded::Attention(work, call) => function::attention(space, work, *call),
            Recorded::Product(work, added, at) => {
                function::product(space, &self.single, work, *added, *at)
            }
        }
    }

    /// What a graph cannot hold.
    fn outside_capture(&self, what: &str) -> Result<(), EngineError> {
        if lock(&self.recording).is_none() {
            return Ok(());
        }
        self.is_spoiled.store(true, Relaxed);
        Err(EngineError::Call(format!("{what} during a capture")))
    }
}

impl Gpu for Simulated {
    type Function = Arc<Function>;
    type Loader = Shared;
    type Graph = Vec<Recorded>;
    type Block = Block;
    type Timer = Stopwatch;
    type Reader = SimulatedReader;

    fn name(&self) -> String {
        "simulated".into()
    }

    fn loader(&self) -> Arc<Shared> {
        self.loader.clone()
    }

    fn alloc(&self, bytes: usize) -> Result<Block, EngineError> {
        self.outside_capture("an allocation")?;
        lock(&self.state.counters).allocations += 1;
        let [live, _, limit] = self.state.space.account();
        if fails(&mut lock(&self.state.faults).allocation, 2) {
            return Err(EngineError::OutOfMemory { asked: bytes, live, limit });
        }
        self.state.space.alloc(bytes)
    }

    fn address(&self, block: &Block) -> u64 {
        block.address
    }

    fn upload(&self, from: &[u8], to: u64) -> Result<(), EngineError> {
        self.outside_capture("an upload")?;
        lock(&self.state.counters).uploads += 1;
        function::write(&self.state.space, to, from)
    }

    fn words(&self, from: u64, to: &mut [u8]) -> Result<(), EngineError> {
        self.outside_capture("a download")?;
        lock(&self.state.counters).downloads += 1;
        function::read(&self.state.space, from, to)
    }

    fn reader(&self) -> Arc<SimulatedReader> {
        self.reader.clone()
    }

    fn mark(&self) -> Result<(), EngineError> {
        self.outside_capture("a mark")
    }

    fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), EngineError> {
        lock(&self.state.counters).copies += 1;
        self.ask(Recorded::Copy(from, to, bytes))
    }

    fn launch(&self, function: &Arc<Function>, args: &[u64]) -> Result<(), EngineError> {
        self.ask(Recorded::Launch(function.clone(), args.to_vec()))
    }

    fn product(
        &self,
        work: &MatMul,
        added: Option<Added>,
        buffers: [u64; 3],
    ) -> Result<(), EngineError> {
        self.ask(Recorded::Product(Box::new(work.clone()), added, buffers))
    }

    fn attention(&self, work: &Attention, call: Call) -> Result<(), EngineError> {
        self.ask(Recorded::Attention(Box::new(work.clone()), call))
    }

    fn begin_capture(&self) -> Result<(), EngineError> {
        self.outside_capture("a capture")?;
        *lock(&self.recording) = Some(Vec::new());
        Ok(())
    }

    fn end_capture(&self) -> Result<Vec<Recorded>, EngineError> {
        let spoiled = self.is_spoiled.swap(false, Relaxed) || lock(&self.state.faults).capture;
        let recorded = lock(&self.recording).take().filter(|_| !spoiled);
        lock(&self.state.counters).captures += 1;
        recorded.ok_or_else(|| EngineError::Call("what was recorded is no graph".into()))
    }

    fn replay(&self, graph: &Vec<Recorded>) -> Result<(), EngineError> {
        self.outside_capture("a replay")?;
        lock(&self.state.counters).replays += 1;
        if fails(&mut lock(&self.state.faults).replay, 1) {
            return Err(EngineError::Device("a replay failed as it was told to".into()));
        }
        if self.state.config.idle {
            return Ok(());
        }
        graph.iter().try_for_each(|work| self.run(work))
    }

    fn start_timer(&self) -> Result<Stopwatch, EngineError> {
        self.outside_capture("a measurement")?;
        Ok(Stopwatch { started: Clock::start(), nanoseconds: AtomicU64::new(0) })
    }

    fn stop_timer(&self, timer: &Stopwatch) -> Result<(), EngineError> {
        timer.nanoseconds.store(timer.started.nanoseconds(), Relaxed);
        Ok(())
    }

    fn elapsed(&self, timer: &Stopwatch) -> Result<Duration, EngineError> {
        Ok(Duration::from_nanos(timer.nanoseconds.load(Relaxed)))
    }

    fn synchronize(&self) -> Result<(), EngineError> {
        self.outside_capture("a synchronization")
    }

    fn memory(&self) -> DeviceMemory {
        let [live, peak, total] = self.state.space.account();
        DeviceMemory { live, reserved: live, peak, total }
    }

    fn trim(&self) {}
}
