//! From graphs to programs: passes, schedule, tiles, code, and the programs kept on disk.
//!
//! Works on any thread, beside the engine that runs what it makes. What it makes depends on the
//! graph, the options and the machine alone; a program found on disk is the one that would have
//! been made.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use gt_ir::{Graph, OpError};

use super::{
    artifact::{Artifact, Target},
    assemble::{Wanted, assemble},
    context::Products,
    kept::is_kept,
    loaded::Loaded,
    matmul::has_rows,
    plan::Plan,
    store::{self, Store},
};
use crate::{
    clock::Clock,
    cost::Machine,
    engine::{Compile, Compiled},
    error::{ArtifactError, EngineError},
    kernel::{Code, Compiler},
    meter::Meter,
    options::Options,
    passes::widen_products,
    pipeline::{Optimized, optimize_around},
    program::Program,
    report::Report,
    schedule::{Multiplier, Piece, Schedule, Updates, schedule},
};

/// The compiler of native programs.
pub(super) struct Builder {
    /// Compilers that nobody uses. Every thread takes one for itself, so that an engine that needs
    /// a kernel now does not wait for those of a plan.
    idle: Mutex<Vec<Compiler>>,
    store: Option<Store>,
    target: Target,
    products: Option<Arc<dyn Products>>,
    pub(super) simd: String,
    kernels: AtomicU64,
    nanos: AtomicU64,
}

