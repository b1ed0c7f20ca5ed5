//! The face of an engine: one device that holds values and runs instructions or compiled regions on
//! them.
//!
//! Guarantees: an engine never panics on verified input, whatever the data; a failed call leaves
//! every value as it was. Values are immutable and cheap to clone; the memory of the last clone
//! goes back to the engine's pool, from whichever thread drops it. An engine does not order, batch
//! or retry anything: that is the worker's business.

use std::{fmt, sync::Arc, time::Duration};

use gt_ir::{Graph, HostTensor, Op, Scalar, Type};
use smallvec::SmallVec;

pub use crate::error::EngineError;
use crate::{
    buffer::Storage, download::Download, error::ArtifactError, options::Options, program::Program,
    report::Report,
};

/// One device. `&mut` because an engine is owned by one worker thread; the values it hands out may
/// travel.
pub trait Engine: Send {
    /// What this device is.
    fn info(&self) -> EngineInfo;

    /// Whether it works best, or only, on the thread that used it first. If not, each of its calls
    /// may come from another thread.
    fn is_bound_to_a_thread(&self) -> bool {
        true
    }

    /// Brings host data to the device; on the CPU without a copy when the bytes are aligned.
    fn upload(&mut self, data: &HostTensor) -> Result<Value, EngineError>;

    /// Runs one instruction: a region of size one, compiled once per (op, operand types) and
    /// cached.
    fn execute(&mut self, op: &Op, args: &[Arg<'_>]) -> Result<Value, EngineError>;

    /// The compiler of this engine's programs, for any thread.
    fn compiler(&self) -> Arc<dyn Compile>;

    /// Compiles a region on this thread with the default options, no input of it donated.
    ///
    /// # Errors
    /// As [`Compile::compile`].
    fn compile(&self, region: &Graph) -> Result<Program, EngineError> {
        Ok(self.compiler().compile(region, &[], &Options::default())?.program)
    }

    /// Runs a compiled region: one value for each graph input, one scalar for each slot; gives one
    /// value for each graph output.
    ///
    /// On success the memory of donated inputs may have been taken for results where nobody else
    /// holds it, so they are not to be used again. On failure every input is as it was.
    fn run(
        &mut self,
        program: &Program,
        inputs: &mut Vec<Value>,
        scalars: &[Scalar],
    ) -> Result<SmallVec<[Value; 4]>, EngineError>;

    /// Brings a value to the host and waits for it; on the CPU without a copy.
    fn download(&mut self, value: &Value) -> Result<HostTensor, EngineError>;

    /// Begins to bring a value to the host, so that the engine works on until it is there. To be
    /// overridden where there is something to wait for.
    ///
    /// # Errors
    /// As [`Engine::download`].
    fn begin_download(&mut self, value: &Value) -> Result<Download, EngineError> {
        self.download(value).map(Download::Here)
    }

    /// What this engine has done and holds.
    fn stats(&self) -> EngineStats;

    /// Whether its programs keep to [`Options::memory`](crate::Options), and no other engine takes
    /// of its memory.
    fn fits_programs(&self) -> bool {
        false
    }

    /// What somebody who asks for details should be told: why calls were slower than they could be,
    /// since this was called last.
    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Gives memory that is only kept for reuse back to the device, and says how many bytes: to be
    /// tried once before out of memory is told.
    fn trim(&mut self) -> usize {
        0
    }
}

/// Turns regions into programs. It runs none, so it may work in the background while the engine
/// runs others.
pub trait Compile: Send + Sync {
    /// Optimizes and compiles a region. `donated[i]` says that nobody needs input `i` after the
    /// run; where `donated` is shorter than the inputs, the rest are kept.
    ///
    /// # Errors
    /// An op that does not type-check, or a region the code generator refuses.
    fn compile(
        &self,
        region: &Graph,
        donated: &[bool],
        options: &Options,
    ) -> Result<Compiled, EngineError>;

    /// A program from the bytes of [`Program::to_bytes`].
    ///
    /// # Errors
    /// They are damaged, or the program is for another build or machine.
    fn load(&self, bytes: &[u8]) -> Result<Program, ArtifactError>;
}

/// What compiling a region gave.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// To be run by the engine whose compiler made it, or another on the same kind of device.
    pub program: Program,
    /// What was done.
    pub report: Report,
}

/// A tensor on a device: contiguous, row-major, immutable.
#[derive(Clone)]
pub struct Value {
    /// Its type.
    pub ty: Type,
    pub(crate) storage: Arc<Storage>,
}

impl Value {
    /// Bytes of the elements.
    pub fn bytes(&self) -> usize {
        self.ty.bytes()
    }

