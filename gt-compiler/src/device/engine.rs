//! The engine of a device with memory of its own.
//!
//! Guarantees: values are immutable, whether they lie in blocks of their own or in a graph's; one
//! instruction runs as a plan of size one, so step by step, replayed and instruction by instruction
//! give equal bits; only checks of indices that were computed on the device wait for it, and
//! downloads for whoever wants them (`download`). A call that fails leaves every value as it was.
//! The exception is a failure of the device itself: errors of work enqueued earlier are sticky, so
//! then every later call fails with the same error, and the engine has to be made anew.

use std::sync::Arc;

use gt_ir::{DType, Graph, HostTensor, Op, Scalar};
use smallvec::SmallVec;

use super::{
    builder::Builder,
    calls::calls,
    download::{Downloads, Health},
    gpu::Gpu,
    memory::Memory,
    plan::Plan,
    program::{DeviceProgram, Loaded},
    run::{Failure, Frame},
    timing::Timing,
};
use crate::{
    download::Download,
    engine::{Arg, Compile, Engine, EngineInfo, EngineStats, Value, check_call},
    error::EngineError,
    host,
    native::{Cache, split},
    options::Numerics,
    program::Program,
};

/// How an engine of a device is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceConfig {
    /// The engine's name: `torch`.
    pub(crate) name: &'static str,
    /// Bytes that values and graphs may take, if that is less than nine tenths of the device's
    /// memory.
    pub(crate) memory_limit: usize,
    /// Bytes of them that graphs may take.
    pub(crate) graph_limit: usize,
    /// Whether programs are captured at all.
    pub(crate) graphs: bool,
    /// Programs kept by `execute`.
    pub(crate) cache_capacity: usize,
    /// Bytes of a value that are downloaded at a time.
    pub(crate) slice: usize,
}

/// Long enough that the copies of its parts overlap, short enough that others get their turn.
pub(crate) const SLICE: usize = 32 << 20;

/// A device as an engine.
pub(crate) struct DeviceEngine<G: Gpu> {
    pub(super) config: DeviceConfig,
    pub(super) memory: Memory<G>,
    builder: Arc<Builder<G>>,
    cache: Cache,
    pub(super) frame: Frame,
    health: Health,
    pub(super) downloads: Downloads,
    /// Counts runs.
    pub(super) clock: u64,
    pub(super) timing: Timing<G>,
    pub(super) stats: EngineStats,
    pub(super) notes: Vec<String>,
}

/// Indices whose range is found on the host; more would take longer than to ask the device.
const RANGED: usize = 1 << 20;

impl<G: Gpu> DeviceEngine<G> {
    pub(crate) fn new(gpu: G, config: DeviceConfig) -> DeviceEngine<G> {
        let limit = config.memory_limit.min(gpu.memory().total / 10 * 9);
        DeviceEngine {
            builder: Arc::new(Builder::new(&gpu)),
            cache: Cache::new(config.cache_capacity),
            memory: Memory::new(gpu, limit),
            frame: Frame::default(),
            health: Health::default(),
            downloads: Downloads::default(),
            clock: 0,
            timing: Timing::default(),
            stats: EngineStats::default(),
            notes: Vec::new(),
            config,
        }
    }

    fn lost(&self, error: EngineError) -> EngineError {
        self.health.lost(&self.memory.gpu.name(), error)
    }

    pub(super) fn failed(&self, failure: Failure) -> EngineError {
        match failure {
            Failure::Clean(error) => error,
            Failure::Broken(error) => self.lost(error),
        }
    }

    fn check(&self, plan: &Plan, inputs: &[Value], scalars: &[Scalar]) -> Result<(), EngineError> {
        check_call((&plan.inputs, plan.n_scalars), inputs, scalars)?;
        inputs.iter().try_for_each(|value| self.memory.resident(value).map(|_| ()))
    }

    /// A program of this engine's compiler.
    fn own<'p>(&self, program: &'p Program) -> Result<&'p Arc<Loaded<G>>, EngineError> {
        let DeviceProgram(loaded) = program.of::<DeviceProgram<G>>()?;
        if !Arc::ptr_eq(&loaded.mark, &self.builder.mark) {
            return Err(EngineError::Call("this program was compiled for another device".into()));
        }
        Ok(loaded)
    }
}

