//! The native CPU engine.
//!
//! `assemble` makes a [`Plan`](plan::Plan) of the pieces of a schedule: `tile` cuts groups of them
//! into tiles, `memory` gives buffers their places. `builder` compiles a plan, `artifact` and
//! `store` keep it as bytes; `run` executes it, with `routines` (`scan`, `sort`, `indexing`) and
//! `matmul` for the pieces that are no kernels. `loops` makes plans of the rounds of long loops.
//! Guarantees: results depend on the program and the data, not on the number of threads; kernels
//! and routines never read or write outside their buffers; scalars are run-time arguments.

mod artifact;
mod assemble;
mod builder;
mod cache;
mod context;
mod dump;
mod indexing;
mod integers;
mod kept;
mod loaded;
mod loops;
mod matmul;
mod matrices;
mod memory;
mod multiply;
mod number;
mod plan;
mod recompute;
mod routines;
mod run;
mod scan;
mod slices;
mod sort;
mod store;
mod stream;
mod team;
mod tile;
mod update;

use std::{path::PathBuf, sync::Arc};

use gt_ir::{Graph, HostTensor, Op, Scalar};
use smallvec::SmallVec;

pub use artifact::checksum;
pub(crate) use cache::Cache;
pub(crate) use context::Context;
pub(crate) use context::Products;
pub(crate) use kept::is_product;
pub use store::{keep_file, kept_file, write_whole};
pub use team::Team;
#[cfg(feature = "torch")]
pub(crate) use {cache::split, context::Memory, scan::CHUNK as SCAN_CHUNK};

/// The native engine's code for single pieces of work.
#[cfg(feature = "torch")]
pub(crate) mod pieces {
    pub(crate) use super::{
        matmul::run as product,
        routines::{fold, run as routine},
    };
}

/// The folder of compiled programs: its rules.
#[cfg(feature = "torch")]
pub(crate) mod files {
    pub(crate) use super::store::{name, prepare, prune, touch, write_whole};
}

use crate::{
    buffer::{Pool, Shared, Storage},
    engine::{Arg, Compile, Engine, EngineInfo, EngineStats, Value, check_call},
    error::EngineError,
    host,
    program::Program,
    threads::{self, Threads},
};
use builder::Builder;
use loaded::Loaded;

/// How a [`Native`] engine is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeConfig {
    /// Threads a kernel may use, the caller's included.
    pub threads: usize,
    /// Bytes of memory values may take.
    pub memory_limit: usize,
    /// Programs kept by `execute`.
    pub cache_capacity: usize,
    /// The folder compiled programs are kept in, if any.
    pub store: Option<PathBuf>,
    /// Whether each value ends at a page that cannot be touched, so that code that reads or writes
    /// beyond it ends the process: for tests.
    pub guarded: bool,
    /// The engines with which this one shares its threads and its memory, if any. The team's
    /// numbers then hold in place of `threads`, `memory_limit` and `guarded`.
    pub team: Option<Team>,
}

impl NativeConfig {
    /// The threads of [`threads::wanted`](crate::threads::wanted), and the memory that `GT_MEMORY`
    /// names or else nine tenths of what this process may have; programs are kept in the folder
    /// `GT_CACHE` names (`off` for none), else in the user's folder for caches.
    pub fn host() -> NativeConfig {
        NativeConfig {
            threads: threads::wanted(),
            memory_limit: host::wanted(),
            cache_capacity: 4096,
            store: store::default_folder(),
            guarded: false,
            team: None,
        }
    }

    /// The configuration of so many engines that share these threads and this memory.
    #[must_use]
    pub fn shared_by(self, n_engines: usize) -> NativeConfig {
        let share = || Team::new(n_engines, self.threads, self.memory_limit, self.guarded);
        NativeConfig { team: (n_engines > 1).then(share), ..self }
    }
}

/// The CPU as an engine.
pub struct Native {
    config: NativeConfig,
    products: Option<Arc<dyn Products>>,
    compiler: Arc<Builder>,
    threads: Threads,
    pool: Arc<Pool>,
    cache: Cache,
    stats: EngineStats,
}

impl Native {
    /// An engine on this host.
    ///
    /// # Errors
    /// The code generator does not know this processor.
    pub fn new(config: NativeConfig) -> Result<Native, EngineError> {
        Native::with_products(config, None)
    }