    /// Where the elements lie: equal for values that share memory. Of no other meaning outside the
    /// engine.
    pub fn address(&self) -> usize {
        self.storage.ptr() as usize
    }

    /// The same elements under another type of equal layout size (named dims, a reshape): shares
    /// the memory.
    pub fn retyped(&self, ty: Type) -> Option<Value> {
        (ty.bytes() == self.ty.bytes() && ty.dtype == self.ty.dtype)
            .then(|| Value { ty, storage: self.storage.clone() })
    }
}

impl Value {
    /// Whether nobody else holds its memory, and it is the pool's: then it may be overwritten.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.storage.is_pooled()
            && Arc::strong_count(&self.storage) == 1
            && Arc::weak_count(&self.storage) == 0
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({})", self.ty)
    }
}

/// An operand of [`Engine::execute`].
#[derive(Clone, Copy, Debug)]
pub enum Arg<'a> {
    /// A tensor.
    Value(&'a Value),
    /// A literal; its value never enters a cache key.
    Scalar(Scalar),
}

/// Whether a call fits a program of these inputs and so many scalars.
pub(crate) fn check_call(
    wanted: (&[Type], usize),
    inputs: &[Value],
    scalars: &[Scalar],
) -> Result<(), EngineError> {
    let (types, n_scalars) = wanted;
    if inputs.len() != types.len() || scalars.len() != n_scalars {
        return Err(EngineError::Call(format!(
            "a program of {} inputs and {n_scalars} scalars was given {} and {}",
            types.len(),
            inputs.len(),
            scalars.len()
        )));
    }
    match inputs.iter().zip(types).position(|(v, ty)| !v.ty.same_layout(ty)) {
        None => Ok(()),
        Some(i) => Err(EngineError::Call(format!(
            "input {i} of a program is {}, but got {}",
            types[i], inputs[i].ty
        ))),
    }
}

/// What an engine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineInfo {
    /// The engine: `native`.
    pub name: String,
    /// What it computes on: `cpu`.
    pub device: String,
    /// Threads a kernel may use.
    pub threads: usize,
    /// The vector features the code generator uses, as the ISA names them.
    pub simd: String,
    /// Bytes of memory the host has.
    pub host_memory: usize,
    /// Bytes of memory the values of this engine may take.
    pub memory_limit: usize,
}

/// What an engine has done and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Instructions executed one by one.
    pub instructions: u64,
    /// Compiled regions run by `run`.
    pub programs_run: u64,
    /// Loop nests compiled by Cranelift.
    pub kernels_compiled: u64,
    /// Time spent compiling.
    pub compile_time: Duration,
    /// `execute` calls served from the cache.
    pub cache_hits: u64,
    /// `execute` calls that compiled.
    pub cache_misses: u64,
    /// Programs dropped from the cache to keep it bounded.
    pub cache_evictions: u64,
    /// Programs in the cache now.
    pub cache_len: usize,
    /// Graphs captured of programs, on devices that have graphs.
    pub graphs_captured: u64,
    /// Runs of programs that were replays of a graph.
    pub graph_replays: u64,
    /// Runs that could have been but went step by step, for a reason [`Engine::notes`] gives.
    pub graph_fallbacks: u64,
    /// What the host does for a replay, and what the device does by its own clock: medians of the
    /// last ones measured.
    pub replay_host: Duration,
    /// The device's.
    pub replay_device: Duration,
    /// Bytes of values alive.
    pub live_bytes: usize,
    /// The highest `live_bytes` so far.
    pub peak_bytes: usize,
    /// Bytes kept in the pool for reuse.
    pub pooled_bytes: usize,
}
