//! From works to functions on a device: CUDA C++, compiled by NVRTC, loaded as modules.
//!
//! Guarantees: a loader works on any thread, also while its engine runs or captures. Modules nobody
//! uses are kept until the engine takes them. Products of integers, which libtorch does not
//! multiply on a GPU, are kernels like any other.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use super::{
    ffi::{Failure, Result as Done, Stream},
    nvrtc::Compiler,
    resources::{Device, Kernel, Module, Retired, Unused},
    source::{self, Source},
};
use crate::{
    device::{Loader, Work},
    error::EngineError,
    schedule::MatMul,
};

/// Works of one module: what all of them need is compiled once, and other threads have something to
/// do.
const TOGETHER: usize = 4;

/// Loads functions onto one device.
pub(crate) struct CudaLoader {
    device: Device,
    compiler: Compiler,
    unused: Arc<Unused>,
}

/// The kernels of one work, in the order they are launched.
pub(crate) struct CudaFunction(Vec<Kernel>);

impl CudaFunction {
    pub(super) fn launch(&self, stream: &Stream, arguments: &[u64]) -> Done<()> {
        self.0.iter().try_for_each(|kernel| kernel.launch(stream, arguments))
    }
}

impl CudaLoader {
    pub(super) fn new(device: Device, compiler: Compiler) -> CudaLoader {
        CudaLoader { device, compiler, unused: Arc::default() }
    }

    /// The modules nobody uses any more: to be dropped when nothing of them runs.
    pub(super) fn unused(&self) -> Vec<Retired> {
        self.unused.take()
    }

    /// Compiles, or finds compiled.
    fn module(&self, sources: &[Source]) -> Result<Arc<Module>, EngineError> {
        let cubin = self.compiler.compile(sources)?;
        Module::load(&self.device, &cubin, &self.unused).map(Arc::new).map_err(not_loaded)
    }

    /// A module of a few works.
    fn functions(&self, works: &[Work]) -> Result<Vec<CudaFunction>, EngineError> {
        let sources: Vec<Vec<Source>> =
            works.iter().enumerate().map(|(i, work)| sources(i, work)).collect();
        let module = self.module(&sources.concat())?;
        let function = |of: &Vec<Source>| {
            let kernels = of.iter().map(|source| kernel(&module, source));
            kernels.collect::<Result<_, _>>().map(CudaFunction)
        };
        sources.iter().map(function).collect()
    }
}

/// The kernels of a work, named by its place: so equal modules have equal texts, which are compiled
/// once.
fn sources(i: usize, work: &Work) -> Vec<Source> {
    match work {
        Work::Kernel { spec, cut } => vec![source::kernel(&format!("gt_kernel{i}"), spec, *cut)],
        Work::Joint(joint) => vec![source::joint(&format!("gt_joint{i}"), joint)],
        Work::Fold(fold) => vec![source::fold(&format!("gt_fold{i}"), fold)],
        Work::Routine(routine) => source::routine(&format!("gt_routine{i}_"), routine),
    }
}

fn kernel(module: &Arc<Module>, source: &Source) -> Result<Kernel, EngineError> {
    module.kernel(&source.name, [source.grid, source.block]).map_err(not_loaded)
}

fn not_loaded(failure: Failure) -> EngineError {
    let (Failure::OutOfMemory(why) | Failure::Failed(why)) = failure;
    EngineError::Codegen(format!("a compiled kernel cannot be loaded: {why}"))
}

impl Loader for CudaLoader {
    type Function = CudaFunction;

    /// On several threads: a kernel takes the compiler tens of milliseconds.
    fn load(&self, works: &[Work]) -> Result<Vec<CudaFunction>, EngineError> {
        let parts: Vec<&[Work]> = works.chunks(TOGETHER).collect();
        let next = AtomicUsize::new(0);
        let some = || {
            let mine = std::iter::from_fn(|| {
                let i = next.fetch_add(1, Relaxed);
                Some((i, self.functions(parts.get(i)?)))
            });
            mine.collect::<Vec<_>>()
        };
        let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut done = std::thread::scope(|scope| {
            let others = 1..n_threads.min(parts.len());
            let others: Vec<_> = others.map(|_| scope.spawn(some)).collect();
            let mut done = some();
            done.extend(others.into_iter().flat_map(|thread| thread.join().unwrap_or_default()));
            done
        });
        if done.len() < parts.len() {
            return Err(EngineError::Codegen("a thread that compiled kernels panicked".into()));
        }
        done.sort_by_key(|(i, _)| *i);
        let done: Result<Vec<_>, _> = done.into_iter().map(|(_, functions)| functions).collect();
        Ok(done?.into_iter().flatten().collect())
    }
}

/// Kernels of products of integers, by their text. They stay as long as the device, since graphs
/// may hold any of them.
#[derive(Default)]
pub(super) struct Integers(BTreeMap<String, Kernel>);

impl Integers {
    pub(super) fn kernel(
        &mut self,
        loader: &CudaLoader,
        work: &MatMul,
    ) -> Result<&Kernel, EngineError> {
        let source = source::product("gt_product", work);
        match self.0.entry(source.text.clone()) {
            Entry::Occupied(found) => Ok(found.into_mut()),
            Entry::Vacant(place) => {
                let module = loader.module(std::slice::from_ref(&source))?;
                Ok(place.insert(kernel(&module, &source)?))
            }
        }
    }
}