impl<G: Gpu> Engine for DeviceEngine<G> {
    fn info(&self) -> EngineInfo {
        EngineInfo {
            name: self.config.name.into(),
            device: self.memory.gpu.name(),
            threads: 1,
            simd: String::new(),
            host_memory: host::memory(),
            memory_limit: self.memory.limit,
        }
    }

    fn upload(&mut self, data: &HostTensor) -> Result<Value, EngineError> {
        self.health.check()?;
        let block = self.memory.alloc(data.bytes().len())?;
        if !data.bytes().is_empty() {
            let uploaded = self.memory.gpu.upload(data.bytes(), self.memory.address(&block));
            uploaded.map_err(|error| self.lost(error))?;
        }
        Ok(self.memory.value(*data.ty(), block, range(data)))
    }

    fn execute(&mut self, op: &Op, args: &[Arg<'_>]) -> Result<Value, EngineError> {
        self.health.check()?;
        let builder = &self.builder;
        let exact = Numerics::Exact;
        let compile = |graph: &Graph| builder.build(graph, &[], exact, None);
        let program = self.cache.program(op, args, &mut self.stats, calls(exact), compile)?;
        let (inputs, scalars) = split(args);
        inputs.iter().try_for_each(|value| self.memory.resident(value).map(|_| ()))?;
        let mut values = self.plainly(self.own(&program)?, &inputs, &scalars)?;
        values.pop().ok_or_else(|| EngineError::Codegen(format!("{op} has no result")))
    }

    fn compiler(&self) -> Arc<dyn Compile> {
        self.builder.clone()
    }

    fn run(
        &mut self,
        program: &Program,
        inputs: &mut Vec<Value>,
        scalars: &[Scalar],
    ) -> Result<SmallVec<[Value; 4]>, EngineError> {
        self.health.check()?;
        let loaded = self.own(program)?;
        self.check(&loaded.plan, inputs, scalars)?;
        self.stats.programs_run += 1;
        self.clock += 1;
        let inputs: SmallVec<[&Value; 8]> = inputs.iter().collect();
        self.best(loaded, &inputs, scalars)
    }

    fn download(&mut self, value: &Value) -> Result<HostTensor, EngineError> {
        let data = self.begin_download(value)?.wait()?;
        self.timing.collect(&self.memory.gpu, self.downloads.n_passed());
        Ok(data)
    }

    fn begin_download(&mut self, value: &Value) -> Result<Download, EngineError> {
        self.health.check()?;
        self.memory.resident(value)?;
        self.timing.collect(&self.memory.gpu, self.downloads.n_passed());
        if value.bytes() == 0 {
            return Ok(Download::Here(HostTensor::new(value.ty, bytes::Bytes::new())?));
        }
        let (gpu, slice) = (&self.memory.gpu, self.config.slice);
        let begun = self.downloads.begin(gpu, &self.health, value, slice);
        Ok(Download::Coming(Box::new(begun.map_err(|error| self.lost(error))?)))
    }

    fn stats(&self) -> EngineStats {
        let (device, values) = (self.memory.gpu.memory(), self.memory.account.values());
        let [replay_host, replay_device] = self.timing.medians();
        EngineStats {
            replay_host,
            replay_device,
            kernels_compiled: self.builder.functions(),
            compile_time: self.builder.time(),
            cache_len: self.cache.len(),
            live_bytes: values,
            peak_bytes: self.memory.account.peak(),
            pooled_bytes: device.reserved.saturating_sub(values),
            ..self.stats
        }
    }

    fn trim(&mut self) -> usize {
        self.memory.trim()
    }

    fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}

impl<G: Gpu> Drop for DeviceEngine<G> {
    /// Values and programs may outlive their engine; its graphs do not, and nothing of it runs any
    /// more.
    fn drop(&mut self) {
        self.memory.drop_graphs();
        let _ = self.memory.gpu.synchronize(); // a device that is lost has nothing to wait for
    }
}

/// The least and the largest of what may be indices.
fn range(data: &HostTensor) -> Option<(i64, i64)> {
    let n = data.ty().shape.numel();
    if data.ty().dtype != DType::I64 || n > RANGED {
        return None;
    }
    let words = data.bytes().chunks_exact(8).filter_map(|word| word.try_into().ok());
    let range = |(least, most): (i64, i64), v: i64| (least.min(v), most.max(v));
    let (least, most) = words.map(i64::from_le_bytes).fold((i64::MAX, i64::MIN), range);
    Some(if n == 0 { (0, -1) } else { (least, most) })
}