    /// An engine whose larger matrix products are a library's.
    pub(crate) fn with_products(
        config: NativeConfig,
        products: Option<Arc<dyn Products>>,
    ) -> Result<Native, EngineError> {
        let own = || {
            let pool = Pool::new(config.memory_limit, config.guarded);
            (Threads::new(config.threads), pool)
        };
        let (threads, pool) = config.team.as_ref().map_or_else(own, Team::join);
        let compiler = Builder::new(threads.most(), config.store.as_deref(), products.clone())?;
        Ok(Native {
            cache: Cache::new(config.cache_capacity),
            compiler: Arc::new(compiler),
            products,
            threads,
            pool,
            config,
            stats: EngineStats::default(),
        })
    }

    fn context(&self) -> Context<'_> {
        Context { threads: &self.threads, pool: &self.pool, products: self.products.as_deref() }
    }
}

impl Engine for Native {
    fn info(&self) -> EngineInfo {
        EngineInfo {
            name: self.products.as_ref().map_or("native", |p| p.name()).into(),
            device: "cpu".into(),
            threads: self.threads.most(),
            simd: self.compiler.simd.clone(),
            host_memory: host::memory(),
            memory_limit: self.config.memory_limit,
        }
    }

    fn is_bound_to_a_thread(&self) -> bool {
        // A library has threads for each thread that calls it.
        self.products.is_some()
    }

    fn upload(&mut self, data: &HostTensor) -> Result<Value, EngineError> {
        let (ty, bytes) = (*data.ty(), data.bytes());
        if (bytes.as_ptr() as usize).is_multiple_of(ty.dtype.size()) && bytes.len() >= 1024 {
            return Ok(Value { ty, storage: Arc::new(Storage::host(bytes.clone())) });
        }
        let mut storage = self.pool.alloc(bytes.len())?;
        if let Some(to) = storage.as_mut_slice() {
            to.copy_from_slice(bytes);
        }
        Ok(Value { ty, storage: Arc::new(storage) })
    }

    fn execute(&mut self, op: &Op, args: &[Arg<'_>]) -> Result<Value, EngineError> {
        let compiler = &self.compiler;
        let compile = |graph: &Graph| compiler.instruction(graph);
        let program = self.cache.program(op, args, &mut self.stats, kept::is_kept, compile)?;
        let (inputs, scalars) = cache::split(args);
        let mut values = run::run(&self.context(), program.of::<Loaded>()?, &inputs, &scalars)?;
        values.pop().ok_or_else(|| EngineError::Codegen(format!("{op} has no result")))
    }

    fn compiler(&self) -> Arc<dyn Compile> {
        self.compiler.clone()
    }

    fn run(
        &mut self,
        program: &Program,
        inputs: &mut Vec<Value>,
        scalars: &[Scalar],
    ) -> Result<SmallVec<[Value; 4]>, EngineError> {
        let loaded = program.of::<Loaded>()?;
        check_call((&loaded.plan().inputs, loaded.plan().n_scalars), inputs, scalars)?;
        self.stats.programs_run += 1;
        let inputs: SmallVec<[&Value; 8]> = inputs.iter().collect();
        run::run(&self.context(), loaded, &inputs, scalars)
    }

    fn download(&mut self, value: &Value) -> Result<HostTensor, EngineError> {
        let owner = bytes::Bytes::from_owner(Shared(value.storage.clone()));
        Ok(HostTensor::new(value.ty, owner)?)
    }

    fn stats(&self) -> EngineStats {
        EngineStats {
            kernels_compiled: self.compiler.kernels(),
            compile_time: self.compiler.time(),
            cache_len: self.cache.len(),
            live_bytes: self.pool.live(),
            peak_bytes: self.pool.peak(),
            pooled_bytes: self.pool.pooled(),
            ..self.stats
        }
    }

    fn fits_programs(&self) -> bool {
        self.config.team.is_none()
    }

    fn trim(&mut self) -> usize {
        self.pool.trim(0)
    }
}

const _: () = {
    const fn sendable<T: Send>() {}
    sendable::<Native>();
    sendable::<Program>();
    sendable::<Value>();
};
