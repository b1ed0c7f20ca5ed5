//! From graphs to programs of a device: passes, schedule, plan, functions.
//!
//! Works on any thread, beside the engine that runs what it makes. Programs belong to the device
//! they were made for and are not kept as bytes; what a device keeps of its kernels is the
//! loader's.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use gt_ir::Graph;

use super::{
    calls::calls,
    gpu::{Gpu, Loader},
    plan::Plan,
    program::DeviceProgram,
};
use crate::{
    clock::Clock,
    cost::Machine,
    engine::{Compile, Compiled},
    error::{ArtifactError, EngineError},
    options::{Numerics, Options},
    pipeline::{Optimized, optimize_around},
    program::Program,
    report::Report,
    schedule::{Updates, schedule},
};

/// The compiler of a device's programs.
pub(super) struct Builder<G: Gpu> {
    loader: Arc<G::Loader>,
    /// The mark of this builder's programs, which tells them from another's.
    pub(super) mark: Arc<()>,
    functions: AtomicU64,
    nanos: AtomicU64,
}

impl<G: Gpu> Builder<G> {
    pub(super) fn new(gpu: &G) -> Builder<G> {
        Builder {
            loader: gpu.loader(),
            mark: Arc::default(),
            functions: AtomicU64::new(0),
            nanos: AtomicU64::new(0),
        }
    }

    /// Functions loaded so far.
    pub(super) fn functions(&self) -> u64 {
        self.functions.load(Relaxed)
    }

    /// Time spent so far.
    pub(super) fn time(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Relaxed))
    }

    /// Compiles primitives.
    pub(super) fn build(
        &self,
        primitives: &Graph,
        donated: &[bool],
        numerics: Numerics,
        report: Option<&mut Report>,
    ) -> Result<Program, EngineError> {
        let clock = Clock::start();
        let schedule = schedule(primitives, Updates::Whole)?;
        let plan = Plan::new(primitives, schedule, donated, numerics)?;
        let functions = self.loader.load(&plan.works)?;
        if functions.len() != plan.works.len() {
            return Err(EngineError::Codegen("a loader has not loaded every function".into()));
        }
        self.functions.fetch_add(functions.len() as u64, Relaxed);
        self.nanos.fetch_add(clock.nanoseconds(), Relaxed);
        if let Some(report) = report {
            (report.kernels, report.launches) = (plan.works.len(), plan.steps.len());
        }
        Ok(Program::new(DeviceProgram::<G>::new(plan, functions, self.mark.clone())))
    }
}

impl<G: Gpu> Compile for Builder<G> {
    fn compile(
        &self,
        region: &Graph,
        donated: &[bool],
        options: &Options,
    ) -> Result<Compiled, EngineError> {
        let clock = Clock::start();
        let Optimized { graph, mut report, .. } =
            optimize_around(region, options, &Machine::GPU, calls(options.numerics))?;
        let program = self.build(&graph, donated, options.numerics, Some(&mut report))?;
        report.compile_ns = clock.nanoseconds();
        Ok(Compiled { program, report })
    }

    fn load(&self, _: &[u8]) -> Result<Program, ArtifactError> {
        Err(ArtifactError::Load("programs of a device are not kept as bytes".into()))
    }
}