impl Builder {
    pub(super) fn new(
        threads: usize,
        cache: Option<&Path>,
        products: Option<Arc<dyn Products>>,
    ) -> Result<Builder, EngineError> {
        let compiler = Compiler::new()?;
        let simd = compiler.simd();
        let target = Target::here(products.as_deref(), &simd, threads);
        Ok(Builder {
            idle: Mutex::new(vec![compiler]),
            store: cache.and_then(|folder| Store::open(folder, target.clone())),
            target,
            products,
            simd,
            kernels: AtomicU64::new(0),
            nanos: AtomicU64::new(0),
        })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Compiler>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with a compiler. One in which `act` panics is not used again.
    fn with<R>(
        &self,
        act: impl FnOnce(&mut Compiler) -> Result<R, EngineError>,
    ) -> Result<R, EngineError> {
        let idle = self.idle().pop();
        let mut compiler = idle.map_or_else(Compiler::new, Ok)?;
        let result = act(&mut compiler);
        self.idle().push(compiler);
        result
    }

    /// Kernels compiled so far.
    pub(super) fn kernels(&self) -> u64 {
        self.kernels.load(Relaxed)
    }

    /// Time spent so far.
    pub(super) fn time(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Relaxed))
    }

    /// The program made from this key before, and what was reported of it.
    pub(super) fn stored(&self, key: &[u8]) -> Option<(Program, Option<Report>)> {
        let mut artifact = self.store.as_ref()?.find(key)?;
        let report = artifact.report.take();
        Some((self.loaded(artifact).ok()?, report))
    }

    /// Compiles primitives, and keeps the program under `key`. The options are those for the parts
    /// of loops.
    pub(super) fn build(
        &self,
        primitives: &Graph,
        donated: &[bool],
        key: Vec<u8>,
        options: &Options,
        report: Option<&mut Report>,
    ) -> Result<Program, EngineError> {
        let clock = Clock::start();
        let mut plan = self.plan(primitives, donated, options)?;
        let code = self.generate(&mut plan)?;
        self.nanos.fetch_add(clock.nanoseconds(), Relaxed);
        let report = report.map(|report| {
            (report.kernels, report.launches) = (plan.n_jobs(), plan.waves.len());
            (report.bytes, report.again) = (plan.bytes() as u64, plan.again);
            report.clone()
        });
        let artifact = Artifact { target: self.target.clone(), key, report, plan, code };
        if let Some(store) = &self.store {
            store.keep(&artifact);
        }
        self.loaded(artifact)
    }

    /// The program of one expanded instruction, from disk or new.
    pub(super) fn instruction(&self, graph: &Graph) -> Result<Program, EngineError> {
        let key = store::key(graph, &[], &());
        match self.stored(&key) {
            Some((program, _)) => Ok(program),
            None => self.build(graph, &[], key, &Options::default(), None),
        }
    }

    /// The plan of primitives, without code.
    fn plan(
        &self,
        primitives: &Graph,
        donated: &[bool],
        options: &Options,
    ) -> Result<Plan, EngineError> {
        // A library may multiply narrow floats as they are.
        let wide = match self.products {
            None => widen_products(primitives, has_rows)?,
            Some(_) => None,
        };
        let primitives = wide.as_ref().unwrap_or(primitives);
        let mut schedule = schedule(primitives, Updates::ByRow)?;
        self.mark(&mut schedule);
        let rounds = Options { memory: None, ..*options };
        let part = |graph: &Graph| self.plan(&optimized(graph, &rounds)?.graph, &[], &rounds);
        let wanted = Wanted { donated, threads: self.target.threads, memory: options.memory };
        assemble(primitives, &schedule, &wanted, &part)
    }

    /// Decides who computes each product.
    fn mark(&self, schedule: &mut Schedule) {
        for piece in &mut schedule.pieces {
            if let Piece::MatMul(work) = piece {
                work.by = match &self.products {
                    Some(library) if library.takes(work) => Multiplier::Library,
                    _ if has_rows(work.dtype) => Multiplier::Rows,
                    _ => Multiplier::Whole,
                };
            }
        }
    }

    /// The code of a plan's kernels, equal ones once.
    fn generate(&self, plan: &mut Plan) -> Result<Vec<Code>, EngineError> {
        let (mut code, mut known) = (Vec::new(), BTreeMap::<Vec<u8>, usize>::new());
        for (nest, number) in plan.nests_mut() {
            let spelled =
                postcard::to_stdvec(nest).map_err(|e| EngineError::Codegen(e.to_string()))?;
            *number = match known.get(&spelled) {
                Some(&number) => number,
                None => {
                    code.push(self.with(|compiler| compiler.generate(nest))?);
                    known.insert(spelled, code.len() - 1);
                    code.len() - 1
                }
            };
        }
        self.kernels.fetch_add(code.len() as u64, Relaxed);
        Ok(code)
    }

    fn loaded(&self, artifact: Artifact) -> Result<Program, EngineError> {
        let kernels = self.with(|compiler| compiler.load(&artifact.code))?;
        Ok(Program::new(Loaded { artifact, kernels, meter: Meter::default() }))
    }
}

/// The primitives of a region. Long loops stay.
fn optimized(region: &Graph, options: &Options) -> Result<Optimized, OpError> {
    optimize_around(region, options, &Machine::PROCESSOR, is_kept)
}

impl Compile for Builder {
    fn compile(
        &self,
        region: &Graph,
        donated: &[bool],
        options: &Options,
    ) -> Result<Compiled, EngineError> {
        let clock = Clock::start();
        let key = store::key(region, donated, options);
        if let Some((program, report)) = self.stored(&key) {
            let report = Report {
                cached: true,
                compile_ns: clock.nanoseconds(),
                ..report.unwrap_or_default()
            };
            return Ok(Compiled { program, report });
        }
        let Optimized { graph, mut report, .. } = optimized(region, options)?;
        let program = self.build(&graph, donated, key, options, Some(&mut report))?;
        report.compile_ns = clock.nanoseconds();
        Ok(Compiled { program, report })
    }

    fn load(&self, bytes: &[u8]) -> Result<Program, ArtifactError> {
        let artifact = Artifact::from_bytes(bytes, &self.target)?;
        self.loaded(artifact).map_err(|e| ArtifactError::Load(e.to_string()))
    }
}
